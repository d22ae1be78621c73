//! Point reads: a few pages of a row group instead of all of it, beside the scans (2004, section 4.2).
//!
//! ```text
//! PointRequest ── pages: which bytes ── drive: resident part? frame? read? load under way? ── cell ── decode
//!                                          │
//!                                          frames: blocks of files under the core's page-level pool
//! ```
//!
//! Such a read does not register with the buffer manager. Its room (frames, pages being put together, arrays being
//! decoded) is in the same ledger, within a share of the budget; its requests go first in the same I/O queue, under
//! the same limit, with the same retries and checks of the file's version. Whoever wants rows that are no point read,
//! or finds no room for one, registers a scan: whether to is the caller's decision ([`point_cost`]).

mod cell;
mod decode;
pub(crate) mod drive;
mod frames;
mod pages;

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use parquet::file::metadata::ParquetMetaData;

pub use pages::{PointCost, point_cost};

use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::table::FileId;
use cell::Gathered;
use drive::Points;
use pages::Pages;

/// The unit in which room is handed out to point reads that wait for it, in bytes.
const PERMIT_BYTES: u64 = 1 << 10;

/// Some rows of one row group.
#[derive(Clone, Debug)]
pub struct PointRequest {
    /// The file.
    pub file: FileId,
    /// The row group, counted from zero.
    pub row_group: usize,
    /// The rows wanted: ascending, disjoint, within the row group.
    pub rows: Arc<[Range<usize>]>,
    /// Positions of root columns in the file, ascending, at least one.
    pub roots: Vec<usize>,
    /// The Arrow schema to decode the whole file to: as many fields as the file has root columns.
    pub schema: SchemaRef,
    /// The file's footer with its offset index; the engine may know the file without one.
    pub metadata: Arc<ParquetMetaData>,
}

/// A point read under way; gives everything back when dropped.
struct Under<'a> {
    driver: &'a Driver,
    read: u64,
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.driver.turn(|turn| turn.end_point(self.read));
    }
}

impl Engine {
    /// Reads the rows of a request by their pages: in batches of at most
    /// [`slice_rows`](crate::EngineConfig::slice_rows) rows, of each the arrays of all columns. `None` if it has to be
    /// read by a scan: there is no offset index, no room, or what room there was is wanted by scans. May be dropped at
    /// any point.
    ///
    /// # Errors
    /// As a scan: the file was replaced, a page cannot be read or decoded, the request makes no sense.
    pub async fn point_read(
        &self,
        request: &PointRequest,
    ) -> Result<Option<Vec<Vec<ArrayRef>>>, EngineError> {
        let driver = &self.driver;
        let file = driver.turn(|turn| turn.state.catalog.file(request.file).cloned());
        let file =
            file.ok_or_else(|| EngineError::InvalidRequest(format!("there is no file {}", request.file)))?;
        check(request, file.columns.len())?;
        let PointRequest { metadata, row_group, roots, rows, .. } = request;
        let Some(pages) = Pages::new(metadata, *row_group, roots, rows) else { return Ok(None) };
        let room = pages.bytes().saturating_add(decoded_bytes(metadata, *row_group, &pages));
        if room > Points::read_bytes_max(driver.point_share()) {
            return Ok(None);
        }
        let permits = u32::try_from(room.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        let Ok(_room) = driver.point_room.acquire_many(permits).await else { return Ok(None) };
        let began = driver.turn(|turn| turn.begin_point(&file, *row_group, pages, room))?;
        let Some((read, cell)) = began else { return Ok(None) };
        let _under = Under { driver, read };
        let waited = driver.now();
        let gathered = poll_fn(|cx| cell.poll(cx)).await;
        driver.work.wait_ns.add_time(driver.now() - waited);
        let columns = match gathered? {
            Gathered::Bytes(columns) => columns,
            Gathered::Revoked => return Ok(None),
        };
        let started = driver.now();
        let target = decode::Target {
            file: &file,
            metadata,
            row_group: *row_group,
            schema: &request.schema,
            rows,
            batch_rows: driver.config.slice_rows,
        };
        let batches = decode::decode(&target, columns)?;
        driver.work.decode_ns.add_time(driver.now() - started);
        Ok(Some(batches))
    }
}

fn check(request: &PointRequest, columns: usize) -> Result<(), EngineError> {
    let PointRequest { roots, rows, row_group, metadata, .. } = request;
    let groups = metadata.num_row_groups();
    let ascending = roots.windows(2).all(|pair| pair[0] < pair[1]);
    let invalid = if *row_group >= groups {
        format!("row group {row_group} of {groups}")
    } else if !ascending || roots.last().is_none_or(|&root| root >= columns) {
        format!("root columns {roots:?} of {columns}: ascending positions are wanted")
    } else if !sound(rows, metadata.row_group(*row_group).num_rows().max(0) as usize) {
        format!("rows {rows:?}: ascending ranges within the row group are wanted")
    } else {
        return Ok(());
    };
    Err(EngineError::InvalidRequest(invalid))
}

fn sound(rows: &[Range<usize>], total: usize) -> bool {
    rows.iter().all(|range| range.start < range.end && range.end <= total)
        && rows.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

/// What decoding these pages may need: those of one column after the other uncompressed, and the arrays made of the
/// data pages.
fn decoded_bytes(metadata: &ParquetMetaData, row_group: usize, pages: &Pages) -> u64 {
    let schema = metadata.file_metadata().schema_descr();
    let leaves = metadata.row_group(row_group).columns();
    let (mut pages_max, mut arrays) = (0, 0u64);
    for column in &pages.columns {
        let of_root =
            leaves.iter().enumerate().filter(|(leaf, _)| schema.get_column_root_idx(*leaf) == column.root);
        let (mut encoded, mut plain) = (0u128, 0u128);
        for (_, leaf) in of_root {
            encoded += leaf.compressed_size().max(0) as u128;
            plain += leaf.uncompressed_size().max(0) as u128;
        }
        let expanded = |bytes: u64| {
            u64::try_from(u128::from(bytes).saturating_mul(plain) / encoded.max(1)).unwrap_or(u64::MAX)
        };
        pages_max = expanded(column.bytes()).max(pages_max);
        arrays =
            arrays.saturating_add(expanded(column.bytes() - column.dictionary_bytes()).saturating_mul(2));
    }
    arrays.saturating_add(pages_max)
}
