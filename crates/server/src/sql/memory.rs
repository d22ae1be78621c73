//! Memory that the queries of one user have reserved for sorts, joins and aggregates: a pool in front of the shared
//! pool.
//!
//! At the limit, further reservations fail, and operators spill. Small reservations that an operator needs to
//! continue may exceed the limit, by half of the limit for all operators together. For example, a sort with nothing
//! left to spill needs room for the next batch. Without this reserve it would fail while another sort of its query
//! holds all memory.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use coscan_datafusion::is_merge;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

use crate::access::{User, where_set};

/// Needed reservations may exceed the limit by 1/N of it.
const BEYOND_SHARE: usize = 2;

/// An operator that spills needs up to 1/N of the limit: room for its next batches.
const SPILLS_SHARE: usize = 8;

/// Any other operator needs up to 1/N of the limit, such as an aggregation without groups.
const SMALL_SHARE: usize = 32;

/// Returns true if an operator needs this reservation to continue. A merge reserves memory that its sort had
/// already.
fn needs(reservation: &MemoryReservation, additional: usize, limit: usize) -> bool {
    let consumer = reservation.consumer();
    let share = if consumer.can_spill() { SPILLS_SHARE } else { SMALL_SHARE };
    is_merge(consumer) || reservation.size().saturating_add(additional) <= limit / share
}

/// A user's part of the shared pool.
#[derive(Debug)]
pub(crate) struct UserPool {
    user: User,
    shared: Arc<dyn MemoryPool>,
}

impl UserPool {
    pub(crate) fn new(user: User, shared: Arc<dyn MemoryPool>) -> Self {
        UserPool { user, shared }
    }

    fn limit(&self) -> usize {
        match self.user.role.limits.memory_bytes {
            0 => usize::MAX,
            limit => limit,
        }
    }
}

impl fmt::Display for UserPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory of user {}, in {}", self.user.name, self.shared)
    }
}

impl MemoryPool for UserPool {
    fn name(&self) -> &str {
        "user"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.shared.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.shared.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.user.used.memory.fetch_add(additional, Ordering::Relaxed);
        self.shared.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.user.used.memory.fetch_sub(shrink, Ordering::Relaxed);
        self.shared.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let (memory, limit) = (&self.user.used.memory, self.limit());
        let beyond = if needs(reservation, additional, limit) { limit / BEYOND_SHARE } else { 0 };
        let most = limit.saturating_add(beyond);
        let fits = |used: usize| used.checked_add(additional).filter(|&sum| sum <= most || additional == 0);
        memory.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|used| {
            DataFusionError::ResourcesExhausted(format!(
                "queries of user {} hold {used} bytes of the {limit} that they may hold, and {} needs {additional} more: run fewer \
                 queries at once, ask for less, or raise {}",
                self.user.name,
                reservation.consumer().name(),
                where_set("memory")
            ))
        })?;
        self.shared.try_grow(reservation, additional).inspect_err(|_| {
            memory.fetch_sub(additional, Ordering::Relaxed);
        })
    }

    fn reserved(&self) -> usize {
        self.shared.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.shared.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::UnboundedMemoryPool;

    use super::*;
    use crate::access::{Limits, Role, Users};

    #[test]
    fn what_operators_cannot_do_without_may_go_beyond_the_limit() {
        let limits = Limits { memory_bytes: 1000, ..Limits::default() };
        let ann = Users::none().user("ann", Arc::new(Role::built_in(false, &limits)));
        let pool: Arc<dyn MemoryPool> = Arc::new(UserPool::new(ann, Arc::<UnboundedMemoryPool>::default()));
        let of =
            |name: &str| MemoryConsumer::new(name).with_can_spill(name.starts_with("Sort")).register(&pool);
        let refused = |reservation: &MemoryReservation, bytes: usize| {
            let error = reservation.try_grow(bytes).unwrap_err().to_string();
            assert!(error.contains("queries of user ann hold") && error.contains("of the 1000"), "{error}");
        };
        let (sort, other, small) = (of("Sort[0]"), of("Sort[1]"), of("AggregateStream"));
        sort.try_grow(1000).unwrap();
        refused(&sort, 1);
        other.try_grow(125).unwrap();
        refused(&other, 1);
        small.try_grow(31).unwrap();
        refused(&small, 1);
        let merge = of("ExternalSorterMerge[1]");
        merge.try_grow(344).unwrap();
        refused(&merge, 1);
        small.try_grow(0).unwrap();
    }
}
