//! Functions of floating-point numbers that are errors outside of their domain, as in PostgreSQL, and quotients.
//!
//! The query engine's results are infinite, not a number, or zero because they are too small: `ln(0)`, `acos(2)`,
//! `exp(1000)`, `exp(-1000)`, `1.0::float8 / 0`. Finite arguments with such a result are an error here. NaN among the
//! arguments stays NaN.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, plan_err};
use datafusion::functions::math;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;

use super::declared::Function;
use crate::sql::QueryError;

/// A function of the query engine with errors.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WithinDomain {
    of_all: Arc<ScalarUDF>,
    kind: Kind,
}

/// What may be wrong with finite arguments of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Arc,
    Exponential,
    Logarithm,
    Power,
}

pub(super) fn register(context: &SessionContext) {
    for (of_all, kind) in [
        (math::acos(), Kind::Arc),
        (math::acosh(), Kind::Arc),
        (math::asin(), Kind::Arc),
        (math::atanh(), Kind::Arc),
        (math::exp(), Kind::Exponential),
        (math::ln(), Kind::Logarithm),
        (math::log(), Kind::Logarithm),
        (math::log10(), Kind::Logarithm),
        (math::log2(), Kind::Logarithm),
        (math::power(), Kind::Power),
    ] {
        context.register_udf(ScalarUDF::from(WithinDomain { of_all, kind }));
    }
    context.register_udf(float_quotient().as_ref().clone());
}

impl Kind {
    /// PostgreSQL's error for arguments with this result, which is zero or not finite.
    fn error(self, of: &[f64], result: f64) -> Option<DataFusionError> {
        let finite = of.iter().all(|of| of.is_finite());
        if self == Kind::Arc {
            let wrong = if finite { !result.is_finite() } else { result.is_nan() };
            let wrong = wrong && !of.iter().any(|of| of.is_nan());
            return wrong.then(|| external("22003", "input is out of range"));
        }
        if let (Kind::Power, [base, by]) = (self, of)
            && *base < 0.0
            && by.is_finite()
            && by.fract() != 0.0
        {
            let text = "a negative number raised to a non-integer power yields a complex result";
            return Some(external("2201F", text));
        }
        if !finite {
            return None;
        }
        let too_small = match (self, of) {
            (Kind::Exponential, _) => true,
            (Kind::Power, [base, _]) => *base != 0.0,
            _ => false,
        };
        // The base of a logarithm may be zero.
        if result == 0.0 && !(self == Kind::Logarithm && of.contains(&0.0)) {
            return too_small.then(|| external("22003", "value out of range: underflow"));
        }
        let (sqlstate, text) = match (self, of) {
            (Kind::Logarithm, of) if of.contains(&0.0) => ("2201E", "cannot take logarithm of zero"),
            (Kind::Logarithm, of) if of.iter().any(|of| *of < 0.0) => {
                ("2201E", "cannot take logarithm of a negative number")
            }
            // The base is 1.
            (Kind::Logarithm, _) => ("22012", "division by zero"),
            _ => return Some(overflow()),
        };
        Some(external(sqlstate, text))
    }
}

fn overflow() -> DataFusionError {
    external("22003", "value out of range: overflow")
}

fn external(sqlstate: &'static str, text: &str) -> DataFusionError {
    DataFusionError::External(Box::new(QueryError::other(sqlstate, text)))
}

impl ScalarUDFImpl for WithinDomain {
    fn name(&self) -> &str {
        self.of_all.name()
    }

    fn aliases(&self) -> &[String] {
        self.of_all.aliases()
    }

    fn signature(&self) -> &Signature {
        self.of_all.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.of_all.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.of_all.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.of_all.return_field_from_args(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (of, rows) = (args.args.clone(), args.number_rows);
        let results = self.of_all.invoke_with_args(args)?;
        if !results.data_type().is_floating() {
            return Ok(results);
        }
        let floats = |of: &ColumnarValue| -> Result<Float64Array> {
            Ok(cast(&of.to_array(rows)?, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
        };
        let found = floats(&results)?;
        let is_usual = |of: f64| of.is_finite() && of != 0.0;
        if found.iter().all(|of| of.is_none_or(is_usual)) {
            return Ok(results);
        }
        let arguments = of.iter().map(floats).collect::<Result<Vec<_>>>()?;
        for row in (0..found.len()).filter(|&row| found.is_valid(row) && !is_usual(found.value(row))) {
            let of: Vec<f64> = arguments.iter().map(|of| of.value(row)).collect();
            if let Some(error) = self.kind.error(&of, found.value(row)) {
                return Err(error);
            }
        }
        Ok(results)
    }
}

static QUOTIENT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let gives = |types: &[DataType]| types[0].clone();
    Arc::new(Function { name: "float_div", takes: two_floats, gives, compute: divided }.immutable())
});

/// The quotient of two floating-point numbers.
pub(crate) fn float_quotient() -> Arc<ScalarUDF> {
    QUOTIENT.clone()
}

fn two_floats(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        // The query engine's type of the operation.
        [DataType::Float32, other] | [other, DataType::Float32] if *other != DataType::Float64 => {
            Ok(vec![DataType::Float32; 2])
        }
        [left, right] if [left, right].iter().all(|of| of.is_numeric() || of.is_null()) => {
            Ok(vec![DataType::Float64; 2])
        }
        _ => plan_err!("this function takes two floating-point numbers"),
    }
}

fn divided(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let arrays: Vec<ArrayRef> =
        args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<Result<_>>()?;
    let [of, by] = &arrays[..] else { return Err(internal_datafusion_err!("a quotient of two numbers")) };
    let to = args.return_field.data_type();
    let narrow = *to == DataType::Float32;
    let (of, by) = (cast(of, &DataType::Float64)?, cast(by, &DataType::Float64)?);
    let (of, by) = (of.as_primitive::<Float64Type>(), by.as_primitive::<Float64Type>());
    let quotient = |of: f64, by: f64| {
        let quotient = of / by;
        let fits = if narrow { (quotient as f32).is_finite() } else { quotient.is_finite() };
        match by == 0.0 && !of.is_nan() {
            true => Err(ArrowError::DivideByZero.into()),
            false if !fits && of.is_finite() && by.is_finite() => Err(overflow()),
            // One NaN and one zero, so that equal values are in one group.
            false if quotient.is_nan() => Ok(f64::NAN),
            false => Ok(quotient + 0.0),
        }
    };
    let quotients = of.iter().zip(by).map(|(of, by)| of.zip(by).map(|(of, by)| quotient(of, by)).transpose());
    let quotients: Float64Array = quotients.collect::<Result<_>>()?;
    Ok(ColumnarValue::Array(cast(&quotients, to)?))
}
