//! Violations of invariants by a run, and panics as violations.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// The kind of a broken invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The core or its invariants panicked.
    Panic,
    /// A load of a part that is resident, being read, removed or not needed.
    Load,
    /// An eviction of a page that a worker holds or that was not resident.
    Evict,
    /// A drop of decoded arrays that the host does not hold.
    Decoded,
    /// A delivery that is incomplete, repeated, unwanted or out of order.
    Delivery,
    /// An answer to a worker without a request, or to a scan that is not running.
    Answer,
    /// A scan failed without cause, or did not fail despite a cause.
    Failure,
    /// More than the budget is in use.
    Budget,
    /// The ledgers of core and host differ.
    Ledger,
    /// Workers wait and nothing is in progress.
    Standstill,
    /// Scans do not end although the host is fair.
    Endless,
    /// The same world ran differently when repeated.
    Repeat,
}

/// An invariant that a run broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The kind.
    pub kind: Kind,
    /// A description.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Violation { kind, message: message.into() }
    }

    /// The common part of two violations that are probably one bug: the kind, and the message's first line
    /// without numbers and without the text after a bracket.
    pub fn signature(&self) -> (Kind, String) {
        let mut text = String::new();
        for c in self.message.lines().next().unwrap_or_default().chars() {
            match c {
                '[' | '{' => break,
                '0'..='9' if text.ends_with('#') => {}
                '0'..='9' => text.push('#'),
                other => text.push(other),
            }
        }
        (self.kind, text)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

/// A violation unless `holds`.
pub(crate) fn check(holds: bool, kind: Kind, message: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation::new(kind, message())) }
}

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs `f`; a panic in it becomes a violation and is not printed.
pub(crate) fn catching<T>(f: impl FnOnce() -> Result<T, Violation>) -> Result<T, Violation> {
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !CATCHING.get() {
                return print(info);
            }
            let payload = info.payload();
            let text = payload.downcast_ref::<&str>().copied().map(str::to_owned);
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
            let place = info.location().map(|at| format!(" ({}:{})", at.file(), at.line()));
            CAUGHT.set(Some(text + &place.unwrap_or_default()));
        }));
    });
    let before = CATCHING.replace(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    CATCHING.set(before);
    result.unwrap_or_else(|_| {
        let text = CAUGHT.take().unwrap_or_else(|| "a panic without a message".to_owned());
        Err(Violation::new(Kind::Panic, text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_violation_with_its_message() {
        let violation = catching::<()>(|| panic!("page {} of l{}", 3, 12)).unwrap_err();
        assert_eq!(violation.kind, Kind::Panic);
        assert!(violation.message.starts_with("page 3 of l12 ("), "{violation}");
        assert!(violation.signature().1.starts_with("page # of l# ("));
    }
}
