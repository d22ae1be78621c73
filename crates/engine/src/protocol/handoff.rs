//! A handoff: one side gathers a value, the other takes it once. The outcome is complete, failed or revoked,
//! whichever comes first.
//!
//! The gathering side works in steps and wakes the other side when the value is complete; the value itself
//! tells when that is ([`Gathering`]).

use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use crate::sync::{Mutex, MutexGuard};

/// A value that is gathered step by step.
pub(crate) trait Gathering {
    /// Returns whether the value is complete.
    fn is_complete(&self) -> bool;
}

/// A handoff of a gathered value.
#[derive(Debug)]
pub(crate) struct Handoff<G, E> {
    inner: Mutex<Inner<G, E>>,
}

#[derive(Debug)]
struct Inner<G, E> {
    state: State<G, E>,
    waker: Option<Waker>,
}

#[derive(Debug)]
enum State<G, E> {
    Gathering(G),
    Failed(E),
    Revoked,
    /// The value was taken out.
    Taken,
}

/// The result for the taking side.
#[derive(Debug)]
pub(crate) enum Outcome<G, E> {
    Complete(G),
    Failed(E),
    /// The handoff was revoked.
    Revoked,
    /// The value was taken before.
    Taken,
}

impl<G: Gathering, E> Handoff<G, E> {
    /// A handoff to be filled.
    pub(crate) fn new(gathering: G) -> Self {
        Handoff { inner: Mutex::new(Inner { state: State::Gathering(gathering), waker: None }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner<G, E>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads, or adds to, the gathered value; `None` once that was dropped or taken.
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut G) -> R) -> Option<R> {
        match &mut self.inner().state {
            State::Gathering(gathering) => Some(step(gathering)),
            _ => None,
        }
    }

    /// Returns whether the outcome is settled.
    pub(crate) fn is_settled(&self) -> bool {
        self.inner().is_settled()
    }

    /// Drops the gathered value because of `error`. The first reason counts.
    pub(crate) fn fail(&self, error: E) {
        let given_up = self.inner().replace(State::Failed(error));
        drop(given_up);
    }

    /// Drops the gathered value. Returns whether nothing is left of it; a value that was taken cannot be
    /// revoked.
    pub(crate) fn revoke(&self) -> bool {
        let mut inner = self.inner();
        let given_up = inner.replace(State::Revoked);
        let gone = !matches!(inner.state, State::Taken);
        drop(inner);
        drop(given_up);
        gone
    }

    /// The task to wake when the value is complete.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        self.inner().waker.take()
    }

    /// Takes the outcome once it is settled.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Outcome<G, E>> {
        let mut inner = self.inner();
        if !inner.is_settled() {
            inner.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(match std::mem::replace(&mut inner.state, State::Taken) {
            State::Gathering(gathering) => Outcome::Complete(gathering),
            State::Failed(error) => Outcome::Failed(error),
            State::Revoked => Outcome::Revoked,
            State::Taken => Outcome::Taken,
        })
    }
}

impl<G: Gathering, E> Inner<G, E> {
    fn is_settled(&self) -> bool {
        match &self.state {
            State::Gathering(gathering) => gathering.is_complete(),
            _ => true,
        }
    }

    /// Replaces the gathering state, and returns it. Any other state stays.
    fn replace(&mut self, state: State<G, E>) -> Option<State<G, E>> {
        matches!(self.state, State::Gathering(_)).then(|| std::mem::replace(&mut self.state, state))
    }
}
