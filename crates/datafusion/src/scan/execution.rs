//! Teams: the partitions of a plan that one execution reads and that may share their work.
//!
//! DataFusion opens partitions one by one, from concurrent tasks, and does not say which of them belong
//! together. Partitions of one execution usually have the same task context. Different executions have
//! different contexts. So partitions form a team if they were opened with the same context before the first
//! of them is read. A team reads exactly its own files.
//!
//! A partition without a team reads its own files alone. This is right in every case: a context per
//! partition, partitions that are opened late, a plan that is executed again after some partitions were
//! opened, two concurrent executions.
//!
//! Two concurrent executions with the same context cannot be told apart. Their partitions read alone if no
//! team exists yet. After that, such a partition is an error.

use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;

use crate::lock::lock;
use crate::scan::registration::Registration;

/// A partition that is read first yields for this time, and at least this often, so that other partitions can
/// be opened. Their tasks wait in the same queues, and a task that yields stands behind them.
const PATIENCE: Duration = Duration::from_millis(1);
const YIELDS_MIN: u32 = 8;

/// The executions of one plan.
pub(crate) struct Executions {
    partitions: usize,
    known: Mutex<Vec<Arc<Execution>>>,
}

/// One execution, as far as contexts can tell.
struct Execution {
    context: Weak<TaskContext>,
    state: Mutex<State>,
}

struct State {
    /// By partition.
    places: Vec<Place>,
    /// Partitions that are open, and neither exhausted nor dropped.
    readers: usize,
    /// Whether a partition was opened twice. Then no partition can be assigned to an execution.
    ambiguous: bool,
}

/// The state of a partition.
#[derive(Clone)]
enum Place {
    Closed,
    /// Open, and not read yet.
    Open,
    /// Read alone.
    Alone,
    /// Read with others.
    Team(Arc<Registration>),
}

/// A partition that was opened. Dropping it ends its reading.
pub(crate) struct OpenPartition {
    execution: Arc<Execution>,
    partition: usize,
}

impl Executions {
    /// Creates the record for a plan with this many partitions.
    pub(crate) fn new(partitions: usize) -> Self {
        Executions { partitions, known: Mutex::default() }
    }

    /// Opens a partition.
    ///
    /// # Errors
    ///
    /// If it may belong to another execution than partitions that are being read with the same context.
    pub(crate) fn open(&self, partition: usize, context: &Arc<TaskContext>) -> Result<OpenPartition> {
        let mut known = lock(&self.known);
        // Every reader holds its context, so an execution without readers is over.
        known.retain(|execution| lock(&execution.state).readers > 0);
        let same =
            |execution: &&Arc<Execution>| std::ptr::eq(execution.context.as_ptr(), Arc::as_ptr(context));
        if let Some(execution) = known.iter().find(same) {
            execution.open(partition)?;
            return Ok(OpenPartition { execution: Arc::clone(execution), partition });
        }
        let places = vec![Place::Closed; self.partitions];
        let state = Mutex::new(State { places, readers: 0, ambiguous: false });
        let execution = Arc::new(Execution { context: Arc::downgrade(context), state });
        execution.open(partition)?;
        known.push(Arc::clone(&execution));
        Ok(OpenPartition { execution, partition })
    }
}

impl Execution {
    fn open(&self, partition: usize) -> Result<()> {
        let mut state = lock(&self.state);
        if !matches!(state.places[partition], Place::Closed) {
            if state.places.iter().any(|place| matches!(place, Place::Team(_))) {
                return exec_err!(
                    "partition {partition} is being read by an execution with the same task context: give each \
                     execution of a plan a context of its own (SessionContext::task_ctx), or let the first one end"
                );
            }
            state.ambiguous = true;
        }
        if matches!(state.places[partition], Place::Closed) {
            state.places[partition] = Place::Open;
        }
        state.readers += 1;
        Ok(())
    }

    /// Returns whether partitions that could join the open ones may still be opened.
    fn may_grow(&self) -> bool {
        let state = lock(&self.state);
        !state.ambiguous && state.places.iter().any(|place| matches!(place, Place::Closed))
    }
}

impl OpenPartition {
    /// Returns the registration that reads this partition. `team` makes one for several partitions, `alone`
    /// one for this partition.
    pub(crate) async fn registration(
        &self,
        team: impl FnOnce(&[bool]) -> Arc<Registration>,
        alone: impl FnOnce() -> Arc<Registration>,
    ) -> Arc<Registration> {
        if matches!(lock(&self.execution.state).places[self.partition], Place::Open) {
            self.wait_for_others().await;
        }
        let mut state = lock(&self.execution.state);
        if let Place::Team(registration) = &state.places[self.partition] {
            return Arc::clone(registration);
        }
        let members: Vec<bool> = state.places.iter().map(|place| matches!(place, Place::Open)).collect();
        let alone_here =
            state.ambiguous || !members[self.partition] || members.iter().filter(|m| **m).count() < 2;
        if alone_here {
            state.places[self.partition] = Place::Alone;
            return alone();
        }
        let registration = team(&members);
        for (place, _) in state.places.iter_mut().zip(&members).filter(|(_, member)| **member) {
            *place = Place::Team(Arc::clone(&registration));
        }
        registration
    }

    async fn wait_for_others(&self) {
        let (begin, mut yields) = (Instant::now(), 0);
        while self.execution.may_grow() && (yields < YIELDS_MIN || begin.elapsed() < PATIENCE) {
            // The thread that opens them may wait for a processor.
            std::thread::yield_now();
            tokio::task::yield_now().await;
            yields += 1;
        }
    }
}

impl Drop for OpenPartition {
    fn drop(&mut self) {
        let mut state = lock(&self.execution.state);
        state.readers -= 1;
        let place = &mut state.places[self.partition];
        if matches!(place, Place::Open) {
            // It was never read.
            *place = Place::Closed;
        }
    }
}

#[cfg(test)]
mod tests {
    use coscan_engine::DeliveryOrder;

    use super::*;

    fn context() -> Arc<TaskContext> {
        Arc::new(TaskContext::default())
    }

    /// Returns the partitions whose files this one reads, and their registration.
    async fn reads(open: &OpenPartition) -> (Vec<usize>, Arc<Registration>) {
        let registration = || Registration::new(Vec::new(), 1, DeliveryOrder::Any, None);
        let made = open.registration(|_| registration(), registration).await;
        let state = lock(&open.execution.state);
        let of_team = |place: &Place| matches!(place, Place::Team(of) if Arc::ptr_eq(of, &made));
        let team: Vec<usize> = (0..state.places.len()).filter(|at| of_team(&state.places[*at])).collect();
        (if team.is_empty() { vec![open.partition] } else { team }, made)
    }

    #[tokio::test]
    async fn partitions_of_one_context_share_and_executions_do_not() {
        let plan = Executions::new(2);
        let (first, second) = (context(), context());
        let a0 = plan.open(0, &first).unwrap();
        let b1 = plan.open(1, &second).unwrap();
        let a1 = plan.open(1, &first).unwrap();
        let b0 = plan.open(0, &second).unwrap();
        let (a, b) = (reads(&a0).await, reads(&b0).await);
        assert_eq!((&a.0, &b.0), (&vec![0, 1], &vec![0, 1]));
        assert!(Arc::ptr_eq(&a.1, &reads(&a1).await.1) && Arc::ptr_eq(&b.1, &reads(&b1).await.1));
        assert!(!Arc::ptr_eq(&a.1, &b.1));
    }

    #[tokio::test]
    async fn a_context_for_each_partition_shares_nothing() {
        let plan = Executions::new(2);
        let (p0, p1) = (plan.open(0, &context()).unwrap(), plan.open(1, &context()).unwrap());
        assert_eq!((reads(&p0).await.0, reads(&p1).await.0), (vec![0], vec![1]));
    }

    #[tokio::test]
    async fn what_is_opened_late_is_not_in_the_team() {
        let (plan, context) = (Executions::new(5), context());
        let (p0, p2) = (plan.open(0, &context).unwrap(), plan.open(2, &context).unwrap());
        assert_eq!(reads(&p0).await.0, [0, 2]);
        let p1 = plan.open(1, &context).unwrap();
        assert_eq!((reads(&p1).await.0, reads(&p2).await.0), (vec![1], vec![0, 2]));
        let (p3, p4) = (plan.open(3, &context).unwrap(), plan.open(4, &context).unwrap());
        assert_eq!((reads(&p4).await.0, reads(&p3).await.0), (vec![3, 4], vec![3, 4]));
    }

    #[tokio::test]
    async fn an_execution_that_was_given_up_is_forgotten() {
        let (plan, context) = (Executions::new(2), context());
        drop(plan.open(0, &context).unwrap());
        let p1 = plan.open(1, &context).unwrap();
        let p0 = plan.open(0, &context).unwrap();
        assert_eq!(reads(&p0).await.0, [0, 1]);
        drop((p0, p1));
        let p0 = plan.open(0, &context).unwrap();
        assert_eq!(reads(&p0).await.0, [0]);
        drop(p0);
        let (p1, p0) = (plan.open(1, &context).unwrap(), plan.open(0, &context).unwrap());
        assert_eq!((reads(&p1).await.0, reads(&p0).await.0), (vec![0, 1], vec![0, 1]));
    }

    #[tokio::test]
    async fn two_executions_with_one_context_share_nothing_or_fail() {
        let (plan, context) = (Executions::new(2), context());
        let all = [0, 0, 1, 1].map(|partition| plan.open(partition, &context).unwrap());
        for (open, expected) in all.iter().zip([0, 0, 1, 1]) {
            assert_eq!(reads(open).await.0, [expected]);
        }
        drop(all);
        let both = [0, 1].map(|partition| plan.open(partition, &context).unwrap());
        assert_eq!(reads(&both[0]).await.0, [0, 1]);
        let error = plan.open(0, &context).err().expect("it is being read").to_string();
        assert!(error.contains("partition 0") && error.contains("task_ctx"), "{error}");
    }
}
