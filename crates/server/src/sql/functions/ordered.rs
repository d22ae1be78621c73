//! Aggregates of ordered values: `percentile_disc`, `percentile_cont` and `mode`, `... WITHIN GROUP (ORDER BY x)`.
//!
//! They keep all values of a group, in memory that the query engine accounts for. The query engine's own
//! `percentile_cont` interpolates with six digits and takes one fraction at a time.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, UInt32Array, UInt64Array, new_empty_array,
};
use datafusion::arrow::compute::{SortOptions, concat, sort, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::prelude::SessionContext;

pub(super) fn register(context: &SessionContext) {
    for kind in [Kind::Continuous, Kind::Discrete, Kind::Mode] {
        let signature = Signature::user_defined(Volatility::Immutable);
        let aliases = match kind {
            Kind::Continuous => vec!["quantile_cont".to_owned()],
            _ => Vec::new(),
        };
        context.register_udaf(AggregateUDF::from(Ordered { kind, aliases, signature }));
    }
}

/// The kind of result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// The value at a fraction of the ordered values, interpolated between two if necessary.
    Continuous,
    /// The first value at or after a fraction of the ordered values.
    Discrete,
    /// The most frequent value. If there are several, the first.
    Mode,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Ordered {
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
}

impl AggregateUDFImpl for Ordered {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Continuous => "percentile_cont",
            Kind::Discrete => "percentile_disc",
            Kind::Mode => "mode",
        }
    }

    /// All names of the replaced function. If one were missing, the query engine's own function would be registered
    /// again under it.
    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let value = |of: &DataType| match (self.kind, of) {
            (Kind::Continuous, of) if of.is_numeric() || of.is_null() => Ok(DataType::Float64),
            (Kind::Continuous, of) => {
                plan_err!("percentile_cont() takes numbers, not {of}: percentile_disc() takes any type")
            }
            // A view would keep the values of a whole batch in memory.
            (_, DataType::Utf8View) => Ok(DataType::Utf8),
            (_, DataType::BinaryView) => Ok(DataType::Binary),
            (_, of) => Ok(of.clone()),
        };
        match (self.kind, types) {
            (Kind::Mode, [of]) => Ok(vec![value(of)?]),
            (Kind::Continuous | Kind::Discrete, [of, fraction]) => {
                let fraction = match fraction {
                    DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                        DataType::new_list(DataType::Float64, true)
                    }
                    _ => DataType::Float64,
                };
                Ok(vec![value(of)?, fraction])
            }
            (Kind::Mode, _) => plan_err!("write mode() WITHIN GROUP (ORDER BY x)"),
            _ => plan_err!("write {}(0.5) WITHIN GROUP (ORDER BY x)", self.name()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types {
            [of, DataType::List(_)] => DataType::new_list(of.clone(), true),
            [of, ..] => of.clone(),
            [] => DataType::Null,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let of = args.input_fields[0].data_type().clone();
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), DataType::new_list(of, true), true))])
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    /// The aggregate sorts the values itself.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let (fractions, many) = match args.exprs.get(1) {
            Some(fraction) => fractions(fraction, self.name())?,
            None => (Vec::new(), false),
        };
        Ok(Box::new(Values {
            kind: self.kind,
            of: args.expr_fields[0].data_type().clone(),
            fractions,
            many,
            descending: args.order_bys.first().is_some_and(|by| by.options.descending),
            distinct: args.is_distinct,
            kept: Vec::new(),
        }))
    }
}

/// The requested fractions, and whether they are a list.
fn fractions(expr: &Arc<dyn PhysicalExpr>, name: &str) -> Result<(Vec<Option<f64>>, bool)> {
    let value = match expr.downcast_ref::<Literal>() {
        Some(literal) => ColumnarValue::Scalar(literal.value().clone()),
        None => {
            let nothing = RecordBatch::new_empty(Arc::new(datafusion::arrow::datatypes::Schema::empty()));
            match expr.evaluate(&nothing) {
                Ok(value) => value,
                Err(_) => return plan_err!("the fraction given to {name}() has to be a constant"),
            }
        }
    };
    let ColumnarValue::Scalar(value) = value else {
        return plan_err!("the fraction given to {name}() has to be a constant");
    };
    let (fractions, many): (Vec<Option<f64>>, bool) = match value {
        ScalarValue::List(list) if list.is_empty() || list.is_null(0) => (Vec::new(), true),
        ScalarValue::List(list) => (list.value(0).as_primitive::<Float64Type>().iter().collect(), true),
        ScalarValue::Float64(fraction) => (vec![fraction], false),
        other => {
            return plan_err!("the fraction given to {name}() has to be a number, not {}", other.data_type());
        }
    };
    if let Some(wrong) = fractions.iter().flatten().find(|fraction| !(0.0..=1.0).contains(*fraction)) {
        return exec_err!("percentile value {wrong} is not between 0 and 1");
    }
    Ok((fractions, many))
}

/// The values of a group.
#[derive(Debug)]
struct Values {
    kind: Kind,
    of: DataType,
    fractions: Vec<Option<f64>>,
    many: bool,
    descending: bool,
    distinct: bool,
    kept: Vec<ArrayRef>,
}

impl Values {
    fn all(&self) -> Result<ArrayRef> {
        let kept: Vec<&dyn Array> = self.kept.iter().map(AsRef::as_ref).collect();
        match kept.is_empty() {
            true => Ok(new_empty_array(&self.of)),
            false => Ok(concat(&kept)?),
        }
    }

    fn keep(&mut self, values: &ArrayRef) -> Result<()> {
        // A copy, because a slice would keep the values of other groups in memory.
        let rows = (0..values.len()).filter(|&row| values.is_valid(row)).map(|row| row as u64);
        let values = take(values, &UInt64Array::from_iter_values(rows), None)?;
        if !values.is_empty() {
            self.kept.push(values);
        }
        Ok(())
    }

    fn at_fractions(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let count = values.len();
        if self.kind == Kind::Continuous {
            let values = values.as_primitive::<Float64Type>();
            let at = |fraction: &Option<f64>| {
                let place = (*fraction).filter(|_| count > 0)? * (count - 1) as f64;
                let (low, high) = (values.value(place.floor() as usize), values.value(place.ceil() as usize));
                Some(low + (high - low) * place.fract())
            };
            return Ok(Arc::new(self.fractions.iter().map(at).collect::<Float64Array>()));
        }
        let at = |fraction: &Option<f64>| {
            let row = ((*fraction).filter(|_| count > 0)? * count as f64).ceil() as u64;
            Some(row.saturating_sub(1))
        };
        Ok(take(values, &self.fractions.iter().map(at).collect::<UInt64Array>(), None)?)
    }
}

/// The most frequent value of a sorted array. If there are several, the first.
fn most_frequent(values: &ArrayRef) -> Result<ScalarValue> {
    let mut best: Option<std::ops::Range<usize>> = None;
    for run in datafusion::arrow::compute::partition(std::slice::from_ref(values))?.ranges() {
        if best.as_ref().is_none_or(|best| run.len() > best.len()) {
            best = Some(run);
        }
    }
    match best {
        Some(run) => ScalarValue::try_from_array(values, run.start),
        None => ScalarValue::try_from(values.data_type()),
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.keep(&values[0])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.keep(&values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![SingleRowListArrayBuilder::new(self.all()?).with_nullable(true).build_list_scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let options = SortOptions { descending: self.descending, nulls_first: false };
        let mut values = sort(&self.all()?, Some(options))?;
        if self.distinct && !values.is_empty() {
            let runs = datafusion::arrow::compute::partition(std::slice::from_ref(&values))?.ranges();
            let firsts = runs.iter().map(|run| u32::try_from(run.start).ok());
            values = take(&values, &firsts.collect::<UInt32Array>(), None)?;
        }
        match (self.kind, self.many) {
            (Kind::Mode, _) => most_frequent(&values),
            (_, true) => {
                let found = self.at_fractions(&values)?;
                Ok(SingleRowListArrayBuilder::new(found).with_nullable(true).build_list_scalar())
            }
            (_, false) => ScalarValue::try_from_array(&self.at_fractions(&values)?, 0),
        }
    }

    fn size(&self) -> usize {
        let arrays = self.kept.iter().map(|values| values.get_array_memory_size());
        size_of_val(self) + self.kept.capacity() * size_of::<ArrayRef>() + arrays.sum::<usize>()
    }
}
