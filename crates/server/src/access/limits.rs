//! Limits of a user, and the user's current use.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coscan_engine::settings::{bytes, number};
use tokio::sync::Semaphore;

/// The highest priority. With a higher one, other users would only wait.
const PRIORITY_MAX: u32 = 1000;

/// The setting of a limit, for the error of reaching it. `name` is one of [`Limits::NAMES`].
pub(crate) fn where_set(name: &str) -> String {
    format!("user-{name} (the server's flag --user-{name}, or {name} of a role in the users file)")
}

/// Limits of a user. Zero means no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent connections.
    pub connections: usize,
    /// Concurrently running queries. Others wait.
    pub queries: usize,
    /// Statements that are parsed and planned at the same time. Others wait.
    pub planning: usize,
    /// Bytes for sorts, joins and aggregates of all queries together.
    pub memory_bytes: usize,
    /// Bytes of one result.
    pub result_bytes: u64,
    /// Cursors and suspended portals that are open at the same time.
    pub cursors: usize,
    /// Nodes of a statement's plan after its views and WITH queries are expanded.
    pub plan_nodes: usize,
    /// Operators of a statement's plan after its columns are replaced by the expressions that they stand for.
    pub plan_expressions: usize,
    /// Grouping sets of one GROUP BY.
    pub grouping_sets: usize,
    /// Maximum duration of a statement, waiting included.
    pub statement_timeout: Duration,
    /// Weight of the user's scans when the engine chooses the next read: a scan with 2 waits half as long. Zero
    /// means 1, the default of all users.
    pub priority: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 0,
            queries: 0,
            planning: 8,
            memory_bytes: 0,
            result_bytes: 0,
            cursors: 100,
            plan_nodes: 10_000,
            plan_expressions: 100_000,
            grouping_sets: 4096,
            statement_timeout: Duration::ZERO,
            priority: 0,
        }
    }
}

impl Limits {
    /// The names of the limits.
    pub const NAMES: [&str; 11] = [
        "connections",
        "queries",
        "planning",
        "memory",
        "result",
        "cursors",
        "plan-nodes",
        "plan-expressions",
        "grouping-sets",
        "statement-timeout",
        "priority",
    ];

    /// Sets a limit by its name.
    ///
    /// # Errors
    ///
    /// A description of the allowed values.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "connections" => self.connections = number(value, 0..=1_000_000)?,
            "queries" => self.queries = number(value, 0..=1_000_000)?,
            "planning" => self.planning = number(value, 0..=1_000_000)?,
            "memory" => self.memory_bytes = bytes(value, 0..=1 << 50)? as usize,
            "result" => self.result_bytes = bytes(value, 0..=1 << 50)?,
            "cursors" => self.cursors = number(value, 0..=1_000_000)?,
            "plan-nodes" => self.plan_nodes = number(value, 0..=1_000_000_000)?,
            "plan-expressions" => self.plan_expressions = number(value, 0..=1_000_000_000)?,
            "grouping-sets" => self.grouping_sets = number(value, 0..=1_000_000_000)?,
            "statement-timeout" => {
                let seconds = number(value.trim_end_matches('s'), 0..=10 * 365 * 24 * 3600)?;
                self.statement_timeout = Duration::from_secs(seconds);
            }
            "priority" => self.priority = number(value, 0..=PRIORITY_MAX)?,
            _ => return Err(format!("a limit; there are {}", Self::NAMES.join(", "))),
        }
        Ok(())
    }
}

/// The current use of one user, over all connections.
#[derive(Debug)]
pub struct Use {
    connections: AtomicUsize,
    cursors: AtomicUsize,
    /// Bytes reserved by queries.
    pub(crate) memory: AtomicUsize,
    pub(crate) queries: Arc<Semaphore>,
    pub(crate) planning: Arc<Semaphore>,
}

impl Use {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let turns =
            |limit: usize| Arc::new(Semaphore::new(if limit == 0 { Semaphore::MAX_PERMITS } else { limit }));
        let (queries, planning) = (turns(limits.queries), turns(limits.planning));
        let (connections, cursors, memory) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Use { connections, cursors, memory, queries, planning })
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Bytes that queries have reserved.
    pub fn memory_bytes(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Counts a connection. `None` if the limit is reached.
    pub(crate) fn connect(self: &Arc<Self>, limit: usize) -> Option<Connected> {
        count(&self.connections, limit).then(|| Connected(self.clone()))
    }

    /// Counts a cursor or a suspended portal. `None` if the limit is reached.
    pub(crate) fn open(self: &Arc<Self>, limit: usize) -> Option<Opened> {
        count(&self.cursors, limit).then(|| Opened(self.clone()))
    }
}

/// Counts one more, up to a limit. Zero means no limit.
fn count(counter: &AtomicUsize, limit: usize) -> bool {
    let allowed = |n: usize| (limit == 0 || n < limit).then_some(n + 1);
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, allowed).is_ok()
}

/// An open cursor that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Opened(Arc<Use>);

impl Drop for Opened {
    fn drop(&mut self) {
        self.0.cursors.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Connected(Arc<Use>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_up_to_the_limit() {
        let used = Use::new(&Limits::default());
        let first = used.connect(1);
        assert!(first.is_some() && used.connect(1).is_none() && used.connect(0).is_some());
        drop(first);
        assert!(used.connect(1).is_some());
        assert_eq!(used.connections(), 0);
    }

    #[test]
    fn every_name_is_a_limit() {
        let mut limits = Limits::default();
        assert!(Limits::NAMES.iter().all(|name| limits.set(name, "7").is_ok()));
        assert_eq!((limits.queries, limits.statement_timeout.as_secs()), (7, 7));
        assert!(limits.set("speed", "7").is_err() && limits.set("queries", "-1").is_err());
    }
}
