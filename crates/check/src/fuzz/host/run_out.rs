//! The end of a world: without faults and with a fair host, everything must finish.

use coscan_trace::Columns;

use super::{CLOCK_MAX, Player};
use crate::fuzz::books::{Progress, ScanBook};
use crate::fuzz::violation::{Kind, Violation, check};

/// The time that passes in one round, in nanoseconds.
const ROUND_NS: u64 = 1_000_000;

impl Player<'_> {
    /// Plays a fair host without faults: every load finishes, and every worker consumes its chunk and
    /// requests the next. Workers of scans that stop only return chunks that they are asked for. All other
    /// scans must end, in a number of events bounded by the work. Then the rest is cancelled, and everything
    /// must be released.
    ///
    /// # Errors
    /// The first error that a check of the core or of the books found, or a worker that waits forever.
    pub fn run_out(&mut self) -> Result<(), Violation> {
        let limit = self.events + self.events_allowed();
        while self.unfinished().next().is_some() {
            self.clock = (self.clock + ROUND_NS).min(CLOCK_MAX);
            let before = self.events;
            self.round()?;
            if self.events == before && !self.deadline()? {
                let left: Vec<usize> = self.unfinished().collect();
                return Err(Violation::new(Kind::Standstill, format!("nothing moves, {left:?} are left")));
            }
            check(self.events <= limit, Kind::Endless, || {
                let left: Vec<usize> = self.unfinished().collect();
                format!("after {} events {left:?} have not ended", self.events)
            })?;
        }
        self.clear()
    }

    fn events_allowed(&self) -> u64 {
        let scans = self.books.running().count() as u64;
        let work = |scan: &ScanBook| {
            let matching = scan.spec.matching.iter().flat_map(|matching| {
                matching.chunks.values().map(|with| with.len() * (matching.columns.len() + 1))
            });
            let own = (scan.remaining.len() as u64 + 1) * (u64::from(scan.spec.columns.len()) + 4);
            own + u64::from(matching.sum::<u32>())
        };
        let work: u64 = self.books.running().map(|(_, scan)| work(scan)).sum();
        500 + 20 * work * (scans + 1)
    }

    /// Scans that have begun, have not ended and do not stop.
    fn unfinished(&self) -> impl Iterator<Item = usize> {
        let begun = self.books.scans.iter().enumerate().filter_map(|(at, scan)| Some((at, scan.as_ref()?)));
        let open = begun.filter(|(_, s)| matches!(s.progress, Progress::Running | Progress::Failed));
        open.filter(|(at, scan)| !self.world.scans[*at].stops || !scan.running()).map(|(at, _)| at)
    }

    fn round(&mut self) -> Result<(), Violation> {
        if self.books.points_asked {
            self.points(0)?;
        }
        for _ in 0..self.books.loads.len() {
            self.end_load(0, &Columns::new(), true)?;
        }
        for at in 0..self.books.scans.len() {
            let Some(scan) = &self.books.scans[at] else { continue };
            if scan.finished() || scan.progress == Progress::Failed {
                self.gone(at)?;
                continue;
            }
            for worker in 0..scan.workers.len() as u32 {
                if self.world.scans[at].stops {
                    self.suspend(at, worker)?;
                } else {
                    self.work(at, worker)?;
                }
            }
        }
        Ok(())
    }

    /// Ends the rest and checks that everything was released.
    fn clear(&mut self) -> Result<(), Violation> {
        self.points(0)?;
        for at in 0..self.books.scans.len() {
            self.gone(at)?;
        }
        while self.end_load(0, &Columns::new(), true)? {}
        for at in 0..self.books.tables.len() {
            self.drop_table(at)?;
        }
        let usage = self.abm.usage();
        check(usage.total() == 0, Kind::Ledger, || format!("left behind when all is over: {usage:?}"))
    }
}
