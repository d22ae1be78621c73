//! Decimals with more digits than their type allows.
//!
//! Files contain them, and so do sums and products, because 128 bits hold some numbers of 39 digits. Their
//! value is right. But Arrow's texts have as many digits as the type, and put the decimal point accordingly
//! (`922337203685477580700.92` as `9223372036854775807.0092`). So texts are made from types with more digits.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, make_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal32Type, Decimal64Type, Decimal128Type, Field, FieldRef,
};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

/// Converts decimals in the array, also in lists, structs and maps, to a type with all of their digits.
/// Returns the array unchanged if its type has them.
///
/// # Errors
/// If a nested type cannot be cast.
pub fn with_all_digits(array: &ArrayRef) -> Result<ArrayRef> {
    let longer = longer(array.data_type());
    match longer == *array.data_type() || !has_long(array) {
        true => Ok(Arc::clone(array)),
        false => Ok(cast(array, &longer)?),
    }
}

/// Replaces decimals in the type by the longest ones.
fn longer(of: &DataType) -> DataType {
    let field = |field: &FieldRef| -> FieldRef {
        Arc::new(Field::clone(field).with_data_type(longer(field.data_type())))
    };
    match of {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale)
        }
        DataType::List(of) => DataType::List(field(of)),
        DataType::LargeList(of) => DataType::LargeList(field(of)),
        DataType::FixedSizeList(of, size) => DataType::FixedSizeList(field(of), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        of => of.clone(),
    }
}

/// Returns whether a decimal in the array has more digits than its type.
fn has_long(array: &dyn Array) -> bool {
    match array.data_type() {
        DataType::Decimal32(digits, _) => {
            array.as_primitive::<Decimal32Type>().validate_decimal_precision(*digits).is_err()
        }
        DataType::Decimal64(digits, _) => {
            array.as_primitive::<Decimal64Type>().validate_decimal_precision(*digits).is_err()
        }
        DataType::Decimal128(digits, _) => {
            array.as_primitive::<Decimal128Type>().validate_decimal_precision(*digits).is_err()
        }
        of if of.is_nested() => {
            array.to_data().child_data().iter().any(|child| has_long(&make_array(child.clone())))
        }
        _ => false,
    }
}

/// Replaces a cast of decimals to text by a function.
pub(crate) fn checked_cast(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match expr {
        Expr::Cast(Cast { expr, field })
            if is_text(field.data_type()) && expr.get_type(schema).is_ok_and(|of| of.is_decimal()) =>
        {
            let function = ScalarUDF::new_from_impl(DecimalText::to(field.data_type().clone()));
            let call = ScalarFunction::new_udf(Arc::new(function), vec![*expr]);
            Ok(Transformed::yes(Expr::ScalarFunction(call)))
        }
        expr => Ok(Transformed::no(expr)),
    }
}

/// Returns the function of this name with this type.
pub(crate) fn named(name: &str, to: &DataType) -> Option<ScalarUDF> {
    let function = DecimalText::to(to.clone());
    (function.name() == name).then(|| ScalarUDF::new_from_impl(function))
}

/// The text of a decimal.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DecimalText {
    to: DataType,
    signature: Signature,
}

impl DecimalText {
    fn to(to: DataType) -> Self {
        DecimalText { to, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for DecimalText {
    fn name(&self) -> &str {
        "decimal_text"
    }

    /// Returns the column name of a cast.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(args.iter().map(|arg| arg.schema_name().to_string()).collect())
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let text = |array: &ArrayRef| -> Result<ArrayRef> { Ok(cast(&with_all_digits(array)?, &self.to)?) };
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(text(array)?),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&text(&value.to_array()?)?, 0)?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Decimal128Array, StructArray};
    use datafusion::arrow::util::display::array_value_to_string;

    use super::*;

    #[test]
    fn decimals_that_are_too_long_have_all_their_digits() {
        let long = Decimal128Array::from(vec![Some(12_345_678), None, Some(-99)]);
        let long: ArrayRef = Arc::new(long.with_data_type(DataType::Decimal128(4, 2)));
        assert_eq!(
            array_value_to_string(&long, 0).unwrap(),
            "12.34",
            "Arrow shows all digits: this mend can go"
        );
        let shown = with_all_digits(&long).unwrap();
        let texts = [0, 1, 2].map(|row| array_value_to_string(&shown, row).unwrap());
        assert_eq!(texts, ["123456.78", "", "-0.99"]);
        let field = Arc::new(Field::new("d", long.data_type().clone(), true));
        let nested: ArrayRef = Arc::new(StructArray::from(vec![(field, long)]));
        assert_eq!(array_value_to_string(&with_all_digits(&nested).unwrap(), 0).unwrap(), "{d: 123456.78}");
        let short: ArrayRef =
            Arc::new(Decimal128Array::from(vec![9_999]).with_data_type(DataType::Decimal128(4, 2)));
        assert_eq!(with_all_digits(&short).unwrap().data_type(), short.data_type());
    }
}
