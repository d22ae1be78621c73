//! A point read, from the caller's request to the rows.

use std::collections::HashSet;
use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use parquet::file::metadata::ParquetMetaData;

use crate::decode::uncounted_bytes;
use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::files::pages::Pages;
use crate::files::table::File;
use crate::point::reads::permits;
use crate::point::{Gathered, PointRequest, decode};

/// The rows of a point read. They count in the ledger until this is dropped. A caller that keeps arrays
/// longer has to account for them, as with the arrays of a chunk.
#[derive(Debug)]
pub struct PointRows {
    /// For each batch the arrays of all columns.
    pub batches: Vec<Vec<ArrayRef>>,
    _room: Room,
}

/// The room of a point read in the ledger, given back when dropped.
struct Room {
    driver: Arc<Driver>,
    read: u64,
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("read", &self.read).finish_non_exhaustive()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.driver.note(|locked| locked.end_point(self.read));
    }
}

/// The result of an attempt at a point read.
enum Attempt {
    Rows(PointRows),
    /// There is no room for it yet. It needs this many bytes in addition to the frames.
    NoRoom(u64),
    /// It will never have room.
    TooLarge,
}

impl Engine {
    /// Reads the rows of a request by their pages, in batches of at most
    /// [`slice_rows`](crate::EngineConfig::slice_rows) rows, each with the arrays of all columns. `None` if a
    /// scan has to read them: there is no offset index, no room, or scans need the room. The future may be
    /// dropped at any point.
    ///
    /// # Errors
    /// As a scan: the file was replaced, a page cannot be read or decoded, the request is inconsistent. With
    /// [`wait_for_room`](PointRequest::wait_for_room) also [`EngineError::BufferTooSmall`], if no room is
    /// released.
    pub async fn point_read(&self, request: &PointRequest) -> Result<Option<PointRows>, EngineError> {
        let driver = &self.driver;
        driver.locked(|locked| locked.check_handles([&request.file]))??;
        let file = request.file.file().clone();
        check(request, file.columns.len())?;
        let PointRequest { metadata, row_group, roots, rows, .. } = request;
        let Some(pages) = Pages::new(metadata, *row_group, roots, rows) else { return Ok(None) };
        let mut room = pages.bytes().saturating_add(decoded_bytes(metadata, *row_group, &pages));
        if !request.wait_for_room {
            return match self.attempt(&file, request, pages, room).await? {
                Attempt::Rows(rows) => Ok(Some(rows)),
                Attempt::NoRoom(_) | Attempt::TooLarge => Ok(None),
            };
        }
        let waiter = driver.wait_for_room()?;
        loop {
            let freed = waiter.next_change()?;
            match self.attempt(&file, request, pages.clone(), room).await? {
                Attempt::Rows(rows) => return Ok(Some(rows)),
                Attempt::TooLarge => return Ok(None),
                Attempt::NoRoom(needed) => room = needed,
            }
            if !freed.await? {
                let budget = driver.look(|state| state.abm.usage().budget);
                let what =
                    format!("a point read of {}, beside what others hold and do not read,", file.name());
                return Err(EngineError::BufferTooSmall { needed: budget + room, budget, what });
            }
        }
    }

    /// Reads if `room` bytes in addition to the frames are available.
    async fn attempt(
        &self,
        file: &Arc<File>,
        request: &PointRequest,
        pages: Pages,
        room: u64,
    ) -> Result<Attempt, EngineError> {
        let driver = &self.driver;
        if room > driver.locked(|locked| locked.point_read_bytes_max())? {
            return Ok(Attempt::TooLarge);
        }
        let Ok(permits) = driver.point_room.acquire_many(permits(room)).await else {
            // Closed: the driver has the error.
            return driver.locked(|_| Attempt::TooLarge);
        };
        let rows = rows_between(&request.rows);
        let began =
            driver.locked(|locked| locked.begin_point(file, request.row_group, &rows, pages, room))??;
        let Some((read, cell)) = began else { return Ok(Attempt::NoRoom(room)) };
        let held = Room { driver: driver.clone(), read };
        let waited = driver.now();
        let gathered = poll_fn(|cx| cell.poll(cx)).await;
        driver.work.wait_ns.add_time(driver.now() - waited);
        let columns = match gathered? {
            Gathered::Bytes(columns) => columns,
            Gathered::Revoked => return Ok(Attempt::NoRoom(room)),
        };
        let started = driver.now();
        let target = decode::Target {
            file,
            metadata: &request.metadata,
            row_group: request.row_group,
            schema: &request.schema,
            rows: &request.rows,
            batch_rows: driver.config.slice_rows,
            room,
        };
        let batches = decode::decode(&target, columns)?;
        driver.work.decode_ns.add_time(driver.now() - started);
        let Some(batches) = batches else { return Ok(Attempt::TooLarge) };
        // From here on the arrays use the room, for as long as the caller keeps them.
        let bytes = array_bytes(&batches);
        let fits = driver.locked(|locked| locked.resize_point(read, bytes))?;
        drop(permits);
        Ok(if fits {
            Attempt::Rows(PointRows { batches, _room: held })
        } else {
            Attempt::NoRoom(bytes.max(room))
        })
    }
}

/// The memory of the arrays.
fn array_bytes(batches: &[Vec<ArrayRef>]) -> u64 {
    let mut counted = HashSet::new();
    batches.iter().flatten().map(|array| uncounted_bytes(&array.to_data(), &mut counted)).sum()
}

fn check(request: &PointRequest, columns: usize) -> Result<(), EngineError> {
    let PointRequest { roots, rows, row_group, metadata, .. } = request;
    let groups = metadata.num_row_groups();
    let ascending = roots.windows(2).all(|pair| pair[0] < pair[1]);
    let invalid = if *row_group >= groups {
        format!("row group {row_group} of {groups}")
    } else if !ascending || roots.last().is_none_or(|&root| root >= columns) {
        format!("root columns {roots:?} of {columns}: must be ascending positions in the file")
    } else if !sound(rows, metadata.row_group(*row_group).num_rows().max(0) as usize) {
        format!("rows {rows:?}: ascending ranges within the row group are wanted")
    } else {
        return Ok(());
    };
    Err(EngineError::InvalidRequest(invalid))
}

/// The range from the first of the selected rows to the last.
fn rows_between(rows: &[Range<usize>]) -> Range<usize> {
    rows.first().map_or(0, |first| first.start)..rows.last().map_or(0, |last| last.end)
}

fn sound(rows: &[Range<usize>], total: usize) -> bool {
    rows.iter().all(|range| range.start < range.end && range.end <= total)
        && rows.windows(2).all(|pair| pair[0].end <= pair[1].start)
}

/// The excess in bytes of a page over its share of the column chunk, which matters for pages of a few bytes.
const PAGE_SLACK_BYTES: u64 = 8 << 10;

/// The bytes that decoding these pages may need: the uncompressed pages of one column after the other, and
/// the arrays of the data pages.
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
        // A dictionary is in memory encoded and decoded. Pages are not compressed equally.
        let dictionaries = expanded(column.dictionary_bytes()).saturating_mul(2);
        let pages = expanded(column.bytes() - column.dictionary_bytes());
        let pages = pages.saturating_add(pages / 4).saturating_add(PAGE_SLACK_BYTES);
        pages_max = pages_max.max(pages.saturating_add(dictionaries));
        arrays =
            arrays.saturating_add(expanded(column.bytes() - column.dictionary_bytes()).saturating_mul(2));
    }
    arrays.saturating_add(pages_max)
}
