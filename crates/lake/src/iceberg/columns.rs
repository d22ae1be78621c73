//! The columns of an Iceberg table as those of Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use coscan_datafusion::as_uuid;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{Result, ScalarValue, not_impl_err};

use super::metadata::{self, Nested, Type};
use super::values;
use crate::field_ids::ID;

/// Returns the column with its id, in the form in which it is read from files.
///
/// # Errors
/// If values of its type cannot be read.
pub(super) fn column(field: &metadata::Field) -> Result<FieldRef> {
    let read = match arrow_type(&field.data_type)? {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        nested => nested,
    };
    let column = with_id(&field.name, field.id, read, field.required);
    Ok(match &field.data_type {
        Type::Primitive(name) if name == "uuid" => Arc::new(as_uuid(column.as_ref().clone())),
        _ => column,
    })
}

fn with_id(name: &str, id: i32, data_type: DataType, required: bool) -> FieldRef {
    let id = HashMap::from([(ID.to_owned(), id.to_string())]);
    Arc::new(Field::new(name, data_type, !required).with_metadata(id))
}

/// The type in memory.
pub(super) fn arrow_type(of: &Type) -> Result<DataType> {
    let name = match of {
        Type::Primitive(name) => name.as_str(),
        Type::Nested(nested) => return nested_type(nested),
    };
    let utc = || Some("UTC".into());
    Ok(match name {
        "boolean" => DataType::Boolean,
        "int" => DataType::Int32,
        "long" => DataType::Int64,
        "float" => DataType::Float32,
        "double" => DataType::Float64,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, utc()),
        "timestamp_ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "timestamptz_ns" => DataType::Timestamp(TimeUnit::Nanosecond, utc()),
        "string" => DataType::Utf8,
        "binary" => DataType::Binary,
        "uuid" => DataType::FixedSizeBinary(16),
        _ => return sized_type(name),
    })
}

/// `decimal(9, 2)` or `fixed[16]`.
fn sized_type(name: &str) -> Result<DataType> {
    let inside = |start: &str, end: char| name.strip_prefix(start)?.strip_suffix(end);
    let decimal = inside("decimal(", ')').and_then(|sizes| {
        let (precision, scale) = sizes.split_once(',')?;
        Some(DataType::Decimal128(precision.trim().parse().ok()?, scale.trim().parse().ok()?))
    });
    let fixed = || Some(DataType::FixedSizeBinary(inside("fixed[", ']')?.trim().parse().ok()?));
    match decimal.or_else(fixed) {
        Some(found) => Ok(found),
        None => not_impl_err!("values of the type {name} cannot be read yet"),
    }
}

fn nested_type(of: &Nested) -> Result<DataType> {
    Ok(match of {
        Nested::Struct { fields } => {
            let of = |field: &metadata::Field| {
                Ok(with_id(&field.name, field.id, arrow_type(&field.data_type)?, field.required))
            };
            DataType::Struct(fields.iter().map(of).collect::<Result<_>>()?)
        }
        Nested::List { element_id, element_required, element } => {
            DataType::List(with_id("element", *element_id, arrow_type(element)?, *element_required))
        }
        Nested::Map { key_id, key, value_id, value_required, value } => {
            let key = with_id("key", *key_id, arrow_type(key)?, true);
            let value = with_id("value", *value_id, arrow_type(value)?, *value_required);
            let pair = DataType::Struct(vec![key, value].into());
            DataType::Map(Arc::new(Field::new("key_value", pair, false)), false)
        }
    })
}

/// Returns the values of columns in files without them, by the id of the column.
///
/// # Errors
/// If the value of a column is not of its type, or a field of a struct has one.
pub(super) fn defaults(columns: &[metadata::Field]) -> Result<HashMap<i32, ScalarValue>> {
    let mut found = HashMap::new();
    for column in columns {
        if let Some(default) = &column.initial_default {
            found.insert(column.id, values::from_json(default, &arrow_type(&column.data_type)?)?);
        }
        if has_default_inside(&column.data_type) {
            return not_impl_err!("the column {} has fields with initial defaults", column.name);
        }
    }
    Ok(found)
}

fn has_default_inside(of: &Type) -> bool {
    let Type::Nested(nested) = of else { return false };
    match &**nested {
        Nested::Struct { fields } => {
            fields.iter().any(|field| field.initial_default.is_some() || has_default_inside(&field.data_type))
        }
        Nested::List { element, .. } => has_default_inside(element),
        Nested::Map { key, value, .. } => has_default_inside(key) || has_default_inside(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_name() {
        let of = |name: &str| arrow_type(&Type::Primitive(name.to_owned()));
        assert_eq!(of("decimal(9, 2)").expect("a type"), DataType::Decimal128(9, 2));
        assert_eq!(of("decimal(38,10)").expect("a type"), DataType::Decimal128(38, 10));
        assert_eq!(of("fixed[7]").expect("a type"), DataType::FixedSizeBinary(7));
        for unknown in ["variant", "geometry(srid:0)", "unknown", "decimal(x,2)"] {
            let error = of(unknown).expect_err(unknown).to_string();
            assert!(error.contains(unknown), "{error}");
        }
    }
}
