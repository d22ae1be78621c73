//! Split points of a large row group. Every split point is the first row of a page, near the even cut.
//!
//! Candidates are pages of the largest columns, and of the key if split points are chosen by value.
//! Candidates that split no page of the key come first. Among these, the one with the fewest bytes of large
//! columns' pages across it is chosen. This module does not decide whether that is good enough.

use parquet::file::metadata::ParquetMetaData;

use crate::files::key_pages::KeyPages;

/// The number of largest columns at whose pages split points are chosen.
const COLUMNS_LOOKED_AT: usize = 8;

/// The pages of the largest columns of a row group.
pub(crate) struct LargestColumns {
    /// The first row and the bytes of each column's pages.
    columns: Vec<Vec<(usize, u64)>>,
    /// The number of pages of all columns.
    of_all: u64,
}

impl LargestColumns {
    /// `None` if the row group has no offset index, or one whose rows do not ascend.
    pub(crate) fn new(metadata: &ParquetMetaData, row_group: usize) -> Option<Self> {
        let index = metadata.offset_index()?.get(row_group)?;
        let about = metadata.row_group(row_group).columns();
        let mut leaves: Vec<usize> = (0..about.len()).collect();
        leaves.sort_by_key(|&leaf| std::cmp::Reverse(about[leaf].compressed_size()));
        let mut columns = Vec::new();
        for leaf in leaves.into_iter().take(COLUMNS_LOOKED_AT) {
            let pages = index.get(leaf)?.page_locations().iter().map(|page| {
                let row = usize::try_from(page.first_row_index).ok()?;
                Some((row, u64::try_from(page.compressed_page_size).ok()?))
            });
            let pages: Vec<(usize, u64)> = pages.collect::<Option<_>>()?;
            if !pages.is_sorted_by(|a, b| a.0 < b.0) {
                return None;
            }
            columns.push(pages);
        }
        let of_all = index.iter().map(|column| column.page_locations().len() as u64).sum();
        Some(LargestColumns { columns, of_all })
    }

    /// The number of pages of all columns of the row group.
    pub(crate) fn pages(&self) -> u64 {
        self.of_all
    }

    /// Split points that cut `rows` rows into this many pieces of about as many rows each, or into fewer.
    pub(crate) fn borders(&self, rows: usize, wanted: usize, key: Option<&KeyPages>) -> Vec<usize> {
        let mut borders: Vec<usize> = Vec::with_capacity(wanted);
        for at in 1..wanted {
            let even = (rows as u128 * at as u128 / wanted as u128) as usize;
            let after = borders.last().copied().unwrap_or(0);
            let near = rows / wanted / 2;
            let of_columns = self.columns.iter().flat_map(|pages| nearest(pages, even, |page| page.0));
            let of_key = key.into_iter().flat_map(|key| nearest(&key.starts, even, |start| *start));
            let fit = of_columns
                .chain(of_key)
                .filter(|&row| row > after && row < rows && row.abs_diff(even) <= near);
            let splits = |row: usize| key.is_some_and(|key| key.is_split_by(row));
            let costs = |row: &usize| (splits(*row), self.straddled(*row), row.abs_diff(even), *row);
            borders.extend(fit.min_by_key(costs));
        }
        borders
    }

    /// The bytes of pages with rows on both sides of a split point.
    fn straddled(&self, border: usize) -> u64 {
        let of_column = |pages: &Vec<(usize, u64)>| {
            let before = pages.partition_point(|(row, _)| *row < border);
            let begins = pages.get(before).is_some_and(|(row, _)| *row == border);
            if begins { 0 } else { before.checked_sub(1).map_or(0, |at| pages[at].1) }
        };
        self.columns.iter().map(of_column).sum()
    }
}

/// The last page that begins at or before a row, and the first one after it.
fn nearest<T>(pages: &[T], row: usize, start: impl Fn(&T) -> usize) -> impl Iterator<Item = usize> {
    let behind = pages.partition_point(|page| start(page) <= row);
    let before = behind.checked_sub(1).map(|at| start(&pages[at]));
    before.into_iter().chain(pages.get(behind).map(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_lie_where_fewest_bytes_straddle() {
        // Pages of 10 rows, and a smaller column with pages of 25 rows.
        let tens = (0..10).map(|page| (page * 10, 100)).collect();
        let others = (0..4).map(|page| (page * 25, 40)).collect();
        let columns = LargestColumns { columns: vec![tens, others], of_all: 14 };
        assert_eq!(columns.borders(100, 2, None), [50], "a page of both begins there");
        // Split points 20 and 30 straddle 40 bytes each, 25 straddles 100.
        assert_eq!(columns.borders(100, 4, None), [20, 50, 70]);
        assert_eq!((columns.straddled(20), columns.straddled(30)), (40, 40));
        assert_eq!(columns.straddled(25), 100);
    }

    #[test]
    fn there_is_no_border_without_a_page_near() {
        let columns = LargestColumns { columns: vec![vec![(0, 900), (90, 100)]], of_all: 2 };
        assert_eq!(columns.borders(100, 2, None), [0usize; 0]);
        assert_eq!(columns.borders(100, 8, None), [90]);
    }

    #[test]
    fn pages_of_the_key_are_not_split_if_one_begins_near() {
        let columns =
            LargestColumns { columns: vec![(0..10).map(|page| (page * 10, 100)).collect()], of_all: 14 };
        let key = KeyPages::with_several_values(vec![0, 24, 48, 96]);
        // 96 is not near 75, and 70 splits a page.
        assert_eq!(columns.borders(100, 4, Some(&key)), [24, 48, 70]);
        assert_eq!(columns.borders(100, 2, Some(&key)), [48]);
    }
}
