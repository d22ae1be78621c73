//! Totals of a query's trace, in the numbers of Table 2 of Chou & DeWitt 1985.
//!
//! The disk operations are those of the query alone. They are counted twice: with only its locality sets in
//! memory, and with enough memory for all pages that it touches. A pool is between these, because pages that
//! leave a locality set can still be found until their frames are used.

use std::collections::{BTreeMap, BTreeSet};

use coscan_pool::locality::LocalReplacement;
use coscan_trace::pages::{PageOp, QueryTrace};

/// The needs of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Totals {
    /// Processor time in seconds.
    pub cpu_s: f64,
    /// Pages read and written if only the locality sets of its file instances are kept.
    pub disk_operations: u64,
    /// Pages read and written without any replacement: the different pages that the query touches.
    pub disk_operations_at_least: u64,
    /// The hot set size in pages.
    pub hot_set_pages: u32,
}

/// Adds up a trace. Accesses of instances that are not open are ignored.
pub fn totals(trace: &QueryTrace) -> Totals {
    let (mut sets, mut disk, mut touched) = (BTreeMap::new(), Disk::default(), BTreeSet::new());
    for record in &trace.records {
        match record.op {
            PageOp::Open { instance, file, set_pages, replacement, .. } => {
                let temporary = trace.files.get(file as usize).is_some_and(|f| f.temporary);
                sets.insert(instance, Set { file, temporary, set_pages, replacement, pages: vec![] });
            }
            PageOp::Read { instance, page } | PageOp::Write { instance, page } => {
                if let Some(set) = sets.get_mut(&instance) {
                    touched.insert((set.file, page));
                    set.access(page, matches!(record.op, PageOp::Write { .. }), &mut disk);
                }
            }
            PageOp::Close { instance } => disk.write_all(sets.remove(&instance)),
        }
    }
    sets.into_values().for_each(|set| disk.write_all(Some(set)));
    Totals {
        cpu_s: trace.cpu_ns as f64 / 1e9,
        disk_operations: disk.operations,
        disk_operations_at_least: touched.len() as u64,
        hot_set_pages: trace.hot_set_pages,
    }
}

/// A counter of operations that knows which pages of temporary files exist.
#[derive(Default)]
struct Disk {
    operations: u64,
    made: BTreeSet<(u32, u32)>,
}

impl Disk {
    fn write_all(&mut self, set: Option<Set>) {
        self.operations += set.map_or(0, |s| s.pages.iter().filter(|page| page.dirty).count() as u64);
    }
}

/// The locality set of an open instance.
struct Set {
    file: u32,
    temporary: bool,
    set_pages: u32,
    replacement: LocalReplacement,
    /// In the order of arrival or of last use, depending on the replacement.
    pages: Vec<Kept>,
}

#[derive(Clone, Copy)]
struct Kept {
    page: u32,
    dirty: bool,
}

impl Set {
    fn access(&mut self, page: u32, writes: bool, disk: &mut Disk) {
        if let Some(at) = self.pages.iter().position(|kept| kept.page == page) {
            self.pages[at].dirty |= writes;
            if matches!(self.replacement, LocalReplacement::Lru | LocalReplacement::Mru) {
                self.pages[at..].rotate_left(1);
            }
            return;
        }
        let is_new = self.temporary && disk.made.insert((self.file, page));
        disk.operations += u64::from(!is_new);
        if self.pages.len() >= self.set_pages.max(1) as usize {
            let leaving = match self.replacement {
                LocalReplacement::Fifo | LocalReplacement::Lru => 0,
                LocalReplacement::Lifo | LocalReplacement::Mru => self.pages.len() - 1,
            };
            disk.operations += u64::from(self.pages.remove(leaving).dirty);
        }
        self.pages.push(Kept { page, dirty: writes });
    }
}

#[cfg(test)]
mod tests {
    use coscan_pool::locality::Pattern;
    use coscan_trace::pages::{PageRecord, TracedFile};

    use super::*;

    fn trace(temporary: bool, set_pages: u32, replacement: LocalReplacement, ops: &[PageOp]) -> Totals {
        let open = PageOp::Open {
            instance: 0,
            file: 0,
            pattern: Pattern::IndependentRandom,
            set_pages,
            replacement,
        };
        let ops = [open].into_iter().chain(ops.iter().copied());
        totals(&QueryTrace {
            query: "test".to_owned(),
            files: vec![TracedFile { name: "file".to_owned(), pages: 10, temporary }],
            hot_set_pages: 7,
            records: ops.map(|op| PageRecord { cpu_ns: 0, op }).collect(),
            cpu_ns: 1_500_000_000,
        })
    }

    fn reads(pages: &[u32]) -> Vec<PageOp> {
        pages.iter().map(|&page| PageOp::Read { instance: 0, page }).collect()
    }

    #[test]
    fn each_replacement_on_a_loop_over_three_pages_with_two_frames() {
        let reads = reads(&[1, 2, 3, 1, 2, 3, 1, 2, 3]);
        let disk = |replacement| trace(false, 2, replacement, &reads).disk_operations;
        assert_eq!(disk(LocalReplacement::Lru), 9);
        assert_eq!(disk(LocalReplacement::Fifo), 9);
        // After 1 and 2: 3 comes for 2, 2 for 1, 1 for 3 and 3 for 2; every other access is a hit.
        assert_eq!(disk(LocalReplacement::Mru), 6);
        // 1 stays; 2 and 3 alternate.
        assert_eq!(disk(LocalReplacement::Lifo), 7);
        assert_eq!(trace(false, 2, LocalReplacement::Lru, &reads).disk_operations_at_least, 3);
        assert_eq!(trace(false, 3, LocalReplacement::Lru, &reads).disk_operations, 3);
    }

    #[test]
    fn lru_and_fifo_differ_after_a_hit() {
        let reads = reads(&[1, 2, 1, 3, 1]);
        assert_eq!(trace(false, 2, LocalReplacement::Lru, &reads).disk_operations, 3);
        assert_eq!(trace(false, 2, LocalReplacement::Fifo, &reads).disk_operations, 4);
    }

    #[test]
    fn new_pages_are_not_read_and_changed_ones_are_written() {
        let write = |page| PageOp::Write { instance: 0, page };
        let read = |page| PageOp::Read { instance: 0, page };
        let lru = LocalReplacement::Lru;
        let two_new = [write(1), write(1), write(2), write(2), PageOp::Close { instance: 0 }];
        assert_eq!(trace(true, 1, lru, &two_new).disk_operations, 2);
        // The pages of a stored file are read first.
        assert_eq!(trace(false, 1, lru, &two_new).disk_operations, 4);
        // Written at its eviction, read at its return, and clean then.
        assert_eq!(trace(true, 1, lru, &[write(1), write(2), read(1)]).disk_operations, 3);
        let totals = trace(true, 1, lru, &two_new);
        assert_eq!((totals.cpu_s, totals.hot_set_pages), (1.5, 7));
        // Closed instances do not count.
        assert_eq!(trace(true, 1, lru, &[PageOp::Close { instance: 0 }, write(1)]).disk_operations, 0);
    }
}
