//! Statements in the audit log that do not run a plan: refused and malformed ones, commands of the session, PREPARE.
//!
//! The end of a plan that runs is written by [`super::results`].

use std::sync::Arc;
use std::time::Instant;

use super::text::trace_parent;
use super::{Ended, QueryError, Registry, SessionEntry};
use crate::access::Audit;

const SUCCESS: &str = "00000";
/// The code of a statement that was given up before it had an error.
const STOPPED: &str = "57014";

/// A statement that is written to the audit log when this is dropped, unless its run was written.
pub(crate) struct Attempt {
    audit: Arc<Audit>,
    registry: Arc<Registry>,
    session: Arc<SessionEntry>,
    sql: String,
    begun: Instant,
    /// Number of statements of the session in the log before this one.
    before: u64,
    code: Option<String>,
    message: String,
}

impl Attempt {
    pub(super) fn of(
        audit: &Arc<Audit>,
        registry: &Arc<Registry>,
        session: &Arc<SessionEntry>,
        sql: &str,
    ) -> Self {
        Attempt {
            audit: audit.clone(),
            registry: registry.clone(),
            before: session.audited(),
            session: session.clone(),
            sql: sql.to_owned(),
            begun: Instant::now(),
            code: Some(STOPPED.to_owned()),
            message: "the statement was given up".to_owned(),
        }
    }

    /// Sets the code of the end, `00000` for success, and the message of an error.
    pub(crate) fn ended(&mut self, (code, message): (&str, String)) {
        (self.code, self.message) = (Some(code.to_owned()), message);
    }

    /// Writes nothing. The statement runs later.
    pub(crate) fn goes_on(&mut self) {
        self.code = None;
    }

    /// Writes a failure, and nothing after success, when the statement runs later.
    pub(crate) fn checked<T>(&mut self, result: &Result<T, QueryError>) {
        match result {
            Ok(_) => self.goes_on(),
            Err(error) => self.ended((error.sqlstate(), error.to_string())),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(code) = self.code.take().filter(|_| self.session.audited() == self.before) else { return };
        let session = &self.session;
        session.set_audited();
        self.registry.ended(&Ended {
            session,
            sql: &self.sql,
            trace_parent: trace_parent(&self.sql),
            begun: self.begun,
            error: (code != SUCCESS).then_some((code.as_str(), self.message.as_str())),
            run: None,
        });
        self.audit.write(
            "statement",
            &session.user.name,
            &[
                ("session", session.id.into()),
                ("protocol", session.protocol.as_str().into()),
                ("peer", session.peer.map(|peer| peer.to_string()).into()),
                ("sql", std::mem::take(&mut self.sql).into()),
                ("code", code.into()),
            ],
        );
    }
}
