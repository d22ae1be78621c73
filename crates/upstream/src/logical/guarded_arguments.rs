//! Arguments of aggregate functions with FILTER.
//!
//! DataFusion 55 computes the arguments for all rows and leaves rows out afterwards, so `sum(1 / x) FILTER (WHERE x <> 0)`
//! fails. Here an argument that may fail is computed for the rows that pass.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::{AggregateFunction, BinaryExpr, Cast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, when};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

/// Functions whose values are of the argument's type: a NULL more among the arguments would make it nullable.
const OF_ARGUMENT: [&str; 5] = ["array_agg", "first_value", "last_value", "nth_value", "string_agg"];

/// Returns the analyzer with a rule that guards such arguments, after the rules that make arithmetic fail.
pub(crate) fn with_guarded_arguments(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(GuardedArguments));
    analyzer
}

#[derive(Debug)]
struct GuardedArguments;

impl AnalyzerRule for GuardedArguments {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "guarded_arguments"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(_) = &plan else { return Ok(Transformed::no(plan)) };
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.transform_up(guarded)?.update_data(|expr| name.restore(expr)))
    })
}

fn guarded(mut expr: Expr) -> Result<Transformed<Expr>> {
    if let Expr::AggregateFunction(AggregateFunction { func, params }) = &mut expr
        && let Some(filter) = &params.filter
        && !OF_ARGUMENT.contains(&func.name())
        && params.args.iter().any(may_fail)
    {
        for arg in params.args.iter_mut().filter(|arg| may_fail(arg)) {
            *arg = when(filter.as_ref().clone(), std::mem::take(arg)).end()?;
        }
        return Ok(Transformed::yes(expr));
    }
    Ok(Transformed::no(expr))
}

/// Returns whether the expression may fail for some values.
fn may_fail(expr: &Expr) -> bool {
    let fails = |expr: &Expr| match expr {
        Expr::ScalarFunction(_) => true,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => matches!(op, Operator::Divide | Operator::Modulo),
        // Casts of the planner to wide types hold all values.
        Expr::Cast(Cast { field, .. }) => !matches!(field.data_type(), DataType::Int64 | DataType::Float64),
        _ => false,
    };
    expr.exists(|expr| Ok(fails(expr))).unwrap_or(true)
}
