//! Rows in the database itself: small inserts have no file.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BinaryViewArray, FixedSizeBinaryArray, StringArray, new_empty_array,
};
use datafusion::arrow::compute::concat;
use datafusion::arrow::compute::kernels::cast::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use super::columns::{Column, Columns};
use super::stored::{from_hexadecimal, is_of_version};
use crate::catalog::database::{Reading, quoted};
use crate::snapshot::{Layout, Rows};

/// The rows of a version that are in the database.
pub(super) struct InlinedRows {
    pub(super) rows: Rows,
    /// The reasons why columns cannot be read, by position.
    pub(super) unreadable: HashMap<usize, String>,
}

impl Layout {
    /// The layout without columns that cannot be read in the database.
    pub(super) fn without(self, unreadable: &HashMap<usize, String>) -> Self {
        let place = |(at, place)| unreadable.get(&at).map_or(place, |reason| Err(reason.clone()));
        let places = self.places.iter().cloned().enumerate().map(place).collect();
        Layout { places, ..self }
    }
}

/// The form of a column in the database.
#[derive(Clone, Copy)]
enum Form {
    Text,
    /// Bytes, in hexadecimal digits.
    Bytes,
}

/// Reads the rows of a version.
pub(super) async fn read(
    reading: &mut Reading<'_>,
    (table, version): (&str, u64),
    columns: &Columns,
) -> Result<InlinedRows> {
    let tables = "SELECT i.table_name, CAST(v.begin_snapshot AS TEXT) FROM ducklake_inlined_data_tables i \
                  JOIN ducklake_schema_versions v ON v.table_id = i.table_id AND v.schema_version = i.schema_version \
                  WHERE i.table_id = CAST($1 AS BIGINT) ORDER BY i.schema_version";
    let version = version.to_string();
    let mut parts: Vec<Vec<ArrayRef>> = columns.all.iter().map(|_| Vec::new()).collect();
    let mut unreadable = HashMap::new();
    let mut count = 0;
    for [name, begin] in reading.rows::<2>(tables, &[table]).await? {
        let (Some(name), Some(begin)) = (name, begin) else { continue };
        let stored: HashMap<String, String> = reading.columns(&name).await?.into_iter().collect();
        if stored.is_empty() {
            continue;
        }
        // The names of the columns when the table was made.
        let names = format!(
            "SELECT CAST(column_id AS TEXT), column_name FROM ducklake_column c \
             WHERE {} AND table_id = CAST($2 AS BIGINT) AND parent_column IS NULL",
            is_of_version("c")
        );
        let names = reading.rows::<2>(&names, &[&begin, table]).await?;
        let names: HashMap<i32, String> =
            names.into_iter().filter_map(|[id, name]| Some((id?.parse().ok()?, name?))).collect();
        let form = |column: &Column| {
            let name = names.get(&column.id)?;
            let is_bytes = stored.get(name).is_some_and(|kind| kind == "blob" || kind == "bytea");
            Some((name.as_str(), if is_bytes { Form::Bytes } else { Form::Text }))
        };
        let forms: Vec<_> = columns.all.iter().map(form).collect();
        let chosen = forms.iter().map(|form| match form {
            Some((name, Form::Bytes)) => reading.hexadecimal(&quoted(name)),
            Some((name, Form::Text)) => format!("CAST({} AS TEXT)", quoted(name)),
            None => "NULL".to_owned(),
        });
        let chosen: Vec<String> = chosen.collect();
        let sql = format!(
            "SELECT '' AS first, {} FROM {} r WHERE {} ORDER BY row_id",
            chosen.join(", "),
            quoted(&name),
            is_of_version("r")
        );
        let rows = reading.run(&sql, &[&version]).await?;
        if rows.is_empty() {
            continue;
        }
        count += rows.len();
        for (at, (column, form)) in columns.all.iter().zip(&forms).enumerate() {
            let texts = rows.iter().map(|row| row[at + 1].clone()).collect();
            let array = match form {
                None => match &column.default {
                    Some(default) => default.cast_to(column.field.data_type())?.to_array_of_size(rows.len()),
                    None => {
                        Ok(datafusion::arrow::array::new_null_array(column.field.data_type(), rows.len()))
                    }
                },
                Some((_, form)) => values(texts, *form, column.field.data_type()),
            };
            let array = array.unwrap_or_else(|error| {
                let reason = format!(
                    "the column {} has rows in the catalog that cannot be read ({}): \
                     write them to files with ducklake_flush_inlined_data",
                    column.name,
                    error.strip_backtrace()
                );
                unreadable.insert(at, reason);
                datafusion::arrow::array::new_null_array(column.field.data_type(), rows.len())
            });
            parts[at].push(array);
        }
    }
    let whole = |(column, parts): (&Column, Vec<ArrayRef>)| {
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        if parts.is_empty() { Ok(new_empty_array(column.field.data_type())) } else { Ok(concat(&parts)?) }
    };
    let columns = columns.all.iter().zip(parts).map(whole).collect::<Result<Vec<_>>>()?;
    Ok(InlinedRows { rows: Rows { columns, count }, unreadable })
}

/// Values of a type that are written as texts.
fn values(texts: Vec<Option<String>>, form: Form, of: &DataType) -> Result<ArrayRef> {
    let texts = match form {
        Form::Text => texts,
        Form::Bytes => {
            let bytes = texts.iter().map(|text| text.as_deref().map(from_hexadecimal).transpose());
            let bytes = bytes.collect::<Result<Vec<_>>>()?;
            if *of == DataType::BinaryView {
                return Ok(Arc::new(bytes.into_iter().collect::<BinaryViewArray>()));
            }
            let text = |bytes: Option<Vec<u8>>| {
                bytes
                    .map(String::from_utf8)
                    .transpose()
                    .map_err(|error| DataFusionError::External(Box::new(error)))
            };
            bytes.into_iter().map(text).collect::<Result<_>>()?
        }
    };
    if *of == DataType::FixedSizeBinary(16) {
        let bytes = texts
            .iter()
            .map(|text| text.as_ref().map(|text| from_hexadecimal(&text.replace('-', ""))).transpose());
        let bytes = bytes.collect::<Result<Vec<_>>>()?;
        return Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 16)?));
    }
    if of.is_nested() {
        return Err(exec_datafusion_err!("a value of the type {of}"));
    }
    let texts: ArrayRef = Arc::new(StringArray::from(texts));
    let options = CastOptions { safe: false, format_options: FormatOptions::default() };
    Ok(cast_with_options(&texts, of, &options)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::AsArray;
    use datafusion::arrow::datatypes::TimeUnit;
    use datafusion::common::ScalarValue;

    use super::*;

    #[test]
    fn values_as_databases_write_them() {
        let of = |text: &str, form, of: &DataType| {
            let array = values(vec![None, Some(text.to_owned())], form, of).expect(text);
            assert!(array.is_null(0) && array.data_type() == of);
            ScalarValue::try_from_array(&array, 1).expect("a value").to_string()
        };
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!(of("2026-11-29 16:57:56.961678+00", Form::Text, &utc), "1795971476961678");
        assert_eq!(of("inf", Form::Text, &DataType::Float64), "inf");
        assert_eq!(of("1", Form::Text, &DataType::Boolean), "true");
        assert_eq!(of("c3a9", Form::Bytes, &DataType::Utf8View), "é");
        assert_eq!(of("00FF", Form::Bytes, &DataType::BinaryView), "00FF");
        let uuid = "14d770a2-e918-432a-999e-4a7c5bda9e09".to_owned();
        let array = values(vec![Some(uuid)], Form::Text, &DataType::FixedSizeBinary(16)).expect("a value");
        assert_eq!(array.as_fixed_size_binary().value(0)[..4], [0x14, 0xd7, 0x70, 0xa2]);
        values(vec![Some("x".to_owned())], Form::Text, &DataType::Int32).expect_err("no number");
        values(vec![Some("abc".to_owned())], Form::Bytes, &DataType::BinaryView).expect_err("three digits");
    }
}
