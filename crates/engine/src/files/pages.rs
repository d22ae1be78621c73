//! The bytes of a row group that a selection of rows needs: data pages by the offset index, and dictionary
//! pages.
//!
//! The offset index can be as corrupt as any page. An index that does not fit its column chunk is ignored: a
//! scan then reads the row group without it.

use std::ops::Range;

use parquet::arrow::arrow_reader::RowSelection;
use parquet::file::metadata::ParquetMetaData;

use crate::io::fit::cost_bytes;

/// The pages of one root column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnPages {
    /// The root column's position in the file.
    pub(crate) root: usize,
    /// Byte ranges in the file, ascending and disjoint; adjacent ones are merged.
    pub(crate) ranges: Vec<Range<u64>>,
    /// Dictionary pages among them.
    pub(crate) dictionaries: Vec<Range<u64>>,
}

/// The pages of a point read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) columns: Vec<ColumnPages>,
}

/// The bytes that a point read of a row group would read, and those that a scan would read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointCost {
    /// Bytes of the data pages that hold selected rows.
    pub data_bytes: u64,
    /// Bytes of dictionary pages.
    pub dictionary_bytes: u64,
    /// Bytes of the whole column chunks.
    pub chunk_bytes: u64,
    /// The cost of reading the data pages on the device, in bytes, including requests.
    pub cost_bytes: u64,
}

/// The cost of reading `rows` (ascending, disjoint) of these root columns page by page, if a further request
/// costs as much as `request_bytes`. `None` if the file does not record where its pages are. Cost: linear in
/// the pages of these columns.
pub fn point_cost(
    metadata: &ParquetMetaData,
    row_group: usize,
    roots: &[usize],
    rows: &[Range<usize>],
    request_bytes: u64,
) -> Option<PointCost> {
    let pages = Pages::new(metadata, row_group, roots, rows)?;
    let schema = metadata.file_metadata().schema_descr();
    let leaves = metadata.row_group(row_group).columns().iter().enumerate();
    let wanted = leaves.filter(|(leaf, _)| roots.binary_search(&schema.get_column_root_idx(*leaf)).is_ok());
    let chunk_bytes = wanted.map(|(_, column)| column.compressed_size().max(0) as u64).sum();
    let dictionary_bytes = pages.columns.iter().map(ColumnPages::dictionary_bytes).sum();
    let data_bytes = pages.bytes() - dictionary_bytes;
    // Point reads read no gaps: every run of pages is a request.
    let cost_bytes = cost_bytes(pages.data_ranges(), request_bytes, 0);
    Some(PointCost { data_bytes, dictionary_bytes, chunk_bytes, cost_bytes })
}

impl Pages {
    /// The pages with these rows; `None` if a column has no offset index or an inconsistent one.
    pub(crate) fn new(
        metadata: &ParquetMetaData,
        row_group: usize,
        roots: &[usize],
        rows: &[Range<usize>],
    ) -> Option<Self> {
        let index = metadata.offset_index()?.get(row_group)?;
        let group = metadata.row_group(row_group);
        let schema = metadata.file_metadata().schema_descr();
        let total = usize::try_from(group.num_rows()).ok()?;
        let selection = RowSelection::from_consecutive_ranges(rows.iter().cloned(), total);
        let mut columns: Vec<ColumnPages> = Vec::with_capacity(roots.len());
        for (leaf, column) in group.columns().iter().enumerate() {
            let root = schema.get_column_root_idx(leaf);
            if roots.binary_search(&root).is_err() {
                continue;
            }
            let locations = index.get(leaf)?.page_locations();
            let start =
                column.dictionary_page_offset().filter(|at| *at > 0).unwrap_or(column.data_page_offset());
            let (start, len) = (u64::try_from(start).ok()?, u64::try_from(column.compressed_size()).ok()?);
            let chunk = start..start.checked_add(len)?;
            if locations.is_empty() || !are_sound(locations, &chunk, total) {
                return None;
            }
            let first = locations[0].offset as u64;
            let dictionary = (chunk.start < first).then_some(chunk.start..first);
            let at = match columns.iter().position(|c| c.root == root) {
                Some(at) => at,
                None => {
                    columns.push(ColumnPages { root, ranges: Vec::new(), dictionaries: Vec::new() });
                    columns.len() - 1
                }
            };
            let known = &mut columns[at];
            known.dictionaries.extend(dictionary.clone());
            known.ranges.extend(dictionary.into_iter().chain(selection.scan_ranges(locations)));
        }
        for column in &mut columns {
            column.ranges = joined(std::mem::take(&mut column.ranges));
        }
        Some(Pages { columns })
    }

    /// The ranges of the data pages, ascending. A dictionary is at the beginning of its column, before all
    /// data pages.
    fn data_ranges(&self) -> Vec<Range<u64>> {
        let of_column = |column: &ColumnPages| -> Vec<Range<u64>> {
            let dictionaries = &column.dictionaries;
            let without = |range: &Range<u64>| {
                let dictionary = dictionaries.iter().find(|found| found.start == range.start);
                dictionary.map_or(range.start, |found| found.end)..range.end
            };
            column.ranges.iter().map(without).filter(|range| !range.is_empty()).collect()
        };
        let mut ranges: Vec<Range<u64>> = self.columns.iter().flat_map(of_column).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        ranges
    }

    /// The bytes of all pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().map(ColumnPages::bytes).sum()
    }
}

impl ColumnPages {
    /// The bytes of all pages.
    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// The bytes of dictionaries.
    pub(crate) fn dictionary_bytes(&self) -> u64 {
        self.dictionaries.iter().map(|range| range.end - range.start).sum()
    }
}

/// Returns whether the pages are adjacent inside the column chunk and cover its rows.
fn are_sound(
    locations: &[parquet::file::page_index::offset_index::PageLocation],
    chunk: &Range<u64>,
    rows: usize,
) -> bool {
    let mut end = chunk.start;
    let mut row = 0;
    locations.first().is_some_and(|first| first.first_row_index == 0)
        && locations.iter().all(|page| {
            let (Ok(offset), Ok(size)) =
                (u64::try_from(page.offset), u64::try_from(page.compressed_page_size))
            else {
                return false;
            };
            let sound = offset >= end && size > 0 && page.first_row_index >= row;
            row = page.first_row_index;
            end = offset.saturating_add(size);
            sound && end <= chunk.end && row <= rows as i64
        })
}

/// The same bytes as ascending ranges that are not adjacent.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::page_index::offset_index::PageLocation;

    fn page(offset: i64, compressed_page_size: i32, first_row_index: i64) -> PageLocation {
        PageLocation { offset, compressed_page_size, first_row_index }
    }

    #[test]
    fn ranges_that_touch_become_one() {
        assert_eq!(joined(vec![30..40, 0..10, 10..20, 15..18]), [0..20, 30..40]);
        assert!(joined(Vec::new()).is_empty());
    }

    #[test]
    fn an_index_that_cannot_be_is_refused() {
        let good = [page(110, 20, 0), page(130, 20, 5), page(150, 50, 9)];
        assert!(are_sound(&good, &(100..200), 10));
        assert!(!are_sound(&good, &(100..199), 10), "beyond the chunk");
        assert!(!are_sound(&good, &(120..200), 10), "before the chunk");
        assert!(!are_sound(&good, &(100..200), 8), "beyond the rows");
        assert!(!are_sound(&[page(110, 20, 1)], &(100..200), 10), "rows are missing");
        assert!(!are_sound(&[page(110, 30, 0), page(130, 20, 5)], &(100..200), 10), "pages overlap");
        assert!(!are_sound(&[page(110, 0, 0)], &(100..200), 10), "an empty page");
        assert!(!are_sound(&[page(-5, 10, 0)], &(0..200), 10));
        assert!(!are_sound(&[page(110, 20, 0), page(130, 20, -5)], &(100..200), 10), "rows go back");
    }
}
