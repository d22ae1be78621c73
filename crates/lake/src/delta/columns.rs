//! The columns of a Delta table: as queries see them, and as files name them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::{exec_datafusion_err, not_impl_err};
use datafusion::datasource::table_schema::TableSchema;
use delta_kernel::SnapshotRef;
use delta_kernel::engine::arrow_conversion::TryIntoArrow;
use delta_kernel::scan::Scan;
use delta_kernel::schema::{ColumnMetadataKey, DataType as KernelType, StructField, StructType};
use delta_kernel::table_features::ColumnMappingMode;

use super::log::ReadError;
use crate::field_ids::{ELEMENT, FieldIdAdapters, ID, KEY, VALUE};
use crate::snapshot::Place;

/// The columns of a version.
pub(super) struct Columns {
    pub(super) schema: SchemaRef,
    pub(super) stored: TableSchema,
    /// The position of each column in `stored`, or the reason why it cannot be read.
    pub(super) places: Vec<Place>,
    /// Finds columns by ids, and those inside of others. `None` if names of columns suffice.
    pub(super) by_id: Option<FieldIdAdapters>,
}

/// Returns the columns of a version.
pub(super) fn columns(kernel: &SnapshotRef, scan: &Scan) -> Result<Columns, ReadError> {
    let configuration = kernel.table_configuration();
    let mode = configuration.column_mapping_mode();
    let keys: HashSet<&str> = configuration.logical_partition_columns().iter().map(String::as_str).collect();
    let logical: Schema = scan.logical_schema().as_ref().try_into_arrow()?;
    let in_files: Schema = scan.physical_schema().as_ref().try_into_arrow()?;
    let by_id = adapters(mode, scan.logical_schema())?;
    let is_by_id = by_id.is_some();
    let mut in_files = in_files.fields().iter();
    let (mut files, mut constants) = (Vec::new(), Vec::new());
    let (mut fields, mut names) = (Vec::new(), Vec::new());
    for (kernel, field) in scan.logical_schema().fields().zip(logical.fields()) {
        let name = kernel.physical_name(mode);
        if keys.contains(field.name().as_str()) {
            let stored = plain(field, false);
            constants.push(Arc::new(Field::new(name, stored.data_type().clone(), stored.is_nullable())));
            fields.push(stored);
            names.push(Ok(name));
        } else {
            let Some(in_file) = in_files.next() else {
                return Ok(not_impl_err!("its column {} is in no file", field.name())?);
            };
            let stored = match is_by_id {
                true => viewed(Arc::new(plain(field, true).as_ref().clone().with_name(name))),
                false => viewed(plain(in_file, false)),
            };
            files.push(Arc::clone(&stored));
            names.push(match has_variant(kernel.data_type()) {
                true => Err(format!(
                    "the column {} has values of the type variant: they cannot be read yet",
                    field.name()
                )),
                false => Ok(name),
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
    Ok(Columns { schema: Arc::new(Schema::new(fields)), stored, places, by_id })
}

/// Returns what finds columns of files by id: all of them if the table says so, and fields inside of columns that may have
/// another name in files. For the latter ids in files are not believed, as the format says.
fn adapters(mode: ColumnMappingMode, columns: &StructType) -> Result<Option<FieldIdAdapters>, ReadError> {
    let is_nested =
        |field: &StructField| !matches!(field.data_type(), KernelType::Primitive(_) | KernelType::Variant(_));
    let by_name = match mode {
        ColumnMappingMode::None => return Ok(None),
        ColumnMappingMode::Name if !columns.fields().any(is_nested) => return Ok(None),
        ColumnMappingMode::Name => true,
        ColumnMappingMode::Id => false,
    };
    let mut names = HashMap::new();
    add_names(mode, columns, &[], &mut names)?;
    Ok(Some(FieldIdAdapters { by_name, names, ..FieldIdAdapters::default() }))
}

/// The ids of the names that files have.
fn add_names(
    mode: ColumnMappingMode,
    fields: &StructType,
    outer: &[String],
    names: &mut HashMap<Vec<String>, i32>,
) -> Result<(), ReadError> {
    for field in fields.fields() {
        let path = [outer, &[field.physical_name(mode).to_owned()]].concat();
        let id = field.column_mapping_id().and_then(|id| i32::try_from(id).ok());
        let id = id.ok_or_else(|| exec_datafusion_err!("its column {} has no field id", field.name()))?;
        add_names_inside(mode, field.data_type(), &path, names)?;
        names.insert(path, id);
    }
    Ok(())
}

fn add_names_inside(
    mode: ColumnMappingMode,
    of: &KernelType,
    path: &[String],
    names: &mut HashMap<Vec<String>, i32>,
) -> Result<(), ReadError> {
    let below = |word: &str| [path, &[word.to_owned()]].concat();
    match of {
        KernelType::Struct(fields) => add_names(mode, fields, path, names),
        KernelType::Array(list) => add_names_inside(mode, list.element_type(), &below(ELEMENT), names),
        KernelType::Map(map) => {
            add_names_inside(mode, map.key_type(), &below(KEY), names)?;
            add_names_inside(mode, map.value_type(), &below(VALUE), names)
        }
        _ => Ok(()),
    }
}

/// The field without the format's notes, at every depth, except for ids if they are wanted.
fn plain(field: &FieldRef, ids: bool) -> FieldRef {
    let id = field.metadata().get(ColumnMetadataKey::ColumnMappingId.as_ref()).filter(|_| ids);
    let plain = Field::new(field.name(), plain_type(field.data_type(), ids), field.is_nullable());
    Arc::new(plain.with_metadata(id.map(|id| (ID.to_owned(), id.clone())).into_iter().collect()))
}

fn plain_type(of: &DataType, ids: bool) -> DataType {
    let all = |fields: &Fields| fields.iter().map(|field| plain(field, ids)).collect::<Fields>();
    match of {
        DataType::Struct(fields) => DataType::Struct(all(fields)),
        DataType::List(item) => DataType::List(plain(item, ids)),
        DataType::LargeList(item) => DataType::LargeList(plain(item, ids)),
        DataType::Map(entries, sorted) => DataType::Map(plain(entries, ids), *sorted),
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
    Arc::new(field.as_ref().clone().with_data_type(data_type))
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
    fn names_in_files_at_every_depth() {
        let notes = |id: i64, name: &str| {
            format!(r#"{{"delta.columnMapping.id":{id},"delta.columnMapping.physicalName":"{name}"}}"#)
        };
        let field = |name: &str, kind: &str, notes: &str| {
            format!(r#"{{"name":"{name}","nullable":true,"metadata":{notes},"type":{kind}}}"#)
        };
        let inner =
            format!(r#"{{"type":"struct","fields":[{}]}}"#, field("new", r#""integer""#, &notes(2, "old")));
        let list = format!(
            r#"{{"type":"array","elementType":{{"type":"map","keyType":"string","valueType":{inner},
            "valueContainsNull":true}},"containsNull":true}}"#
        );
        let column = field("l", &list, &notes(1, "col-1"));
        let columns: StructType =
            serde_json::from_str(&format!(r#"{{"type":"struct","fields":[{column}]}}"#)).expect("columns");
        let of = |mode| adapters(mode, &columns).ok().expect("adapters");
        let found = of(ColumnMappingMode::Name).expect("renamed fields");
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let expected = [(path(&["col-1"]), 1), (path(&["col-1", ELEMENT, VALUE, "old"]), 2)];
        assert_eq!((found.by_name, found.names), (true, HashMap::from(expected)));
        assert!(
            of(ColumnMappingMode::None).is_none() && of(ColumnMappingMode::Id).is_some_and(|by| !by.by_name)
        );
    }
}
