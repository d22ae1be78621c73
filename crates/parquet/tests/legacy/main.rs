//! Files of odd writers: read as other engines read them, and refused or misread by the parquet crate alone.
//! When a test finds that the parquet crate reads one correctly, its repair can be removed.

// Tests of other crates use the rest of these two.
#[allow(dead_code)]
mod cases;
#[allow(dead_code)]
#[path = "../../../datafusion/tests/corruption/thrift.rs"]
mod thrift;

mod hostile;

// For `cases`, which the tests of another crate share.
use ::{arrow, parquet};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use cases::{Alone, Case};
use coscan_parquet::read_footer;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use std::sync::Arc;

/// The metadata of a file in memory.
fn footer(bytes: &[u8]) -> Result<ParquetMetaData> {
    read_footer(bytes.len() as u64, |range| {
        Ok(Bytes::copy_from_slice(&bytes[range.start as usize..range.end as usize]))
    })
}

/// The columns' names, and each row.
type Table = (Vec<String>, Vec<String>);

fn rows(batches: impl Iterator<Item = Result<RecordBatch, arrow::error::ArrowError>>) -> Result<Vec<String>> {
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in batches {
        let batch = batch?;
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|array| ArrayFormatter::try_new(array, &options).expect("shown"))
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let values = columns.iter().zip(batch.columns()).map(|(shown, array)| {
                match array.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
                    true => "NULL".to_owned(),
                    false => shown.value(row).to_string(),
                }
            });
            values.collect::<Vec<_>>().join(", ")
        }));
    }
    Ok(rows)
}

fn table(builder: ParquetRecordBatchReaderBuilder<Bytes>) -> Result<Table> {
    let names = builder.schema().fields().iter().map(|field| field.name().clone()).collect();
    Ok((names, rows(builder.build()?)?))
}

fn read(bytes: &[u8]) -> Result<Table> {
    let metadata = ArrowReaderMetadata::try_new(Arc::new(footer(bytes)?), ArrowReaderOptions::new())?;
    table(ParquetRecordBatchReaderBuilder::new_with_metadata(Bytes::copy_from_slice(bytes), metadata))
}

/// Reads with page indexes where there are some, as engines do.
fn read_alone(bytes: &[u8]) -> Result<Table> {
    let read = || {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let bytes = Bytes::copy_from_slice(bytes);
        table(ParquetRecordBatchReaderBuilder::try_new_with_options(bytes, options)?)
    };
    std::panic::catch_unwind(read).unwrap_or_else(|_| Err(ParquetError::General("a panic".into())))
}

#[test]
fn files_of_odd_writers_are_read() {
    let mut wrong = Vec::new();
    for Case { name, bytes, columns, rows, .. } in cases::all() {
        match read(&bytes) {
            Ok((names, found)) if names == columns && found == rows => {}
            found => wrong.push(format!("{name}: {found:?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_parquet_crate_alone_refuses_or_misreads_them() {
    let mut other = Vec::new();
    for Case { name, bytes, columns, rows, alone } in cases::all() {
        let found = read_alone(&bytes);
        match (alone, &found) {
            (Alone::Fails, Err(_)) => {}
            (Alone::Differs, Ok((_, found))) if *found != rows => {}
            (Alone::Same, Ok((names, found))) if names == columns && *found == rows => {}
            _ => other.push(format!("{name}: {alone:?} is no longer so: {found:?}")),
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
}

#[test]
fn more_row_groups_than_16_bits_number() {
    let bytes = cases::many_groups(40_000);
    assert!(read_alone(&bytes).is_err());
    let metadata = footer(&bytes).expect("a footer");
    assert_eq!((metadata.num_row_groups(), metadata.file_metadata().num_rows()), (40_000, 120_000));
    let (_, rows) = read(&bytes).expect("rows");
    assert!(rows.len() == 120_000 && rows.chunks(3).all(|group| group == ["1", "2", "3"]));
    let few = cases::many_groups(32_767);
    assert_eq!(footer(&few).expect("a footer").num_row_groups(), 32_767);
    assert_eq!(footer(&cases::many_groups(32_768)).expect("a footer").num_row_groups(), 32_768);
}

#[test]
fn rows_without_columns() {
    let (names, _) = read(&cases::no_columns()).expect("no columns");
    assert!(names.is_empty());
    assert_eq!(footer(&cases::no_columns()).expect("a footer").file_metadata().num_rows(), 3);
}

#[test]
fn more_values_than_rows_are_an_error() {
    for (file, rows) in [(cases::no_rows(), 0), (cases::few_rows(), 2)] {
        let error = footer(&file).expect_err("there are more values").to_string();
        let expected = format!("row group 0 has {rows} rows and 3 values of the column a");
        assert!(error.contains(&expected), "{error}");
    }
}

#[test]
fn a_footer_without_row_groups_is_an_error() {
    let error = footer(&cases::without_groups()).expect_err("row groups are required").to_string();
    assert!(error.contains("row_groups is missing"), "{error}");
}

#[test]
fn negative_numbers_of_rows_are_an_error_that_names_the_row_group() {
    let error = footer(&cases::negative_rows()).expect_err("rows cannot be fewer than none").to_string();
    assert!(error.contains("row group 0 has -1 rows"), "{error}");
}
