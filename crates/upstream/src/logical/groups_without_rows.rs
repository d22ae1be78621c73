//! Groups that exist without rows: that of an aggregate without keys, and that of the empty grouping set.
//!
//! DataFusion 55 moves a condition below an aggregate if all columns of the condition are keys. A condition without columns,
//! such as `'a' = 'b'` from the constant column of a subquery, moves below `count(*)` of all rows, which then counts nothing
//! but still has a row. Such conditions stay above here. DataFusion also takes grouping sets over no rows for no rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Aggregate, Expr, Filter, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Wraps the rules that forget such groups.
pub(crate) fn with_groups_without_rows(mut optimizer: Optimizer) -> Optimizer {
    for rule in &mut optimizer.rules {
        if matches!(rule.name(), "push_down_filter" | "propagate_empty_relation") {
            *rule = Arc::new(Remembers(Arc::clone(rule)));
        }
    }
    optimizer
}

#[derive(Debug)]
struct Remembers(Rule);

impl OptimizerRule for Remembers {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Aggregate(of) if !of.group_expr.is_empty() && has_group_without_rows(of) => {
                Ok(Transformed::no(plan))
            }
            LogicalPlan::Filter(filter) => match above_group(filter) {
                Some(group) => self.move_others(filter, group, config),
                None => self.0.rewrite(plan, config),
            },
            _ => self.0.rewrite(plan, config),
        }
    }
}

impl Remembers {
    /// Moves the conditions that have columns.
    fn move_others(
        &self,
        filter: &Filter,
        group: &Arc<LogicalPlan>,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let conditions = conditions(filter).into_iter().cloned();
        let (stay, others): (Vec<_>, Vec<_>) = conditions.partition(|of| of.column_refs().is_empty());
        let moved = match conjunction(others) {
            None => return Ok(Transformed::no(LogicalPlan::Filter(filter.clone()))),
            Some(others) => {
                let others = Filter::try_new(others, Arc::clone(group))?;
                self.0.rewrite(LogicalPlan::Filter(others), config)?
            }
        };
        moved.map_data(|plan| match conjunction(stay) {
            Some(stay) => Ok(LogicalPlan::Filter(Filter::try_new(stay, Arc::new(plan))?)),
            None => Ok(plan),
        })
    }
}

/// The aggregate with such a group below this filter and the filters directly below it.
fn above_group(filter: &Filter) -> Option<&Arc<LogicalPlan>> {
    match filter.input.as_ref() {
        LogicalPlan::Filter(below) => above_group(below),
        LogicalPlan::Aggregate(of) => has_group_without_rows(of).then_some(&filter.input),
        _ => None,
    }
}

/// The conditions of a filter and of the filters directly below it.
fn conditions(filter: &Filter) -> Vec<&Expr> {
    let mut of = split_conjunction(&filter.predicate);
    if let LogicalPlan::Filter(below) = filter.input.as_ref() {
        of.extend(conditions(below));
    }
    of
}

fn has_group_without_rows(of: &Aggregate) -> bool {
    match &of.group_expr[..] {
        [] => true,
        [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => sets.iter().any(Vec::is_empty),
        [Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_))] => true,
        _ => false,
    }
}
