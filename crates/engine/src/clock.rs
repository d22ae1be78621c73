//! The system's clock.
#![expect(clippy::disallowed_methods, reason = "the real environment")]

use std::time::Instant;

/// The current time.
pub(crate) fn now() -> Instant {
    Instant::now()
}
