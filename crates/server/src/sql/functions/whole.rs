//! `ceil`, `floor` and `trunc` of decimals. The query engine's results have the type of the argument, which does not
//! hold `ceil(0.5)`. Other numbers are the query engine's.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions::math;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;

use super::declared::coerced_by;

/// The number of whole units in a number.
type Rounding = fn(i128, i128) -> i128;

/// Such a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Whole {
    of_others: Arc<ScalarUDF>,
    kind: Kind,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Ceil,
    Floor,
    Trunc,
}

pub(super) fn register(context: &SessionContext) {
    for (of_others, kind) in
        [(math::ceil(), Kind::Ceil), (math::floor(), Kind::Floor), (math::trunc(), Kind::Trunc)]
    {
        let signature = Signature::user_defined(Volatility::Immutable);
        context.register_udf(ScalarUDF::from(Whole { of_others, kind, signature }));
    }
}

impl Kind {
    fn rounding(self) -> Rounding {
        match self {
            Kind::Ceil => |of, unit| of.div_euclid(unit) + i128::from(of.rem_euclid(unit) > 0),
            Kind::Floor => |of, unit| of.div_euclid(unit),
            Kind::Trunc => |of, unit| of / unit,
        }
    }
}

/// The digits behind the point that are kept. `None` if they vary.
fn kept(scale: i8, digits: Option<&ScalarValue>) -> Option<i8> {
    match digits {
        None => Some(0),
        Some(ScalarValue::Int64(Some(digits))) => {
            i8::try_from(*digits).ok().map(|digits| digits.clamp(0, scale.max(0)))
        }
        Some(_) => None,
    }
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        self.of_others.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Decimal128(_, scale)] if *scale > 0 => Ok(types.to_vec()),
            [DataType::Decimal128(_, scale), digits]
                if *scale > 0 && digits.is_integer() && self.kind == Kind::Trunc =>
            {
                Ok(vec![types[0].clone(), DataType::Int64])
            }
            types => coerced_by(&self.of_others, types),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type depends on a value")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if let DataType::Decimal128(digits, scale) = *args.arg_fields[0].data_type()
            && scale > 0
        {
            let kept = match args.scalar_arguments.get(1) {
                Some(None) => None,
                places => kept(scale, places.copied().flatten()),
            };
            let of = match kept {
                Some(kept) => DataType::Decimal128((digits - scale as u8 + kept as u8 + 1).min(38), kept),
                None => DataType::Decimal128(digits, scale),
            };
            return Ok(Arc::new(Field::new(self.name(), of, true)));
        }
        self.of_others.inner().return_field_from_args(args)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.of_others.output_ordering(inputs)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (DataType::Decimal128(_, scale), DataType::Decimal128(digits, to)) =
            (args.args[0].data_type(), args.return_field.data_type().clone())
        else {
            return self.of_others.invoke_with_args(args);
        };
        // The places of `trunc` vary, or the argument has none.
        if scale <= 0 || (args.args.len() == 2 && !matches!(args.args[1], ColumnarValue::Scalar(_))) {
            return self.of_others.invoke_with_args(args);
        }
        let places = match args.args.get(1) {
            Some(ColumnarValue::Scalar(ScalarValue::Int64(Some(places)))) => *places,
            Some(_) => return Ok(ColumnarValue::Scalar(ScalarValue::Decimal128(None, digits, to))),
            None => 0,
        };
        // Places before the point are zeros.
        let less = u32::try_from(i64::from(scale).saturating_sub(places).max(0)).unwrap_or(u32::MAX);
        let unit = 10_i128.checked_pow(less).unwrap_or(i128::MAX);
        let zeros = 10_i128.checked_pow(less.saturating_sub((scale - to).unsigned_abs().into())).unwrap_or(0);
        let rounding = self.kind.rounding();
        let of = args.args[0].to_array(args.number_rows)?;
        let whole: Decimal128Array =
            of.as_primitive::<Decimal128Type>().unary(|of| rounding(of, unit).saturating_mul(zeros));
        Ok(ColumnarValue::Array(Arc::new(whole.with_precision_and_scale(digits, to)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_their_side() {
        for (of, ceil, floor, trunc) in
            [(15, 2, 1, 1), (-15, -1, -2, -1), (-5, 0, -1, 0), (20, 2, 2, 2), (5, 1, 0, 0)]
        {
            let rounded = [Kind::Ceil, Kind::Floor, Kind::Trunc].map(|kind| kind.rounding()(of, 10));
            assert_eq!(rounded, [ceil, floor, trunc], "{of}");
        }
    }
}
