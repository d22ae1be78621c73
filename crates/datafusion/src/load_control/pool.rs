//! The memory of one query's operators: a pool that asks load control, and then the buffer.
//!
//! A session may have a pool of its own in front, as the server's users have: memory of a query counts there as well.
//! The pool of queries outside load control is [`QueryPool::outside`]; requests that come there through a query's
//! pool are charged already.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use coscan_engine::Engine;
use datafusion::common::{DataFusionError, Result, resources_datafusion_err};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, UnboundedMemoryPool,
};

use super::lender::{Buffer, Lender};
use super::run::{OUTSIDE, RunId};
use super::state::{Asker, Asking};

thread_local! {
    /// Whether a query's pool asks its session's, so that what is asked for is charged already.
    static CHARGED: Cell<bool> = const { Cell::new(false) };
}

/// The pool of one run of a query.
pub(crate) struct QueryPool {
    id: RunId,
    lender: Arc<Lender>,
    engine: Engine,
    /// The session's own pool, which counts, too.
    session: Arc<dyn MemoryPool>,
}

impl QueryPool {
    pub(crate) fn new(id: RunId, lender: Arc<Lender>, engine: Engine, session: Arc<dyn MemoryPool>) -> Self {
        QueryPool { id, lender, engine, session }
    }

    /// The pool of queries without load control.
    pub(crate) fn outside(lender: Arc<Lender>, engine: Engine) -> Self {
        QueryPool::new(OUTSIDE, lender, engine, Arc::<UnboundedMemoryPool>::default())
    }

    /// Whether this is charged elsewhere.
    fn is_charged(&self) -> bool {
        self.id == OUTSIDE && CHARGED.get()
    }

    /// Asks the session's pool.
    fn session<T>(&self, ask: impl FnOnce(&dyn MemoryPool) -> T) -> T {
        struct Restore(bool);
        impl Drop for Restore {
            fn drop(&mut self) {
                CHARGED.set(self.0);
            }
        }
        let _restore = Restore(CHARGED.replace(true));
        ask(&*self.session)
    }

    /// Takes what was asked for.
    fn take(&self, consumer: &MemoryConsumer, has: u64, more: u64) -> Result<()> {
        let asking = Asking {
            has,
            more,
            copies: if is_hash_join(consumer) && has > SMALL_COPY { has } else { 0 },
            can_spill: consumer.can_spill(),
            who: if is_merge(consumer) { Asker::Merge } else { Asker::Other },
        };
        match self.lender.try_take(&self.engine, self.id, asking, Instant::now()) {
            true => Ok(()),
            false => Err(self.refusal(consumer, has, more)),
        }
    }

    fn refusal(&self, consumer: &MemoryConsumer, has: u64, more: u64) -> DataFusionError {
        let (name, limit) = (consumer.name(), self.lender.control.limit());
        let query = match self.id {
            OUTSIDE => "a query without load control".to_owned(),
            id => format!("query {id}"),
        };
        resources_datafusion_err!(
            "{query}: {name} has {has} bytes and was refused {more} more; coscan.query_memory is {limit}"
        )
    }
}

impl Buffer for Engine {
    fn bytes(&self) -> u64 {
        self.buffer_bytes()
    }

    fn lend(&self, bytes: u64) -> Option<u64> {
        Engine::lend(self, bytes).ok()
    }

    fn offer(&self, bytes: u64) -> Option<u64> {
        Engine::offer(self, bytes).ok()
    }
}

/// What a repartition may not keep it writes out, and in some orders of reading it then waits for ever
/// (apache/datafusion#24883). So it is not refused.
fn is_repartition(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("RepartitionExec[")
}

/// What a hash join copies is left to what operators do not account for if it is no more than this.
const SMALL_COPY: u64 = 16 << 20;

/// A hash join copies the batches of its build side into one when it has all of them, and asks for the table alone.
fn is_hash_join(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("HashJoinInput")
}

/// Whether it is a merge of sorted batches.
///
/// A merge asks for batches that its inputs have made already, when others may have taken what was left. It cannot spill,
/// and its query fails with it. So a pool with a limit should let it have more than the limit: load control lets it have half
/// as much again.
#[must_use]
pub fn is_merge(consumer: &MemoryConsumer) -> bool {
    ["ExternalSorterMerge", "SortPreservingMergeExec"].iter().any(|name| consumer.name().starts_with(name))
}

impl fmt::Debug for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueryPool({})", self.id)
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "coscan's pool for query {}", self.id)
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "coscan"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.session.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.session.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        if !self.is_charged() {
            self.lender.take(&self.engine, self.id, additional as u64);
            self.session(|session| session.grow(reservation, additional));
        }
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        if !self.is_charged() {
            self.session(|session| session.shrink(reservation, shrink));
            self.lender.give_back(&self.engine, self.id, shrink as u64, Instant::now());
        }
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if self.is_charged() {
            return Ok(());
        }
        let (consumer, more) = (reservation.consumer(), additional as u64);
        if is_repartition(consumer) {
            self.grow(reservation, additional);
            return Ok(());
        }
        // The session first: what it refuses is never had, so that the run's peak stays within the session's limit.
        let asked = self.session(|session| session.try_grow(reservation, additional));
        let asked = asked.inspect_err(|_| self.lender.control.note_refusal(self.id, more));
        asked.and_then(|()| {
            self.take(consumer, reservation.size() as u64, more)
                .inspect_err(|_| self.session(|session| session.shrink(reservation, additional)))
        })
    }

    fn reserved(&self) -> usize {
        self.lender.control.used(self.id) as usize
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.lender.control.limit() as usize)
    }
}
