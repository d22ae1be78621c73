//! Floating-point numbers with one NaN and one zero.
//!
//! Arrow compares floating-point numbers by their bits, which differ between NaNs and between zeros. The sign
//! of a NaN may differ: x86 processors set it for 0.0 / 0.0. Bits without a meaning may differ too. A zero has a
//! sign after a multiplication by a negative number, or after rounding. Writers keep these bits. With a single
//! NaN, it is equal to itself and the greatest number, and with a single zero, 0.0 is equal to -0.0, as in other
//! engines.

use std::sync::Arc;

use arrow::array::{Array, ArrayData, ArrayRef, ArrowNativeTypeOp, AsArray, PrimitiveArray, make_array};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use arrow::error::ArrowError;
use num_traits::Float;

/// Replaces each NaN by the positive quiet NaN, such as [`f64::NAN`], and -0.0 by 0.0, also in nested values.
/// Returns the array itself if it has nothing to replace, which takes one pass over its floating-point values.
///
/// # Errors
/// The nested array contradicts its type, which does not happen for arrays that Arrow made.
pub fn with_canonical_floats(array: ArrayRef) -> Result<ArrayRef, ArrowError> {
    Ok(if has_floats(array.data_type()) { changed(&array)?.unwrap_or(array) } else { array })
}

/// The changed array; `None` if nothing has to be changed.
fn changed(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    match array.data_type() {
        DataType::Float16 => Ok(changed_floats::<Float16Type>(array)),
        DataType::Float32 => Ok(changed_floats::<Float32Type>(array)),
        DataType::Float64 => Ok(changed_floats::<Float64Type>(array)),
        _ => changed_children(array),
    }
}

fn changed_floats<T>(array: &ArrayRef) -> Option<ArrayRef>
where
    T: ArrowPrimitiveType<Native: Float>,
{
    let floats = array.as_primitive::<T>();
    let (nan, zero, negative_zero) = (T::Native::nan(), T::Native::ZERO, T::Native::neg_zero());
    let is_other = |value: T::Native| value.is_nan() & value.is_ne(nan) | value.is_eq(negative_zero);
    // Without a branch, so that several values are compared at a time.
    if !floats.values().iter().fold(false, |any, value| any | is_other(*value)) {
        return None;
    }
    let one: PrimitiveArray<T> = floats.unary(|value| match value {
        _ if value.is_nan() => nan,
        _ if value == zero => zero,
        _ => value,
    });
    Some(Arc::new(one))
}

fn changed_children(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let data = array.to_data();
    let mut any = false;
    let child = |child: &ArrayData| {
        let child = make_array(child.clone());
        let one = if has_floats(child.data_type()) { changed(&child)? } else { None };
        any |= one.is_some();
        Ok(one.unwrap_or(child).into_data())
    };
    let children = data.child_data().iter().map(child).collect::<Result<Vec<_>, ArrowError>>()?;
    Ok(if any { Some(make_array(data.into_builder().child_data(children).build()?)) } else { None })
}

/// Returns whether values of the type are or contain floating-point numbers.
pub fn has_floats(of: &DataType) -> bool {
    match of {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => has_floats(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_floats(field.data_type())),
        DataType::Dictionary(_, values) => has_floats(values),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        DictionaryArray, FixedSizeListArray, Float16Array, Float32Array, Float64Array, Int8Array, ListArray,
        StructArray,
    };
    use arrow::datatypes::{Field, Int32Type};
    use num_traits::{One, Zero};

    use super::*;

    type Half = <Float16Type as ArrowPrimitiveType>::Native;

    const NEGATIVE: f64 = f64::from_bits(0xfff8_0000_0000_0000);
    const ODD: f64 = f64::from_bits(0x7ff8_0000_0000_0001);

    fn bits(array: &dyn Array) -> Vec<Option<u64>> {
        array.as_primitive::<Float64Type>().iter().map(|value| value.map(f64::to_bits)).collect()
    }

    fn floats() -> ArrayRef {
        Arc::new(Float64Array::from(vec![
            Some(-0.0),
            Some(NEGATIVE),
            None,
            Some(ODD),
            Some(f64::NEG_INFINITY),
        ]))
    }

    fn one() -> Vec<Option<u64>> {
        [Some(0.0), Some(f64::NAN), None, Some(f64::NAN), Some(f64::NEG_INFINITY)]
            .map(|value| value.map(f64::to_bits))
            .to_vec()
    }

    #[test]
    fn nans_and_zeros_become_the_same_and_all_else_stays() {
        assert_eq!(bits(&with_canonical_floats(floats()).unwrap()), one());
        assert_eq!(bits(&with_canonical_floats(floats().slice(1, 3)).unwrap()), one()[1..4]);
        let short: ArrayRef = Arc::new(Float32Array::from(vec![-f32::NAN, -0.0, -1.0]));
        let short = with_canonical_floats(short).unwrap();
        let bits = short.as_primitive::<Float32Type>().values().iter().map(|value| value.to_bits());
        assert!(bits.eq([f32::NAN, 0.0, -1.0].map(f32::to_bits)));
        let half: ArrayRef = Arc::new(Float16Array::from(vec![Half::neg_zero(), -Half::one()]));
        let half = with_canonical_floats(half).unwrap();
        let bits = half.as_primitive::<Float16Type>().values().iter().map(|value| value.to_bits());
        assert!(bits.eq([Half::zero(), -Half::one()].map(Half::to_bits)));
    }

    #[test]
    fn an_array_with_canonical_floats_stays_itself() {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, -1.0, 0.0]));
        assert!(Arc::ptr_eq(&array, &with_canonical_floats(Arc::clone(&array)).unwrap()));
    }

    #[test]
    fn nested_values_change_too() {
        let item = Arc::new(Field::new("item", DataType::Float64, true));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([
            Some(vec![Some(1.0), Some(NEGATIVE)]),
            None,
            Some(vec![None, Some(ODD)]),
        ]));
        let lists = with_canonical_floats(lists.slice(1, 2)).unwrap();
        assert!(lists.is_null(0));
        assert_eq!(bits(&lists.as_list::<i32>().value(1)), [None, Some(f64::NAN.to_bits())]);

        let fixed = FixedSizeListArray::new(Arc::clone(&item), 5, floats(), None);
        let field = Arc::new(Field::new("f", fixed.data_type().clone(), true));
        let count = Arc::new(Field::new("n", DataType::Int8, true));
        let columns: Vec<ArrayRef> = vec![Arc::new(fixed), Arc::new(Int8Array::from(vec![7]))];
        let structs: ArrayRef = Arc::new(StructArray::from(vec![
            (field, Arc::clone(&columns[0])),
            (count, Arc::clone(&columns[1])),
        ]));
        let structs = with_canonical_floats(structs).unwrap();
        assert_eq!(bits(&structs.as_struct().column(0).as_fixed_size_list().value(0)), one());
        assert_eq!(structs.as_struct().column(1), &columns[1]);

        let keys = vec![Some(1), None, Some(3)].into();
        let keyed: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, floats()));
        let keyed = with_canonical_floats(keyed).unwrap();
        assert_eq!(bits(keyed.as_dictionary::<Int32Type>().values()), one());
    }
}
