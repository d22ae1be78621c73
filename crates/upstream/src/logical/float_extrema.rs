//! Minimum and maximum of floating-point numbers.
//!
//! DataFusion 55 takes NaN for the greatest number. But in groups its min and max depend on the position of
//! NaN among the rows, and its minimum of infinities is the largest finite number. File statistics do not
//! count NaN, so max from statistics misses it. So floating-point arguments get functions of their own, which
//! always use one order and no statistics.

use std::sync::Arc;

use datafusion::arrow::array::ArrowNativeTypeOp;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, FieldRef, Float16Type, Float32Type, Float64Type,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::min_max::{Max, Min, max_udaf, min_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, GroupsAccumulator, LogicalPlan,
    ReversedUDAF, Signature,
};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use super::usual::as_usual;

/// The names of the functions in plans, minimum and maximum. They differ from DataFusion's: by these names
/// DataFusion knows that rows not greater than the current maximum need not be read.
pub const NAMES: [&str; 2] = ["min_of_floats", "max_of_floats"];

/// Adds a rule that substitutes these functions where the types of arguments are known.
pub(crate) fn with_float_extrema(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(FloatExtrema));
    analyzer
}

#[derive(Debug)]
struct FloatExtrema;

impl AnalyzerRule for FloatExtrema {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_floats)?.data)
    }

    fn name(&self) -> &str {
        "float_extrema"
    }
}

fn of_floats(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
    let schema = Arc::clone(aggregate.input.schema());
    plan.map_expressions(|expr| expr.transform_up(|expr| of_float(expr, &schema)))
}

fn of_float(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_floating = |arg: &Expr| arg.get_type(schema).is_ok_and(|of| of.is_floating());
    if let Expr::AggregateFunction(AggregateFunction { func, params }) = &mut expr
        && let Some(of) = Extremum::of(func)
        && params.args.first().is_some_and(is_floating)
    {
        *func = Arc::new(AggregateUDF::new_from_impl(FloatExtremum::new(of)));
        return Ok(Transformed::yes(expr));
    }
    Ok(Transformed::no(expr))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Extremum {
    Least,
    Greatest,
}

impl Extremum {
    /// Returns which of the two the function of DataFusion is, if any.
    fn of(function: &AggregateUDF) -> Option<Self> {
        match function.inner() {
            inner if inner.is::<Min>() => Some(Extremum::Least),
            inner if inner.is::<Max>() => Some(Extremum::Greatest),
            _ => None,
        }
    }
}

/// The functions, in the order of [`NAMES`].
pub(crate) fn functions() -> [AggregateUDF; 2] {
    [Extremum::Least, Extremum::Greatest].map(|of| AggregateUDF::new_from_impl(FloatExtremum::new(of)))
}

/// One of the functions. It equals DataFusion's except for groups and statistics.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct FloatExtremum {
    of: Extremum,
    usual: Arc<AggregateUDF>,
}

impl FloatExtremum {
    fn new(of: Extremum) -> Self {
        let usual = match of {
            Extremum::Least => min_udaf(),
            Extremum::Greatest => max_udaf(),
        };
        FloatExtremum { of, usual }
    }

    fn of_groups<T>(&self, of: &DataType) -> Box<dyn GroupsAccumulator>
    where
        T: ArrowPrimitiveType + Send,
        T::Native: ArrowNativeTypeOp,
    {
        // For floating-point types these are the ends of the order: NaN of both signs.
        match self.of {
            Extremum::Least => Box::new(
                PrimitiveGroupsAccumulator::<T, _>::new(of, |least: &mut T::Native, new| {
                    if new.is_lt(*least) {
                        *least = new;
                    }
                })
                .with_starting_value(T::Native::MAX_TOTAL_ORDER),
            ),
            Extremum::Greatest => Box::new(
                PrimitiveGroupsAccumulator::<T, _>::new(of, |greatest: &mut T::Native, new| {
                    if new.is_gt(*greatest) {
                        *greatest = new;
                    }
                })
                .with_starting_value(T::Native::MIN_TOTAL_ORDER),
            ),
        }
    }
}

impl AggregateUDFImpl for FloatExtremum {
    fn name(&self) -> &str {
        NAMES[self.of as usize]
    }

    as_usual!();

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.usual.human_display(params)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.usual.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let of = args.return_field.data_type();
        Ok(match of {
            DataType::Float16 => self.of_groups::<Float16Type>(of),
            DataType::Float32 => self.of_groups::<Float32Type>(of),
            DataType::Float64 => self.of_groups::<Float64Type>(of),
            // DataFusion may have changed the type of the argument.
            _ => self.usual.create_groups_accumulator(args)?,
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}
