//! The error of a value that cannot be written or read.

/// A value that PostgreSQL does not have, or that is not written as it should be.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct ValueError {
    /// PostgreSQL's code.
    pub(crate) sqlstate: &'static str,
    /// The message.
    pub(crate) text: String,
}

pub(super) type Result<T> = std::result::Result<T, ValueError>;

pub(super) fn error(sqlstate: &'static str, text: impl Into<String>) -> ValueError {
    ValueError { sqlstate, text: text.into() }
}
