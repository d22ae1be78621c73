//! Scans below a sort with a limit begin with the chunks that hold its rows.
//!
//! The sort's own filter rules out the other chunks as soon as the sort has rows. The filter works in any
//! order of chunks. But if a table is read from its oldest rows and the newest are wanted, it takes effect
//! only after all chunks.

use std::sync::Arc;

use coscan_upstream::one_input::with_children;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;

use super::ordered;
use crate::eligibility;
use crate::eligibility::steps::Step;
use crate::scan::CScan;
use crate::scan::first::WantedFirst;

/// Tells the scans of `plan` which rows the sorts above them want first.
pub(super) fn wanted_first(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_down(|node| {
        let sort = node.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_some());
        let Some(sort) = sort else { return Ok(Transformed::no(node)) };
        let first = sort.expr().first();
        let Some(column) = first.expr.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        match wanting(sort.input(), column.index(), first.options.descending)? {
            Some(input) => with_children(node, vec![input]).map(Transformed::yes),
            None => Ok(Transformed::no(node)),
        }
    });
    Ok(plan?.data)
}

/// Returns `node` over a scan that knows the order; `None` if its column is not one of the files.
fn wanting(
    node: &Arc<dyn ExecutionPlan>,
    column: usize,
    descending: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(leaf) = node.downcast_ref::<DataSourceExec>() {
        let scan = leaf.data_source().downcast_ref::<CScan>();
        let wanting = scan.and_then(|scan| {
            let (column, data_type) = eligibility::clustering_column(scan.config(), column)?;
            Some(scan.clone().with_wanted_first(WantedFirst { column, data_type, descending }))
        });
        return Ok(wanting.map(|scan| DataSourceExec::from_data_source(scan) as _));
    }
    let below = match (Step::of(node), &node.children()[..]) {
        (Some((step, input)), _) => step.source(column).map(|column| (Arc::clone(input), column)),
        (None, [input]) if ordered::exchanges(node) => Some((Arc::clone(input), column)),
        _ => None,
    };
    let Some((input, column)) = below else { return Ok(None) };
    wanting(&input, column, descending)?.map(|input| with_children(Arc::clone(node), vec![input])).transpose()
}
