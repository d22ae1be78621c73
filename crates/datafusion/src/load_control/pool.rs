//! The memory pool of one query's operators. It asks load control, which may ask the buffer.
//!
//! A session may have its own pool in front, as the server's users have. Memory of a query counts there as
//! well. [`QueryPool::outside`] is the pool of queries outside load control. Requests that reach it through a
//! query's pool are already charged.

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
    /// Whether a query's pool is asking its session's pool, so that the request is already charged.
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

    /// Creates the pool of queries without load control.
    pub(crate) fn outside(lender: Arc<Lender>, engine: Engine) -> Self {
        QueryPool::new(OUTSIDE, lender, engine, Arc::<UnboundedMemoryPool>::default())
    }

    /// Returns whether the request is charged elsewhere.
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

    /// Takes the requested memory.
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

/// Returns whether the consumer is a repartition. It spills when refused, and with some orders of reading it
/// then waits forever (apache/datafusion#24883). So it is not refused.
fn is_repartition(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("RepartitionExec[")
}

/// A hash join's copy of at most this size counts as memory that operators do not account for.
const SMALL_COPY: u64 = 16 << 20;

/// Returns whether the consumer is a hash join. When it has all batches of its build side, it copies them
/// into one and requests memory for the table alone.
fn is_hash_join(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with("HashJoinInput")
}

/// Returns whether the consumer is a merge of sorted batches.
///
/// A merge requests memory for batches that its inputs have already made, when other operators may have taken
/// the rest. It cannot spill, and its query fails with it. So a pool with a limit should grant it more than
/// the limit. Load control grants it up to one and a half times the limit.
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
        // The session comes first. A request that it refuses is never granted, so the run's peak stays within
        // the session's limit.
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
