//! Answers of stores: the one table of the requests that are repeated, and the pauses that stores ask for.
//!
//! Errors of `object_store` contain neither status nor headers. So a request carries an [`Answer`] in its
//! extensions. A client that knows it notes both there, and leaves repetition to the caller. For other
//! clients the status is read from the error's text.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use object_store::Error;

use super::ReadError;
use crate::sync::Mutex;

/// Returns whether a request may succeed if it is repeated as it is.
///
/// | status | repeated | reason |
/// |---|---|---|
/// | 408, 425 | yes | the server waited too long, or does not want early data |
/// | 429 | yes | too many requests |
/// | 500, 502, 503, 504, 509, 520 to 530 | yes | the server or a proxy fails temporarily |
/// | 501, 505, 506, 507, 508, 510, 511 | no | the server never supports the request |
/// | all others | no | the request is wrong or not allowed, or its object does not exist |
///
/// A connection that is refused or reset, and an answer that breaks off, have no status. Such requests are
/// repeated.
pub fn may_be_repeated(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504 | 509 | 520..=530)
}

/// Returns whether a store gives this status because it gets too many requests.
pub fn is_refusal_for_now(status: u16) -> bool {
    matches!(status, 429 | 503)
}

/// Returns whether a store may give this status because it does not know the condition `If-Match`: bad
/// request, method or feature not supported, condition not met, expectation failed.
pub(super) fn may_refuse_conditions(status: u16) -> bool {
    matches!(status, 400 | 405 | 412 | 417 | 501 | 505)
}

/// A client's notes on the last answer to a request.
#[derive(Clone, Debug, Default)]
pub struct Answer(Arc<Mutex<Noted>>);

#[derive(Clone, Copy, Debug, Default)]
struct Noted {
    status: Option<u16>,
    retry_after: Option<Duration>,
}

impl Answer {
    /// Notes the status of an answer, and the wait that the store asks for.
    pub fn note(&self, status: u16, retry_after: Option<Duration>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Noted { status: Some(status), retry_after };
    }

    /// The status of the last answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).status
    }

    /// The error of a request with this answer.
    pub(super) fn error(&self, error: Error) -> ReadError {
        let Noted { status, retry_after } = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match status.or_else(|| status_of(&error)) {
            Some(status @ 400..) => ReadError::Refused { status, retry_after, source: error },
            Some(200..300) => ReadError::Unusable(error),
            _ => ReadError::Store(error),
        }
    }
}

/// The status of an error, by its kind or in its text.
pub(super) fn status_of(error: &Error) -> Option<u16> {
    match error {
        Error::NotFound { .. } => Some(404),
        Error::Precondition { .. } => Some(412),
        Error::PermissionDenied { .. } => Some(403),
        Error::Unauthenticated { .. } => Some(401),
        Error::Generic { source, .. } => {
            let text = source.to_string();
            let (_, rest) = text.rsplit_once("status code: ")?;
            rest.get(..3)?.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_that_of_the_answer_or_of_the_text() {
        let generic = |text: &str| Error::Generic { store: "s", source: text.into() };
        let text = "Error performing GET http://h/x in 3s - Server returned non-2xx status code: 501 Not Implemented: ";
        assert_eq!(status_of(&generic(text)), Some(501));
        assert_eq!(status_of(&generic("connection reset")), None);
        let answer = Answer::default();
        assert!(matches!(answer.error(generic("connection reset")), ReadError::Store(_)));
        answer.note(503, Some(Duration::from_secs(2)));
        let error = answer.error(generic("busy"));
        assert!(error.is_transient() && error.retry_after() == Some(Duration::from_secs(2)), "{error}");
        answer.note(206, None);
        assert!(!answer.error(generic("Content-Range header not present")).is_transient());
    }
}
