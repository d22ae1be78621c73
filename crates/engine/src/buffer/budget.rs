//! The buffer's size: the set one, and the effective one. The effective size is smaller at first. It is
//! larger while scans run that were admitted before the size was reduced.
//!
//! The buffer begins with a part of its size, because memory that speeds nothing up is wasted. It grows by
//! the work that a larger buffer would have saved: [`BYTES_PER_SECOND`] for each second in which evicted data
//! are read again (`evicted.rs`), or dropped arrays are decoded again. It has at once as much as some scans
//! need to run side by side. Loans come first from the unused part. An emptied buffer begins again with the
//! start size.
//!
//! A scan needs a minimum of room to make progress. If it had that room when it began, it keeps it until its
//! end: a smaller size takes effect when the last scan that needs more has ended. Room that is lent to others
//! reduces the buffer in the same way, but a new scan is admitted if it fits the set size. Nothing is lent
//! while a scan runs that needs more than it was admitted with. The same holds while a point read waits for
//! room that only scans could give.
//!
//! Unless the size was set, other owners may offer the buffer memory that they do not use. The buffer is
//! larger by that much until they take it back. The most that a scan may need is the size without offers.
//!
//! Memory that users of the engine keep for all scans takes part of the buffer in the same way, and never
//! more than 1/[`KEPT_SHARE`] of its size.
//!
//! The records of known files (footers, positions of parts) have [`files_share`] of the buffer's size beside
//! the buffer. Memory beyond that reduces the buffer like a loan, by half of its size at most.

use std::collections::BTreeMap;
use std::time::Duration;

use coscan_core::ScanId;

use crate::config::EngineConfig;

/// The records of known files take 1/`FILES_SHARE` of the buffer's size beside it, or [`FILES_BYTES_MIN`] if
/// that is more.
const FILES_SHARE: u64 = 16;

/// In a small buffer the footers of a few tables need more than the share.
const FILES_BYTES_MIN: u64 = 4 << 20;

/// Beyond the share, files reduce the buffer in steps of this many bytes.
const FILES_STEP: u64 = 1 << 20;

/// The bytes that the records of known files may take beside a buffer of this size.
pub(crate) fn files_share(buffer: u64) -> u64 {
    (buffer / FILES_SHARE).max(FILES_BYTES_MIN)
}

/// The divisor of the buffer's size that limits the bytes kept by users.
const KEPT_SHARE: u64 = 64;

/// The bytes that users of the engine may keep of a buffer of this size.
fn kept_share(buffer: u64) -> u64 {
    buffer / KEPT_SHARE
}

/// The growth of the buffer in bytes for each second of repeated work. A choice: with twice as much, queries
/// that share take as long and as much memory as with the whole buffer from the start (`docs/memory.md`).
const BYTES_PER_SECOND: u64 = 512 << 20;

/// The buffer begins with at least this many times the need of the largest scan, per processor: a chunk in
/// use, the next, and the same for another scan.
const NEEDS_PER_PROCESSOR: u64 = 4;

/// The maximum share of a small part of the buffer that decoded arrays may take, unless a larger share is
/// set.
const DECODED_PERCENT_MAX: u8 = 75;

/// The buffer's size and its parts.
#[derive(Debug)]
pub(crate) struct Budget {
    wanted: u64,
    /// True if it may exceed `wanted` when other owners offer memory.
    takes_offers: bool,
    /// The bytes that other owners offer beyond `wanted`.
    offered: u64,
    /// The effective size at first.
    start: u64,
    /// The growth since then.
    growth: u64,
    /// The minimum effective size, per byte that the largest scan needs.
    needs_at_once: u64,
    /// The bytes that point reads hold, and their share of the buffer in percent.
    points_held: u64,
    point_share_percent: u8,
    /// The bytes of the records of known files.
    files: u64,
    /// The bytes that users of the engine keep for all scans.
    kept: u64,
    /// The bytes that are lent.
    lent: u64,
    /// The number of running scans by the bytes that they need.
    needs: BTreeMap<u64, usize>,
    /// Running scans that need more than they were admitted with, with the maximum further bytes.
    grown: BTreeMap<ScanId, u64>,
    /// The number of point reads that wait for room.
    points: usize,
}

impl Budget {
    pub(crate) fn new(config: &EngineConfig) -> Self {
        Budget {
            wanted: config.buffer_bytes,
            takes_offers: config.buffer_takes_offers,
            offered: 0,
            start: config.buffer_start_bytes,
            growth: 0,
            needs_at_once: NEEDS_PER_PROCESSOR.saturating_mul(config.processors as u64),
            points_held: 0,
            point_share_percent: config.point_share_percent,
            files: 0,
            kept: 0,
            lent: 0,
            needs: BTreeMap::new(),
            grown: BTreeMap::new(),
            points: 0,
        }
    }

    /// Returns whether half of the buffer is free with this many bytes in use, and nothing is lent.
    pub(crate) fn is_roomy_with(&self, used: u64) -> bool {
        self.lent == 0 && used <= self.in_force() / 2
    }

    /// The size that new scans have to fit.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Sets the size. From then on offers are not taken.
    pub(crate) fn set_wanted(&mut self, bytes: u64) {
        (self.wanted, self.takes_offers, self.offered) = (bytes, false, 0);
    }

    pub(crate) fn takes_offers(&self) -> bool {
        self.takes_offers
    }

    /// Replaces the offer of other owners. Returns how many of the bytes are taken.
    pub(crate) fn set_offered(&mut self, bytes: u64) -> u64 {
        self.offered = if self.takes_offers { bytes } else { 0 };
        self.offered
    }

    /// The size, including taken offers.
    pub(crate) fn size(&self) -> u64 {
        self.wanted.saturating_add(self.offered)
    }

    /// The budget for the buffer manager.
    pub(crate) fn in_force(&self) -> u64 {
        let all = !self.grown.is_empty() || self.points > 0;
        let others = if all { 0 } else { self.of_others().saturating_add(self.lent) };
        let most = self.size().saturating_sub(others).max(1);
        let own = if self.points > 0 { most } else { most.min(self.in_use()) };
        own.max(self.needed())
    }

    /// The bytes that the largest scan needs.
    fn needed(&self) -> u64 {
        self.needs.last_key_value().map_or(0, |(needed, _)| *needed)
    }

    /// The part of the size that has been put to use.
    fn in_use(&self) -> u64 {
        let points = self.points_held.saturating_mul(100) / u64::from(self.point_share_percent.max(1));
        let grown = self.grown.values().max().copied().unwrap_or(0);
        let needed = self.needed().saturating_add(grown).saturating_mul(self.needs_at_once).max(points);
        self.start.saturating_add(self.growth).max(needed)
    }

    /// The share of the effective size that decoded arrays may take, in percent, if they may take `share`
    /// percent of the full size. While the buffer can still grow the share is larger, so that the buffer
    /// grows for decoded arrays too.
    pub(crate) fn decoded_share_percent(&self, share: u8) -> u8 {
        let most = u128::from(self.wanted.saturating_sub(self.of_others().saturating_add(self.lent)));
        let of_force = most * u128::from(share) / u128::from(self.in_force());
        u8::try_from(of_force).unwrap_or(u8::MAX).clamp(share, DECODED_PERCENT_MAX.max(share))
    }

    /// The bytes of the size that have not been put to use.
    pub(crate) fn unused(&self) -> u64 {
        self.size().saturating_sub(self.in_use())
    }

    /// Adds time that was spent on repeated work.
    pub(crate) fn lost(&mut self, time: Duration) {
        if self.unused() > 0 {
            let bytes = time.as_nanos() * u128::from(BYTES_PER_SECOND) / 1_000_000_000;
            self.growth =
                self.growth.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX)).min(self.size());
        }
    }

    /// Returns to the start size, after the buffer was emptied.
    pub(crate) fn begin_anew(&mut self) {
        self.growth = 0;
    }

    /// Sets the bytes that point reads hold.
    pub(crate) fn set_points_held(&mut self, bytes: u64) {
        self.points_held = bytes;
    }

    /// Sets the bytes of the records of known files.
    pub(crate) fn set_files(&mut self, bytes: u64) {
        self.files = bytes;
    }

    /// The bytes by which these records reduce the buffer.
    fn of_files(&self) -> u64 {
        let beyond = self.files.saturating_sub(files_share(self.wanted));
        (beyond / FILES_STEP * FILES_STEP).min(self.wanted / 2)
    }

    /// Sets the bytes that are kept for all scans. Returns false if they are too many.
    pub(crate) fn set_kept(&mut self, bytes: u64) -> bool {
        let allowed = bytes <= kept_share(self.wanted).max(self.kept);
        if allowed {
            self.kept = bytes;
        }
        allowed
    }

    /// The bytes by which records of files and kept memory reduce the buffer.
    pub(crate) fn of_others(&self) -> u64 {
        self.of_files().saturating_add(self.kept)
    }

    /// Sets the bytes of the buffer that are lent.
    pub(crate) fn set_lent(&mut self, bytes: u64) {
        self.lent = bytes;
    }

    /// Notes that a scan needs more than it was admitted with, at most this many bytes more.
    pub(crate) fn grew(&mut self, scan: ScanId, bytes: u64) {
        self.grown.insert(scan, bytes);
    }

    /// Removes a scan that has ended.
    pub(crate) fn ended(&mut self, scan: ScanId) {
        self.grown.remove(&scan);
    }

    /// Sets the number of point reads that wait for room.
    pub(crate) fn set_points(&mut self, waiting: usize) {
        self.points = waiting;
    }

    pub(crate) fn admit(&mut self, needed: u64) {
        *self.needs.entry(needed).or_default() += 1;
    }

    /// Returns whether no scan is admitted.
    pub(crate) fn has_admitted_none(&self) -> bool {
        self.needs.is_empty()
    }

    pub(crate) fn end_admission(&mut self, needed: u64) {
        if let Some(scans) = self.needs.get_mut(&needed) {
            *scans -= 1;
            if *scans == 0 {
                self.needs.remove(&needed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coscan_core::PolicyName;

    use super::*;

    fn config(buffer: u64) -> EngineConfig {
        let policy: PolicyName = "relevance".parse().unwrap();
        EngineConfig::new(policy, buffer)
    }

    /// A buffer that begins with its whole size.
    fn whole(bytes: u64) -> Budget {
        Budget::new(&EngineConfig { buffer_start_bytes: bytes, ..config(bytes) })
    }

    #[test]
    fn it_begins_small_and_grows_by_what_is_done_again() {
        const MIB: u64 = 1 << 20;
        let config = EngineConfig { buffer_start_bytes: 100 * MIB, processors: 2, ..config(1000 * MIB) };
        let mut budget = Budget::new(&config);
        assert_eq!((budget.in_force(), budget.wanted(), budget.unused()), (100 * MIB, 1000 * MIB, 900 * MIB));
        budget.lost(Duration::from_millis(250));
        assert_eq!(budget.in_force(), 228 * MIB);
        assert_eq!(budget.decoded_share_percent(10), 43, "of the whole size");
        budget.set_lent(800 * MIB);
        assert_eq!(budget.in_force(), 200 * MIB, "it lends what it does not use first");
        budget.set_lent(0);
        budget.lost(Duration::from_secs(100));
        assert_eq!((budget.in_force(), budget.unused()), (1000 * MIB, 0));
        assert_eq!((budget.decoded_share_percent(10), budget.decoded_share_percent(90)), (10, 90));
        budget.begin_anew();
        budget.admit(50 * MIB);
        assert_eq!(budget.in_force(), 400 * MIB, "some scans can run side by side");
        assert_eq!(budget.decoded_share_percent(70), 75, "encoded data have some room");
        budget.admit(300 * MIB);
        assert_eq!(budget.in_force(), 1000 * MIB);
        budget.end_admission(300 * MIB);
        budget.grew(ScanId(3), 10 * MIB);
        assert_eq!(budget.in_force(), 480 * MIB);
        budget.ended(ScanId(3));
        budget.end_admission(50 * MIB);
        budget.set_points_held(20 * MIB);
        assert_eq!(budget.in_force(), 200 * MIB, "point reads have a tenth of it");
    }

    #[test]
    fn what_others_offer_is_there_until_they_take_it_back_or_a_size_is_set() {
        let config = EngineConfig { buffer_bytes: 100, buffer_start_bytes: 1000, ..config(100) };
        let mut budget = Budget::new(&EngineConfig { buffer_takes_offers: true, ..config });
        assert_eq!((budget.set_offered(40), budget.in_force(), budget.wanted()), (40, 140, 100));
        budget.set_lent(30);
        assert_eq!(budget.in_force(), 110);
        assert_eq!((budget.set_offered(10), budget.in_force()), (10, 80));
        budget.set_wanted(50);
        assert_eq!((budget.set_offered(10), budget.in_force()), (0, 20), "somebody wants 50");
        assert_eq!(whole(100).set_offered(10), 0, "somebody wanted 100");
    }

    #[test]
    fn a_smaller_budget_is_in_force_when_the_last_that_needs_more_has_ended() {
        let mut budget = whole(100);
        budget.admit(70);
        budget.admit(90);
        budget.admit(90);
        budget.set_wanted(50);
        let mut seen = vec![budget.in_force()];
        for ended in [90, 70, 90] {
            budget.end_admission(ended);
            seen.push(budget.in_force());
        }
        assert_eq!(seen, [90, 90, 90, 50]);
        assert_eq!(budget.wanted(), 50);
    }

    #[test]
    fn what_is_lent_is_not_there_but_scans_keep_what_they_need() {
        let mut budget = whole(100);
        budget.set_lent(75);
        assert_eq!((budget.in_force(), budget.wanted()), (25, 100));
        budget.admit(60);
        assert_eq!(budget.in_force(), 60);
        budget.end_admission(60);
        budget.set_lent(200);
        assert_eq!(budget.in_force(), 1, "a buffer is never nothing");
        budget.grew(ScanId(3), 5);
        assert_eq!(budget.in_force(), 100, "nothing is lent while a scan needs more");
        budget.ended(ScanId(3));
        assert_eq!(budget.in_force(), 1);
        budget.set_points(2);
        assert_eq!(budget.in_force(), 100, "nor while point reads wait");
        budget.set_points(0);
        budget.set_lent(0);
        assert_eq!(budget.in_force(), 100);
    }

    #[test]
    fn what_is_kept_is_a_small_part_of_the_buffer() {
        let mut budget = whole(6400);
        assert!(budget.set_kept(100));
        assert!(!budget.set_kept(101));
        assert_eq!((budget.in_force(), budget.of_others()), (6300, 100));
        budget.set_wanted(640);
        assert!(budget.set_kept(90), "it may shrink");
        assert!(!budget.set_kept(91));
        assert_eq!(budget.in_force(), 550);
        assert!(budget.set_kept(0));
        assert_eq!(budget.in_force(), 640);
    }

    #[test]
    fn files_have_a_share_beside_the_buffer_and_then_a_part_of_it() {
        const MIB: u64 = 1 << 20;
        let mut budget = whole(160 * MIB);
        budget.set_files(10 * MIB);
        assert_eq!(budget.in_force(), 160 * MIB);
        budget.set_files(15 * MIB + 5);
        assert_eq!((budget.in_force(), budget.wanted()), (155 * MIB, 160 * MIB));
        budget.set_lent(100 * MIB);
        assert_eq!(budget.in_force(), 55 * MIB);
        budget.admit(120 * MIB);
        assert_eq!(budget.in_force(), 120 * MIB, "scans keep what they need");
        budget.end_admission(120 * MIB);
        budget.set_lent(0);
        budget.set_files(1000 * MIB);
        assert_eq!(budget.in_force(), 80 * MIB, "half is left");
        budget.set_wanted(MIB);
        assert_eq!(budget.in_force(), MIB / 2);
        budget.set_files(0);
        assert_eq!(budget.in_force(), MIB);
    }
}
