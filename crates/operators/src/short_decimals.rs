//! Decimals of up to 18 digits in 64 bits.
//!
//! Files store most of them as integers of 32 or 64 bits; SQL gives them 128 bits. Shared arrays of half the
//! size cost half the memory and half the copying. Operators that need SQL's type get a cast, after rows were
//! filtered. Comparisons with constants are computed in 64 bits.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal64Array, Decimal128Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DECIMAL64_MAX_PRECISION, DataType, Decimal64Type, Decimal128Type, Field, Int64Type, Schema, SchemaRef,
};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, InListExpr, Literal, in_list};

/// `data_type` with its decimals in 64 bits if all values of that type fit.
pub fn shortened(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Decimal128(precision, scale) if *precision <= DECIMAL64_MAX_PRECISION => {
            Some(DataType::Decimal64(*precision, *scale))
        }
        _ => None,
    }
}

/// `schema` with all short decimals in 64 bits.
pub fn shortened_schema(schema: &SchemaRef) -> SchemaRef {
    with_short_fields(schema, |_| true)
}

/// `schema` with the short decimals among the fields at these positions in 64 bits.
pub fn with_short_fields(schema: &SchemaRef, among: impl Fn(usize) -> bool) -> SchemaRef {
    let short = |(at, field): (usize, &Arc<Field>)| match shortened(field.data_type()) {
        Some(short) if among(at) => Arc::new(Field::clone(field).with_data_type(short)),
        _ => Arc::clone(field),
    };
    let fields: Vec<_> = schema.fields().iter().enumerate().map(short).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// `expr` without the cast that [`over_short_columns`] put around a column: its value in 64 bits.
///
/// # Errors
/// If `expr` has no type over `decoding`.
pub fn without_widening(expr: Arc<dyn PhysicalExpr>, decoding: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let Some(cast) = expr.downcast_ref::<CastExpr>() else { return Ok(expr) };
    Ok(match (cast.expr().data_type(decoding)?, cast.cast_type()) {
        (DataType::Decimal64(p, s), DataType::Decimal128(q, t)) if (p, s) == (*q, *t) => {
            Arc::clone(cast.expr())
        }
        _ => expr,
    })
}

/// Short decimals of 128 bits in 64 bits; `None` if the array has another type, or a file stores values
/// outside of its type that 64 bits do not hold.
pub fn shortened_array(array: &ArrayRef) -> Option<ArrayRef> {
    let Some(DataType::Decimal64(precision, scale)) = shortened(array.data_type()) else { return None };
    let wide = array.as_primitive::<Decimal128Type>();
    let short = Decimal64Array::new(values_in_64_bits(wide)?.into(), wide.nulls().cloned());
    Some(Arc::new(short.with_precision_and_scale(precision, scale).ok()?))
}

/// A column of a scan that marks rows, as `data_type`. Numbers may have come as narrower integers, and
/// decimals unscaled.
pub(crate) fn of_scan(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    let short = shortened(data_type).unwrap_or_else(|| data_type.clone());
    let array = match short {
        DataType::Decimal64(precision, scale) if array.data_type().is_signed_integer() => {
            let unscaled = cast(array, &DataType::Int64)?;
            let decimals = unscaled.as_primitive::<Int64Type>().reinterpret_cast::<Decimal64Type>();
            Arc::new(decimals.with_precision_and_scale(precision, scale)?)
        }
        DataType::Date32 if array.data_type().is_signed_integer() => cast(array, &DataType::Int32)?,
        _ => Arc::clone(array),
    };
    Ok(cast(&array, data_type)?)
}

/// The values of an array in 64 bits, with any value for nulls; `None` if one does not fit.
pub(crate) fn values_in_64_bits(array: &Decimal128Array) -> Option<Vec<i64>> {
    let wide = array.values();
    // Zero as long as the upper half repeats the sign of the lower half.
    let excess = wide.iter().fold(0, |excess, v| excess | (((v >> 64) as i64) ^ ((*v as i64) >> 63)));
    let fits = |row: usize| array.is_null(row) || i64::try_from(wide[row]).is_ok();
    if excess != 0 && !(0..array.len()).all(fits) {
        return None;
    }
    Some(wide.iter().map(|v| *v as i64).collect())
}

/// Adapts `expr`, which was made for the file's schema, `physical`, to columns decoded to `decoding`, with
/// the same values. Columns that have 64 bits in both schemas stay as they are.
///
/// # Errors
/// If `expr` has no type over `decoding`.
pub fn over_short_columns(
    expr: Arc<dyn PhysicalExpr>,
    physical: &Schema,
    decoding: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let rewrite = |expr: Arc<dyn PhysicalExpr>| {
        let done = |expr| Ok(Transformed::new(expr, true, TreeNodeRecursion::Jump));
        if let Some(short) = comparison(&expr, decoding)? {
            return done(short);
        }
        if let Some(column) = expr.downcast_ref::<Column>()
            && let wide = physical.field(column.index()).data_type()
            && decoding.field(column.index()).data_type() != wide
        {
            return done(Arc::new(CastExpr::new(expr, wide.clone(), None)));
        }
        Ok(Transformed::no(expr))
    };
    expr.transform_down(rewrite).data()
}

/// A comparison of a short column with constants, or with another column of its type, without a cast.
fn comparison(expr: &Arc<dyn PhysicalExpr>, decoding: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        if !binary.op().supports_propagation() {
            return Ok(None);
        }
        let (left, right) = (operand(binary.left(), decoding), operand(binary.right(), decoding));
        let (Some((left, a)), Some((right, b))) = (left, right) else { return Ok(None) };
        return Ok((a == b).then(|| Arc::new(BinaryExpr::new(left, *binary.op(), right)) as _));
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>()
        && let Some((column, of)) = operand(list.expr(), decoding)
        && column.is::<Column>()
    {
        let items = list.list().iter().map(|item| operand(item, decoding));
        let Some(items) = items.collect::<Option<Vec<_>>>() else { return Ok(None) };
        if items.iter().all(|(_, data_type)| *data_type == of) {
            let items = items.into_iter().map(|(item, _)| item).collect();
            return in_list(column, items, &list.negated(), decoding).map(Some);
        }
    }
    Ok(None)
}

/// A short column, or a constant that fits its type, in 64 bits with its type.
fn operand(expr: &Arc<dyn PhysicalExpr>, decoding: &Schema) -> Option<(Arc<dyn PhysicalExpr>, DataType)> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        let data_type = decoding.field(column.index()).data_type();
        return matches!(data_type, DataType::Decimal64(..)).then(|| (Arc::clone(expr), data_type.clone()));
    }
    let literal = expr.downcast_ref::<Literal>()?;
    let ScalarValue::Decimal128(value, precision, scale) = literal.value() else { return None };
    let data_type = shortened(&DataType::Decimal128(*precision, *scale))?;
    let value = value.map(i64::try_from).transpose().ok()?;
    Some((Arc::new(Literal::new(ScalarValue::Decimal64(value, *precision, *scale))), data_type))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::RecordBatch;
    use datafusion::arrow::buffer::NullBuffer;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, col, lit};

    use super::*;

    fn schemas() -> (SchemaRef, SchemaRef) {
        let decimal = |name, precision| Field::new(name, DataType::Decimal128(precision, 2), true);
        let physical = Arc::new(Schema::new(vec![
            decimal("price", 15),
            decimal("rate", 9),
            decimal("long", 38),
            decimal("packed", 15),
            Field::new("short", DataType::Decimal64(15, 2), true),
        ]));
        let decoding = with_short_fields(&physical, |at| at < 2);
        (physical, decoding)
    }

    /// The expression over both schemas, evaluated on the same values.
    fn agree(expr: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        let (physical, decoding) = schemas();
        let values = [Some(150), None, Some(-7), Some(10i128.pow(9) - 1)];
        let wide = |precision| -> ArrayRef {
            let array = Decimal128Array::from(values.to_vec());
            Arc::new(array.with_precision_and_scale(precision, 2).unwrap())
        };
        let short = |precision| -> ArrayRef {
            let array = Decimal64Array::from(values.map(|value| value.map(|value| value as i64)).to_vec());
            Arc::new(array.with_precision_and_scale(precision, 2).unwrap())
        };
        let columns = vec![wide(15), wide(9), wide(38), wide(15), short(15)];
        let before = RecordBatch::try_new(Arc::clone(&physical), columns).unwrap();
        let columns = vec![short(15), short(9), wide(38), wide(15), short(15)];
        let after = RecordBatch::try_new(Arc::clone(&decoding), columns).unwrap();
        let over = over_short_columns(Arc::clone(&expr), &physical, &decoding).unwrap();
        let (before, after) = (expr.evaluate(&before).unwrap(), over.evaluate(&after).unwrap());
        assert_eq!(&before.into_array(4).unwrap(), &after.into_array(4).unwrap(), "{expr} as {over}");
        over
    }

    fn decimal(value: i128, precision: u8) -> Arc<dyn PhysicalExpr> {
        lit(ScalarValue::Decimal128(Some(value), precision, 2))
    }

    #[test]
    fn comparisons_with_constants_need_no_cast() {
        let (physical, _) = schemas();
        let price = || col("price", &physical).unwrap();
        for op in [Operator::Lt, Operator::GtEq, Operator::Eq, Operator::NotEq] {
            let short = agree(binary(price(), op, decimal(150, 15), &physical).unwrap());
            assert!(!short.to_string().contains("CAST"), "{short}");
        }
        let items = vec![decimal(150, 15), decimal(-7, 15)];
        let short = agree(in_list(price(), items, &false, &physical).unwrap());
        assert!(!short.to_string().contains("CAST"), "{short}");
        let null = lit(ScalarValue::Decimal128(None, 15, 2));
        agree(binary(price(), Operator::Eq, null, &physical).unwrap());
    }

    #[test]
    fn everything_else_is_cast_to_what_it_was() {
        let (physical, _) = schemas();
        let column = |name| col(name, &physical).unwrap();
        let short = agree(column("rate"));
        assert!(short.is::<CastExpr>());
        agree(column("long"));
        agree(binary(column("price"), Operator::Multiply, column("rate"), &physical).unwrap());
        agree(binary(column("price"), Operator::Lt, column("packed"), &physical).unwrap());
        agree(binary(column("long"), Operator::Lt, decimal(150, 38), &physical).unwrap());
        // A column that the file itself declares to have 64 bits.
        let short = agree(column("short"));
        assert!(short.is::<Column>());
        let literal = lit(ScalarValue::Decimal64(Some(150), 15, 2));
        agree(binary(column("short"), Operator::Lt, literal, &physical).unwrap());
        let wide = |column| Arc::new(CastExpr::new(column, DataType::Decimal128(15, 2), None)) as _;
        agree(binary(wide(column("short")), Operator::Lt, column("price"), &physical).unwrap());
        // A constant that 64 bits do not hold, in a type that a faulty plan may have given it.
        agree(binary(column("price"), Operator::Lt, decimal(10i128.pow(20), 15), &physical).unwrap());
    }

    #[test]
    fn values_that_do_not_fit_stay_long_and_nulls_do_not_count() {
        let decimals = |values: Vec<Option<i128>>| -> ArrayRef {
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(15, 2).unwrap())
        };
        let short = shortened_array(&decimals(vec![Some(-7), None, Some(i64::MAX.into())])).unwrap();
        assert_eq!(short.data_type(), &DataType::Decimal64(15, 2));
        assert_eq!(short.as_ref(), &{
            let values = vec![Some(-7), None, Some(i64::MAX)];
            Decimal64Array::from(values).with_precision_and_scale(15, 2).unwrap()
        } as &dyn Array);
        assert!(shortened_array(&decimals(vec![Some(1), Some(i128::from(i64::MAX) + 1)])).is_none());
        let nulls = NullBuffer::from(vec![true, false]);
        let garbage = Decimal128Array::new(vec![5, i128::MAX].into(), Some(nulls));
        let garbage: ArrayRef = Arc::new(garbage.with_precision_and_scale(15, 2).unwrap());
        assert_eq!(shortened_array(&garbage).unwrap().null_count(), 1);
    }

    #[test]
    fn types_of_results_are_those_of_the_file() {
        let (physical, decoding) = schemas();
        let over = over_short_columns(col("price", &physical).unwrap(), &physical, &decoding).unwrap();
        assert_eq!(over.data_type(&decoding).unwrap(), DataType::Decimal128(15, 2));
        let batch = RecordBatch::new_empty(decoding);
        let array = over.evaluate(&batch).unwrap().into_array(0).unwrap();
        assert!(array.as_primitive_opt::<datafusion::arrow::datatypes::Decimal128Type>().is_some());
    }
}
