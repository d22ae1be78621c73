//! Expressions of floating-point numbers that may be NaN or -0.0 where their operands are not.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{AggregateFunction, BinaryExpr, Cast, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use super::{canonical, canonical_value};

/// Functions that are NaN or -0.0 for some numbers.
const FUNCTIONS: [&str; 27] = [
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "cos", "cot", "degrees",
    "floor", "ln", "log", "log10", "log2", "power", "radians", "round", "signum", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
];

/// Aggregate functions that compute with all values and compare none.
const ADDING: [&str; 3] = ["sum", "avg", "count"];

/// The analyzer with a rule that puts [`canonical`] around such expressions.
pub(crate) fn with_canonical_computed(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(CanonicalComputed));
    analyzer
}

#[derive(Debug)]
struct CanonicalComputed;

impl AnalyzerRule for CanonicalComputed {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "canonical_computed"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| of_operands(expr, &schema))?;
        let expr = expr.transform_data(|expr| Ok(made_canonical(expr, &schema)))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })
}

/// The expression with canonical operands, unless it only computes with them.
fn of_operands(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if let Expr::Literal(value, metadata) = expr {
        return Ok(Transformed::yes(Expr::Literal(canonical_value(value)?, metadata)));
    }
    if only_computes(&expr) {
        return Ok(Transformed::no(expr));
    }
    expr.map_children(|operand| Ok(made_canonical(operand, schema)))
}

fn made_canonical(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match may_differ(&expr, schema) {
        true => Transformed::yes(canonical(expr)),
        false => Transformed::no(expr),
    }
}

/// Whether it does the same with each NaN and each zero, up to the bits that it returns.
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

/// Whether the value may be another NaN or another zero than those among the operands.
fn may_differ(expr: &Expr, schema: &DFSchema) -> bool {
    let may = match expr {
        Expr::Negative(_) => true,
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Divide => !is_within(right, 0.0, 1.0) || may_differ(left, schema),
            Operator::Multiply => {
                let grows = |operand: &Expr| is_within(operand, 1.0, f64::MAX);
                !(grows(left) || grows(right)) || may_differ(left, schema) || may_differ(right, schema)
            }
            Operator::Modulo => true,
            Operator::Plus | Operator::Minus => {
                let finite = |operand: &Expr| is_within(operand, f64::MIN, f64::MAX);
                !(finite(left) || finite(right)) || may_differ(left, schema) || may_differ(right, schema)
            }
            _ => false,
        },
        Expr::ScalarFunction(function) => {
            let name = function.func.name();
            FUNCTIONS.contains(&name) || name == "arrow_cast"
        }
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            may_differ(expr, schema)
                || expr.get_type(schema).is_ok_and(|of| may_become_zero(&of, field.data_type()))
        }
        _ => false,
    };
    may && expr.get_type(schema).is_ok_and(|of| of.is_floating())
}

/// Whether a cast makes -0.0 of text, or of a number that is too small for the type.
fn may_become_zero(from: &DataType, to: &DataType) -> bool {
    from.is_string() || from.is_floating() && from.primitive_width() > to.primitive_width()
}

/// Whether it is a constant other than zero, at least `least` and at most `most`.
fn is_within(expr: &Expr, least: f64, most: f64) -> bool {
    match expr {
        Expr::Literal(value, _) => {
            let value = value.cast_to(&DataType::Float64);
            matches!(value, Ok(ScalarValue::Float64(Some(value))) if value != 0.0 && (least..=most).contains(&value))
        }
        Expr::Cast(cast) => is_within(&cast.expr, least, most),
        _ => false,
    }
}
