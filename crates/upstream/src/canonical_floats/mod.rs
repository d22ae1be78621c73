//! One NaN and one zero in all that is compared.
//!
//! Arrow orders floating-point numbers by their bits. So DataFusion 55 has a NaN with the sign bit below all numbers and another one
//! above, and -0.0 below 0.0. x86 processors set this bit for 0.0 / 0.0, and `round(-0.3)` is -0.0. Rows would be found or not
//! depending on how their number was computed. Here each value has the same NaN and the same zero before it is compared, sorted or
//! grouped:
//!
//! - cooperative scans decode it so ([`coscan_engine::with_canonical_floats`]), and other scans of Parquet files compute it so
//!   ([`scans`]);
//! - what computes a NaN or a zero of numbers is followed by the function of this module ([`computed`]).

mod computed;
mod scans;

use std::sync::{Arc, LazyLock};

use coscan_engine::{has_floats, with_canonical_floats};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub(crate) use computed::with_canonical_computed;
pub(crate) use scans::CanonicalScans;

/// The expression with one NaN and one zero.
pub(crate) fn canonical(expr: Expr) -> Expr {
    CANONICAL_FLOAT.call(vec![expr])
}

fn canonical_value(value: ScalarValue) -> Result<ScalarValue> {
    if !has_floats(&value.data_type()) {
        return Ok(value);
    }
    let array = with_canonical_floats(value.to_array()?)?;
    ScalarValue::try_from_array(&array, 0)
}

/// The function of [`canonical`].
pub(crate) fn function() -> Arc<ScalarUDF> {
    Arc::clone(&CANONICAL_FLOAT)
}

static CANONICAL_FLOAT: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::new_from_impl(CanonicalFloat::new())));

/// Its argument, with one NaN and one zero.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CanonicalFloat {
    signature: Signature,
}

impl CanonicalFloat {
    fn new() -> Self {
        CanonicalFloat { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for CanonicalFloat {
    fn name(&self) -> &str {
        "canonical_float"
    }

    /// The name that the column has without the function: columns of groups are found by it. A column itself has another name,
    /// because it may be next to the result.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [Expr::Column(column)] => Ok(format!("{}({column})", self.name())),
            [value] => Ok(value.schema_name().to_string()),
            _ => internal_err!("canonical_float has one argument, not {}", args.len()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [of] => Ok(of.clone()),
            _ => internal_err!("canonical_float has one argument, not {}", types.len()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [field] => {
                let metadata = field.metadata().clone();
                let field = Field::new(self.name(), field.data_type().clone(), field.is_nullable());
                Ok(Arc::new(field.with_metadata(metadata)))
            }
            fields => internal_err!("canonical_float has one argument, not {}", fields.len()),
        }
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.into_iter().next() {
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(with_canonical_floats(array)?)),
            Some(ColumnarValue::Scalar(value)) => Ok(ColumnarValue::Scalar(canonical_value(value)?)),
            None => internal_err!("canonical_float has one argument, not 0"),
        }
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        match inputs {
            [input] => Ok((*input).clone()),
            _ => internal_err!("canonical_float has one argument, not {}", inputs.len()),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |input| input.sort_properties))
    }
}
