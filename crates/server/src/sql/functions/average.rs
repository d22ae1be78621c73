//! `avg` of decimals with PostgreSQL's digits. The query engine's average has four digits more than its argument.
//!
//! Sums have 128 bits, and a larger one is an error. Averages of other types are the query engine's. `dialect/averages.rs`
//! replaces averages of groups of rows, so this function computes those of windows and of different values.

use std::collections::HashSet;
use std::mem::{size_of, size_of_val};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, UInt64Type};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::prelude::SessionContext;

use super::numeric::{average_type, divided};
use crate::sql::QueryError;

pub(super) fn register(context: &SessionContext) {
    context
        .register_udaf(AggregateUDF::from(Average { usual: avg_udaf(), aliases: vec!["mean".to_owned()] }));
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    usual: Arc<AggregateUDF>,
    /// All names of the replaced function.
    aliases: Vec<String>,
}

/// The digits of a decimal's type behind the point.
fn scale_of(of: &DataType) -> Option<i8> {
    match of {
        DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    }
}

fn sums(scale: i8) -> DataType {
    DataType::Decimal128(38, scale)
}

impl AggregateUDFImpl for Average {
    /// The query engine's name, by which its rules recognize the function.
    fn name(&self) -> &str {
        "avg"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.usual.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.usual.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [of @ DataType::Decimal128(..)] => Ok(average_type(of)),
            _ => self.usual.return_type(types),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let Some(scale) = scale_of(args.input_fields[0].data_type()) else {
            return self.usual.state_fields(args);
        };
        let field = |what: &str, of| Arc::new(Field::new(format!("{}[{what}]", args.name), of, true));
        if args.is_distinct {
            return Ok(vec![field("values", DataType::new_list(sums(scale), true))]);
        }
        Ok(vec![field("count", DataType::UInt64), field("sum", sums(scale))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let Some((from, to)) = scales(&args)? else { return self.usual.accumulator(args) };
        Ok(match args.is_distinct {
            true => Box::new(Distinct { from, to, values: HashSet::new() }),
            false => Box::new(All { from, to, sum: 0, count: 0 }),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match scales(&args)? {
            Some((from, to)) if !args.is_distinct => Ok(Box::new(All { from, to, sum: 0, count: 0 })),
            Some(_) => self.accumulator(args),
            None => self.usual.create_sliding_accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !matches!(scales(&args), Ok(Some(_))) && self.usual.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.usual.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.usual.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The digits of argument and result behind the point.
fn scales(args: &AccumulatorArgs) -> Result<Option<(i8, i8)>> {
    let of = args.exprs[0].data_type(args.schema)?;
    Ok(scale_of(&of).zip(scale_of(args.return_field.data_type())))
}

fn out_of_range() -> DataFusionError {
    let text = "numeric out of range: the sum of an average has more than 38 digits; cast its argument to double precision";
    DataFusionError::External(Box::new(QueryError::other("22003", text)))
}

fn added(sum: i128, value: i128) -> Result<i128> {
    sum.checked_add(value).ok_or_else(out_of_range)
}

fn average(sum: i128, count: u64, from: i8, to: i8) -> Result<Option<i128>> {
    if count == 0 {
        return Ok(None);
    }
    divided((sum, from), (count.into(), 0), to).map(Some)
}

fn decimals(values: Vec<Option<i128>>, scale: i8) -> Result<ArrayRef> {
    Ok(Arc::new(Decimal128Array::from(values).with_data_type(sums(scale))))
}

/// The sum of all values of one group.
#[derive(Debug)]
struct All {
    from: i8,
    to: i8,
    sum: i128,
    count: u64,
}

impl Accumulator for All {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Decimal128Type>();
        self.count += (values.len() - values.null_count()) as u64;
        self.sum = values.iter().flatten().try_fold(self.sum, added)?;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Decimal128Type>();
        self.count -= (values.len() - values.null_count()) as u64;
        self.sum = values.iter().flatten().try_fold(self.sum, |sum, value| added(sum, -value))?;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Decimal128(average(self.sum, self.count, self.from, self.to)?, 38, self.to))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::UInt64(Some(self.count)),
            ScalarValue::Decimal128(Some(self.sum), 38, self.from),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (counts, sums) =
            (states[0].as_primitive::<UInt64Type>(), states[1].as_primitive::<Decimal128Type>());
        self.count += counts.iter().flatten().sum::<u64>();
        self.sum = sums.iter().flatten().try_fold(self.sum, added)?;
        Ok(())
    }
}

/// The distinct values of one group.
#[derive(Debug)]
struct Distinct {
    from: i8,
    to: i8,
    values: HashSet<i128>,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.values.extend(values[0].as_primitive::<Decimal128Type>().iter().flatten());
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = self.values.iter().copied().try_fold(0, added)?;
        Ok(ScalarValue::Decimal128(average(sum, self.values.len() as u64, self.from, self.to)?, 38, self.to))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<i128>() * 2
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = decimals(self.values.iter().copied().map(Some).collect(), self.from)?;
        Ok(vec![SingleRowListArrayBuilder::new(values).with_nullable(true).build_list_scalar()])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }
}
