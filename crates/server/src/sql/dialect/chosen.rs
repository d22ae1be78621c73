//! Values of CASE, COALESCE, NULLIF and scalar subqueries that are JSON or uuids: `coalesce(json_agg(x), '[]')`.
//!
//! The query engine drops the mark of their type. Text constants beside them have this type.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use pgwire::api::Type;

use super::each::with_each;
use crate::sql::functions::{in_form_of, marked_as};
use crate::values::type_of_texts;

/// Functions that return one of their arguments.
const CHOOSE: [&str; 2] = ["coalesce", "nullif"];

/// The plan with marks on such values.
pub(crate) fn with_marks(plan: LogicalPlan) -> Result<LogicalPlan> {
    with_each(plan, marked)
}

fn marked(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let of = match &expr {
        Expr::ScalarSubquery(of) => {
            of.subquery.schema().fields().first().and_then(|field| type_of_texts(field))
        }
        _ => common_type(&mut expr, schema),
    };
    let Some(of) = of else { return Ok(Transformed::no(expr)) };
    for value in choices(&mut expr) {
        if is_constant(value)
            && let Some(typed) = in_form_of(&of, value)
        {
            *value = typed;
        }
    }
    Ok(match marked_as(&of, expr.clone()) {
        Some(marked) => Transformed::yes(marked),
        None => Transformed::no(expr),
    })
}

/// The expressions one of which is the value.
fn choices(expr: &mut Expr) -> Vec<&mut Expr> {
    match expr {
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, result)| result);
            results.chain(&mut case.else_expr).map(AsMut::as_mut).collect()
        }
        Expr::ScalarFunction(call) if CHOOSE.contains(&call.func.name()) => call.args.iter_mut().collect(),
        _ => Vec::new(),
    }
}

/// The type that all of them have, apart from constants.
fn common_type(expr: &mut Expr, schema: &DFSchema) -> Option<Type> {
    let mut common = None;
    for value in choices(expr) {
        if matches!(value, Expr::Literal(..)) {
            continue;
        }
        let of = type_of_texts(&value.to_field(schema).ok()?.1)?;
        if *common.get_or_insert_with(|| of.clone()) != of {
            return None;
        }
    }
    common
}

fn is_constant(value: &Expr) -> bool {
    matches!(value, Expr::Literal(value, _) if value.try_as_str().flatten().is_some())
}
