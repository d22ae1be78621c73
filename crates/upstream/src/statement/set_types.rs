//! The types of EXCEPT and INTERSECT.
//!
//! DataFusion 55 compares the columns of both sides in a common type and returns those of the left side. So
//! `1 INTERSECT 1.0::float` is a bigint, and so is a number that the common type cannot hold. Here both sides
//! are first cast to the common type, as in PostgreSQL and DuckDB.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, LogicalPlanBuilder, Union, cast};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, SetOperator, Visitor};

use crate::walk::{Tree, visit};

/// Returns whether a statement has EXCEPT or INTERSECT.
pub(crate) fn has_sets<T: Tree>(statement: &T) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            if is_set(&query.body) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    visit(statement, &mut Search).is_break()
}

fn is_set(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { op, left, right, .. } => {
            matches!(op, SetOperator::Except | SetOperator::Minus | SetOperator::Intersect)
                || is_set(left)
                || is_set(right)
        }
        _ => false,
    }
}

/// Casts the sides of the plan's sets to common types.
pub(crate) fn with_common_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut changed = false;
    let plan = plan.transform_up_with_subqueries(|plan| {
        let plan = match plan {
            LogicalPlan::Join(join) if is_set_join(&join) => common(join)?,
            LogicalPlan::Union(union) => common_of_all(union, changed)?,
            plan if changed => Transformed::yes(plan.recompute_schema()?),
            plan => Transformed::no(plan),
        };
        changed |= plan.transformed;
        Ok(plan)
    })?;
    Ok(plan.data)
}

/// Casts the inputs to their common types: those of an analyzed union, which sets above it have to know.
fn common_of_all(union: Union, changed: bool) -> Result<Transformed<LogicalPlan>> {
    let mut common = types(&union.inputs[0]);
    for input in &union.inputs[1..] {
        let both = common.iter().zip(types(input)).map(|(a, b)| common_types(a, &b));
        // Types without a common type are an error of the analyzer.
        match both.collect::<Option<Vec<_>>>() {
            Some(both) if both.iter().all(|(a, b)| a == b) => {
                common = both.into_iter().map(|(a, _)| a).collect()
            }
            _ => common.clear(),
        }
    }
    let differs = !common.is_empty() && union.inputs.iter().any(|input| types(input) != common);
    if !changed && !differs {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let cast = |input: Arc<LogicalPlan>| match differs && types(&input) != common {
        true => of_types(Arc::unwrap_or_clone(input), &common).map(Arc::new),
        false => Ok(input),
    };
    let inputs = union.inputs.into_iter().map(cast).collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

fn types(plan: &LogicalPlan) -> Vec<DataType> {
    plan.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

fn is_set_join(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && join.on.len() == join.left.schema().fields().len()
        && join.on.len() == join.right.schema().fields().len()
}

fn common(join: Join) -> Result<Transformed<LogicalPlan>> {
    let found = (types(&join.left), types(&join.right));
    let both = found.0.iter().zip(&found.1).map(|(left, right)| common_types(left, right));
    // Types without a common type are an error of the analyzer.
    let Some((of_left, of_right)) =
        both.collect::<Option<(Vec<_>, Vec<_>)>>().filter(|types| *types != found)
    else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
    // Values that differ may be equal in the common type.
    let left = match left {
        LogicalPlan::Distinct(Distinct::All(input)) => {
            LogicalPlanBuilder::from(of_types(Arc::unwrap_or_clone(input), &of_left)?).distinct()?.build()?
        }
        other => of_types(other, &of_left)?,
    };
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(of_types(right, &of_right)?),
        join.on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    Ok(Transformed::yes(LogicalPlan::Join(join)))
}

/// Returns the types of the columns of both sides. Decimals and floating-point numbers keep their types and
/// are compared as the engine compares them.
fn common_types(left: &DataType, right: &DataType) -> Option<(DataType, DataType)> {
    match (left, right) {
        (floating, decimal) | (decimal, floating) if floating.is_floating() && decimal.is_decimal() => {
            Some((left.clone(), right.clone()))
        }
        _ => type_union_coercion(left, right).map(|common| (common.clone(), common)),
    }
}

/// Casts the columns to these types.
fn of_types(plan: LogicalPlan, types: &[DataType]) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().zip(plan.schema().fields().iter().zip(types));
    let columns: Vec<Expr> = columns
        .map(|(column, (field, of))| {
            let (table, name) = (column.relation.clone(), column.name.clone());
            match field.data_type() == of {
                true => Expr::Column(column),
                false => cast(Expr::Column(column), of.clone()).alias_qualified(table, name),
            }
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
