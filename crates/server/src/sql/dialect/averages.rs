//! Averages of decimals as quotients of a sum and a count. The engine computes these at the scan, and shares them with
//! other sums and counts of the query.

use std::sync::Arc;

use coscan_upstream::CheckedSum;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, AggregateUDF, Expr, ExprSchemable, LogicalPlan, Projection, cast};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::sql::functions::quotient;

/// The type of a count as a decimal.
const COUNT: DataType = DataType::Decimal128(20, 0);

/// The rule that replaces them.
#[derive(Debug)]
pub(crate) struct Averages;

impl OptimizerRule for Averages {
    fn name(&self) -> &str {
        "averages_of_decimals"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        Ok(match replaced(aggregate)? {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(plan),
        })
    }
}

/// An aggregate function without its name.
fn function(of: &Expr) -> Option<&AggregateFunction> {
    match of {
        Expr::Alias(alias) => function(&alias.expr),
        Expr::AggregateFunction(function) => Some(function),
        _ => None,
    }
}

/// The sum and the count of an average.
fn parts(of: &Expr, aggregate: &Aggregate) -> Option<[AggregateFunction; 2]> {
    let AggregateFunction { func, params } = function(of)?;
    let [argument] = &params.args[..] else { return None };
    let is_decimal = matches!(argument.get_type(aggregate.input.schema()), Ok(DataType::Decimal128(..)));
    let plain = !params.distinct && params.order_by.is_empty() && params.null_treatment.is_none();
    let with = |func: Arc<AggregateUDF>| AggregateFunction { func, params: params.clone() };
    (func.name() == "avg" && is_decimal && plain).then(|| [with(CheckedSum::function()), with(count_udaf())])
}

/// The columns of the aggregation as a projection over one without averages. `None` if it has none.
fn replaced(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let found: Vec<_> = aggregate.aggr_expr.iter().map(|of| parts(of, aggregate)).collect();
    if found.iter().all(Option::is_none) {
        return Ok(None);
    }
    let kept = aggregate.aggr_expr.iter().zip(&found).filter(|(_, parts)| parts.is_none());
    let mut functions: Vec<Expr> = kept.map(|(of, _)| of.clone()).collect();
    let mut next_kept = 0..functions.len();
    // The place of a function among all, which may have it already.
    let mut place = |of: AggregateFunction| {
        let same =
            |known: &AggregateFunction| known.func.name() == of.func.name() && known.params == of.params;
        let known = functions.iter().position(|known| function(known).is_some_and(same));
        known.unwrap_or_else(|| {
            let name = format!("{} of average {}", of.func.name(), functions.len());
            functions.push(Expr::AggregateFunction(of).alias(name));
            functions.len() - 1
        })
    };
    let places: Vec<_> = found
        .into_iter()
        .map(|parts| match parts {
            Some([sum, count]) => (place(sum), Some(place(count))),
            None => (next_kept.next().unwrap_or_default(), None),
        })
        .collect();
    let below = Aggregate::try_new(aggregate.input.clone(), aggregate.group_expr.clone(), functions)?;
    let groups = below.schema.fields().len() - below.aggr_expr.len();
    let column = |at: usize| Expr::Column(Column::from(below.schema.qualified_field(at)));
    let mut columns: Vec<Expr> = (0..groups).map(column).collect();
    for (at, (first, second)) in places.into_iter().enumerate() {
        let (qualifier, field) = aggregate.schema.qualified_field(groups + at);
        let value = match second {
            Some(second) => {
                let count = cast(column(groups + second), COUNT);
                quotient().call(vec![column(groups + first), count])
            }
            None => column(groups + first),
        };
        let value = match value.get_type(&below.schema)? == *field.data_type() {
            true => value,
            false => cast(value, field.data_type().clone()),
        };
        columns.push(value.alias_qualified(qualifier.cloned(), field.name()));
    }
    let below = Arc::new(LogicalPlan::Aggregate(below));
    let all = Projection::try_new_with_schema(columns, below, aggregate.schema.clone())?;
    Ok(Some(LogicalPlan::Projection(all)))
}
