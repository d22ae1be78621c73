//! Trusted bounds of a page index, by the same rules as [those of row groups](crate::statistics).
//!
//! An untrusted index is left out, as if the writer had written none. The positions of pages stay known.

use parquet::data_type::AsBytes;
use parquet::file::metadata::{ColumnChunkMetaData, ColumnIndexBuilder};
use parquet::file::page_index::column_index::ColumnIndexMetaData;

use crate::order::ValueOrder;
use crate::writer::Writer;

/// A page's number of nulls and its bounds, each in its plain encoding.
struct Page<'a> {
    nulls: i64,
    bounds: Option<(&'a [u8], &'a [u8])>,
}

/// The index of a column chunk, without untrusted bounds.
pub(crate) fn believed(
    index: ColumnIndexMetaData,
    column: &ColumnChunkMetaData,
    writer: &Writer,
) -> ColumnIndexMetaData {
    if matches!(index, ColumnIndexMetaData::NONE) {
        return index;
    }
    let descriptor = column.column_descr();
    let Some(order) = ValueOrder::of(descriptor).filter(|order| !writer.misorders(*order)) else {
        return ColumnIndexMetaData::NONE;
    };
    let counts_nulls = index.null_counts().is_some() || descriptor.max_def_level() == 0;
    let in_order = |page: &Page<'_>| {
        page.bounds.is_none_or(|(min, max)| {
            let is_nan = order.is_nan(min) || order.is_nan(max) && !order.is_nan_of_ours(max);
            !is_nan && order.compare(min, max).is_some_and(|found| found.is_le())
        })
    };
    let Some(pages) = pages(&index).filter(|pages| counts_nulls && pages.iter().all(in_order)) else {
        return ColumnIndexMetaData::NONE;
    };
    if order.is_floating() { with_nan(&pages, column, order) } else { index }
}

/// The pages of an index; `None` if it lacks the bounds of a page that has values.
fn pages(index: &ColumnIndexMetaData) -> Option<Vec<Page<'_>>> {
    let page = |at: usize| {
        let nulls = index.null_counts().map_or(Some(0), |counts| counts.get(at).copied())?;
        if index.is_null_page(at) {
            return Some(Page { nulls, bounds: None });
        }
        macro_rules! bounds {
            ($of:expr) => {
                ($of.min_value(at)?.as_bytes(), $of.max_value(at)?.as_bytes())
            };
        }
        let bounds = match index {
            ColumnIndexMetaData::NONE => return None,
            ColumnIndexMetaData::BOOLEAN(of) => bounds!(of),
            ColumnIndexMetaData::INT32(of) => bounds!(of),
            ColumnIndexMetaData::INT64(of) => bounds!(of),
            ColumnIndexMetaData::INT96(of) => bounds!(of),
            ColumnIndexMetaData::FLOAT(of) => bounds!(of),
            ColumnIndexMetaData::DOUBLE(of) => bounds!(of),
            ColumnIndexMetaData::BYTE_ARRAY(of) | ColumnIndexMetaData::FIXED_LEN_BYTE_ARRAY(of) => {
                (of.min_value(at)?, of.max_value(at)?)
            }
        };
        Some(Page { nulls, bounds: Some(bounds) })
    };
    (0..index.num_pages() as usize).map(page).collect()
}

/// The index with NaN as the upper bound of each page, and the negative zero where the lower bound is zero.
fn with_nan(pages: &[Page<'_>], column: &ColumnChunkMetaData, order: ValueOrder) -> ColumnIndexMetaData {
    let (nan, zero, negative_zero) = order.nan_and_zeros();
    let mut builder = ColumnIndexBuilder::new(column.column_type());
    for page in pages {
        match page.bounds {
            None => builder.append(true, Vec::new(), Vec::new(), page.nulls),
            Some((min, _)) => {
                let min = if min == zero { &negative_zero[..] } else { min };
                builder.append(false, min.to_vec(), nan.clone(), page.nulls);
            }
        }
    }
    builder.build().unwrap_or(ColumnIndexMetaData::NONE)
}
