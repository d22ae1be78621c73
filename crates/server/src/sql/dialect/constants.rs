//! Text constants and parameters in lists, in BETWEEN, in CASE and in choices, which have the type of the other operands in
//! PostgreSQL.
//!
//! The query engine converts them beside numbers and times, but not beside truth values, and takes a uuid for its text.
//! Beside decimals it rounds them to the digits of those: `1.5 IN ('1.54')` is true.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Between, Case, Expr, ExprSchemable, LogicalPlan, cast, lit};

use super::each::with_each;
use crate::sql::arguments::type_of;
use crate::sql::functions::in_form_of;
use crate::values::numeric::from_text;
use crate::values::type_of_texts;

/// Functions whose result is one of their arguments.
const CHOICES: [&str; 5] = ["coalesce", "greatest", "least", "nullif", "nvl"];

/// The plan with such constants in the type of their operand.
pub(crate) fn with_operand_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    with_each(plan, typed)
}

fn typed(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::InList(InList { expr, list, .. }) => convert(list.iter_mut(), expr, schema),
        Expr::Between(Between { expr, low, high, .. }) => {
            convert([low.as_mut(), high.as_mut()].into_iter(), expr, schema)
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let operands = expr.as_deref().is_some_and(|expr| {
                convert(when_then_expr.iter_mut().map(|(when, _)| when.as_mut()), expr, schema)
            });
            let results = when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            with_digits(results.chain(else_expr.as_deref_mut()).collect(), schema) || operands
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if CHOICES.contains(&func.name()) => {
            with_digits(args.iter_mut().collect(), schema)
        }
        _ => false,
    };
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Gives text constants the type of an operand. Returns whether there are any.
fn convert<'a>(constants: impl Iterator<Item = &'a mut Expr>, operand: &Expr, schema: &DFSchema) -> bool {
    let Ok((_, field)) = operand.to_field(schema) else { return false };
    let mut changed = false;
    for constant in constants {
        let is_text = match &*constant {
            Expr::Literal(value, _) => value.try_as_str().flatten().is_some(),
            Expr::Placeholder(parameter) => type_of(parameter).is_some_and(DataType::is_string),
            _ => false,
        };
        let typed = match type_of_texts(&field) {
            _ if !is_text => None,
            Some(of) => in_form_of(&of, constant),
            None if *field.data_type() == DataType::Boolean => {
                Some(cast(constant.clone(), DataType::Boolean))
            }
            None if field.data_type().is_decimal() => as_decimal(constant),
            None => None,
        };
        if let Some(typed) = typed {
            *constant = typed;
            changed = true;
        }
    }
    changed
}

/// Makes text constants beside decimals decimals with their own digits. Returns whether there are any.
fn with_digits(values: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let is_decimal = |of: &Expr| of.get_type(schema).is_ok_and(|of| of.is_decimal());
    if !values.iter().any(|of| is_decimal(of)) {
        return false;
    }
    let mut changed = false;
    for value in values {
        if let Some(decimal) = as_decimal(value) {
            *value = decimal;
            changed = true;
        }
    }
    changed
}

/// The decimal that a text constant is. `None` if it is none.
fn as_decimal(constant: &Expr) -> Option<Expr> {
    let Expr::Literal(value, _) = constant else { return None };
    let text = value.try_as_str().flatten()?;
    from_text(text.as_bytes()).ok().map(lit)
}
