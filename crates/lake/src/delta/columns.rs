//! The columns of a Delta table: as queries see them, and as files name them.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::not_impl_err;
use datafusion::datasource::table_schema::TableSchema;
use delta_kernel::SnapshotRef;
use delta_kernel::engine::arrow_conversion::TryIntoArrow;
use delta_kernel::scan::Scan;
use delta_kernel::schema::DataType as KernelType;
use delta_kernel::table_features::ColumnMappingMode;

use super::log::ReadError;
use crate::snapshot::Place;

/// The columns of a version.
pub(super) struct Columns {
    pub(super) schema: SchemaRef,
    pub(super) stored: TableSchema,
    /// The position of each column in `stored`, or the reason why it cannot be read.
    pub(super) places: Vec<Place>,
}

/// Returns the columns of a version.
pub(super) fn columns(kernel: &SnapshotRef, scan: &Scan) -> Result<Columns, ReadError> {
    let configuration = kernel.table_configuration();
    let mode = configuration.column_mapping_mode();
    if mode == ColumnMappingMode::Id {
        return Ok(not_impl_err!("its columns are mapped by field id (delta.columnMapping.mode = id)")?);
    }
    let keys: HashSet<&str> = configuration.logical_partition_columns().iter().map(String::as_str).collect();
    let logical: Schema = scan.logical_schema().as_ref().try_into_arrow()?;
    let in_files: Schema = scan.physical_schema().as_ref().try_into_arrow()?;
    let mut in_files = in_files.fields().iter();
    let (mut files, mut constants) = (Vec::new(), Vec::new());
    let (mut fields, mut names) = (Vec::new(), Vec::new());
    for (kernel, field) in scan.logical_schema().fields().zip(logical.fields()) {
        let name = kernel.physical_name(mode);
        if keys.contains(field.name().as_str()) {
            let stored = plain(field);
            constants.push(Arc::new(Field::new(name, stored.data_type().clone(), stored.is_nullable())));
            fields.push(stored);
            names.push(Ok(name));
        } else {
            let Some(in_file) = in_files.next() else {
                return Ok(not_impl_err!("its column {} is in no file", field.name())?);
            };
            let stored = viewed(plain(in_file));
            files.push(Arc::clone(&stored));
            let reason = match same_names(field.data_type(), in_file.data_type()) {
                _ if has_variant(kernel.data_type()) => Some("values of the type variant"),
                false => Some("fields that were renamed"),
                true => None,
            };
            names.push(match reason {
                Some(reason) => {
                    Err(format!("the column {} has {reason}: they cannot be read yet", field.name()))
                }
                None => Ok(name),
            });
            fields.push(Arc::new(Field::new(field.name(), stored.data_type().clone(), field.is_nullable())));
        }
    }
    let stored =
        TableSchema::builder(Arc::new(Schema::new(files))).with_table_partition_cols(constants).build();
    let place = |name: Result<&str, String>| match name {
        Ok(name) => Ok(Ok(stored.table_schema().index_of(name)?)),
        Err(reason) => Ok(Err(reason)),
    };
    let places = names.into_iter().map(place).collect::<Result<Vec<Place>, ReadError>>()?;
    Ok(Columns { schema: Arc::new(Schema::new(fields)), stored, places })
}

/// The field without the format's notes, at every depth.
fn plain(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain_type(field.data_type()), field.is_nullable()))
}

fn plain_type(of: &DataType) -> DataType {
    let all = |fields: &Fields| fields.iter().map(plain).collect::<Fields>();
    match of {
        DataType::Struct(fields) => DataType::Struct(all(fields)),
        DataType::List(item) => DataType::List(plain(item)),
        DataType::LargeList(item) => DataType::LargeList(plain(item)),
        DataType::Map(entries, sorted) => DataType::Map(plain(entries), *sorted),
        other => other.clone(),
    }
}

/// Returns whether a type is variant, or has one inside of it.
fn has_variant(of: &KernelType) -> bool {
    match of {
        KernelType::Variant(_) => true,
        KernelType::Struct(inner) => inner.fields().any(|field| has_variant(field.data_type())),
        KernelType::Array(list) => has_variant(&list.element_type),
        KernelType::Map(map) => has_variant(&map.key_type) || has_variant(&map.value_type),
        _ => false,
    }
}

/// The field in the form in which texts are read from files.
fn viewed(field: FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        _ => return field,
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
}

/// Returns whether the fields inside of two types have the same names.
fn same_names(a: &DataType, b: &DataType) -> bool {
    let inside = |a: &FieldRef, b: &FieldRef| same_names(a.data_type(), b.data_type());
    match (a, b) {
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.name() == b.name() && inside(a, b))
        }
        (DataType::List(a), DataType::List(b)) | (DataType::Map(a, _), DataType::Map(b, _)) => inside(a, b),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_found_at_every_depth() {
        let of = |kind: &str| {
            let text = format!(
                r#"{{"type":"struct","fields":[{{"name":"m","nullable":true,"metadata":{{}},"type":{{"type":"map",
                "keyType":"string","valueType":"{kind}","valueContainsNull":true}}}}]}}"#
            );
            serde_json::from_str::<KernelType>(&text).expect(kind)
        };
        assert!(has_variant(&of("variant")) && !has_variant(&of("binary")));
    }

    #[test]
    fn renamed_fields_are_found_at_every_depth() {
        let of = |name: &str| {
            let inner = Fields::from(vec![Field::new(name, DataType::Int32, true)]);
            let item = Arc::new(Field::new("element", DataType::Struct(inner), true));
            DataType::Struct(Fields::from(vec![Field::new("list", DataType::List(item), true)]))
        };
        assert!(same_names(&of("a"), &of("a")) && same_names(&DataType::Int8, &DataType::Int16));
        assert!(!same_names(&of("a"), &of("b")));
    }
}
