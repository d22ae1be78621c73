//! Text constants and parameters in lists, in BETWEEN and in CASE, which have the type of the first operand in PostgreSQL.
//!
//! The query engine converts them beside numbers and times, but not beside truth values, and takes a uuid for its text.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, Case, Expr, ExprSchemable, LogicalPlan, cast};

use super::each::with_each;
use crate::sql::arguments::type_of;
use crate::sql::functions::in_form_of;
use crate::values::type_of_texts;

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
        Expr::Case(Case { expr: Some(expr), when_then_expr, .. }) => {
            convert(when_then_expr.iter_mut().map(|(when, _)| when.as_mut()), expr, schema)
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
            None => None,
        };
        if let Some(typed) = typed {
            *constant = typed;
            changed = true;
        }
    }
    changed
}
