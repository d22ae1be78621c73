//! Checks of the offset index's row numbers against the pages.
//!
//! Only the offset index states where a piece of a row group lies, and which pages before it are skipped.
//! With a wrong index one piece would get the rows of another. Pages of columns without lists state their
//! number of rows. Pages of lists do not. For them the index is trusted, as it is wherever pages are skipped.

use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ParquetMetaData;

use crate::decode::file_bytes::FileBytes;
use crate::files::chunks::ChunkRows;

/// Fails if a page of a leaf column with rows of a piece has other rows than the offset index states. `file`
/// has the pages.
pub(crate) fn check_pages(
    metadata: &ParquetMetaData,
    chunk: &ChunkRows,
    leaf: usize,
    file: &FileBytes,
) -> ParquetResult<()> {
    let row_group = metadata.row_group(chunk.row_group);
    if row_group.column(leaf).column_descr().max_rep_level() > 0 {
        return Ok(());
    }
    let index = metadata.offset_index().and_then(|index| index.get(chunk.row_group)?.get(leaf));
    let pages = index.map_or(&[][..], |index| index.page_locations());
    let ends = pages.iter().skip(1).map(|page| page.first_row_index).chain([row_group.num_rows()]);
    for (page, end) in pages.iter().zip(ends) {
        let rows = page.first_row_index..end;
        if rows.is_empty() || rows.end <= chunk.rows.start as i64 || rows.start >= chunk.rows.end as i64 {
            continue;
        }
        let header = u64::try_from(page.offset).ok().and_then(|offset| file.header(offset).ok().flatten());
        let values = header.filter(|header| !header.dictionary).map(|header| header.values);
        if values != u64::try_from(rows.end - rows.start).ok() {
            return Err(ParquetError::General(format!(
                "the offset index says that the page at offset {} has rows {}..{}, the page has {} values",
                page.offset,
                rows.start,
                rows.end,
                values.map_or_else(|| "no".to_owned(), |values| values.to_string())
            )));
        }
    }
    Ok(())
}
