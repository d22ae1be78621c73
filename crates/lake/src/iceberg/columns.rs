//! The columns of an Iceberg table as those of Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use coscan_datafusion::as_uuid;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{DataFusionError, Result, not_impl_err};

use super::metadata::{self, Nested, Type};
use super::values;
use crate::field_ids::{Defaults, ID};

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

/// Returns the values of columns, and of fields inside of them, in files without them.
///
/// # Errors
/// If a value is not of the type of its field.
pub(super) fn defaults(columns: &[metadata::Field]) -> Result<Defaults> {
    let mut found = Defaults::new();
    add_defaults(columns, &mut found)?;
    Ok(found)
}

fn add_defaults(fields: &[metadata::Field], found: &mut Defaults) -> Result<()> {
    for field in fields {
        // A field of a type that cannot be read is not read.
        if let (Some(default), Ok(of)) = (&field.initial_default, arrow_type(&field.data_type)) {
            let of_field = |error: DataFusionError| error.context(format!("the field {}", field.name));
            found.insert(field.id, values::from_json(default, &of).map_err(of_field)?);
        }
        add_defaults_inside(&field.data_type, found)?;
    }
    Ok(())
}

fn add_defaults_inside(of: &Type, found: &mut Defaults) -> Result<()> {
    let Type::Nested(nested) = of else { return Ok(()) };
    match &**nested {
        Nested::Struct { fields } => add_defaults(fields, found),
        Nested::List { element, .. } => add_defaults_inside(element, found),
        Nested::Map { key, value, .. } => {
            add_defaults_inside(key, found)?;
            add_defaults_inside(value, found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_at_every_depth() {
        let fields = serde_json::json!([
            {"id": 1, "name": "u", "required": false, "type": "uuid",
             "initial-default": "f79c3e09-677c-4bbd-a479-3f349cb785e7"},
            {"id": 2, "name": "m", "required": false, "type": {"type": "map", "key-id": 3, "key": "string",
             "value-id": 4, "value-required": false, "value": {"type": "struct", "fields": [
                {"id": 5, "name": "d", "required": false, "type": "date", "initial-default": "2017-11-16"}
             ]}}},
            {"id": 6, "name": "v", "required": false, "type": "variant", "initial-default": "x"}
        ]);
        let fields: Vec<metadata::Field> = serde_json::from_value(fields).expect("fields");
        let found = defaults(&fields).expect("defaults");
        let mut ids: Vec<i32> = found.keys().copied().collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 5]);
        assert_eq!(found[&5].to_string(), "2017-11-16");
    }

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
