//! Functions of another library's session that are the same as this library's.
//!
//! A function crosses DataFusion's stable interface as a name and a way to call it. Called that way it is slow, and rules
//! that know functions by their types do not recognise it. So plans get this library's function of that name, if it takes
//! the same arguments: a function of the user's may hide one of DataFusion's.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::type_coercion::functions::{UDFCoercionExt, fields_with_udf};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The plan with this library's functions.
pub(crate) fn with_own_functions(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let own = |mut expr: Expr| {
        match &mut expr {
            Expr::ScalarFunction(call) => replace(&mut call.func, state.scalar_functions()),
            Expr::AggregateFunction(call) => replace(&mut call.func, state.aggregate_functions()),
            Expr::WindowFunction(call) => match &mut call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    replace(function, state.aggregate_functions())
                }
                WindowFunctionDefinition::WindowUDF(function) => replace(function, state.window_functions()),
            },
            _ => {}
        }
        Ok(Transformed::yes(expr))
    };
    let plan =
        plan.transform_up_with_subqueries(|node| node.map_expressions(|expr| expr.transform_up(own)))?;
    Ok(plan.data)
}

fn replace<F: UDFCoercionExt>(function: &mut Arc<F>, own: &HashMap<String, Arc<F>>) {
    if let Some(own) = own.get(function.name()).filter(|own| takes_the_same(function.as_ref(), own.as_ref()))
    {
        *function = Arc::clone(own);
    }
}

/// Whether two functions accept the same arguments, and convert them to the same types.
fn takes_the_same<F: UDFCoercionExt>(one: &F, other: &F) -> bool {
    use DataType::{Binary, Boolean, Date32, Float64, Int32, Int64, Utf8, Utf8View};
    let time = DataType::Timestamp(TimeUnit::Nanosecond, None);
    let list = DataType::new_list(Int64, true);
    let samples: [&[DataType]; 20] = [
        &[],
        &[Utf8],
        &[Utf8View],
        &[Binary],
        &[Boolean],
        &[Int32],
        &[Int64],
        &[Float64],
        &[DataType::Decimal128(12, 2)],
        &[Date32],
        std::slice::from_ref(&time),
        std::slice::from_ref(&list),
        &[Utf8, Utf8],
        &[Utf8, Int64],
        &[Int64, Int64],
        &[Float64, Float64],
        &[Utf8, time.clone()],
        &[list.clone(), Int64],
        &[Utf8, Int64, Int64],
        &[Utf8, Utf8, Utf8],
    ];
    samples.iter().all(|sample| accepted(one, sample) == accepted(other, sample))
}

/// The types to which a function converts such arguments, if it accepts them.
fn accepted<F: UDFCoercionExt>(function: &F, types: &[DataType]) -> Option<Vec<DataType>> {
    let field = |of: &DataType| -> FieldRef { Arc::new(Field::new("f", of.clone(), true)) };
    let fields: Vec<FieldRef> = types.iter().map(field).collect();
    let fields = fields_with_udf(&fields, function).ok()?;
    Some(fields.iter().map(|field| field.data_type().clone()).collect())
}
