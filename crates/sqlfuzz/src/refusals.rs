//! A memory pool that refuses occasionally, so that operators spill and queries run again, on tables of any
//! size.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::{Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};

use crate::dice::Dice;

/// The period of refusals, in requests.
const ROUND: u64 = 40;

/// The memory requests that are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusals {
    /// One in this many requests.
    every: u64,
    /// Limit per [`ROUND`].
    times: u64,
}

impl Refusals {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        Refusals { every: *dice.pick(&[1, 2, 3, 5]), times: *dice.pick(&[1, 2, 4, 8]) }
    }
}

/// A session's pool, under load control.
#[derive(Debug)]
pub(crate) struct RefusingPool {
    refusals: Refusals,
    asked: AtomicU64,
    reserved: AtomicU64,
    /// The number of active pauses. During a pause, for a query that must end, nothing is refused.
    paused: AtomicU64,
}

impl RefusingPool {
    pub(crate) fn new(refusals: Refusals) -> Arc<Self> {
        let (asked, reserved, paused) = Default::default();
        Arc::new(RefusingPool { refusals, asked, reserved, paused })
    }

    /// Pauses refusals.
    pub(crate) fn pause(&self) {
        self.paused.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a pause.
    pub(crate) fn go_on(&self) {
        self.paused.fetch_sub(1, Ordering::Relaxed);
    }

    fn refuses(&self) -> bool {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed) % ROUND;
        let Refusals { every, times } = self.refusals;
        asked.is_multiple_of(every) && asked / every < times && self.paused.load(Ordering::Relaxed) == 0
    }
}

impl fmt::Display for RefusingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a pool that refuses {:?}", self.refusals)
    }
}

impl MemoryPool for RefusingPool {
    fn name(&self) -> &str {
        "refusing"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.reserved.fetch_add(additional as u64, Ordering::Relaxed);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.reserved.fetch_sub(shrink as u64, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        // coscan's own pools never refuse repartitions; the reason is documented there.
        let is_repartition = reservation.consumer().name().starts_with("RepartitionExec[");
        if !is_repartition && self.refuses() {
            return Err(resources_datafusion_err!("the pool refuses {additional} bytes"));
        }
        self.grow(reservation, additional);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Relaxed) as usize
    }
}

/// Returns whether a query failed because of refusals.
pub(crate) fn ran_out_of_memory(error: &str) -> bool {
    // Some operators report missing memory in their own words. Load control knows whose refusal it was.
    error.contains("the pool refuses") || error.contains("the session's own limit refused it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_as_many_refusals_as_it_says() {
        let pool = RefusingPool::new(Refusals { every: 3, times: 4 });
        let refused: Vec<u64> = (0..ROUND).filter(|_| pool.refuses()).collect();
        assert_eq!(refused, [0, 3, 6, 9]);
        pool.pause();
        assert!(!pool.refuses());
        pool.go_on();
    }
}
