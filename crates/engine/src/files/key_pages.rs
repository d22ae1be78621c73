//! The key of a row group: the column by whose values the row group is cut.
//!
//! Pieces of a row group are useful to operators that rely on order if their ranges of a column's values have
//! at most end points in common. The column index states the ranges, page by page. So the pages themselves
//! have to be in order, and no page may be across a split point unless all its values are equal. The column
//! index is only used to choose split points, and every page boundary is a valid one: operators that rely on
//! ranges check them.
//!
//! The key is the column by which the file says that it is sorted, if its pages agree. Otherwise it is the
//! first column whose pages are in order and mostly hold several values each. Otherwise it is the first one
//! whose pages are in order and not all of one value. Columns with lists and of floating point do not qualify
//! (statistics leave NaN out).

use std::cmp::Ordering;

use parquet::basic::{ConvertedType, LogicalType, SortOrder};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::page_index::column_index::{
    ByteArrayColumnIndex, ColumnIndexMetaData, PrimitiveColumnIndex,
};
use parquet::schema::types::ColumnDescriptor;

/// The pages of a row group's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPages {
    /// The first row of each page, ascending.
    pub(crate) starts: Vec<usize>,
    /// True if the page may hold several values.
    several: Vec<bool>,
}

/// The statements of the column index about the values of a column.
#[derive(Debug, PartialEq, Eq)]
struct InOrder {
    /// For each page, whether it may hold several values.
    several: Vec<bool>,
    /// True if all pages hold the same value.
    constant: bool,
}

impl KeyPages {
    /// The pages of a row group's key; `None` if the file states of no column that its pages are in order.
    /// Cost: linear in the pages of the row group.
    pub(crate) fn find(metadata: &ParquetMetaData, row_group: usize) -> Option<Self> {
        let about = metadata.row_group(row_group);
        let declared = about.sorting_columns().and_then(|columns| columns.first());
        let declared = declared.and_then(|column| usize::try_from(column.column_idx).ok());
        if let Some(key) = declared.and_then(|leaf| Self::of(metadata, row_group, leaf)) {
            return Some(key);
        }
        let mut first = None;
        for leaf in 0..about.num_columns() {
            let Some(key) = Self::of(metadata, row_group, leaf) else { continue };
            if key.several.iter().filter(|&&several| several).count() * 2 > key.several.len() {
                return Some(key);
            }
            first.get_or_insert(key);
        }
        first
    }

    /// The pages of a column; `None` if they are not in order, or hold only one value.
    fn of(metadata: &ParquetMetaData, row_group: usize, leaf: usize) -> Option<Self> {
        let values = metadata.column_index()?.get(row_group)?.get(leaf)?;
        let pages = metadata.offset_index()?.get(row_group)?.get(leaf)?.page_locations();
        let about = metadata.row_group(row_group).columns().get(leaf)?.column_descr();
        let nested = about.max_rep_level() > 0 || about.path().parts().len() > 1;
        if nested || !values.is_sorted() || values.num_pages() != pages.len() as u64 {
            return None;
        }
        let InOrder { several, constant } = in_order(values, about)?;
        let starts: Vec<usize> =
            pages.iter().map(|page| usize::try_from(page.first_row_index).ok()).collect::<Option<_>>()?;
        (!constant && starts.is_sorted_by(|a, b| a < b)).then_some(KeyPages { starts, several })
    }

    #[cfg(test)]
    pub(crate) fn with_several_values(starts: Vec<usize>) -> Self {
        KeyPages { several: vec![true; starts.len()], starts }
    }

    /// Returns whether a page that may hold several values has rows on both sides of a split point.
    pub(crate) fn is_split_by(&self, border: usize) -> bool {
        let before = self.starts.partition_point(|start| *start < border);
        let begins = self.starts.get(before) == Some(&border);
        !begins && before.checked_sub(1).is_some_and(|page| self.several[page])
    }
}

/// The statements of a column index; `None` if its pages are in no order, or are not compared here.
fn in_order(values: &ColumnIndexMetaData, about: &ColumnDescriptor) -> Option<InOrder> {
    let signed = match about.sort_order() {
        SortOrder::SIGNED => true,
        SortOrder::UNSIGNED => false,
        SortOrder::UNDEFINED => return None,
    };
    let decimal = matches!(about.logical_type_ref(), Some(LogicalType::Decimal(_)))
        || about.converted_type() == ConvertedType::DECIMAL;
    match values {
        ColumnIndexMetaData::INT32(of) if signed => by_order(ranges(of), i32::cmp),
        ColumnIndexMetaData::INT32(of) => by_order(ranges(of), |a, b| (*a as u32).cmp(&(*b as u32))),
        ColumnIndexMetaData::INT64(of) if signed => by_order(ranges(of), i64::cmp),
        ColumnIndexMetaData::INT64(of) => by_order(ranges(of), |a, b| (*a as u64).cmp(&(*b as u64))),
        ColumnIndexMetaData::BYTE_ARRAY(of) if !signed => by_order(bytes(of), <[u8]>::cmp),
        ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(of) if !signed => by_order(bytes(of), <[u8]>::cmp),
        ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(of) if decimal => by_order(bytes(of), twos_complement),
        _ => None,
    }
}

fn ranges<T>(of: &PrimitiveColumnIndex<T>) -> impl Iterator<Item = Option<(&T, &T)>> {
    of.min_values_iter().zip(of.max_values_iter()).map(|(low, high)| low.zip(high))
}

fn bytes(of: &ByteArrayColumnIndex) -> impl Iterator<Item = Option<(&[u8], &[u8])>> {
    of.min_values_iter().zip(of.max_values_iter()).map(|(low, high)| low.zip(high))
}

/// Compares two numbers of the same length, most significant byte first.
fn twos_complement(a: &[u8], b: &[u8]) -> Ordering {
    let sign = |of: &[u8]| of.first().is_none_or(|first| *first < 0x80);
    sign(a).cmp(&sign(b)).then_with(|| a.cmp(b))
}

/// The order of pages with these least and greatest values. A page of nulls only has none.
fn by_order<'a, T: ?Sized + 'a>(
    pages: impl Iterator<Item = Option<(&'a T, &'a T)>>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Option<InOrder> {
    let (mut ascending, mut descending, mut constant) = (true, true, true);
    let mut before: Option<(&T, &T)> = None;
    let mut several = Vec::new();
    for page in pages {
        let Some((low, high)) = page else {
            several.push(false);
            continue;
        };
        let within = compare(low, high);
        if let Some((least, greatest)) = before {
            ascending &= compare(greatest, low).is_le();
            descending &= compare(high, least).is_le();
            constant &= compare(least, low).is_eq();
        }
        if within.is_gt() || !(ascending || descending) {
            return None;
        }
        constant &= within.is_eq();
        several.push(within.is_lt());
        before = Some((low, high));
    }
    Some(InOrder { several, constant })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(of: &[(i32, i32)]) -> Option<(Vec<bool>, bool)> {
        let of = of.iter().map(|(low, high)| (*low < 99).then_some((low, high)));
        by_order(of, i32::cmp).map(|found| (found.several, found.constant))
    }

    #[test]
    fn pages_in_order_have_at_most_end_points_in_common() {
        assert_eq!(pages(&[(1, 3), (3, 3), (3, 7), (8, 9)]), Some((vec![true, false, true, true], false)));
        assert_eq!(pages(&[(5, 9), (5, 5), (99, 99), (1, 5)]), Some((vec![true, false, false, true], false)));
        assert_eq!(pages(&[(1, 4), (3, 7)]), None, "they overlap");
        assert_eq!(pages(&[(1, 2), (3, 4), (2, 3)]), None, "neither ascending nor descending");
        assert_eq!(pages(&[(2, 1)]), None, "not a range");
        assert_eq!(pages(&[(4, 4), (4, 4)]), Some((vec![false, false], true)));
        assert_eq!(pages(&[]), Some((vec![], true)));
    }

    #[test]
    fn decimals_are_compared_by_their_sign_first() {
        let bytes = |number: i32| number.to_be_bytes();
        for (a, b) in [(-1, 0), (-200, -100), (100, 300), (7, 7), (i32::MIN, i32::MAX)] {
            assert_eq!(twos_complement(&bytes(a), &bytes(b)), a.cmp(&b), "{a} {b}");
        }
    }

    #[test]
    fn a_page_of_one_value_may_be_across_a_border() {
        let key = KeyPages { starts: vec![0, 10, 20], several: vec![true, false, true] };
        let split: Vec<usize> = (0..=25).filter(|&border| key.is_split_by(border)).collect();
        assert_eq!(split, Vec::from_iter((1..10).chain(21..=25)));
    }
}
