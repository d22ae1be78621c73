//! Requests that are complete but not reported yet.
//!
//! A device made of steps takes all due steps whenever it learns the time, also when a request is submitted.
//! Requests that complete in between wait here for the next call that may report them.

use std::collections::VecDeque;

use coscan_base::Instant;

use crate::Completion;

/// Completions in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct Completed {
    queue: VecDeque<(Instant, Completion)>,
}

impl Completed {
    pub(crate) fn push(&mut self, at: Instant, completion: Completion) {
        self.queue.push_back((at, completion));
    }

    /// The time of the first completion.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.queue.front().map(|(at, _)| *at)
    }

    /// Reports all completions.
    pub(crate) fn drain_into(&mut self, done: &mut Vec<Completion>) {
        done.extend(self.queue.drain(..).map(|(_, completion)| completion));
    }
}
