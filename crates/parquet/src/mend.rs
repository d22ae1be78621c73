//! Repairs of decoded metadata: rows, pages and sizes that writers are known to state wrongly.
//!
//! A file has as many rows as its row groups. Impossible sizes and offsets are errors, because readers of
//! columns rely on them.

use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData,
};

/// The maximum length of a dictionary's header (Arrow's C++ reader has the same number).
const HEADER_BYTES_MAX: u64 = 100;

/// The repaired metadata; `end` is the offset of the footer.
pub(crate) fn mended(metadata: ParquetMetaData, end: u64) -> Result<ParquetMetaData> {
    let rows = checked_rows(metadata.row_groups())?;
    let metadata = with_rows(metadata, rows);
    let created_by = metadata.file_metadata().created_by();
    let columns = || metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    // A writer of page indexes is a later one, whatever name it states.
    let has_indexes = columns().any(|column| column.offset_index_offset().is_some());
    let short = writes_short_sizes(created_by) && !has_indexes;
    let long = created_by.is_some_and(|by| by.starts_with("impala"));
    let is_sound = |column: &ColumnChunkMetaData| {
        dictionary(column) == column.dictionary_page_offset() && !(long && end_of_pages(column).is_some())
    };
    if !short && columns().all(is_sound) {
        return Ok(metadata);
    }
    let starts = if short { starts(&metadata, end) } else { Vec::new() };
    let mut builder = ParquetMetaDataBuilder::new_from_metadata(metadata);
    let groups = builder.take_row_groups().into_iter();
    let groups = groups.map(|group| with_columns(group, |column| mended_column(column, &starts, long)));
    let groups = groups.collect::<Result<_>>()?;
    Ok(builder.set_row_groups(groups).build())
}

/// The rows of all row groups.
fn checked_rows(groups: &[RowGroupMetaData]) -> Result<i64> {
    let mut rows = 0i64;
    for (index, group) in groups.iter().enumerate() {
        let wrong = |what: String| ParquetError::General(format!("row group {index} {what}"));
        let sum = (group.num_rows() >= 0).then(|| rows.checked_add(group.num_rows())).flatten();
        rows = sum.ok_or_else(|| wrong(format!("has {} rows: the file is corrupt", group.num_rows())))?;
        for column in group.columns() {
            let (start, length) = (start(column), column.compressed_size());
            if start < 0 || length < 0 {
                let name = column.column_path().string();
                let text =
                    format!("has {length} bytes at {start} for the column {name}: the file is corrupt");
                return Err(wrong(text));
            }
            let (rows, values) = (group.num_rows(), column.num_values());
            let repeats = column.column_descr().max_rep_level() > 0;
            if values > rows && (rows == 0 || !repeats) {
                let name = column.column_path().string();
                let text =
                    format!("has {rows} rows and {values} values of the column {name}: the file is corrupt");
                return Err(wrong(text));
            }
        }
    }
    Ok(rows)
}

/// The row groups decide the number of a file's rows: some writers left the file's own number at 0.
fn with_rows(metadata: ParquetMetaData, rows: i64) -> ParquetMetaData {
    let file = metadata.file_metadata();
    if file.num_rows() == rows {
        return metadata;
    }
    let file = FileMetaData::new(
        file.version(),
        rows,
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    let groups = ParquetMetaDataBuilder::new_from_metadata(metadata).take_row_groups();
    ParquetMetaData::new(file, groups)
}

/// The offset of the dictionary, if it is possible: some writers state 0, others an offset behind the data.
/// Without rows there may be a dictionary and no data, whose offset is then 0.
fn dictionary(column: &ColumnChunkMetaData) -> Option<i64> {
    let data = column.data_page_offset();
    column.dictionary_page_offset().filter(|at| *at > 0 && (*at < data || data == 0))
}

fn start(column: &ColumnChunkMetaData) -> i64 {
    dictionary(column).unwrap_or(column.data_page_offset())
}

/// The end of the pages of a column that Impala wrote, if its stated size is larger: Impala writes metadata
/// behind each column and states their offset. Other writers state another offset in that field.
fn end_of_pages(column: &ColumnChunkMetaData) -> Option<i64> {
    let inside = column.data_page_offset() + 1..start(column).saturating_add(column.compressed_size());
    Some(column.file_offset()).filter(|at| inside.contains(at))
}

fn mended_column(column: ColumnChunkMetaData, starts: &[u64], long: bool) -> Result<ColumnChunkMetaData> {
    let (dictionary, length) = (dictionary(&column), column.compressed_size());
    let bytes = match end_of_pages(&column).filter(|_| long) {
        Some(end) => (end - start(&column)) as u64,
        None => padded(start(&column) as u64, length as u64, starts),
    };
    column
        .into_builder()
        .set_dictionary_page_offset(dictionary)
        .set_total_compressed_size(i64::try_from(bytes).unwrap_or(length))
        .build()
}

/// The group with other columns.
pub(crate) fn with_columns(
    group: RowGroupMetaData,
    change: impl FnMut(ColumnChunkMetaData) -> Result<ColumnChunkMetaData>,
) -> Result<RowGroupMetaData> {
    let mut builder = group.into_builder();
    let columns = builder.take_columns().into_iter().map(change).collect::<Result<_>>()?;
    builder.set_column_metadata(columns).build()
}

/// Returns whether a writer's sizes of column chunks lack the header of the dictionary: parquet-mr's did
/// before 1.2.9 (PARQUET-816).
fn writes_short_sizes(created_by: Option<&str>) -> bool {
    let Some(rest) = created_by.and_then(|by| by.trim().strip_prefix("parquet-mr")) else { return false };
    let version = rest.trim_start().strip_prefix("version").unwrap_or(rest).trim_start();
    let mut numbers =
        version.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse().unwrap_or(0u64));
    let mut next = || numbers.next().unwrap_or(0);
    (next(), next(), next()) < (1, 2, 9)
}

/// The starts of column chunks, page indexes, bloom filters, metadata beside columns, and the footer,
/// ascending.
fn starts(metadata: &ParquetMetaData, end: u64) -> Vec<u64> {
    let columns = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let of_column = |column: &ColumnChunkMetaData| {
        let others =
            [column.column_index_offset(), column.offset_index_offset(), column.bloom_filter_offset()];
        others.into_iter().flatten().chain([start(column), column.file_offset()])
    };
    let starts = columns.flat_map(of_column).filter_map(|start| u64::try_from(start).ok());
    let mut starts: Vec<u64> = starts.chain([end]).collect();
    starts.sort_unstable();
    starts
}

/// The length of a chunk with room for a header, up to the next start at or behind its end.
fn padded(start: u64, length: u64, starts: &[u64]) -> u64 {
    let end = start.saturating_add(length);
    let next = starts[starts.partition_point(|next| *next < end)..].first().copied().unwrap_or(end);
    next.min(end.saturating_add(HEADER_BYTES_MAX)) - start
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short_before_one_version() {
        for short in ["parquet-mr", "parquet-mr version 1.2.8", "parquet-mr version 1.2.5-cdh4.5.0 (build )"]
        {
            assert!(writes_short_sizes(Some(short)), "{short}");
        }
        for sound in
            ["parquet-mr version 1.2.9", "parquet-mr version 1.10.1 (build a)", "parquet-cpp version 1.0.0"]
        {
            assert!(!writes_short_sizes(Some(sound)), "{sound}");
        }
        assert!(!writes_short_sizes(None));
    }

    #[test]
    fn room_for_a_header_ends_where_something_begins() {
        let starts = [4, 129, 466, 1000];
        assert_eq!(padded(4, 125, &starts), 125);
        assert_eq!(padded(4, 100, &starts), 125);
        assert_eq!(padded(129, 322, &starts), 337);
        assert_eq!(padded(466, 100, &starts), 200);
        assert_eq!(padded(466, 534, &starts), 534);
        assert_eq!(padded(466, u64::MAX, &starts), u64::MAX - 466);
        assert_eq!(padded(466, 500, &[]), 500);
    }
}
