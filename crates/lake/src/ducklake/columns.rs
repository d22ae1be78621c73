//! The columns of a version.

use std::collections::HashMap;
use std::sync::Arc;

use coscan_datafusion::as_uuid;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, not_impl_err};

use super::stored::{from_blob, from_hexadecimal, is_of_version, is_true};
use crate::catalog::database::Reading;
use crate::field_ids::{Defaults, ID};

/// The columns of a version.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) all: Vec<Column>,
    /// The values of fields inside of columns in files without them.
    pub(super) defaults_inside: Defaults,
}

/// A column, or the reason why it cannot be read.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) id: i32,
    pub(super) name: String,
    /// The column in files. Its type is null if it cannot be read.
    pub(super) field: FieldRef,
    pub(super) unreadable: Option<String>,
    /// The value in files without it.
    pub(super) default: Option<ScalarValue>,
}

/// A column or a field inside of one, as the database has it.
struct Stored {
    id: i32,
    name: String,
    data_type: String,
    default: Option<String>,
    nullable: bool,
    parent: Option<i32>,
}

impl Stored {
    /// The value in files without the field.
    fn default(&self, of: &DataType) -> Result<Option<ScalarValue>> {
        let Some(text) = self.default.as_deref().filter(|text| *text != "NULL") else { return Ok(None) };
        let value = match of {
            DataType::Binary => from_blob(text).map(|bytes| ScalarValue::Binary(Some(bytes))),
            DataType::FixedSizeBinary(size) => from_hexadecimal(&text.replace('-', ""))
                .map(|bytes| ScalarValue::FixedSizeBinary(*size, Some(bytes))),
            _ => ScalarValue::from(text).cast_to(of),
        };
        value.map(Some).map_err(|error| error.context(format!("the default '{text}' of {}", self.name)))
    }
}

/// Adds the defaults of the fields inside of a column.
fn add_defaults_inside(of: &Stored, inside: &HashMap<i32, Vec<&Stored>>, found: &mut Defaults) -> Result<()> {
    for field in inside.get(&of.id).into_iter().flatten() {
        if let Some(default) = field.default(&type_of(field, inside)?)? {
            found.insert(field.id, default);
        }
        add_defaults_inside(field, inside, found)?;
    }
    Ok(())
}

impl Columns {
    /// Reads the columns of a table in a version.
    pub(super) async fn read(reading: &mut Reading<'_>, (table, version): (&str, u64)) -> Result<Self> {
        let sql = format!(
            "SELECT CAST(column_id AS TEXT), column_name, column_type, initial_default, CAST(nulls_allowed AS TEXT), \
             CAST(parent_column AS TEXT) FROM ducklake_column c \
             WHERE {} AND table_id = CAST($2 AS BIGINT) ORDER BY column_order, column_id",
            is_of_version("c")
        );
        let rows = reading.rows::<6>(&sql, &[&version.to_string(), table]).await?;
        let of = |[id, name, data_type, default, nullable, parent]: [Option<String>; 6]| {
            Some(Stored {
                id: id?.parse().ok()?,
                name: name?,
                data_type: data_type?.to_lowercase(),
                default,
                nullable: is_true(nullable.as_deref()),
                parent: parent.map(|parent| parent.parse()).transpose().ok()?,
            })
        };
        let Some(stored) = rows.into_iter().map(of).collect::<Option<Vec<_>>>() else {
            return exec_err!("the catalog has columns without a number, a name or a type");
        };
        let mut inside: HashMap<i32, Vec<&Stored>> = HashMap::new();
        for field in &stored {
            if let Some(parent) = field.parent {
                inside.entry(parent).or_default().push(field);
            }
        }
        let outer = stored.iter().filter(|field| field.parent.is_none());
        let mut defaults_inside = Defaults::new();
        let all = outer.map(|field| {
            let mut read = || {
                let data_type = type_of(field, &inside)?;
                add_defaults_inside(field, &inside, &mut defaults_inside)?;
                Ok::<_, DataFusionError>((field.default(&data_type)?, data_type))
            };
            let (unreadable, (default, data_type)) = match read() {
                Ok(read) => (None, read),
                Err(error) => {
                    let reason = format!("the column {}: {}", field.name, error.strip_backtrace());
                    (Some(reason), (None, DataType::Null))
                }
            };
            let nullable = field.nullable || unreadable.is_some();
            let viewed = match data_type {
                DataType::Utf8 => DataType::Utf8View,
                DataType::Binary => DataType::BinaryView,
                other => other,
            };
            let of_file = with_id(&field.name, field.id, viewed, nullable);
            Column { id: field.id, name: field.name.clone(), field: of_file, unreadable, default }
        });
        let all = all.collect();
        Ok(Columns { all, defaults_inside })
    }

    /// The columns as queries see them.
    pub(super) fn fields_of_queries(&self) -> Vec<FieldRef> {
        let plain = |column: &Column| {
            let field = column.field.as_ref().clone().with_metadata(HashMap::new());
            // Other bytes have no fixed size.
            let is_uuid = *field.data_type() == DataType::FixedSizeBinary(16);
            Arc::new(if is_uuid { as_uuid(field) } else { field })
        };
        self.all.iter().map(plain).collect()
    }
}

fn with_id(name: &str, id: i32, data_type: DataType, nullable: bool) -> FieldRef {
    let id = HashMap::from([(ID.to_owned(), id.to_string())]);
    Arc::new(Field::new(name, data_type, nullable).with_metadata(id))
}

/// The type in memory.
fn type_of(of: &Stored, inside: &HashMap<i32, Vec<&Stored>>) -> Result<DataType> {
    let children = || -> Result<Vec<FieldRef>> {
        let children = inside.get(&of.id).map(Vec::as_slice).unwrap_or_default();
        // The catalog allows no nulls in fields that were added, and files without them have nulls.
        children
            .iter()
            .map(|child| Ok(with_id(&child.name, child.id, type_of(child, inside)?, true)))
            .collect()
    };
    Ok(match of.data_type.as_str() {
        "boolean" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float32" => DataType::Float32,
        "float64" => DataType::Float64,
        "date" => DataType::Date32,
        "time" => DataType::Time64(TimeUnit::Microsecond),
        "timestamp" | "timestamp_us" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "timestamp_s" => DataType::Timestamp(TimeUnit::Second, None),
        "timestamp_ms" => DataType::Timestamp(TimeUnit::Millisecond, None),
        "timestamp_ns" => DataType::Timestamp(TimeUnit::Nanosecond, None),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        "varchar" | "json" => DataType::Utf8,
        "blob" => DataType::Binary,
        "uuid" => DataType::FixedSizeBinary(16),
        "struct" => DataType::Struct(children()?.into()),
        "list" => match &children()?[..] {
            [element] => DataType::List(Arc::clone(element)),
            _ => return exec_err!("its list has not one element"),
        },
        "map" => match &children()?[..] {
            [key, value] => {
                let key = Arc::new(key.as_ref().clone().with_nullable(false));
                let pair = DataType::Struct(Fields::from(vec![key, Arc::clone(value)]));
                DataType::Map(Arc::new(Field::new("key_value", pair, false)), false)
            }
            _ => return exec_err!("its map has no key and value"),
        },
        other => match decimal(other) {
            Some(decimal) => decimal,
            None => return not_impl_err!("values of the type {other} cannot be read yet"),
        },
    })
}

/// `decimal(12,2)`.
fn decimal(text: &str) -> Option<DataType> {
    let (precision, scale) = text.strip_prefix("decimal(")?.strip_suffix(')')?.split_once(',')?;
    Some(DataType::Decimal128(precision.trim().parse().ok()?, scale.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(data_type: &str, default: Option<&str>) -> Stored {
        Stored {
            id: 1,
            name: "c".to_owned(),
            data_type: data_type.to_owned(),
            default: default.map(str::to_owned),
            nullable: true,
            parent: None,
        }
    }

    #[test]
    fn defaults_as_duckdb_writes_them() {
        let of = |kind: &str, text: &str| {
            let stored = stored(kind, Some(text));
            stored.default(&type_of(&stored, &HashMap::new())?)
        };
        assert_eq!(of("blob", "\\xAA").expect("bytes"), Some(ScalarValue::Binary(Some(vec![0xaa]))));
        let uuid = of("uuid", "00000000-0000-0000-0000-000000000007").expect("a UUID");
        assert!(matches!(uuid, Some(ScalarValue::FixedSizeBinary(16, Some(bytes))) if bytes[15] == 7));
        assert_eq!(of("date", "2024-02-29").expect("a date").expect("a value").to_string(), "2024-02-29");
        assert_eq!(of("int32", "NULL").expect("no value"), None);
        let error = of("date", "infinity").expect_err("no date").to_string();
        assert!(error.contains("infinity"), "{error}");
    }

    #[test]
    fn types_by_name() {
        let of = |name: &str| type_of(&stored(name, None), &HashMap::new());
        assert_eq!(of("decimal(12,2)").expect("a type"), DataType::Decimal128(12, 2));
        assert_eq!(of("uint64").expect("a type"), DataType::UInt64);
        for unknown in ["int128", "geometry", "variant", "decimal(x,2)", "list", "map"] {
            of(unknown).expect_err(unknown);
        }
    }
}
