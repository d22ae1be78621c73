//! Columns of unions and joins, which bring the numbers of several inputs together.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result, TableReference};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, Union, cast};

use super::siblings::compared;

/// Casts some columns of the plan to doubles, under the same names.
pub(crate) fn with_doubles(plan: Arc<LogicalPlan>, columns: &[usize]) -> Result<LogicalPlan> {
    let of_column = |(position, field): (usize, (Option<&TableReference>, &FieldRef))| {
        let column = Expr::Column(Column::from(field));
        match columns.contains(&position) {
            true => cast(column, DataType::Float64).alias_qualified(field.0.cloned(), field.1.name()),
            false => column,
        }
    };
    let columns = plan.schema().iter().enumerate().map(of_column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan)?))
}

/// Casts the columns of a union to doubles if one of its inputs has doubles and another has decimals.
pub(crate) fn of_union(mut union: Union) -> Result<Transformed<LogicalPlan>> {
    let is = |position: usize, kind: fn(&DataType) -> bool| {
        let mut inputs = union.inputs.iter().map(|input| input.schema().fields().get(position));
        inputs.any(|field| field.is_some_and(|field| kind(field.data_type())))
    };
    let columns = 0..union.schema.fields().len();
    let mixed =
        columns.filter(|column| is(*column, DataType::is_decimal) && is(*column, DataType::is_floating));
    let mixed: Vec<usize> = mixed.collect();
    if mixed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    for input in &mut union.inputs {
        let fields = input.schema().fields();
        let decimals = mixed.iter().copied().filter(|column| fields[*column].data_type().is_decimal());
        let decimals: Vec<usize> = decimals.collect();
        if !decimals.is_empty() {
            *input = Arc::new(with_doubles(Arc::clone(input), &decimals)?);
        }
    }
    let union = Union::try_new_with_loose_types(union.inputs)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// Casts the keys of a join to one kind.
pub(crate) fn of_join(mut join: Join) -> Transformed<LogicalPlan> {
    let schema = merge_schema(&[&join.left, &join.right]);
    let mut changed = false;
    for (left, right) in &mut join.on {
        changed |= compared(vec![left, right], &schema);
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}
