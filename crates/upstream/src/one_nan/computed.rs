//! Expressions of floating-point numbers that may be NaN where their operands are not, or that change its sign.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, BinaryExpr, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use super::ONE_NAN;
/// Functions that are NaN for some numbers.
const FUNCTIONS: [&str; 14] = [
    "acos", "acosh", "asin", "atanh", "cos", "cot", "ln", "log", "log10", "log2", "power", "sin", "sqrt",
    "tan",
];

/// Aggregate functions that compute with all values and compare none.
const ADDING: [&str; 3] = ["sum", "avg", "count"];

/// The analyzer with a rule that puts [`ONE_NAN`] around such expressions.
pub(crate) fn with_one_nan_computed(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(OneNanComputed));
    analyzer
}

#[derive(Debug)]
struct OneNanComputed;

impl AnalyzerRule for OneNanComputed {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "one_nan_computed"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| of_operands(expr, &schema))?;
        let expr = expr.transform_data(|expr| Ok(made_one(expr, &schema)))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })
}

/// The expression with its operands made one, unless it only computes with them.
fn of_operands(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if only_computes(&expr) {
        return Ok(Transformed::no(expr));
    }
    expr.map_children(|operand| Ok(made_one(operand, schema)))
}

fn made_one(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match may_be_another(&expr, schema) {
        true => {
            let function = ScalarFunction::new_udf(Arc::clone(&ONE_NAN), vec![expr]);
            Transformed::yes(Expr::ScalarFunction(function))
        }
        false => Transformed::no(expr),
    }
}

/// Whether it does the same with each NaN, up to the NaN that it returns.
fn only_computes(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => op.is_numerical_operators(),
        Expr::Negative(_) | Expr::IsNull(_) | Expr::IsNotNull(_) => true,
        Expr::ScalarFunction(function) => FUNCTIONS.contains(&function.func.name()),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            ADDING.contains(&func.name()) && !params.distinct
        }
        _ => false,
    }
}

/// Whether the value may be a NaN of another sign than those among the operands.
fn may_be_another(expr: &Expr, schema: &DFSchema) -> bool {
    let may = match expr {
        Expr::Negative(_) => true,
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Divide => !is_ordinary(right) || may_be_another(left, schema),
            Operator::Modulo => true,
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                let other = |operand: &Expr| may_be_another(operand, schema);
                !(is_ordinary(left) || is_ordinary(right)) || other(left) || other(right)
            }
            _ => false,
        },
        Expr::ScalarFunction(function) => FUNCTIONS.contains(&function.func.name()),
        Expr::Cast(cast) => is_text(&cast.expr, schema),
        Expr::TryCast(cast) => is_text(&cast.expr, schema),
        _ => false,
    };
    may && expr.get_type(schema).is_ok_and(|of| of.is_floating())
}

fn is_text(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|of| of.is_string())
}

/// Whether it is a finite constant other than zero, with which no operation on a number gives NaN.
fn is_ordinary(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            let value = value.cast_to(&DataType::Float64);
            matches!(value, Ok(ScalarValue::Float64(Some(value))) if value.is_finite() && value != 0.0)
        }
        Expr::Cast(cast) => is_ordinary(&cast.expr),
        _ => false,
    }
}
