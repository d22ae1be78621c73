//! User-defined functions. Some have the names of built-in functions with another meaning, to detect code
//! that identifies functions by name. Others are volatile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Int64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::prelude::SessionContext;

use crate::dice::mix;

/// The shadowed functions. The state of `avg` has two columns, like the built-in one's.
const AGGREGATES: [&str; 3] = ["sum", "count", "avg"];

/// Replaces the built-in functions.
pub(crate) fn shadow(ctx: &SessionContext) {
    for name in AGGREGATES {
        let signature = Signature::any(1, Volatility::Immutable);
        ctx.register_udaf(AggregateUDF::new_from_impl(Digest { name, signature }));
    }
    ctx.register_udf(ScalarUDF::new_from_impl(Same::new("abs", Volatility::Immutable)));
}

/// Adds `volatile_same(x)`, which returns `x`, so that results are determined, and `volatile_random()`.
pub(crate) fn add_volatile(ctx: &SessionContext) {
    ctx.register_udf(ScalarUDF::new_from_impl(Same::new("volatile_same", Volatility::Volatile)));
    let signature = Signature::nullary(Volatility::Volatile);
    ctx.register_udf(ScalarUDF::new_from_impl(Random { signature }));
}

/// An aggregate function that digests all values, in any order and of any type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Digest {
    name: &'static str,
    signature: Signature,
}

impl AggregateUDFImpl for Digest {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Sum { digest: 0, wide: self.name == "avg" }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field =
            |name: &str, data_type| Field::new(format!("{}[{name}]", args.name), data_type, true).into();
        Ok(if self.name == "avg" {
            vec![field("count", DataType::UInt64), field("sum", DataType::Decimal128(38, 0))]
        } else {
            vec![field(self.name, DataType::Int64)]
        })
    }
}

#[derive(Debug)]
struct Sum {
    digest: i64,
    wide: bool,
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let options = FormatOptions::default();
        let text = ArrayFormatter::try_new(values[0].as_ref(), &options)?;
        for row in 0..values[0].len() {
            let bytes = text.value(row).to_string();
            let hash =
                bytes.bytes().fold(7_i64, |hash, byte| hash.wrapping_mul(31).wrapping_add(i64::from(byte)));
            self.digest = self.digest.wrapping_add(hash);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.digest)))
    }

    fn size(&self) -> usize {
        size_of::<Self>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let wide = ScalarValue::Decimal128(Some(i128::from(self.digest)), 38, 0);
        Ok(if self.wide {
            vec![ScalarValue::UInt64(Some(1)), wide]
        } else {
            vec![ScalarValue::Int64(Some(self.digest))]
        })
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let add = |digest: i64, value: i64| digest.wrapping_add(value);
        self.digest = if self.wide {
            let values = states[1].as_primitive::<Decimal128Type>();
            values.iter().flatten().fold(self.digest, |digest, value| add(digest, value as i64))
        } else {
            states[0].as_primitive::<Int64Type>().iter().flatten().fold(self.digest, add)
        };
        Ok(())
    }
}

/// Returns its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Same {
    name: &'static str,
    signature: Signature,
}

impl Same {
    fn new(name: &'static str, volatility: Volatility) -> Self {
        Same { name, signature: Signature::any(1, volatility) }
    }
}

impl ScalarUDFImpl for Same {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}

/// Returns another number from zero to one for each row and call.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Random {
    signature: Signature,
}

impl ScalarUDFImpl for Random {
    fn name(&self) -> &str {
        "volatile_random"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let draw = |_| (mix(CALLS.fetch_add(1, Ordering::Relaxed)) >> 11) as f64 / (1_u64 << 53) as f64;
        Ok(ColumnarValue::Array(Arc::new((0..args.number_rows).map(draw).collect::<Float64Array>())))
    }
}
