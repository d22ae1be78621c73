//! Errors in the protocol's form.

use pgwire::error::{ErrorInfo, PgWireError};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::ErrorResponse;

use crate::access::AccessError;
use crate::sql::QueryError;
use crate::values::ValueError;

/// An error that ends the statement. The connection continues.
pub(crate) fn error(sqlstate: &str, text: impl Into<String>) -> PgWireError {
    PgWireError::UserError(Box::new(ErrorInfo::new("ERROR".to_owned(), sqlstate.to_owned(), text.into())))
}

/// An error that ends the connection.
pub(crate) fn fatal(sqlstate: &str, text: impl Into<String>) -> PgWireError {
    PgWireError::UserError(Box::new(ErrorInfo::new("FATAL".to_owned(), sqlstate.to_owned(), text.into())))
}

/// A violation of the protocol.
pub(crate) fn violation(text: impl Into<String>) -> PgWireError {
    error("08P01", text)
}

/// The code of a statement's end, `00000` for success, and the message of an error.
pub(crate) fn outcome<T>(done: &Result<T, PgWireError>) -> (&str, String) {
    match done {
        Ok(_) => ("00000", String::new()),
        Err(PgWireError::UserError(error)) => (&error.code, error.message.clone()),
        Err(PgWireError::ApiError(error)) => {
            (of_query(error.as_ref()).map_or("XX000", QueryError::sqlstate), error.to_string())
        }
        Err(error) => ("08000", error.to_string()),
    }
}

fn of_query<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a QueryError> {
    error.downcast_ref()
}

/// The message about an error. `sql` is the text that the client sent.
pub(crate) fn info(failed: PgWireError, sql: &str) -> ErrorInfo {
    let PgWireError::ApiError(error) = &failed else { return failed.into() };
    let Some(error) = of_query(error.as_ref()) else { return failed.into() };
    let mut info = ErrorInfo::new("ERROR".to_owned(), error.sqlstate().to_owned(), error.to_string());
    info.hint = error.hint().map(str::to_owned);
    info.position = error.position(sql).map(|position| position.to_string());
    info
}

/// The message with an error.
pub(crate) fn error_message(info: ErrorInfo) -> PgWireBackendMessage {
    let mut response = ErrorResponse::from(info);
    for (_, text) in &mut response.fields {
        *text = without_nul(text);
    }
    PgWireBackendMessage::ErrorResponse(response)
}

/// The text without the character that ends texts in messages. Names and values of files may have it.
pub(crate) fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

/// The error with its place in this text.
pub(crate) fn located(failed: PgWireError, sql: &str) -> PgWireError {
    match failed {
        PgWireError::ApiError(_) => PgWireError::UserError(Box::new(info(failed, sql))),
        failed => failed,
    }
}

impl From<ValueError> for PgWireError {
    fn from(failed: ValueError) -> Self {
        QueryError::from(failed).into()
    }
}

impl From<QueryError> for PgWireError {
    fn from(failed: QueryError) -> Self {
        // As it is, because its position is known only with the statement's text.
        PgWireError::ApiError(Box::new(failed))
    }
}

impl From<AccessError> for PgWireError {
    fn from(refused: AccessError) -> Self {
        let sqlstate = match refused {
            AccessError::WrongPassword(_) | AccessError::BadToken | AccessError::Missing => "28P01",
            AccessError::TooOften(_) => "28000",
            AccessError::TooManyConnections { .. } | AccessError::NoRoom(_) => "53300",
            AccessError::NoAudit => "58030",
            AccessError::ShuttingDown => "57P03",
            AccessError::Malformed(_) => "08P01",
        };
        fatal(sqlstate, refused.to_string())
    }
}
