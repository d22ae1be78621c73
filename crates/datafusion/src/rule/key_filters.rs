//! Hash joins that filter their probe side by one key at a time.
//!
//! [`eligibility::filter_by_keys`] has the conditions. A filter is placed in the scans from which its key
//! column comes. These may differ from key to key. Without such scans no keys are collected.

use std::sync::Arc;

use coscan_upstream::one_input::with_children;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::HashJoinExec;

use super::placed_filters::{placed, removed};
use crate::eligibility;
use crate::file::known_keys::keeps;
use crate::key_filter::{KeyFilter, KeyFilters};

/// Places filters of the node's keys in the scans of its probe side, if it is an eligible hash join.
pub(super) fn by_key(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
    if let Err(reason) = eligibility::filter_by_keys(join) {
        tracing::debug!(%reason, "a join does not filter by single keys");
        return Ok(Transformed::no(node));
    }
    let mut probe = Arc::clone(join.right());
    let of_all_keys = node.dynamic_expressions_produced();
    if join.on().len() > 1 {
        for of in &of_all_keys {
            // In one scan, DataFusion's filter of all keys leaves out more rows than filters of single keys.
            if placed(Arc::clone(&probe), of)?.1 {
                return Ok(Transformed::no(node));
            }
        }
    }
    let mut keys = Vec::new();
    for (build, of_probe) in join.on() {
        let Some(key) = key(join, build, of_probe)? else { continue };
        let (with_filter, has_place) = placed(Arc::clone(&probe), &key.filter())?;
        if has_place {
            probe = with_filter;
            keys.push(key);
        }
    }
    if keys.is_empty() {
        return Ok(Transformed::no(node));
    }
    for of in &of_all_keys {
        probe = removed(probe, of)?.data;
    }
    let build = collected(Arc::clone(join.left()), keys.into())?;
    with_children(node, vec![build, probe]).map(Transformed::yes)
}

/// Returns the filter of a key; `None` if the key's values cannot be collected.
fn key(
    join: &HashJoinExec,
    build: &Arc<dyn PhysicalExpr>,
    of_probe: &Arc<dyn PhysicalExpr>,
) -> Result<Option<KeyFilter>> {
    let Some(column) = of_probe.downcast_ref::<Column>() else { return Ok(None) };
    let (build_schema, probe_schema) = (join.left().schema(), join.right().schema());
    let data_type = build.data_type(&build_schema)?;
    if data_type != of_probe.data_type(&probe_schema)? || !keeps(&data_type) {
        return Ok(None);
    }
    Ok(Some(KeyFilter::new(Arc::clone(build), column, probe_schema, data_type)))
}

/// Adds the collection of keys to the build side. It goes below an exchange into one partition, where several
/// partitions do the work.
fn collected(build: Arc<dyn ExecutionPlan>, keys: Arc<[KeyFilter]>) -> Result<Arc<dyn ExecutionPlan>> {
    match build.downcast_ref::<CoalescePartitionsExec>() {
        Some(exchange) if exchange.fetch().is_none() => {
            let input = KeyFilters::exec(Arc::clone(exchange.input()), keys);
            with_children(build, vec![input])
        }
        _ => Ok(KeyFilters::exec(build, keys)),
    }
}
