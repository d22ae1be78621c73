//! The files of a version, with their deleted rows and bounds.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringArray};
use datafusion::arrow::compute::kernels::cast::CastOptions;
use datafusion::arrow::compute::{cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, not_impl_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use percent_encoding::percent_decode_str;

use super::columns::{Column, Columns};
use super::deletes::DeletedRows;
use super::stored::{below, is_of_version, is_true};
use crate::catalog::database::Reading;
use crate::field_ids::FieldIdAdapters;
use crate::place::Root;
use crate::snapshot::{Bounds, DataFile, Deletes, Layout, Place, Snapshot, as_in_columns, file_meta};

/// A name in a path for a value that is null.
const NO_VALUE: &str = "__HIVE_DEFAULT_PARTITION__";

/// A file with its number.
pub(super) struct NumberedFile {
    number: u64,
    pub(super) file: DataFile,
}

/// The names of columns in files of other writers.
#[derive(Debug, Default)]
struct Mapping {
    /// The ids of names, with the names of outer fields before them.
    names: HashMap<Vec<String>, i32>,
    /// The columns whose value is in the path of the file, by the name there.
    in_path: Vec<(String, i32)>,
}

/// What files with one layout share: their mapping, and the columns with constants.
type LayoutKind = (Option<u64>, BTreeSet<i32>);

/// The name of a column in files of other writers.
struct NameInFiles {
    name: String,
    target: i32,
    /// The number of the outer name.
    parent: Option<u64>,
    in_path: bool,
}

/// Reads the files of a version and the ways in which they have the columns.
pub(super) async fn read(
    reading: &mut Reading<'_>,
    (table, version): (&str, u64),
    columns: &Columns,
    folder: &str,
    root: &Root,
    known: Option<&Snapshot>,
) -> Result<(Vec<NumberedFile>, Vec<Layout>)> {
    let values = [&*version.to_string(), table];
    let deleted = deleted(reading, values, folder, root).await?;
    let mappings = mappings(reading, table).await?;
    let sql = format!(
        "SELECT CAST(data_file_id AS TEXT), path, CAST(path_is_relative AS TEXT), CAST(record_count AS TEXT), \
         CAST(file_size_bytes AS TEXT), CAST(mapping_id AS TEXT), CAST(partial_max AS TEXT), encryption_key, file_format \
         FROM ducklake_data_file f WHERE {} AND table_id = CAST($2 AS BIGINT) ORDER BY data_file_id",
        is_of_version("f")
    );
    let rows = reading.rows::<9>(&sql, &values).await?;
    let listed = known.map(Snapshot::deletes).unwrap_or_default();
    let mut layouts: Vec<(LayoutKind, Layout)> = Vec::new();
    let mut files = Vec::with_capacity(rows.len());
    let none = Mapping::default();
    for [number, path, relative, count, bytes, mapping, partial, key, format] in rows {
        let location = below(folder, path.as_deref(), relative.as_deref());
        check(&location, key.as_deref(), format.as_deref())?;
        let (Some(number), Some(count), Some(bytes)) = (parsed(number), parsed(count), parsed(bytes)) else {
            return exec_err!("the catalog lacks the number, the rows or the size of {location}");
        };
        let mapping_id: Option<u64> = parsed(mapping);
        let mapping = mapping_id.and_then(|id| mappings.get(&id)).unwrap_or(&none);
        let constants = constants(mapping, columns, &location)?;
        let kind = (mapping_id, constants.iter().map(|(id, _)| *id).collect::<BTreeSet<i32>>());
        let layout = match layouts.iter().position(|(known, _)| *known == kind) {
            Some(at) => at,
            None => {
                let layout = layout_of(columns, &kind.1, mapping)?;
                layouts.push((kind, layout));
                layouts.len() - 1
            }
        };
        let (mut own, listed_count) = deleted.get(&number).cloned().unwrap_or_default();
        // Rows of later versions were put into the file of an earlier one.
        own.until = parsed(partial).filter(|last| *last > version).map(|_: u64| version);
        let place = root.path_of(&location)?;
        let counted = match &own.listed {
            _ if own.until.is_some() => None,
            None => Some(own.inlined.len() as u64),
            // A position may be in the file and in the database.
            Some((_, _, None)) if own.inlined.is_empty() => listed_count,
            Some(_) => None,
        };
        let has_deletes = own != DeletedRows::default();
        let deletes = has_deletes.then(|| Deletes::of(own, counted, listed.get(&place)));
        let mut file = PartitionedFile::new_from_meta(file_meta(place, bytes));
        file.partition_values = constants.into_iter().map(|(_, value)| value).collect();
        files.push(NumberedFile { number, file: DataFile { file, layout, rows: Some(count), deletes } });
    }
    let mut layouts: Vec<Layout> = layouts.into_iter().map(|(_, layout)| layout).collect();
    if layouts.is_empty() {
        layouts.push(layout_of(columns, &BTreeSet::new(), &none)?);
    }
    Ok((files, layouts))
}

fn parsed<T: std::str::FromStr>(text: Option<String>) -> Option<T> {
    text?.parse().ok()
}

fn check(location: &str, key: Option<&str>, format: Option<&str>) -> Result<()> {
    if key.is_some() {
        return not_impl_err!("the file {location} is encrypted");
    }
    match format {
        Some(format) if !format.eq_ignore_ascii_case("parquet") => {
            not_impl_err!("the file {location} is of the format {format}")
        }
        _ => Ok(()),
    }
}

/// The deleted rows by the number of the file, with the number of those that a file lists.
async fn deleted(
    reading: &mut Reading<'_>,
    values: [&str; 2],
    folder: &str,
    root: &Root,
) -> Result<HashMap<u64, (DeletedRows, Option<u64>)>> {
    let [version, table] = values;
    let wanted: u64 = version.parse().unwrap_or_default();
    let sql = format!(
        "SELECT CAST(data_file_id AS TEXT), path, CAST(path_is_relative AS TEXT), CAST(file_size_bytes AS TEXT), \
         CAST(partial_max AS TEXT), encryption_key, format, CAST(delete_count AS TEXT) FROM ducklake_delete_file f \
         WHERE {} AND table_id = CAST($2 AS BIGINT)",
        is_of_version("f")
    );
    let newest =
        reading.rows::<1>("SELECT CAST(max(snapshot_id) AS TEXT) FROM ducklake_snapshot", &[]).await?;
    let newest: u64 = newest.into_iter().find_map(|[newest]| parsed(newest)).unwrap_or(wanted);
    let mut found: HashMap<u64, (DeletedRows, Option<u64>)> = HashMap::new();
    for [number, path, relative, bytes, partial, key, format, count] in
        reading.rows::<8>(&sql, &values).await?
    {
        let location = below(folder, path.as_deref(), relative.as_deref());
        check(&location, key.as_deref(), format.as_deref())?;
        let (Some(number), Some(bytes)) = (parsed(number), parsed(bytes)) else {
            return exec_err!("the catalog lacks the number or the size of {location}");
        };
        // A file that was written when rows left the database says only itself that it has several versions.
        let last = parsed(partial).unwrap_or(newest);
        let until = (last > wanted).then_some(wanted);
        let (of_file, listed_count) = found.entry(number).or_default();
        if of_file.listed.is_some() {
            return exec_err!("the catalog has two files of deleted rows for the file {number}");
        }
        of_file.listed = Some((root.path_of(&location)?, bytes, until));
        *listed_count = parsed(count);
    }
    let inlined = format!("ducklake_inlined_delete_{table}");
    if !reading.columns(&inlined).await?.is_empty() {
        let sql = format!(
            "SELECT CAST(file_id AS TEXT), CAST(row_id AS TEXT) FROM {inlined} WHERE begin_snapshot <= CAST($1 AS BIGINT)"
        );
        for [number, row] in reading.rows::<2>(&sql, &[version]).await? {
            let (Some(number), Some(row)) = (parsed(number), parsed(row)) else {
                return exec_err!("the catalog has deleted rows without a position");
            };
            found.entry(number).or_default().0.inlined.push(row);
        }
        for (of_file, _) in found.values_mut() {
            of_file.inlined.sort_unstable();
            of_file.inlined.dedup();
        }
    }
    Ok(found)
}

/// The names of columns in files of other writers, by the number of the mapping.
async fn mappings(reading: &mut Reading<'_>, table: &str) -> Result<HashMap<u64, Mapping>> {
    let sql = "SELECT CAST(m.mapping_id AS TEXT), CAST(n.column_id AS TEXT), n.source_name, CAST(n.target_field_id AS TEXT), \
               CAST(n.parent_column AS TEXT), CAST(n.is_partition AS TEXT) FROM ducklake_name_mapping n \
               JOIN ducklake_column_mapping m ON n.mapping_id = m.mapping_id WHERE m.table_id = CAST($1 AS BIGINT)";
    let mut fields: HashMap<(u64, u64), NameInFiles> = HashMap::new();
    for [mapping, column, name, target, parent, in_path] in reading.rows::<6>(sql, &[table]).await? {
        let in_path = is_true(in_path.as_deref());
        let (Some(mapping), Some(column), Some(name), Some(target)) =
            (parsed(mapping), parsed(column), name, parsed(target))
        else {
            return exec_err!("the catalog has a name in files without a column");
        };
        let parent = parsed(parent);
        fields.insert((mapping, column), NameInFiles { name, target, parent, in_path });
    }
    let mut found: HashMap<u64, Mapping> = HashMap::new();
    for (&(mapping, _), NameInFiles { name, target, parent, in_path }) in &fields {
        let of_mapping = found.entry(mapping).or_default();
        if *in_path {
            of_mapping.in_path.push((name.clone(), *target));
            continue;
        }
        let mut path = vec![name.clone()];
        let mut outer = *parent;
        while let Some(NameInFiles { name, parent, .. }) =
            outer.and_then(|outer| fields.get(&(mapping, outer)))
        {
            path.insert(0, name.clone());
            // The names of a column have no circle, unless the catalog is damaged.
            outer = parent.filter(|_| path.len() <= fields.len());
        }
        of_mapping.names.insert(path, *target);
    }
    Ok(found)
}

/// The values that the path of a file says, by the id of the column.
fn constants(mapping: &Mapping, columns: &Columns, location: &str) -> Result<Vec<(i32, ScalarValue)>> {
    let mut found = Vec::new();
    for (name, id) in &mapping.in_path {
        let Some(column) = columns.all.iter().find(|column| column.id == *id) else { continue };
        if column.unreadable.is_some() {
            continue;
        }
        let of_part = |part: &str| part.strip_prefix(&**name)?.strip_prefix('=').map(str::to_owned);
        let value = location.split('/').filter_map(of_part).next_back();
        let value =
            value.ok_or_else(|| exec_datafusion_err!("the path {location} has no value of {name}"))?;
        let value = match &*percent_decode_str(&value).decode_utf8_lossy() {
            NO_VALUE => ScalarValue::try_from(column.field.data_type())?,
            text => ScalarValue::from(text).cast_to(column.field.data_type())?,
        };
        found.push((*id, as_in_columns(value)));
    }
    found.sort_by_key(|(id, _)| *id);
    Ok(found)
}

/// The layout of files with constants for these columns.
fn layout_of(columns: &Columns, constants: &BTreeSet<i32>, mapping: &Mapping) -> Result<Layout> {
    let fields = |constant: bool| -> Vec<FieldRef> {
        let readable = columns.all.iter().filter(|column| column.unreadable.is_none());
        let mut chosen: Vec<&Column> =
            readable.filter(|column| constants.contains(&column.id) == constant).collect();
        if constant {
            chosen.sort_by_key(|column| column.id);
        }
        chosen.into_iter().map(|column| Arc::clone(&column.field)).collect()
    };
    let stored = TableSchema::builder(Arc::new(Schema::new(fields(false))))
        .with_table_partition_cols(fields(true))
        .build();
    let place = |column: &Column| match &column.unreadable {
        Some(reason) => Ok(Err(reason.clone())),
        None => Ok(Ok(stored.table_schema().index_of(&column.name)?)),
    };
    let places = columns.all.iter().map(place).collect::<Result<Vec<Place>>>()?;
    let defaults = columns.all.iter().filter_map(|column| Some((column.id, column.default.clone()?)));
    let defaults = defaults.chain(columns.defaults_inside.clone()).collect();
    let adapters =
        FieldIdAdapters { by_name: false, names: mapping.names.clone(), defaults: Arc::new(defaults) };
    Ok(Layout { stored, places, adapters: Some(Arc::new(adapters)) })
}

/// Reads the bounds of the columns in these files.
pub(super) async fn bounds(
    reading: &mut Reading<'_>,
    (table, _): (&str, u64),
    columns: &Columns,
    files: &[NumberedFile],
) -> Result<Vec<Bounds>> {
    let sql = "SELECT CAST(data_file_id AS TEXT), CAST(column_id AS TEXT), CAST(null_count AS TEXT), min_value, max_value \
               FROM ducklake_file_column_stats WHERE table_id = CAST($1 AS BIGINT)";
    let places: HashMap<u64, usize> = files.iter().enumerate().map(|(at, file)| (file.number, at)).collect();
    let ids: HashMap<i32, usize> =
        columns.all.iter().enumerate().map(|(at, column)| (column.id, at)).collect();
    type Known = (Vec<Option<String>>, Vec<Option<String>>, Vec<Option<u64>>);
    let nothing = || (vec![None; files.len()], vec![None; files.len()], vec![None; files.len()]);
    let mut known: Vec<Known> = columns.all.iter().map(|_| nothing()).collect();
    for [file, column, nulls, min, max] in reading.rows::<5>(sql, &[table]).await? {
        let file = parsed(file).and_then(|number: u64| places.get(&number));
        let column = parsed(column).and_then(|id: i32| ids.get(&id));
        if let Some((&file, &column)) = file.zip(column) {
            let (mins, maxs, all_nulls) = &mut known[column];
            (mins[file], maxs[file], all_nulls[file]) = (min, max, parsed(nulls));
        }
    }
    let of = |(column, (min, max, nulls)): (&Column, Known)| Bounds {
        min: values(min, column.field.data_type()),
        max: values(max, column.field.data_type()),
        nulls: Some(nulls.into()),
    };
    Ok(columns.all.iter().zip(known).map(of).collect())
}

/// Bounds that were written as text; `None` for types whose bounds are not used: writers leave NaN out of those of
/// floating-point numbers, and write bytes in forms of their own.
fn values(texts: Vec<Option<String>>, of: &DataType) -> Option<ArrayRef> {
    let is_used = match of {
        DataType::Utf8View | DataType::Boolean | DataType::Date32 => true,
        DataType::Decimal128(..) | DataType::Time64(_) | DataType::Timestamp(..) => true,
        of => of.is_integer(),
    };
    if !is_used {
        return None;
    }
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let options = CastOptions { safe: true, format_options: FormatOptions::default() };
    let values = match of {
        DataType::Utf8View => cast(&texts, of),
        _ => cast_with_options(&texts, of, &options),
    };
    values.ok().filter(|values| values.null_count() < values.len())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::TimeUnit;

    use super::*;
    use crate::field_ids::Defaults;

    #[test]
    fn bounds_as_duckdb_writes_them() {
        let of = |text: &str, of: &DataType| {
            let values = values(vec![Some(text.to_owned())], of)?;
            Some(ScalarValue::try_from_array(&values, 0).expect("a value").to_string())
        };
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!(of("2024-02-11 15:00:00.5+00", &utc), Some("1707663600500000".to_owned()));
        assert_eq!(of("-12.50", &DataType::Decimal128(12, 2)), Some("-12.50".to_owned()));
        assert_eq!(of("2024-02-29", &DataType::Date32), Some("2024-02-29".to_owned()));
        assert_eq!(of("true", &DataType::Boolean), Some("true".to_owned()));
        for (text, kind) in
            [("infinity", DataType::Date32), ("1.5", DataType::Float64), ("x", DataType::Int32)]
        {
            assert_eq!(of(text, &kind), None, "{text}");
        }
    }

    #[test]
    fn values_in_paths() {
        let column = Column {
            id: 4,
            name: "k".to_owned(),
            field: Arc::new(datafusion::arrow::datatypes::Field::new("k", DataType::Int32, true)),
            unreadable: None,
            default: None,
        };
        let columns = Columns { all: vec![column], defaults_inside: Defaults::new() };
        let mapping = Mapping { in_path: vec![("k".to_owned(), 4)], ..Mapping::default() };
        let of = |location: &str| constants(&mapping, &columns, location);
        assert_eq!(of("/w/k=1/k=7/f").expect("a value"), [(4, ScalarValue::Int32(Some(7)))]);
        assert_eq!(of("/w/k=__HIVE_DEFAULT_PARTITION__/f").expect("a null"), [(4, ScalarValue::Int32(None))]);
        of("/w/kk=7/f").expect_err("no value");
        of("/w/k=x/f").expect_err("no number");
    }
}
