//! State that the partitions of one execution of a plan share.
//!
//! As in all nodes of DataFusion in which partitions meet, all partitions of one plan are one execution,
//! whatever their contexts. A partition that is opened again begins another execution.
//!
//! Any partition that is polled drives the computation of the shared state. So a partition that is not polled
//! again delays no other.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;

use crate::lock::lock;
use crate::made_once::MadeOnce;

/// The executions of a plan. The partitions of one share a `T`, or know that there is none.
pub(super) struct Executions<T> {
    partitions: usize,
    known: Mutex<Vec<Arc<Execution<T>>>>,
}

/// One execution.
pub(super) struct Execution<T> {
    context: Weak<TaskContext>,
    opened: Mutex<Vec<bool>>,
    /// Whether a partition was dropped before its end. Then the consumer may not want the rest.
    given_up: AtomicBool,
    shared: MadeOnce<Option<Arc<T>>>,
}

/// A partition that is open.
pub(super) struct OpenPartition<T> {
    execution: Arc<Execution<T>>,
    ended: bool,
}

impl<T: Send + Sync + 'static> Executions<T> {
    pub(super) fn new(partitions: usize) -> Self {
        Executions { partitions, known: Mutex::default() }
    }

    /// Opens a partition, in the execution to which it belongs.
    pub(super) fn open(&self, partition: usize, context: &Arc<TaskContext>) -> Result<OpenPartition<T>> {
        if partition >= self.partitions {
            return internal_err!("{} partitions, partition {partition} was opened", self.partitions);
        }
        let mut known = lock(&self.known);
        let same =
            |execution: &Arc<Execution<T>>| std::ptr::eq(execution.context.as_ptr(), Arc::as_ptr(context));
        known.retain(|execution| same(execution) || !execution.given_up.load(Ordering::Relaxed));
        let waiting = || known.iter().rev().filter(|execution| execution.waits_for(partition));
        let found = waiting().find(|execution| same(execution)).or_else(|| waiting().next()).cloned();
        let execution = found.unwrap_or_else(|| {
            let execution = Arc::new(Execution {
                context: Arc::downgrade(context),
                opened: Mutex::new(vec![false; self.partitions]),
                given_up: AtomicBool::new(false),
                shared: MadeOnce::new(),
            });
            known.push(Arc::clone(&execution));
            execution
        });
        if execution.opens(partition) {
            known.retain(|known| !Arc::ptr_eq(known, &execution));
        }
        Ok(OpenPartition { execution, ended: false })
    }
}

impl<T> Execution<T> {
    fn waits_for(&self, partition: usize) -> bool {
        !lock(&self.opened)[partition]
    }

    /// Marks a partition as open. Returns whether all partitions are open.
    fn opens(&self, partition: usize) -> bool {
        let mut opened = lock(&self.opened);
        opened[partition] = true;
        opened.iter().all(|opened| *opened)
    }
}

impl<T: Send + Sync + 'static> OpenPartition<T> {
    /// Returns the state that the partitions share. The first caller's `make` creates it.
    pub(super) async fn shared<F>(&self, make: impl FnOnce() -> F) -> Result<Option<Arc<T>>>
    where
        F: Future<Output = Result<Option<Arc<T>>>> + Send + 'static,
    {
        self.execution.shared.get(make).await
    }

    /// Marks the partition as read to its end.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }
}

impl<T> Drop for OpenPartition<T> {
    fn drop(&mut self) {
        self.execution.given_up.fetch_or(!self.ended, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Arc<TaskContext> {
        Arc::new(TaskContext::default())
    }

    fn same(a: &OpenPartition<()>, b: &OpenPartition<()>) -> bool {
        Arc::ptr_eq(&a.execution, &b.execution)
    }

    #[test]
    fn partitions_of_one_plan_meet_whatever_their_contexts() {
        let plan = Executions::<()>::new(3);
        let first = context();
        let mut a0 = plan.open(0, &first).unwrap();
        let a1 = plan.open(1, &context()).unwrap();
        assert!(same(&a0, &a1));
        // Even if one is read to its end before the next is opened.
        a0.end();
        let execution = Arc::clone(&a0.execution);
        drop(a0);
        drop(first);
        let a2 = plan.open(2, &context()).unwrap();
        assert!(Arc::ptr_eq(&a2.execution, &execution));
        assert!(plan.open(3, &context()).is_err());
    }

    #[test]
    fn a_partition_that_is_opened_again_begins_another_execution() {
        let plan = Executions::<()>::new(2);
        let (first, second) = (context(), context());
        let (a0, b0) = (plan.open(0, &first).unwrap(), plan.open(0, &second).unwrap());
        let (b1, a1) = (plan.open(1, &second).unwrap(), plan.open(1, &first).unwrap());
        assert!(same(&a0, &a1) && same(&b0, &b1) && !same(&a0, &b0));
    }

    #[test]
    fn what_was_given_up_is_not_gone_on_with() {
        let plan = Executions::<()>::new(2);
        let a0 = plan.open(0, &context()).unwrap();
        let execution = Arc::clone(&a0.execution);
        drop(a0);
        let b1 = plan.open(1, &context()).unwrap();
        assert!(!Arc::ptr_eq(&b1.execution, &execution));
    }
}
