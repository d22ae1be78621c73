//! What a connection answers now: a simple query, or the messages of an extended one up to its Sync.
//!
//! It can be stopped from its first message on, while it is read and planned, too. As in PostgreSQL a request to stop what a
//! session does is ignored when the session does nothing.

use std::sync::Arc;
use std::time::Duration;

use pgwire::messages::PgWireFrontendMessage;
use tokio::time::Instant;

use crate::sql::{Cancel, Run, SessionEntry};

/// The request of a connection, if it has one.
pub(crate) struct Request {
    entry: Arc<SessionEntry>,
    cancel: Option<Cancel>,
    begun: Instant,
}

impl Request {
    pub(crate) fn of(entry: &Arc<SessionEntry>) -> Self {
        Request { entry: entry.clone(), cancel: None, begun: Instant::now() }
    }

    /// What stops the work that this message asks for; nothing for messages that ask for none.
    pub(crate) fn cancel_for(&mut self, message: &PgWireFrontendMessage) -> Option<Cancel> {
        let works = matches!(
            message,
            PgWireFrontendMessage::Query(_)
                | PgWireFrontendMessage::Parse(_)
                | PgWireFrontendMessage::Bind(_)
                | PgWireFrontendMessage::Describe(_)
                | PgWireFrontendMessage::Execute(_)
        );
        if works && self.cancel.is_none() {
            self.cancel = Some(Cancel::default());
            self.entry.answers(self.cancel.clone());
            self.restarts();
        }
        self.cancel.clone().filter(|_| works)
    }

    /// The time of a statement begins.
    pub(crate) fn restarts(&mut self) {
        self.begun = Instant::now();
    }

    /// The request is answered.
    pub(crate) fn ends(&mut self) {
        self.cancel = None;
        self.entry.answers(None);
    }

    /// How a statement of this request is planned and run.
    pub(crate) fn run(&self, timeout: Option<Duration>) -> Run {
        Run { cancel: self.cancel.clone().unwrap_or_default(), timeout, begun: self.begun }
    }
}
