//! A delivered chunk: its rows, slice by slice, as Arrow arrays.
//!
//! Decoding happens here, on the task that asks for a slice. If the buffer manager has taken the chunk back
//! from a consumer that stopped reading, a call for a slice first requests the chunk again.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use arrow::array::ArrayRef;

use crate::decode::Decoded;
use crate::decode::packing::unpacked;
use crate::decode::store::{Part, PinnedParts};
use crate::driver::Driver;
use crate::driver::registered::{Claim, Deferred, RegisteredSegment};
use crate::error::EngineError;
use crate::files::file_read::FileRead;
use crate::monitor::stats::ScanCounters;
use crate::protocol::worker_slots::PartsPoll;
use crate::request::ChunkRequest;

/// A chunk of a scan, in the scan's columns. It is released when its worker asks for the next one, or when it
/// is dropped. Small chunks that are read together are released with the last of them.
pub struct Chunk {
    /// Its key in the request.
    pub key: u32,
    /// The number of its rows.
    pub rows: usize,
    hold: Arc<Hold>,
    counters: Arc<ScanCounters>,
    /// The position of its file and columns in the request.
    columns: usize,
    /// Its position in the file.
    at: usize,
    /// True if it is the last chunk of its bundle.
    last: bool,
}

/// A claimed chunk, given back when dropped.
pub(crate) struct Hold {
    driver: Arc<Driver>,
    pub(crate) segment: Arc<RegisteredSegment>,
    pub(crate) claim: Claim,
}

impl Hold {
    pub(crate) fn new(driver: Arc<Driver>, segment: Arc<RegisteredSegment>, claim: Claim) -> Self {
        Hold { driver, segment, claim }
    }

    /// Releases the chunk. Does nothing the second time.
    pub(crate) fn release(&self) {
        let mut deferred = Deferred::default();
        // Both happen under one lock: the slot must not be requested again before the manager knows that it
        // is free.
        self.driver.note(|locked| {
            if let Some(event) = self.segment.release(&self.claim, &mut deferred) {
                locked.scan_event(self.segment.id, event);
            }
        });
        deferred.wakers.into_iter().for_each(|waker| waker.wake());
    }

    /// Reserves more room for decoding, and gives the chunk back while there is none. `what` names the need.
    fn grow_workspace(&self, bytes: u64, what: String) -> Result<(), EngineError> {
        self.driver.locked(|locked| locked.grow_workspace(&self.segment, &self.claim, bytes, what))
    }

    fn poll_parts(&self, cx: &mut Context<'_>) -> Poll<Result<Arc<PinnedParts>, EngineError>> {
        loop {
            match self.segment.poll_parts(&self.claim, self.driver.now(), cx.waker()) {
                PartsPoll::Ready(parts) => return Poll::Ready(Ok(parts)),
                PartsPoll::Request(slot) => {
                    self.driver.scan_event(self.segment.id, self.segment.requested(slot));
                }
                PartsPoll::Pending => return Poll::Pending,
                PartsPoll::Released => return Poll::Ready(Err(EngineError::Closed)),
                PartsPoll::Failed(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

/// The parts during a step of work, in which the chunk cannot be taken back.
struct Busy<'a> {
    hold: &'a Hold,
    parts: Arc<PinnedParts>,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.hold.segment.pause(&self.hold.claim, self.hold.driver.now()) {
            self.hold.driver.scan_event(self.hold.segment.id, event);
        }
    }
}

impl Chunk {
    /// One chunk of the held bundle; `last` if it is the last one.
    pub(crate) fn new(
        hold: Arc<Hold>,
        wanted: ChunkRequest,
        last: bool,
        counters: Arc<ScanCounters>,
    ) -> Self {
        let read = &hold.segment.reads[wanted.columns];
        let rows = read.file.chunk(wanted.chunk).rows.rows.len();
        Chunk { key: wanted.key, rows, hold, counters, columns: wanted.columns, at: wanted.chunk, last }
    }

    fn read(&self) -> &FileRead {
        &self.hold.segment.reads[self.columns]
    }

    /// The number of slices: rows by [`EngineConfig::slice_rows`](crate::EngineConfig::slice_rows),
    /// rounded up.
    pub fn slices(&self) -> usize {
        self.rows.div_ceil(self.hold.driver.config.slice_rows)
    }

    /// The arrays of the scan's columns for slice `i`. Slices may be skipped. Ascending order is fast; going
    /// back decodes again. The future may be dropped at any point.
    ///
    /// # Errors
    /// The data are corrupt, decoding needs more room than the buffer has, or the scan ended.
    pub async fn slice(&mut self, i: usize) -> Result<Vec<ArrayRef>, EngineError> {
        let packed = self.packed_slice(i).await?;
        let read = self.read();
        let plain = |(root, array): (&usize, &ArrayRef)| {
            let asked = read.decoding.data_type(*root);
            unpacked(array, asked).map_err(|error| read.file.corrupt(self.at, *root, Arc::new(error)))
        };
        read.roots.iter().zip(&packed).map(plain).collect()
    }

    /// As [`Self::slice`], but in the form in which arrays are kept; [`unpacked`] converts to the other form.
    /// String views may come as dictionaries of views, with keys of 8, 16 or 32 bits; the slices of a chunk
    /// share the dictionary. Slices that are kept for other scans may also have narrower numbers: decimals of
    /// 64 bits (unscaled), integers of 32 or 64 bits, and days come as integers of 8, 16 or 32 bits, if these
    /// hold the slice's values.
    ///
    /// # Errors
    /// As [`Self::slice`].
    pub async fn packed_slice(&mut self, i: usize) -> Result<Vec<ArrayRef>, EngineError> {
        if i >= self.slices() {
            let message = format!("slice {i} of a chunk of {} slices", self.slices());
            return Err(EngineError::InvalidRequest(message));
        }
        let mut arrays: Vec<Option<ArrayRef>> = vec![None; self.read().roots.len()];
        let mut waited = Some(self.hold.driver.now());
        poll_fn(|cx| self.poll_slice(i, &mut arrays, &mut waited, cx)).await?;
        Ok(arrays.into_iter().flatten().collect())
    }

    fn poll_slice(
        &self,
        i: usize,
        arrays: &mut [Option<ArrayRef>],
        waited: &mut Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), EngineError>> {
        loop {
            let parts = ready!(self.hold.poll_parts(cx))?;
            if let Some(since) = waited.take() {
                self.note_wait(since);
            }
            // Busy only until this is dropped: other tasks must not wait for this task to be polled.
            let busy = Busy { hold: &self.hold, parts };
            let outcome = self.decode(&busy.parts, i, arrays, cx.waker());
            drop(busy);
            match outcome? {
                Outcome::Done => return Poll::Ready(Ok(())),
                Outcome::Contended => return Poll::Pending,
                Outcome::NeedsRoom(bytes, what) => self.hold.grow_workspace(bytes, what)?,
            }
        }
    }

    fn note_wait(&self, since: Instant) {
        let waited = self.hold.driver.now() - since;
        self.counters.wait_ns.add_time(waited);
        self.hold.driver.work.wait_ns.add_time(waited);
    }

    /// Returns whether the part was in the buffer before the scan registered and half of the buffer is free.
    /// Such a part may be wanted a third time. For a single scan it is better to reuse the memory of one
    /// slice for the next.
    fn may_be_wanted_again(&self, part: &Part) -> bool {
        part.loaded <= self.hold.segment.registered && self.hold.driver.is_roomy.load(Ordering::Relaxed)
    }

    /// Fills in the missing `arrays`, except those that other tasks are decoding.
    fn decode(
        &self,
        parts: &[Arc<Part>],
        i: usize,
        arrays: &mut [Option<ArrayRef>],
        waker: &Waker,
    ) -> Result<Outcome, EngineError> {
        let slice_rows = self.hold.driver.config.slice_rows;
        // Other chunks of the bundle may have other columns.
        let read = self.read();
        let wanted = |part: &&Arc<Part>| read.roots.binary_search(&part.root).is_ok();
        let parts: Vec<&Arc<Part>> = parts.iter().filter(wanted).collect();
        let decoders: Vec<_> =
            parts.iter().map(|part| part.decoder(self.at, &read.decoding, slice_rows)).collect();
        let booked = self.hold.segment.workspace_bytes();
        let mut needed = decoders.iter().fold(0u64, |sum, decoder| sum.saturating_add(decoder.bytes()));
        if needed > booked {
            let largest = decoders.iter().zip(&parts).max_by_key(|(decoder, _)| decoder.bytes());
            let what = largest.map_or_else(String::new, |(_, part)| part.described(self.at));
            return Ok(Outcome::NeedsRoom(needed, what));
        }
        let work = &self.hold.driver.work;
        let mut kept_now: Vec<&Arc<Part>> = Vec::new();
        let mut outcome = Ok(Outcome::Done);
        let missing = parts.iter().copied().zip(&decoders).zip(arrays).filter(|(_, array)| array.is_none());
        for ((part, decoder), array) in missing {
            let before = decoder.bytes();
            let started = self.hold.driver.now();
            let spare = booked.saturating_sub(needed);
            let keep = part.is_shared() || self.may_be_wanted_again(part);
            let slice = decoder.slice(part, i, slice_rows, spare, keep, waker);
            needed = needed.saturating_sub(before).saturating_add(decoder.bytes());
            match slice {
                Ok(Decoded::Shared(shared)) => {
                    self.counters.slices_shared.add(1);
                    work.slices_shared.add(1);
                    *array = Some(shared);
                }
                Ok(Decoded::Fresh { array: fresh, kept, again }) => {
                    let time = self.hold.driver.now() - started;
                    if again {
                        self.hold.driver.lost_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
                    }
                    self.counters.slices_decoded.add(1);
                    work.slices_decoded.add(1);
                    self.counters.decode_ns.add_time(time);
                    work.decode_ns.add_time(time);
                    *array = Some(fresh);
                    kept_now.extend(kept.then_some(part));
                }
                Ok(Decoded::Busy) => outcome = Ok(Outcome::Contended),
                Ok(Decoded::NeedsRoom) => {
                    outcome = Ok(Outcome::NeedsRoom(needed, part.described(self.at)));
                    break;
                }
                Err(error) => {
                    if let EngineError::FileReplaced { detail, .. } = &error {
                        self.hold.driver.note(|locked| locked.replaced(&part.file, detail.clone()));
                    }
                    outcome = Err(error);
                    break;
                }
            }
        }
        if !kept_now.is_empty() {
            self.hold.driver.decoded(kept_now.into_iter());
        }
        outcome
    }
}

/// The result of a step of decoding.
enum Outcome {
    Done,
    /// Other tasks are decoding some of the arrays. They wake the waker when another try is worthwhile.
    Contended,
    /// This many bytes have to be reserved first, because of this part.
    NeedsRoom(u64, String),
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.last {
            self.hold.release();
        }
    }
}
