//! What the queries of one user have reserved for sorts, joins and aggregates: a pool in front of the one all share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use coscan_datafusion::is_merge;
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
        // What a merge asks for its sort has already.
        let most = if is_merge(reservation.consumer()) { limit.saturating_add(limit / 2) } else { limit };
        let fits = |used: usize| used.checked_add(additional).filter(|&sum| sum <= most);
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
    fn merges_have_again_what_their_sort_has() {
        let limits = Limits { memory_bytes: 1000, ..Limits::default() };
        let ann = Users::none().user("ann", Arc::new(Role::built_in(false, &limits)));
        let pool: Arc<dyn MemoryPool> = Arc::new(UserPool::new(ann, Arc::<UnboundedMemoryPool>::default()));
        let of = |name: &str| MemoryConsumer::new(name).register(&pool);
        let (sort, merge) = (of("ExternalSorter[1]"), of("ExternalSorterMerge[1]"));
        sort.try_grow(1000).unwrap();
        let error = sort.try_grow(1).unwrap_err().to_string();
        assert!(error.contains("queries of user ann hold 1000 bytes of the 1000"), "{error}");
        merge.try_grow(500).unwrap();
        let error = merge.try_grow(1).unwrap_err().to_string();
        assert!(error.contains("queries of user ann hold 1500 bytes of the 1000"), "{error}");
    }
}
