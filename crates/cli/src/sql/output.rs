//! Output formats of results.
//!
//! All formats but the tables are printed batch by batch, as rows arrive.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::csv;
use arrow::datatypes::{Field, Schema, SchemaRef};
use clap::ValueEnum;
use comfy_table::{CellAlignment, Table};
use coscan_server::shown_values;

use super::values::{as_lines, explain, without_nested};

/// The borders of a table.
const BORDERS: &str = "||--+-++|    ++++++";

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns
    Table,
    /// Comma-separated with a header; nested values as JSON
    Csv,
    /// One array of objects
    Json,
    /// One object per line
    Ndjson,
    /// One line per value, for wide results
    Expanded,
}

impl Format {
    /// Returns true if the format is printed after all rows have arrived.
    pub fn waits_for_all(self) -> bool {
        matches!(self, Format::Table | Format::Expanded)
    }
}

/// Prints the batches of one result to `out`.
pub struct Printer<W: Write> {
    format: Format,
    schema: SchemaRef,
    out: W,
    rows: u64,
    /// The widths of a table's columns depend on all rows, so all batches are collected first.
    collected: Vec<RecordBatch>,
}

impl<W: Write> Printer<W> {
    /// A printer for a result with these columns.
    pub fn new(format: Format, schema: SchemaRef, mut out: W) -> anyhow::Result<Self> {
        match format {
            // A statement without columns, such as SET, has no header.
            Format::Csv if schema.fields().is_empty() => {}
            Format::Csv => out.write_all(&as_csv(&RecordBatch::new_empty(schema.clone()), true)?)?,
            Format::Json => out.write_all(b"[")?,
            Format::Table | Format::Ndjson | Format::Expanded => {}
        }
        Ok(Printer { format, schema, out, rows: 0, collected: Vec::new() })
    }

    /// Prints or collects a batch.
    pub fn write(&mut self, batch: RecordBatch) -> anyhow::Result<()> {
        let batch = with_all_digits(batch)?;
        // Text is made before it is written, because arrow's writers turn errors of the pipe into text.
        match self.format {
            Format::Csv if self.schema.fields().is_empty() => {}
            Format::Csv => self.out.write_all(&as_csv(&batch, false)?)?,
            Format::Ndjson => self.out.write_all(&as_lines(&batch)?)?,
            Format::Json => {
                for (at, object) in as_lines(&batch)?.split(|&byte| byte == b'\n').enumerate() {
                    if !object.is_empty() {
                        self.out.write_all(if self.rows == 0 && at == 0 { b"" } else { b",\n" })?;
                        self.out.write_all(object)?;
                    }
                }
            }
            Format::Table | Format::Expanded => self.collected.push(batch.clone()),
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    /// Prints the rest and returns the number of rows.
    pub fn finish(mut self) -> anyhow::Result<u64> {
        match self.format {
            // A statement without columns, such as SET, has no output.
            Format::Table if !self.schema.fields().is_empty() => {
                if self.collected.is_empty() {
                    self.collected.push(RecordBatch::new_empty(self.schema));
                }
                writeln!(self.out, "{}", table_of(&self.collected)?)?;
            }
            Format::Json => self.out.write_all(b"]\n")?,
            Format::Expanded => {
                write_expanded(&self.collected, &mut self.out)?;
            }
            Format::Table | Format::Csv | Format::Ndjson => {}
        }
        self.out.flush()?;
        Ok(self.rows)
    }
}

/// Converts decimals to types with all their digits. Columns of different batches may then differ in their types.
fn with_all_digits(batch: RecordBatch) -> anyhow::Result<RecordBatch> {
    let columns = batch.columns().iter().map(coscan_datafusion::with_all_digits);
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let fields = batch.schema_ref().fields().iter().zip(&columns);
    let fields = fields.map(|(field, column)| Field::clone(field).with_data_type(column.data_type().clone()));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)?)
}

/// The values of a batch's columns as a person reads them.
fn shown(batch: &RecordBatch) -> anyhow::Result<Vec<Vec<Option<String>>>> {
    let columns = batch.columns().iter().map(shown_values).collect::<Result<Vec<_>, _>>();
    columns.or_else(|error| {
        explain(std::slice::from_ref(batch))?;
        Err(error.into())
    })
}

/// All rows as a table, with numbers to the right.
fn table_of(batches: &[RecordBatch]) -> anyhow::Result<Table> {
    let mut table = Table::new();
    table.load_preset(BORDERS);
    for batch in batches {
        let columns = shown(batch)?;
        for row in 0..batch.num_rows() {
            table.add_row(columns.iter().map(|column| column[row].as_deref().unwrap_or_default()));
        }
    }
    let Some(first) = batches.first() else { return Ok(table) };
    let schema = first.schema();
    table.set_header(schema.fields().iter().map(|field| field.name()));
    for (field, column) in schema.fields().iter().zip(table.column_iter_mut()) {
        if field.data_type().is_numeric() {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Ok(table)
}

/// Writes every row as a list of its values, like psql.
fn write_expanded(batches: &[RecordBatch], out: &mut impl Write) -> anyhow::Result<()> {
    let mut record = 0;
    for batch in batches {
        let schema = batch.schema();
        let width =
            schema.fields().iter().map(|field| field.name().chars().count()).max().unwrap_or_default();
        let columns = shown(batch)?;
        for row in 0..batch.num_rows() {
            record += 1;
            writeln!(out, "-[ RECORD {record} ]-")?;
            for (field, column) in schema.fields().iter().zip(&columns) {
                writeln!(out, "{:width$} | {}", field.name(), column[row].as_deref().unwrap_or_default())?;
            }
        }
    }
    Ok(())
}

fn as_csv(batch: &RecordBatch, header: bool) -> anyhow::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().with_header(header).build(Vec::new());
    if let Err(error) = writer.write(&without_nested(batch)?) {
        explain(std::slice::from_ref(batch))?;
        return Err(error.into());
    }
    Ok(writer.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringArray};

    fn printed(format: Format, rows: usize) -> String {
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
            ("s", Arc::new(StringArray::from_iter_values((0..rows).map(|n| format!("a,{n}"))))),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut out = Vec::new();
        let mut printer = Printer::new(format, batch.schema(), &mut out).unwrap();
        if rows > 0 {
            printer.write(batch).unwrap();
        }
        assert_eq!(printer.finish().unwrap(), rows as u64);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn formats() {
        assert_eq!(printed(Format::Csv, 1), "n,s\n0,\"a,0\"\n");
        assert_eq!(printed(Format::Json, 2), "[{\"n\":0,\"s\":\"a,0\"},\n{\"n\":1,\"s\":\"a,1\"}]\n");
        assert_eq!(printed(Format::Ndjson, 1), "{\"n\":0,\"s\":\"a,0\"}\n");
        assert!(printed(Format::Table, 1).contains("| 0 | a,0 |"));
        let expanded = "-[ RECORD 1 ]-\nn | 0\ns | a,0\n-[ RECORD 2 ]-\nn | 1\ns | a,1\n";
        assert_eq!(printed(Format::Expanded, 2), expanded);
    }

    #[test]
    fn what_has_no_columns_is_no_line() {
        let schema = Arc::new(arrow::datatypes::Schema::empty());
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(2));
        let rows = RecordBatch::try_new_with_options(schema.clone(), vec![], &options).unwrap();
        for (format, expected) in [(Format::Csv, ""), (Format::Table, ""), (Format::Ndjson, "{}\n{}\n")] {
            let mut out = Vec::new();
            let mut printer = Printer::new(format, schema.clone(), &mut out).unwrap();
            printer.write(rows.clone()).unwrap();
            assert_eq!(printer.finish().unwrap(), 2);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{format:?}");
        }
    }

    #[test]
    fn no_rows_still_have_a_form() {
        assert_eq!(printed(Format::Csv, 0), "n,s\n");
        assert_eq!(printed(Format::Json, 0), "[]\n");
        assert_eq!(printed(Format::Ndjson, 0), "");
        assert!(printed(Format::Table, 0).contains("| n | s |"));
    }
}
