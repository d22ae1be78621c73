//! The rows of a file that are left when some are deleted.

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::parquet::arrow::arrow_reader::{RowSelection, RowSelector};

/// Returns a file of this many rows without those at the positions; `None` if there are more rows or another order in
/// the list.
pub(crate) fn without_rows(
    file: &PartitionedFile,
    deleted: impl IntoIterator<Item = u64>,
    rows: u64,
) -> Option<PartitionedFile> {
    let selection = rows_left(deleted, rows)?;
    Some(file.clone().with_extension(ParquetRowSelection::new(selection)))
}

/// Returns the rows that are left of a file; `None` if there are more rows or another order in the list.
fn rows_left(deleted: impl IntoIterator<Item = u64>, rows: u64) -> Option<RowSelection> {
    let mut selectors: Vec<RowSelector> = Vec::new();
    let mut next = 0;
    for row in deleted {
        let kept = row.checked_sub(next)?;
        match selectors.last_mut() {
            Some(last) if kept == 0 => last.row_count += 1,
            _ => {
                if kept > 0 {
                    selectors.push(RowSelector::select(kept as usize));
                }
                selectors.push(RowSelector::skip(1));
            }
        }
        next = row + 1;
    }
    let rest = rows.checked_sub(next)?;
    if rest > 0 {
        selectors.push(RowSelector::select(rest as usize));
    }
    Some(RowSelection::from(selectors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_that_are_left() {
        let selected = |deleted: &[u64], rows| {
            let selection = rows_left(deleted.iter().copied(), rows)?;
            Some(selection.iter().map(|part| (part.skip, part.row_count)).collect::<Vec<_>>())
        };
        assert_eq!(selected(&[], 5), Some(vec![(false, 5)]));
        assert_eq!(selected(&[0, 1, 3], 5), Some(vec![(true, 2), (false, 1), (true, 1), (false, 1)]));
        assert_eq!(selected(&[4], 5), Some(vec![(false, 4), (true, 1)]));
        assert_eq!(selected(&[0, 1], 2), Some(vec![(true, 2)]));
        assert_eq!(selected(&[5], 5), None);
        assert_eq!(selected(&[3, 1], 5), None);
        assert_eq!(selected(&[1, 1], 5), None);
    }
}
