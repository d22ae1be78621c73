//! `sum` that is exact or fails.
//!
//! The sum of 64-bit integers has 64 bits, as in DataFusion, but partial sums have 128 bits. So the order of
//! rows and the partitions do not decide whether the final sum fits. Decimals, intervals and durations are
//! added up in their own type. A total outside the type is an error. DataFusion adds up floating-point
//! numbers.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Field, FieldRef, Int64Type,
    IntervalDayTimeType, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit, UInt64Type,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::count::count;
use datafusion::functions_aggregate::sum::{Sum, sum_udaf};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_fn::cast;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, Operator,
    ReversedUDAF, SetMonotonicity, Signature,
};

use super::accumulators::{Distinct, DistinctInFrame, Whole, Within};
use super::arithmetic::{Operation, checked};
use super::groups::{WholeGroups, within_groups};

/// The type of partial sums of integers. It holds a sum of 2^63 of them.
pub(crate) const WHOLE: DataType = DataType::Decimal128(38, 0);

/// Bound on constants of `sum(x + constant)` that may be added up separately: times the number of rows they
/// fit in 64 bits.
const CONSTANT_MAX: i64 = 1 << 24;

/// DataFusion's `sum` with other accumulators.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedSum {
    usual: Arc<AggregateUDF>,
}

impl CheckedSum {
    /// Returns the replacement of DataFusion's `sum`; `None` for another function.
    pub(crate) fn instead_of(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
        function.inner().is::<Sum>().then(Self::function)
    }

    /// Returns the function.
    pub fn function() -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::new_from_impl(CheckedSum { usual: sum_udaf() }))
    }
}

/// Calls `$make!` with a type whose sums fail when they leave it; uses `$otherwise` for other types.
macro_rules! within {
    ($of:expr, $make:ident, $otherwise:expr) => {
        match $of {
            DataType::Decimal32(..) => $make!(Decimal32Type),
            DataType::Decimal64(..) => $make!(Decimal64Type),
            DataType::Decimal128(..) => $make!(Decimal128Type),
            DataType::Decimal256(..) => $make!(Decimal256Type),
            DataType::Duration(TimeUnit::Second) => $make!(DurationSecondType),
            DataType::Duration(TimeUnit::Millisecond) => $make!(DurationMillisecondType),
            DataType::Duration(TimeUnit::Microsecond) => $make!(DurationMicrosecondType),
            DataType::Duration(TimeUnit::Nanosecond) => $make!(DurationNanosecondType),
            DataType::Interval(IntervalUnit::YearMonth) => $make!(IntervalYearMonthType),
            DataType::Interval(IntervalUnit::DayTime) => $make!(IntervalDayTimeType),
            DataType::Interval(IntervalUnit::MonthDayNano) => $make!(IntervalMonthDayNanoType),
            _ => $otherwise,
        }
    };
}

impl AggregateUDFImpl for CheckedSum {
    /// DataFusion's name, by which its rules recognize the function.
    fn name(&self) -> &str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        self.usual.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.usual.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match args.return_type() {
            DataType::Int64 | DataType::UInt64 if !args.is_distinct => {
                Ok(vec![Arc::new(Field::new(format_state_name(args.name, "sum"), WHOLE, true))])
            }
            _ => self.usual.state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let of = args.return_field.data_type();
        if args.is_distinct {
            macro_rules! distinct {
                ($of:ty) => {
                    Ok(Box::new(Distinct::<$of>::new(of)))
                };
            }
            return match of {
                DataType::Int64 => distinct!(Int64Type),
                DataType::UInt64 => distinct!(UInt64Type),
                of => within!(of, distinct, self.usual.accumulator(args)),
            };
        }
        macro_rules! of_all {
            ($of:ty) => {
                Ok(Box::new(Within::<$of>::new(of)))
            };
        }
        match of {
            DataType::Int64 => Ok(Box::<Whole<Int64Type>>::default()),
            DataType::UInt64 => Ok(Box::<Whole<UInt64Type>>::default()),
            of => within!(of, of_all, self.usual.accumulator(args)),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let of = args.return_field.data_type();
        macro_rules! in_frame {
            ($of:ty) => {
                Ok(Box::new(Within::<$of>::new(of)))
            };
        }
        match of {
            DataType::Int64 if args.is_distinct => Ok(Box::<DistinctInFrame<Int64Type>>::default()),
            DataType::UInt64 if args.is_distinct => Ok(Box::<DistinctInFrame<UInt64Type>>::default()),
            _ if args.is_distinct => self.usual.create_sliding_accumulator(args),
            DataType::Int64 => Ok(Box::<Whole<Int64Type>>::default()),
            DataType::UInt64 => Ok(Box::<Whole<UInt64Type>>::default()),
            of => within!(of, in_frame, self.usual.create_sliding_accumulator(args)),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.usual.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let of = args.return_field.data_type();
        macro_rules! of_groups {
            ($of:ty) => {
                Ok(within_groups::<$of>(of))
            };
        }
        match of {
            DataType::Int64 => Ok(Box::<WholeGroups<Int64Type>>::default()),
            DataType::UInt64 => Ok(Box::<WholeGroups<UInt64Type>>::default()),
            of => within!(of, of_groups, self.usual.create_groups_accumulator(args)),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.usual.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn set_monotonicity(&self, of: &DataType) -> SetMonotonicity {
        self.usual.inner().set_monotonicity(of)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.usual.documentation()
    }

    /// Rewrites `sum(x + constant)` to `sum(x) + constant * count(x)`, so that sums with other constants
    /// share the work.
    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        op: Operator,
        constant: &Expr,
        _argument_is_left: bool,
    ) -> Result<Option<Expr>> {
        let Expr::Literal(value, _) = constant else { return Ok(None) };
        let is_small = match value {
            ScalarValue::Int64(Some(value)) => value.unsigned_abs() <= CONSTANT_MAX.unsigned_abs(),
            ScalarValue::UInt64(Some(value)) => *value <= CONSTANT_MAX.unsigned_abs(),
            _ => return self.usual.simplify_expr_op_literal(function, argument, op, constant, true),
        };
        if op != Operator::Plus || !is_small {
            return Ok(None);
        }
        let of = value.data_type();
        let mut sum = function.clone();
        sum.params.args = vec![argument.clone()];
        let rows = cast(count(argument.clone()), of.clone());
        let constants = checked(Operation::Multiply, vec![constant.clone(), rows], of.clone());
        Ok(Some(checked(Operation::Add, vec![Expr::AggregateFunction(sum), constants], of)))
    }
}
