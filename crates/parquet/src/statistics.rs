//! Trusted statistics of a row group.
//!
//! Untrusted statistics are removed here, once, when a footer is read. So all decisions by statistics
//! (pruning, conditions that are always true, constants, extremes, orders) can trust the ones they find, and
//! treat missing ones as unknown:
//!
//! - A count of nulls is trusted if it is there, fits the number of values, and its writer is not known to
//!   miscount. Without it all statistics are removed: readers below coscan take a missing count for zero.
//! - Bounds are trusted if the format defines their order and their writer kept it, if neither is NaN, and if
//!   they do not contradict each other. The deprecated fields are valid for signed numbers only.
//! - Bounds of floating-point numbers leave out NaN, which is the greatest number in SQL. So NaN becomes the
//!   upper bound, and a lower bound of zero becomes that of the negative zero.
//!
//! This module does not check whether statistics of a writer without a known error are true, because that
//! needs the values.

use parquet::basic::ColumnOrder;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::statistics::{Statistics, ValueStatistics};

use crate::order::{DOUBLE_NAN, FLOAT_NAN, HALF_NAN, ValueOrder};
use crate::writer::Writer;

const HALF_NEGATIVE_ZERO: [u8; 2] = 0x8000u16.to_le_bytes();

/// The trusted part of a column's statistics in a row group.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// All of them.
    All,
    /// None of them.
    Nothing,
    /// These statistics instead.
    Instead(Statistics),
}

/// Removes untrusted statistics of a row group. `order` returns the order of a column by its number.
pub(crate) fn keep_believed(
    row_group: &mut RowGroupMetaData,
    writer: &Writer,
    order: impl Fn(usize) -> ColumnOrder,
) {
    let rows = row_group.num_rows();
    for (number, column) in row_group.columns_mut().iter_mut().enumerate() {
        let changed = match verdict(column, rows, writer, order(number)) {
            Verdict::All => continue,
            Verdict::Nothing => column.clone().into_builder().clear_statistics(),
            Verdict::Instead(statistics) => column.clone().into_builder().set_statistics(statistics),
        };
        if let Ok(changed) = changed.build() {
            *column = changed;
        }
    }
}

fn verdict(column: &ColumnChunkMetaData, rows: i64, writer: &Writer, order: ColumnOrder) -> Verdict {
    let Some(statistics) = column.statistics() else { return Verdict::All };
    let descriptor = column.column_descr();
    let values = column.num_values();
    let is_flat = descriptor.max_rep_level() == 0;
    let nulls = match statistics.null_count_opt() {
        Some(1..) | None if descriptor.max_def_level() == 0 => 0,
        Some(nulls) => nulls,
        None => return Verdict::Nothing,
    };
    if is_flat && values != rows || values < 0 || nulls > values as u64 {
        return Verdict::Nothing;
    }
    if descriptor.max_def_level() > 0 && writer.miscounts_nulls(descriptor, nulls) {
        return Verdict::Nothing;
    }
    let believed = (nulls < values as u64).then(|| bounds_order(column, statistics, writer, order)).flatten();
    let Some(order) = believed else {
        let has_bounds = statistics.min_bytes_opt().is_some() || statistics.max_bytes_opt().is_some();
        let same = !has_bounds && statistics.null_count_opt() == Some(nulls);
        return if same {
            Verdict::All
        } else {
            Verdict::Instead(with_bounds(statistics, nulls, Bounds::None))
        };
    };
    if order.is_floating() && !statistics.max_bytes_opt().is_some_and(|max| order.is_nan_of_ours(max)) {
        return Verdict::Instead(with_bounds(statistics, nulls, Bounds::WithNan));
    }
    if statistics.null_count_opt() == Some(nulls) {
        return Verdict::All;
    }
    Verdict::Instead(with_bounds(statistics, nulls, Bounds::Same))
}

/// The order of a column's bounds, if they can be trusted.
fn bounds_order(
    column: &ColumnChunkMetaData,
    statistics: &Statistics,
    writer: &Writer,
    declared: ColumnOrder,
) -> Option<ValueOrder> {
    let order = ValueOrder::of(column.column_descr()).filter(|order| !writer.misorders(*order))?;
    // Without a declared order bounds are in that of the deprecated fields, in either field.
    let declares_its_own =
        matches!(declared, ColumnOrder::TYPE_DEFINED_ORDER(_)) && !statistics.is_min_max_deprecated();
    if declared == ColumnOrder::UNKNOWN || !declares_its_own && !order.is_that_of_deprecated_fields() {
        return None;
    }
    let (min, max) = (statistics.min_bytes_opt(), statistics.max_bytes_opt());
    let is_nan = |bound: Option<&[u8]>| bound.is_some_and(|bound| order.is_nan(bound));
    if is_nan(min) || is_nan(max) && !max.is_some_and(|max| order.is_nan_of_ours(max)) {
        return None;
    }
    match (min, max) {
        (Some(min), Some(max)) => order.compare(min, max)?.is_le().then_some(order),
        (None, None) => None,
        _ => Some(order),
    }
}

/// The bounds that statistics get.
#[derive(Clone, Copy)]
enum Bounds {
    None,
    Same,
    /// Bounds of numbers that are not NaN, extended to all numbers.
    WithNan,
}

fn with_bounds(statistics: &Statistics, nulls: u64, bounds: Bounds) -> Statistics {
    match statistics {
        Statistics::Boolean(of) => Statistics::Boolean(changed(of, nulls, bounds, None)),
        Statistics::Int32(of) => Statistics::Int32(changed(of, nulls, bounds, None)),
        Statistics::Int64(of) => Statistics::Int64(changed(of, nulls, bounds, None)),
        Statistics::Int96(of) => Statistics::Int96(changed(of, nulls, bounds, None)),
        Statistics::ByteArray(of) => Statistics::ByteArray(changed(of, nulls, bounds, None)),
        Statistics::Float(of) => {
            let zero = of.min_opt() == Some(&0.0);
            Statistics::Float(changed(of, nulls, bounds, Some((zero.then_some(-0.0), FLOAT_NAN))))
        }
        Statistics::Double(of) => {
            let zero = of.min_opt() == Some(&0.0);
            Statistics::Double(changed(of, nulls, bounds, Some((zero.then_some(-0.0), DOUBLE_NAN))))
        }
        Statistics::FixedLenByteArray(of) => {
            let half = |bytes: [u8; 2]| FixedLenByteArray::from(ByteArray::from(bytes.to_vec()));
            let zero = of.min_bytes_opt().is_some_and(|min| matches!(min, [0, 0 | 0x80]));
            let floating = (zero.then(|| half(HALF_NEGATIVE_ZERO)), half(HALF_NAN));
            Statistics::FixedLenByteArray(changed(of, nulls, bounds, Some(floating)))
        }
    }
}

/// `floating` is the lower bound that replaces a bound of zero, if any, and NaN.
fn changed<T: Clone>(
    of: &ValueStatistics<T>,
    nulls: u64,
    bounds: Bounds,
    floating: Option<(Option<T>, T)>,
) -> ValueStatistics<T> {
    let exact = (of.min_is_exact(), of.max_is_exact());
    let (min, max, exact) = match (bounds, floating) {
        (Bounds::None, _) => (None, None, (false, false)),
        (Bounds::WithNan, Some((zero, nan))) => {
            let exact = (exact.0 && zero.is_none(), false);
            (zero.or_else(|| of.min_opt().cloned()), Some(nan), exact)
        }
        (Bounds::Same | Bounds::WithNan, _) => (of.min_opt().cloned(), of.max_opt().cloned(), exact),
    };
    ValueStatistics::new(min, max, of.distinct_count(), Some(nulls), false)
        .with_min_is_exact(exact.0)
        .with_max_is_exact(exact.1)
}
