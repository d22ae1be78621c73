//! The threads of statements, separate from those of connections.
//!
//! An operator may compute for seconds before it yields. On the threads of connections this would delay logins,
//! timers and cancel requests. On threads that all users share it would delay the statements of other users. Users with
//! statements in progress therefore have threads of their own, as many as the machine has processors, and the operating
//! system shares the processors between them. Such a set of threads is a lane. If more users than [`LANES_MAX`] have
//! statements in progress, some share a lane.
//!
//! Planning may also compute for seconds, and never yields. Every statement is therefore planned on a thread of its
//! own, so that it delays no other planning.
//!
//! A stopped statement is interrupted: its planner ends before the next rule, and an expression that may be slow ends
//! within a batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coscan_datafusion::{Interrupt, install_interrupts};
use datafusion::common::{DataFusionError, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Stack size of a thread, of which only the used part takes memory. It is enough for the deepest statement that
/// `nesting` accepts.
const STACK_BYTES: usize = 256 << 20;
/// Maximum number of lanes. Each has as many threads as there are processors.
const LANES_MAX: usize = 16;

/// The threads of all lanes. When this is dropped, they end by themselves.
pub(crate) struct Work {
    threads: usize,
    first: Handle,
    lanes: Mutex<Vec<Lane>>,
}

/// A set of threads, and its users with their statements in progress. Lanes stay, because clients of object stores keep
/// tasks on the threads that used them first.
struct Lane {
    runtime: Option<Runtime>,
    users: HashMap<String, usize>,
}

impl Work {
    /// Starts the threads of one lane. Further lanes start when they are needed.
    pub(crate) fn start(threads: usize) -> Result<Arc<Self>> {
        install_interrupts();
        let threads = threads.max(1);
        let first = Lane::start(threads)?;
        Ok(Arc::new(Work { threads, first: first.handle(), lanes: Mutex::new(vec![first]) }))
    }

    /// The lane of a user, for one statement. A user without statements in progress gets the lane with the fewest users.
    pub(crate) fn lane(self: &Arc<Self>, user: &str) -> OnLane {
        let mut lanes = self.lock();
        let own = lanes.iter().position(|lane| lane.users.contains_key(user));
        let at = own.unwrap_or_else(|| {
            let fewest = (0..lanes.len()).min_by_key(|&at| lanes[at].users.len()).unwrap_or(0);
            if lanes[fewest].users.is_empty() || lanes.len() >= LANES_MAX {
                return fewest;
            }
            match Lane::start(self.threads) {
                Ok(lane) => {
                    lanes.push(lane);
                    lanes.len() - 1
                }
                Err(error) => {
                    tracing::warn!(%error, "threads of a further user cannot be started: some users share threads");
                    fewest
                }
            }
        });
        *lanes[at].users.entry(user.to_owned()).or_default() += 1;
        let place = Arc::new(Place { work: self.clone(), at, user: user.to_owned() });
        OnLane { threads: lanes[at].handle(), place }
    }

    /// The threads of the first lane.
    pub(crate) fn first(&self) -> Handle {
        self.first.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    fn start(threads: usize) -> Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).thread_name("coscan-query").thread_stack_size(STACK_BYTES);
        builder.enable_all();
        let runtime = builder.build().map_err(DataFusionError::IoError)?;
        Ok(Lane { runtime: Some(runtime), users: HashMap::new() })
    }

    fn handle(&self) -> Handle {
        match &self.runtime {
            Some(runtime) => runtime.handle().clone(),
            None => unreachable!("the threads are there until they are dropped"),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A statement on the lane of its user.
pub(crate) struct OnLane {
    threads: Handle,
    place: Arc<Place>,
}

/// A statement's place on a lane, until the last of its work has left the threads: also the tasks that its operators spawn.
/// Work that was stopped may go on for a while, and the lane then is that of its user.
struct Place {
    work: Arc<Work>,
    at: usize,
    user: String,
}

impl OnLane {
    /// Runs a future. Dropping the task stops it.
    pub(crate) fn spawn<F>(&self, interrupt: &Interrupt, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = self.threads.spawn(self.holding(interrupt).guard(future));
        Task { task, interrupt: interrupt.clone() }
    }

    /// The interrupt for work that keeps the statement's place.
    fn holding(&self, interrupt: &Interrupt) -> Interrupt {
        interrupt.holding(self.place.clone())
    }

    /// Runs planning. If the caller drops this future, planning is interrupted. `None` if it panicked.
    pub(crate) async fn plan<F>(&self, interrupt: &Interrupt, future: F) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let mut wanted = Wanted { interrupt: interrupt.clone(), ended: false };
        let (_wanted, unwanted) = oneshot::channel::<()>();
        let threads = self.threads.clone();
        let planning = self.holding(interrupt).guard(async move {
            tokio::select! {
                biased;
                _ = unwanted => None,
                output = future => Some(output),
            }
        });
        let planned = self.threads.spawn_blocking(move || threads.block_on(planning));
        let output = planned.await;
        wanted.ended = true;
        output.ok().flatten()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lanes = self.work.lock();
        let Some(lane) = lanes.get_mut(self.at) else { return };
        if let Some(count) = lane.users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                lane.users.remove(&self.user);
            }
        }
    }
}

/// Interrupts planning that ends before its result.
struct Wanted {
    interrupt: Interrupt,
    ended: bool,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if !self.ended {
            self.interrupt.stop();
        }
    }
}

/// A task that is stopped when it is dropped.
pub(crate) struct Task<T> {
    task: JoinHandle<T>,
    interrupt: Interrupt,
}

impl<T> Task<T> {
    /// Waits for its end. `None` if it panicked.
    pub(crate) async fn ended(mut self) -> Option<T> {
        (&mut self.task).await.ok()
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.interrupt.stop();
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_lane_with_stopped_work_stays_that_of_its_user() {
        let work = Work::start(1).unwrap();
        let ann = work.lane("ann");
        let (begun, begins) = std::sync::mpsc::channel();
        let task = ann.spawn(&Interrupt::default(), async move {
            begun.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
        });
        begins.recv().unwrap();
        let at = ann.place.at;
        drop((task, ann));
        assert_ne!(work.lane("bob").place.at, at, "it computes");
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(work.lane("bob").place.at, at, "it is free again");
    }

    #[test]
    fn users_with_statements_in_progress_have_lanes_of_their_own() {
        let work = Work::start(1).unwrap();
        let (ann, bob) = (work.lane("ann"), work.lane("bob"));
        assert_ne!(ann.place.at, bob.place.at);
        assert_eq!(work.lane("ann").place.at, ann.place.at);
        let others: Vec<_> = (0..2 * LANES_MAX).map(|n| work.lane(&n.to_string())).collect();
        assert_eq!(work.lock().len(), LANES_MAX);
        let before = ann.place.at;
        drop((ann, bob, others));
        assert!(work.lock().iter().all(|lane| lane.users.is_empty()));
        assert!(work.lane("ann").place.at <= before, "an empty lane is used again");
    }
}
