//! Something that one side gathers and the other takes once: complete, failed or revoked, whichever comes first.
//!
//! The gathering side works in steps and wakes the other when nothing is missing any more; the gathered value says
//! when that is ([`Gathering`]).

use std::sync::PoisonError;
use std::task::{Context, Poll, Waker};

use crate::sync::{Mutex, MutexGuard};

/// Something that is gathered step by step.
pub(crate) trait Gathering {
    /// Returns whether nothing is missing any more.
    fn is_complete(&self) -> bool;
}

/// See the documentation of the module.
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
    /// Taken out.
    Taken,
}

/// The result for the other side.
#[derive(Debug)]
pub(crate) enum Outcome<G, E> {
    Complete(G),
    Failed(E),
    /// It was revoked.
    Revoked,
    /// It was taken before.
    Taken,
}

impl<G: Gathering, E> Handoff<G, E> {
    /// To be filled.
    pub(crate) fn new(gathering: G) -> Self {
        Handoff { inner: Mutex::new(Inner { state: State::Gathering(gathering), waker: None }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner<G, E>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads, or adds to, what was gathered; `None` once that was dropped or taken.
    pub(crate) fn with<R>(&self, step: impl FnOnce(&mut G) -> R) -> Option<R> {
        match &mut self.inner().state {
            State::Gathering(gathering) => Some(step(gathering)),
            _ => None,
        }
    }

    /// Returns whether nothing is missing any more.
    pub(crate) fn is_settled(&self) -> bool {
        self.inner().is_settled()
    }

    /// Drops what was gathered, because of `error`. The first reason counts.
    pub(crate) fn fail(&self, error: E) {
        let given_up = self.inner().replace(State::Failed(error));
        drop(given_up);
    }

    /// Drops what was gathered. Returns whether nothing is left of it; a value that was taken cannot be revoked.
    pub(crate) fn revoke(&self) -> bool {
        let mut inner = self.inner();
        let given_up = inner.replace(State::Revoked);
        let gone = !matches!(inner.state, State::Taken);
        drop(inner);
        drop(given_up);
        gone
    }

    /// The task to wake when it is complete.
    pub(crate) fn take_waker(&self) -> Option<Waker> {
        self.inner().waker.take()
    }

    /// Takes the result once nothing is missing any more.
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

    /// Replaces the gathering state, which is returned; any other state stays.
    fn replace(&mut self, state: State<G, E>) -> Option<State<G, E>> {
        matches!(self.state, State::Gathering(_)).then(|| std::mem::replace(&mut self.state, state))
    }
}
