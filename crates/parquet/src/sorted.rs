//! Proof that a file is in the order that its row groups state.
//!
//! `SortingColumn` states the order of one row group's rows. A file is in that order if all row groups state
//! it and each ends at or before the beginning of the next. This module proves that by their bounds and
//! counts of nulls. An order that is not proven is removed from the metadata. The order of rows within a row
//! group is not checked, because that needs the values.

use std::cmp::Ordering;

use parquet::file::metadata::{RowGroupMetaData, SortingColumn};

use crate::order::ValueOrder;

/// The longest proven order that all of these row groups have, one after the other; empty if there is none.
/// They must have trusted statistics.
pub(crate) fn proven(row_groups: &[RowGroupMetaData]) -> Vec<SortingColumn> {
    let mut filled = row_groups.iter().filter(|row_group| row_group.num_rows() > 0);
    let Some(first) = filled.next() else { return Vec::new() };
    let mut order: Vec<SortingColumn> = first.sorting_columns().cloned().unwrap_or_default();
    order.truncate(order.iter().take_while(|claimed| is_provable(first, claimed)).count());
    let mut before = first;
    for row_group in filled {
        if order.is_empty() {
            break;
        }
        let claimed = row_group.sorting_columns().map_or(&[][..], Vec::as_slice);
        let common = order.iter().zip(claimed).take_while(|(a, b)| a == b).count();
        order.truncate(common.min(columns_in_order(before, row_group, &order)));
        before = row_group;
    }
    order
}

/// Returns whether an order by this column can be that of a table: the column is flat, and its values compare
/// as in SQL. Writers put NaN at either end.
fn is_provable(row_group: &RowGroupMetaData, claimed: &SortingColumn) -> bool {
    let column = usize::try_from(claimed.column_idx).ok().and_then(|at| row_group.columns().get(at));
    column.is_some_and(|column| {
        let descriptor = column.column_descr();
        let is_flat = descriptor.max_rep_level() == 0 && descriptor.path().parts().len() == 1;
        is_flat && ValueOrder::of(descriptor).is_some_and(|order| !order.is_floating())
    })
}

/// The number of leading columns of `order` in which rows of `after` may follow those of `before`.
fn columns_in_order(before: &RowGroupMetaData, after: &RowGroupMetaData, order: &[SortingColumn]) -> usize {
    for (at, column) in order.iter().enumerate() {
        match last_and_first(before, after, column) {
            Some(Ordering::Less) => return order.len(),
            Some(Ordering::Equal) => {}
            Some(Ordering::Greater) | None => return at,
        }
    }
    order.len()
}

/// The worst possible comparison of the last value of a column in one row group with the first in the next,
/// in the order of the column; `None` if it is unknown.
fn last_and_first(
    before: &RowGroupMetaData,
    after: &RowGroupMetaData,
    by: &SortingColumn,
) -> Option<Ordering> {
    let at = usize::try_from(by.column_idx).ok()?;
    let (before, after) = (End::of(before, at)?, End::of(after, at)?);
    // Nulls are at one end of each row group.
    let (last_is_null, first_is_null) = match by.nulls_first {
        true => (before.nulls == before.rows, after.nulls > 0),
        false => (before.nulls > 0, after.nulls == after.rows),
    };
    match (last_is_null, first_is_null) {
        (true, true) => return Some(Ordering::Equal),
        (true, false) => return Some(if by.nulls_first { Ordering::Less } else { Ordering::Greater }),
        (false, true) => return Some(if by.nulls_first { Ordering::Greater } else { Ordering::Less }),
        (false, false) => {}
    }
    let (last, first) = if by.descending { (after.max?, before.min?) } else { (before.max?, after.min?) };
    before.order.compare(last, first)
}

/// The known facts about a column where two row groups meet.
struct End<'a> {
    rows: u64,
    nulls: u64,
    min: Option<&'a [u8]>,
    max: Option<&'a [u8]>,
    order: ValueOrder,
}

impl<'a> End<'a> {
    fn of(row_group: &'a RowGroupMetaData, at: usize) -> Option<End<'a>> {
        let column = row_group.columns().get(at)?;
        let statistics = column.statistics()?;
        Some(End {
            rows: u64::try_from(row_group.num_rows()).ok()?,
            nulls: statistics.null_count_opt()?,
            min: statistics.min_bytes_opt(),
            max: statistics.max_bytes_opt(),
            order: ValueOrder::of(column.column_descr())?,
        })
    }
}
