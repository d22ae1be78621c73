//! Statements in the audit log that do not run a plan: refused and malformed ones, commands of the session, PREPARE.
//!
//! The end of a plan that runs is written by [`super::results`].

use std::sync::Arc;

use super::{QueryError, SessionEntry};
use crate::access::Audit;

/// The code of a statement that was given up before it had an error.
const STOPPED: &str = "57014";

/// A statement that is written to the audit log when this is dropped, unless its run was written.
pub(crate) struct Attempt {
    audit: Arc<Audit>,
    session: Arc<SessionEntry>,
    sql: String,
    /// Number of statements of the session in the log before this one.
    before: u64,
    code: Option<String>,
}

impl Attempt {
    pub(super) fn of(audit: &Arc<Audit>, session: &Arc<SessionEntry>, sql: &str) -> Self {
        let (audit, session) = (audit.clone(), session.clone());
        let before = session.audited();
        Attempt { audit, session, sql: sql.to_owned(), before, code: Some(STOPPED.to_owned()) }
    }

    /// Sets the code of the end: `00000` for success.
    pub(crate) fn ended(&mut self, code: &str) {
        self.code = Some(code.to_owned());
    }

    /// Writes nothing. The statement runs later.
    pub(crate) fn goes_on(&mut self) {
        self.code = None;
    }

    /// Writes a failure, and nothing after success, when the statement runs later.
    pub(crate) fn checked<T>(&mut self, result: &Result<T, QueryError>) {
        match result {
            Ok(_) => self.goes_on(),
            Err(error) => self.ended(error.sqlstate()),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some(code) = self.code.take().filter(|_| self.session.audited() == self.before) else { return };
        let session = &self.session;
        session.set_audited();
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
