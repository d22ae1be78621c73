//! The current request of a connection: a simple query, or the messages of an extended query up to its Sync.
//!
//! It can be stopped from its first message on, also while it is parsed and planned. As in PostgreSQL, a cancel
//! request for an idle session is ignored.

use std::sync::Arc;
use std::time::Duration;

use pgwire::messages::PgWireFrontendMessage;
use tokio::time::Instant;

use crate::sql::{Cancel, Run, SessionEntry};

/// The request of a connection, if there is one.
pub(crate) struct Request {
    entry: Arc<SessionEntry>,
    cancel: Option<Cancel>,
    begun: Instant,
}

impl Request {
    pub(crate) fn of(entry: &Arc<SessionEntry>) -> Self {
        Request { entry: entry.clone(), cancel: None, begun: Instant::now() }
    }

    /// The cancel handle of this message's work. `None` for messages without work.
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

    /// Restarts the statement's clock.
    pub(crate) fn restarts(&mut self) {
        self.begun = Instant::now();
    }

    /// Ends the request after its answer.
    pub(crate) fn ends(&mut self) {
        self.cancel = None;
        self.entry.answers(None);
    }

    /// The settings with which a statement of this request is planned and run.
    pub(crate) fn run(&self, timeout: Option<Duration>) -> Run {
        let cancel = self.cancel.clone().unwrap_or_default();
        Run { cancel, timeout, begun: self.begun, ..Run::default() }
    }
}
