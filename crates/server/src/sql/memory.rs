//! What the queries of one user have reserved for sorts, joins and aggregates: a pool in front of the one all share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

use crate::access::{User, where_set};

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
        let fits = |used: usize| used.checked_add(additional).filter(|&sum| sum <= limit);
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
