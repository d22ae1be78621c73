//! One decision of a host, and its form in a file: a word and its arguments.
//!
//! `register q0`, `work q0 w1`, `finish l0 col0,2`, `unneed q1 c0..3,7..9`. A step and its words are one line
//! of the table below. `host.rs` executes the steps.

use std::any::Any;
use std::fmt;
use std::str::FromStr;

use coscan_trace::{Columns, Runs};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Declares the steps: the word, the variant, and its arguments, each with its prefix.
macro_rules! steps {
    ($($(#[$doc:meta])* $word:literal $name:ident$(($($argument:ident: $kind:ty = $prefix:literal),*))?;)*) => {
        /// One decision of the host. Scans, tables and additions are positions in the world. Loads are
        /// positions among those in flight, the oldest first.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum Step {
            $($(#[$doc])* $name$(($($kind),*))?,)*
        }

        impl fmt::Display for Step {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Step::$name$(($($argument),*))? => {
                        f.write_str($word)?;
                        $($(Argument::write($argument, $prefix, f)?;)*)?
                    })*
                }
                Ok(())
            }
        }

        impl Step {
            /// The argument with this prefix, if there is one of this type.
            pub(super) fn argument_mut<T: Any>(&mut self, prefix: &str) -> Option<&mut T> {
                match self {
                    $(Step::$name$(($($argument),*))? => {
                        $($(if prefix == $prefix {
                            return ($argument as &mut dyn Any).downcast_mut();
                        })*)?
                        None
                    })*
                }
            }

            fn read(word: &str, mut arguments: std::str::SplitWhitespace<'_>) -> Option<Self> {
                let step = match word {
                    $($word => Step::$name$(($(<$kind as Argument>::read(arguments.next(), $prefix)?),*))?,)*
                    _ => return None,
                };
                arguments.next().is_none().then_some(step)
            }
        }
    };
}

steps! {
    /// The scan registers.
    "register" Register(scan: usize = "q");
    /// The worker's next action: it requests a chunk, or releases the one that it holds.
    "work" Work(scan: usize = "q", worker: u32 = "w");
    /// The worker shows that it is reading.
    "active" Active(scan: usize = "q", worker: u32 = "w");
    /// The worker returns its chunk; it must have been asked to.
    "suspend" Suspend(scan: usize = "q", worker: u32 = "w");
    /// The worker discards the chunk that it returned.
    "discard" Discard(scan: usize = "q", worker: u32 = "w");
    /// The worker holds a chunk and needs this many bytes of workspace. If they do not fit, it returns the
    /// chunk.
    "workspace" Workspace(scan: usize = "q", worker: u32 = "w", bytes: u64 = "");
    /// Columns of a load arrive; all remaining ones if none is named.
    "finish" Finish(load: usize = "l", columns: Columns = "col");
    /// Columns of a load cannot be read; all remaining ones if none is named.
    "fail" Fail(load: usize = "l", columns: Columns = "col");
    /// The scan ends, whether it is finished, failed or neither.
    "gone" Gone(scan: usize = "q");
    /// The scan prunes these chunks.
    "unneed" Unneed(scan: usize = "q", chunks: Runs = "c");
    /// The scan prunes these of the matching chunks at this position.
    "unneed-matching" UnneedMatching(scan: usize = "q", at: u32 = "m", chunks: Runs = "c");
    /// The budget is this many bytes.
    "budget" Budget(bytes: u64 = "");
    /// An addition joins its table.
    "grow" Grow(addition: usize = "a");
    /// Chunks of a table are replaced.
    "invalidate" Invalidate(table: usize = "t", chunks: Runs = "c");
    /// The table is dropped.
    "drop" Drop(table: usize = "t");
    /// This many bytes of decoded arrays are held for table, chunk, column.
    "decoded" Decoded(table: usize = "t", chunk: u32 = "c", column: u32 = "col", bytes: u64 = "");
    /// Point reads want this many bytes.
    "points" Points(bytes: u64 = "");
    /// This many point reads wait for pages of table, chunk, column.
    "waiting" Waiting(table: usize = "t", chunk: u32 = "c", column: u32 = "col", reads: u32 = "");
    /// Switches to another policy.
    "policy" Policy(name: String = "");
    /// The clock jumps by this many nanoseconds, forward or back.
    "clock" Clock(ns: i64 = "");
    /// Time passes to the manager's deadline.
    "deadline" Deadline;
}

/// A step that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is not a step; one is written like 'work q0 w1' or 'finish l0 col0,2'")]
pub struct StepError(String);

/// An argument of a step, as a word after it.
trait Argument: Sized {
    fn write(&self, prefix: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    fn read(word: Option<&str>, prefix: &str) -> Option<Self>;
}

macro_rules! one_value {
    ($($kind:ty, $format:literal;)*) => {$(
        impl Argument for $kind {
            fn write(&self, prefix: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(" {}", $format), prefix, self)
            }

            fn read(word: Option<&str>, prefix: &str) -> Option<Self> {
                word?.strip_prefix(prefix)?.parse().ok()
            }
        }
    )*};
}

one_value! {
    usize, "{}";
    u32, "{}";
    u64, "{}";
    i64, "{:+}";
    String, "{}";
}

/// Several values; no word without values.
impl<T: Value> Argument for Vec<T> {
    fn write(&self, prefix: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        let words: Vec<String> = self.iter().map(Value::shown).collect();
        write!(f, " {prefix}{}", words.join(","))
    }

    fn read(word: Option<&str>, prefix: &str) -> Option<Self> {
        let Some(word) = word else { return Some(Vec::new()) };
        word.strip_prefix(prefix)?.split(',').map(T::read).collect()
    }
}

/// One of several values.
trait Value: Sized {
    fn shown(&self) -> String;
    fn read(text: &str) -> Option<Self>;
}

impl Value for u32 {
    fn shown(&self) -> String {
        self.to_string()
    }

    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Value for (u32, u32) {
    fn shown(&self) -> String {
        format!("{}..{}", self.0, self.1)
    }

    fn read(text: &str) -> Option<Self> {
        let (from, to) = text.split_once("..")?;
        Some((from.parse().ok()?, to.parse().ok()?))
    }
}

impl FromStr for Step {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let mut words = text.split_whitespace();
        let step = words.next().and_then(|word| Step::read(word, words));
        step.ok_or_else(|| StepError(text.to_owned()))
    }
}

impl TryFrom<String> for Step {
    type Error = StepError;

    fn try_from(text: String) -> Result<Self, StepError> {
        text.parse()
    }
}

impl From<Step> for String {
    fn from(step: Step) -> Self {
        step.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_they_are_written() {
        let steps = [
            (Step::Register(3), "register q3"),
            (Step::Workspace(4, 0, 33), "workspace q4 w0 33"),
            (Step::Finish(2, vec![]), "finish l2"),
            (Step::Finish(0, vec![1, 3]), "finish l0 col1,3"),
            (Step::Unneed(0, vec![(0, 2), (5, 6)]), "unneed q0 c0..2,5..6"),
            (Step::Unneed(0, vec![]), "unneed q0"),
            (Step::UnneedMatching(0, 1, vec![(2, 3)]), "unneed-matching q0 m1 c2..3"),
            (Step::Budget(77), "budget 77"),
            (Step::Decoded(0, 4, 2, 10), "decoded t0 c4 col2 10"),
            (Step::Policy("relevance".to_owned()), "policy relevance"),
            (Step::Clock(5), "clock +5"),
            (Step::Clock(-5), "clock -5"),
            (Step::Deadline, "deadline"),
        ];
        for (step, text) in steps {
            assert_eq!((step.to_string().as_str(), text.parse()), (text, Ok(step)));
        }
    }

    #[test]
    fn what_is_no_step_is_named() {
        for text in
            ["work q0", "work q0 w1 w2", "finish l0 c1", "register 0", "unneed q0 c3", "deadline 1", ""]
        {
            let error = text.parse::<Step>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not a step")), "{error}");
        }
    }

    #[test]
    fn arguments_are_found_by_prefix_and_type() {
        let mut step = Step::Decoded(1, 4, 2, 10);
        assert_eq!(step.argument_mut::<usize>("t"), Some(&mut 1));
        assert_eq!(step.argument_mut::<u32>("c"), Some(&mut 4));
        assert_eq!(step.argument_mut::<Runs>("c"), None);
        assert_eq!(step.argument_mut::<usize>("q"), None);
    }
}
