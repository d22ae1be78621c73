//! Text constants in a branch of UNION, which have the type of the other branches in PostgreSQL, and branches whose types do
//! not match.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union, cast};

use crate::sql::QueryError;
use crate::sql::columns::type_names;
use crate::sql::parameter_types::common;

/// Casts such constants.
pub(crate) fn with_typed_constants(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|node| {
        let mut node = match node {
            LogicalPlan::Union(union) => of_union(union)?,
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

/// Refuses numbers beside times, which the query engine takes for days.
fn check(union: &Union) -> Result<()> {
    for at in 0..union.schema.fields().len() {
        let types =
            union.inputs.iter().filter_map(|input| Some(input.schema().fields().get(at)?.data_type()));
        let is_time =
            |of: &DataType| matches!(of, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..));
        let (time, number) = (types.clone().find(|of| is_time(of)), types.clone().find(|of| of.is_numeric()));
        if let (Some(time), Some(number)) = (time, number) {
            let mut both = [type_names(number).0, type_names(time).0];
            if types.clone().next() == Some(time) {
                both.reverse();
            }
            let text = format!("UNION types {} and {} cannot be matched", both[0], both[1]);
            return Err(DataFusionError::External(Box::new(QueryError::other("42804", text))));
        }
    }
    Ok(())
}

fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    check(&union)?;
    let mut casts: Vec<(usize, DataType)> = Vec::new();
    for at in 0..union.schema.fields().len() {
        let constants = union.inputs.iter().filter(|input| constant(input, at).is_some()).count();
        let others = union.inputs.iter().filter(|input| constant(input, at).is_none());
        let of =
            common(others.filter_map(|input| Some(input.schema().fields().get(at)?.data_type().clone())));
        if let Some(of) = of.filter(|of| constants > 0 && !of.is_string()) {
            casts.push((at, of));
        }
    }
    if casts.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.iter().map(|input| with_casts(input, &casts)).collect::<Result<_>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The text constant in a column.
fn constant(input: &LogicalPlan, at: usize) -> Option<&Expr> {
    let LogicalPlan::Projection(branch) = input else { return None };
    let expr = branch.expr.get(at)?;
    let mut inner = expr;
    while let Expr::Alias(alias) = inner {
        inner = &alias.expr;
    }
    matches!(inner, Expr::Literal(value, _) if value.try_as_str().flatten().is_some()).then_some(expr)
}

fn with_casts(input: &Arc<LogicalPlan>, casts: &[(usize, DataType)]) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(branch) = input.as_ref() else { return Ok(Arc::clone(input)) };
    let mut exprs = branch.expr.clone();
    for (at, of) in casts {
        if constant(input, *at).is_some() {
            let (qualifier, field) = branch.schema.qualified_field(*at);
            let value = cast(exprs[*at].clone().unalias_nested().data, of.clone());
            exprs[*at] = value.alias_qualified(qualifier.cloned(), field.name());
        }
    }
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&branch.input))?)))
}
