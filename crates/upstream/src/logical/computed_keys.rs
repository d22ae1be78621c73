//! Computed keys of sorts and windows, and conditions in window functions, as columns.
//!
//! DataFusion 55 refuses sorts by some comparisons: for `ORDER BY a * b > 1` over several partitions, it does not find that
//! the sorted rows are sorted, because it has no bounds for `a * b`. Here a projection below computes such keys. It also
//! computes arguments of window functions with AND, OR or CASE, because conditions guard each other in projections only
//! (`physical/guards`).

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{BinaryExpr, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use super::subqueries::keep::has_subquery;

/// Returns the analyzer with a rule that computes such keys below.
pub(crate) fn with_computed_keys(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(ComputedKeys));
    analyzer
}

#[derive(Debug)]
struct ComputedKeys;

impl AnalyzerRule for ComputedKeys {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "computed_keys"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !matches!(plan, LogicalPlan::Sort(_) | LogicalPlan::Window(_)) {
        return Ok(Transformed::no(plan));
    }
    let outputs = columns(plan.schema());
    let names = NamePreserver::new(&plan);
    let mut below = Vec::new();
    let is_sort = matches!(plan, LogicalPlan::Sort(_));
    let plan = plan.map_expressions(|expr| {
        if is_sort {
            return Ok(Transformed::yes(as_column(expr, &mut below)));
        }
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| match expr {
            Expr::WindowFunction(window) => Ok(Transformed::yes(of_window(*window, &mut below))),
            _ => Ok(Transformed::no(expr)),
        });
        Ok(expr?.update_data(|expr| name.restore(expr)))
    })?;
    if below.is_empty() {
        return Ok(Transformed::no(plan.data));
    }
    let plan = plan.data;
    let [input] = plan.inputs()[..] else { return Ok(Transformed::no(plan)) };
    let inputs = columns(input.schema()).into_iter().chain(below);
    let computed = LogicalPlanBuilder::from(input.clone()).project(inputs)?.build()?;
    let plan = plan.with_new_exprs(plan.expressions(), vec![computed])?;
    LogicalPlanBuilder::from(plan).project(outputs)?.build().map(Transformed::yes)
}

fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.iter().map(|column| Expr::Column(Column::from(column))).collect()
}

fn of_window(mut window: WindowFunction, below: &mut Vec<Expr>) -> Expr {
    let params = &mut window.params;
    for key in params.partition_by.iter_mut().chain(params.order_by.iter_mut().map(|key| &mut key.expr)) {
        *key = as_column(std::mem::take(key), below);
    }
    let filter = params.filter.as_deref_mut();
    for condition in params.args.iter_mut().chain(filter).filter(|of| has_condition(of)) {
        *condition = as_column(std::mem::take(condition), below);
    }
    Expr::from(window)
}

/// Returns the column of this expression, if it is computed from columns of a row.
fn as_column(expr: Expr, below: &mut Vec<Expr>) -> Expr {
    let is_plain = matches!(&expr, Expr::Column(_))
        || matches!(&expr, Expr::Alias(of) if matches!(*of.expr, Expr::Column(_)));
    if is_plain || !expr.any_column_refs() || expr.contains_outer() || has_subquery(&expr) {
        return expr;
    }
    let name = format!("__key_{}", below.len());
    below.push(expr.alias(&name));
    Expr::Column(Column::new_unqualified(name))
}

fn has_condition(expr: &Expr) -> bool {
    let is_condition = |expr: &Expr| match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::And | Operator::Or),
        Expr::Case(_) => true,
        _ => false,
    };
    expr.exists(|expr| Ok(is_condition(expr))).unwrap_or(true)
}
