//! Expressions in grouping sets, such as `ROLLUP (round(x, 1))`.
//!
//! Rules of DataFusion 55 that change an expression keep its name by an alias. Around grouping sets an alias makes them an
//! unknown key, and an expression within them loses the name by which the query refers to it. Here such expressions are
//! computed below the aggregation, so that all keys of grouping sets are columns.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder};

/// The prefix of the names of computed keys.
const KEY: &str = "coscan key ";

/// Computes the keys of grouping sets below their aggregations.
///
/// # Errors
/// If the changed plan is invalid.
pub(crate) fn with_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|node| {
        let mut node = match node {
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate)?,
            other => Transformed::no(other),
        };
        if changed && !node.transformed {
            node.data = node.data.recompute_schema()?;
        }
        changed |= node.transformed;
        Ok(node)
    })?;
    Ok(plan.data)
}

fn of_aggregate(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let [Expr::GroupingSet(set)] = aggregate.group_expr.as_slice() else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let is_column = |expr: &&Expr| matches!(expr, Expr::Column(_));
    let mut computed: Vec<Expr> = Vec::new();
    for expr in set.distinct_expr().into_iter().filter(|expr| !is_column(expr)) {
        if !computed.contains(expr) {
            computed.push(expr.clone());
        }
    }
    if computed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let name = |at: usize| format!("{KEY}{}", at + 1);
    let key = |expr: Expr| match computed.iter().position(|known| *known == expr) {
        Some(at) => Expr::Column(Column::new_unqualified(name(at))),
        None => expr,
    };
    let keys = |exprs: &[Expr]| exprs.iter().cloned().map(key).collect::<Vec<_>>();
    let set = match set {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(keys(exprs)),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(keys(exprs)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.iter().map(|set| keys(set)).collect())
        }
    };
    let aggregates = aggregate.aggr_expr.iter().cloned().map(|expr| of_grouping(expr, &key));
    let aggregates = aggregates.collect::<Result<Vec<_>>>()?;
    let columns = aggregate.input.schema().columns().into_iter().map(Expr::Column);
    let added = computed.iter().enumerate().map(|(at, expr)| expr.clone().alias(name(at)));
    let columns: Vec<Expr> = columns.chain(added).collect();
    let input = LogicalPlanBuilder::from(Arc::unwrap_or_clone(aggregate.input)).project(columns)?.build()?;
    let inner = Aggregate::try_new(Arc::new(input), vec![Expr::GroupingSet(set)], aggregates)?;
    // The columns get their names back.
    let found = inner.schema.columns().into_iter().zip(aggregate.schema.columns());
    let named = found.filter(|(_, column)| column.name != Aggregate::INTERNAL_GROUPING_ID);
    let named: Vec<Expr> = named
        .map(|(column, before)| match column == before {
            true => Expr::Column(column),
            false => Expr::Column(column).alias_qualified(before.relation, before.name),
        })
        .collect();
    let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(inner)).project(named)?.build()?;
    Ok(Transformed::yes(plan))
}

/// Replaces keys that are arguments of the function `grouping`.
fn of_grouping(expr: Expr, key: &dyn Fn(Expr) -> Expr) -> Result<Expr> {
    let of_call = |expr: Expr| match expr {
        Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
            call.params.args = call.params.args.into_iter().map(key).collect();
            Ok(Transformed::yes(Expr::AggregateFunction(call)))
        }
        other => Ok(Transformed::no(other)),
    };
    Ok(expr.transform_up(of_call)?.data)
}
