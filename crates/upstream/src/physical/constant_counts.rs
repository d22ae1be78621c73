//! Counts of distinct values in columns of NULL.
//!
//! DataFusion 55 says that a column of one constant has one distinct value, also if the constant is NULL, or if there
//! are no rows. Then `count(DISTINCT x)` becomes 1 instead of 0. Such columns come from outer joins whose other side
//! is empty. Where a plan has such a count, it is computed from the rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// DataFusion's rule that computes aggregates from statistics.
const FROM_STATISTICS: &str = "aggregate_statistics";

/// Restricts the rule.
pub(crate) fn with_constant_counts(mut optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    for rule in &mut optimizer.rules {
        if rule.name() == FROM_STATISTICS {
            *rule = Arc::new(Restricted(Arc::clone(rule)));
        }
    }
    optimizer
}

/// The rule for plans without such a count.
#[derive(Debug)]
struct Restricted(Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for Restricted {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut found = false;
        plan.apply(|node| {
            found |= match node.downcast_ref::<AggregateExec>() {
                Some(aggregate) => counts_nothing(aggregate)?,
                None => false,
            };
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if found { Ok(plan) } else { self.0.optimize(plan, config) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Returns whether an aggregation counts the distinct values of a column that may have no value.
fn counts_nothing(aggregate: &AggregateExec) -> Result<bool> {
    let distinct = || aggregate.aggr_expr().iter().filter(|of| of.is_distinct());
    // Later aggregations have states as their input.
    if distinct().next().is_none() || aggregate.mode().input_mode() != AggregateInputMode::Raw {
        return Ok(false);
    }
    let input = StatisticsContext::new().compute(aggregate.input().as_ref(), &StatisticsArgs::new())?;
    let rows = input.num_rows.get_value().copied().unwrap_or(0);
    for of in distinct() {
        for column in of.expressions().iter().filter_map(|arg| arg.downcast_ref::<Column>()) {
            let Some(known) = input.column_statistics.get(column.index()) else { continue };
            let nulls = known.null_count.get_value().copied().unwrap_or(rows);
            if matches!(known.distinct_count, Precision::Exact(1..)) && nulls >= rows {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
