//! A statement as a whole: whether it only reads, and facts that its scans have in common, such as the version of a table.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use coscan_upstream::INDEPENDENT_NODE;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::logical_expr::LogicalPlan;
use tokio::sync::OnceCell;

use crate::shared_subplan::SHARED_SUBPLAN;

tokio::task_local! {
    static COMMON: Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>;
    static VERSIONS: Arc<Versions>;
}

/// The versions of tables that a statement reads, for a statement that may run again.
#[derive(Debug, Default)]
pub struct Versions {
    /// Versions that were looked up before are not read.
    since: Option<Instant>,
    /// Whether a table was planned that may have a newer version.
    may_change: AtomicBool,
}

impl Versions {
    /// Those of a statement whose tables are looked up from now on.
    #[must_use]
    pub fn from_now() -> Self {
        Versions { since: Some(Instant::now()), ..Versions::default() }
    }

    /// Plans with these versions.
    pub async fn during<T>(self: &Arc<Self>, planning: impl Future<Output = T>) -> T {
        VERSIONS.scope(Arc::clone(self), planning).await
    }

    /// Whether another run may read other versions: a table that was planned may have a newer one, and may have been looked up
    /// before the statement began.
    pub fn may_change(&self) -> bool {
        self.since.is_none() && self.may_change.load(Ordering::Relaxed)
    }
}

/// Returns the age of a version that the statement which is being planned may read, of a table that is looked up at the age of
/// `refresh`.
pub fn version_age(refresh: Duration) -> Duration {
    let age = VERSIONS.try_with(|versions| {
        versions.may_change.store(true, Ordering::Relaxed);
        versions.since.map_or(refresh, |since| refresh.min(since.elapsed()))
    });
    age.unwrap_or(refresh)
}

/// Returns whether the statement changes nothing, so that it can run twice. A node of another project may change something.
pub fn only_reads(plan: &LogicalPlan) -> bool {
    let changes = |node: &LogicalPlan| match node {
        LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => true,
        LogicalPlan::Extension(node) => ![INDEPENDENT_NODE, SHARED_SUBPLAN].contains(&node.node.name()),
        _ => false,
    };
    !plan.exists(|node| Ok(changes(node))).unwrap_or(true)
}

/// Plans a statement. A plan inside of another one belongs to the same statement.
pub(crate) async fn planning<T>(work: impl Future<Output = T>) -> T {
    if COMMON.try_with(|_| ()).is_ok() {
        return work.await;
    }
    COMMON.scope(Mutex::default(), work).await
}

/// Returns the value for this key in the statement that is being planned, and makes it when it is asked for first.
/// Where no session with coscan plans, it is made each time.
///
/// A provider whose table changes calls this in `scan` with its own address as the key, so that a statement that
/// scans it twice sees one version.
///
/// # Errors
/// Those of `make`. The next call makes the value again.
pub async fn once_in_statement<T: Send + Sync + 'static>(
    key: usize,
    make: impl Future<Output = Result<Arc<T>>>,
) -> Result<Arc<T>> {
    let cell = COMMON.try_with(|common| {
        let mut common = common.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = common.entry(key).or_insert_with(|| Arc::new(OnceCell::<Arc<T>>::new()));
        Arc::clone(cell).downcast::<OnceCell<Arc<T>>>()
    });
    match cell {
        Err(_) => make.await,
        Ok(Err(_)) => Err(internal_datafusion_err!("two types of values for one key of a statement")),
        Ok(Ok(cell)) => cell.get_or_try_init(|| make).await.cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coscan_upstream::sql;
    use datafusion::prelude::SessionContext;

    #[tokio::test]
    async fn a_statement_that_writes_anywhere_does_not_only_read() {
        let ctx = SessionContext::new();
        let file = std::env::temp_dir().join("coscan-only-reads.csv");
        for (statement, reads) in [
            ("SELECT 1", true),
            ("EXPLAIN ANALYZE SELECT 1", true),
            (&format!("COPY (SELECT 1) TO '{}'", file.display()), false),
            (&format!("EXPLAIN ANALYZE COPY (SELECT 1) TO '{}'", file.display()), false),
        ] {
            let frame = sql(&ctx, statement).await.expect(statement);
            assert_eq!(only_reads(frame.logical_plan()), reads, "{statement}");
        }
    }

    #[tokio::test]
    async fn a_statement_that_runs_again_looks_anew() {
        const HOUR: Duration = Duration::from_secs(3600);
        assert_eq!(version_age(HOUR), HOUR);
        let first = Arc::new(Versions::default());
        assert!(!first.may_change());
        assert_eq!(first.during(async { version_age(HOUR) }).await, HOUR);
        assert!(first.may_change());
        let looked_up = Instant::now();
        let again = Arc::new(Versions::from_now());
        assert!(again.during(async { version_age(HOUR) }).await <= looked_up.elapsed());
        assert!(!again.may_change(), "once");
    }

    #[tokio::test]
    async fn a_value_is_made_once_in_a_statement() {
        let made = Mutex::new(0);
        let make = || async {
            let mut made = made.lock().expect("a lock");
            *made += 1;
            if *made == 1 { Err(internal_datafusion_err!("not yet")) } else { Ok(Arc::new(*made)) }
        };
        planning(async {
            once_in_statement::<i32>(1, make()).await.expect_err("the first one fails");
            assert_eq!(*once_in_statement(1, make()).await.expect("a value"), 2);
            assert_eq!(*planning(once_in_statement(1, make())).await.expect("the same"), 2);
            assert_eq!(*once_in_statement(2, make()).await.expect("another"), 3);
            once_in_statement(2, async { Ok(Arc::new("text")) }).await.expect_err("another type");
        })
        .await;
        assert_eq!(*planning(once_in_statement(1, make())).await.expect("a value"), 4);
        assert_eq!(*once_in_statement(1, make()).await.expect("a value"), 5);
    }
}
