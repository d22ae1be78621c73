//! The end of the program: errors of wrong usage, failures, and their one line of output.
//!
//! This module does not decide what is an error.

use std::any::Any;
use std::error::Error;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use anyhow::anyhow;
use datafusion::common::DataFusionError;

/// Wrong usage: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WrongUsage(pub String);

/// An error of wrong usage.
pub fn wrong_usage(message: impl Into<String>) -> anyhow::Error {
    WrongUsage(message.into()).into()
}

/// Prints one line about `error` and returns the exit status. A reader that closed the output early (`coscan .. |
/// head`) is no error: nothing is printed and the status is 0.
pub fn report(error: &anyhow::Error) -> u8 {
    if is_broken_pipe(error) {
        return 0;
    }
    eprintln!("coscan: {}", one_line(error));
    if error.chain().any(|cause| cause.is::<WrongUsage>()) { 2 } else { 1 }
}

/// Ends the process at once. Threads may still wait for a store or free memory, so the exit handlers of C libraries do
/// not run: that of the allocator would release memory under those threads.
pub fn exit(status: u8) -> ! {
    // A reader that is gone needs no output.
    let _ = io::stdout().flush();
    #[cfg(unix)]
    // SAFETY: the call ends the process, and runs none of its code.
    unsafe {
        libc::_exit(status.into())
    }
    #[cfg(not(unix))]
    std::process::exit(status.into())
}

/// Runs `work`. A panic in it becomes an error; parsers of broken files may panic. Panics of other threads are
/// logged.
pub fn catch(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    let caller = thread::current().id();
    panic::set_hook(Box::new(move |info| {
        let message = panic_text(info.payload());
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if thread::current().id() == caller {
            tracing::info!(message, place, "panic");
        } else {
            tracing::error!(message, place, "panic");
        }
    }));
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        Err(anyhow!("stopped by a bug or a broken file: {}", panic_text(&*payload)))
    })
}

/// The message of a panic.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// The error and its causes on one line, without repetitions.
pub fn one_line(error: &anyhow::Error) -> String {
    in_order(error.chain())
}

/// The error and its causes on one line, without repetitions.
pub fn error_text(error: &(dyn Error + 'static)) -> String {
    in_order(anyhow::Chain::new(error))
}

fn in_order(causes: anyhow::Chain<'_>) -> String {
    let mut line = String::new();
    for cause in causes {
        let text = squeeze(&said(cause));
        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    line
}

/// The message of a cause. The query engine prints parse errors in their debug form.
fn said(cause: &(dyn Error + 'static)) -> String {
    match cause.downcast_ref() {
        Some(DataFusionError::SQL(error, _)) => error.to_string(),
        Some(DataFusionError::External(error)) => said(&**error),
        Some(DataFusionError::Shared(error)) => said(&**error),
        _ => cause.to_string(),
    }
}

/// Text with every run of white space, line breaks included, as one blank.
pub fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn causes_come_in_order_and_once() {
        let error: anyhow::Error = Err::<(), _>(anyhow::anyhow!("disk\n  on fire"))
            .context("cannot read a.parquet: disk on fire")
            .context("query 1")
            .unwrap_err();
        assert_eq!(one_line(&error), "query 1: cannot read a.parquet: disk on fire");
    }

    #[test]
    fn what_does_not_parse_is_said_in_words() {
        use datafusion::sql::sqlparser::parser::ParserError;
        let wrong = ParserError::ParserError("Expected: an SQL statement, found: SELEC".to_owned());
        let error = anyhow::Error::from(DataFusionError::SQL(Box::new(wrong), None));
        assert_eq!(one_line(&error), "sql parser error: Expected: an SQL statement, found: SELEC");
    }

    #[test]
    fn whose_error_it_is_in_the_query_engine_is_not_said() {
        let inner = DataFusionError::External("the device profile is broken".into());
        let error = anyhow::Error::from(DataFusionError::External(Box::new(inner)));
        assert_eq!(one_line(&error), "the device profile is broken");
    }

    #[test]
    fn a_broken_pipe_is_recognised_behind_context() {
        let error: anyhow::Error =
            Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("cannot write").unwrap_err();
        assert!(is_broken_pipe(&error));
    }
}
