//! Casts to text of texts that have a type of their own, such as JSON.
//!
//! The query engine's cast keeps the mark of that type, which clients see in the description of a statement.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan};

use super::each::with_each;
use crate::sql::functions::text;
use crate::values::type_of_texts;

/// The plan with calls of a function in place of such casts.
pub(crate) fn with_plain_texts(plan: LogicalPlan) -> Result<LogicalPlan> {
    with_each(plan, plain)
}

fn plain(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::Cast(Cast { expr: of, field })
            if field.data_type().is_string()
                && of.to_field(schema).is_ok_and(|(_, from)| type_of_texts(&from).is_some()) =>
        {
            Transformed::yes(text().call(vec![*of]))
        }
        expr => Transformed::no(expr),
    })
}
