//! One decision of a host, and how it is written in a file: a word and what it is about.
//!
//! `register q0`, `work q0 w1`, `finish l0 col0,2`, `unneed q1 c0..3,7..9`. What a step does is for
//! `host.rs`.

use std::fmt;
use std::str::FromStr;

use coscan_trace::{Columns, Runs};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// One decision of the host. Scans, tables and additions are positions in the world, loads are positions
/// among those in flight, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Step {
    /// The scan registers.
    Register(usize),
    /// The worker does what comes next: asks for a chunk, or releases the one it holds.
    Work(usize, u32),
    /// The worker shows that it is reading.
    Active(usize, u32),
    /// The worker gives its chunk back; it must have been asked to.
    Suspend(usize, u32),
    /// The worker does not want the chunk it gave back any more.
    Discard(usize, u32),
    /// The worker holds a chunk and turns out to need this many bytes of workspace; if they do not fit, it gives the chunk back.
    Workspace(usize, u32, u64),
    /// Columns of a load arrive; all that are left if none is named.
    Finish(usize, Columns),
    /// Columns of a load cannot be read; all that are left if none is named.
    Fail(usize, Columns),
    /// The scan is over, whether it is finished, failed or neither.
    Gone(usize),
    /// The scan does not need these chunks.
    Unneed(usize, Runs),
    /// The budget is this many bytes.
    Budget(u64),
    /// An addition joins its table.
    Grow(usize),
    /// Chunks of a table are replaced.
    Invalidate(usize, Runs),
    /// The table is dropped.
    Drop(usize),
    /// This many bytes of decoded arrays are held for table, chunk, column.
    Decoded(usize, u32, u32, u64),
    /// Point reads want this many bytes.
    Points(u64),
    /// This many point reads wait for pages of table, chunk, column.
    Waiting(usize, u32, u32, u32),
    /// Another policy takes over.
    Policy(String),
    /// The clock jumps by this many nanoseconds, forward or back.
    Clock(i64),
    /// Time passes to the manager's deadline.
    Deadline,
}

/// A step that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is not a step; one is written like 'work q0 w1' or 'finish l0 col0,2'")]
pub struct StepError(String);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Register(scan) => write!(f, "register q{scan}"),
            Step::Work(scan, worker) => write!(f, "work q{scan} w{worker}"),
            Step::Active(scan, worker) => write!(f, "active q{scan} w{worker}"),
            Step::Suspend(scan, worker) => write!(f, "suspend q{scan} w{worker}"),
            Step::Discard(scan, worker) => write!(f, "discard q{scan} w{worker}"),
            Step::Workspace(scan, worker, bytes) => write!(f, "workspace q{scan} w{worker} {bytes}"),
            Step::Finish(load, columns) => write!(f, "finish l{load}{}", Listed(columns)),
            Step::Fail(load, columns) => write!(f, "fail l{load}{}", Listed(columns)),
            Step::Gone(scan) => write!(f, "gone q{scan}"),
            Step::Unneed(scan, chunks) => write!(f, "unneed q{scan} {}", Ranges(chunks)),
            Step::Budget(bytes) => write!(f, "budget {bytes}"),
            Step::Grow(addition) => write!(f, "grow a{addition}"),
            Step::Invalidate(table, chunks) => write!(f, "invalidate t{table} {}", Ranges(chunks)),
            Step::Drop(table) => write!(f, "drop t{table}"),
            Step::Decoded(table, chunk, column, bytes) => {
                write!(f, "decoded t{table} c{chunk} col{column} {bytes}")
            }
            Step::Points(bytes) => write!(f, "points {bytes}"),
            Step::Waiting(table, chunk, column, reads) => {
                write!(f, "waiting t{table} c{chunk} col{column} {reads}")
            }
            Step::Policy(name) => write!(f, "policy {name}"),
            Step::Clock(ns) => write!(f, "clock {ns:+}"),
            Step::Deadline => f.write_str("deadline"),
        }
    }
}

struct Listed<'a>(&'a [u32]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, column) in self.0.iter().enumerate() {
            write!(f, "{}{column}", if at == 0 { " col" } else { "," })?;
        }
        Ok(())
    }
}

struct Ranges<'a>(&'a [(u32, u32)]);

impl fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (from, to)) in self.0.iter().enumerate() {
            write!(f, "{}{from}..{to}", if at == 0 { "c" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Step {
    type Err = StepError;

    fn from_str(text: &str) -> Result<Self, StepError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        read(&words).ok_or_else(|| StepError(text.to_owned()))
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

fn read(words: &[&str]) -> Option<Step> {
    Some(match *words {
        ["register", scan] => Step::Register(number(scan, "q")?),
        ["work", scan, worker] => Step::Work(number(scan, "q")?, number(worker, "w")?),
        ["active", scan, worker] => Step::Active(number(scan, "q")?, number(worker, "w")?),
        ["suspend", scan, worker] => Step::Suspend(number(scan, "q")?, number(worker, "w")?),
        ["discard", scan, worker] => Step::Discard(number(scan, "q")?, number(worker, "w")?),
        ["workspace", scan, worker, bytes] => {
            Step::Workspace(number(scan, "q")?, number(worker, "w")?, number(bytes, "")?)
        }
        ["finish", load] => Step::Finish(number(load, "l")?, Vec::new()),
        ["finish", load, columns] => Step::Finish(number(load, "l")?, list(columns)?),
        ["fail", load] => Step::Fail(number(load, "l")?, Vec::new()),
        ["fail", load, columns] => Step::Fail(number(load, "l")?, list(columns)?),
        ["gone", scan] => Step::Gone(number(scan, "q")?),
        ["unneed", scan, chunks] => Step::Unneed(number(scan, "q")?, ranges(chunks)?),
        ["budget", bytes] => Step::Budget(number(bytes, "")?),
        ["grow", addition] => Step::Grow(number(addition, "a")?),
        ["invalidate", table, chunks] => Step::Invalidate(number(table, "t")?, ranges(chunks)?),
        ["drop", table] => Step::Drop(number(table, "t")?),
        ["decoded", table, chunk, column, bytes] => Step::Decoded(
            number(table, "t")?,
            number(chunk, "c")?,
            number(column, "col")?,
            number(bytes, "")?,
        ),
        ["points", bytes] => Step::Points(number(bytes, "")?),
        ["waiting", table, chunk, column, reads] => Step::Waiting(
            number(table, "t")?,
            number(chunk, "c")?,
            number(column, "col")?,
            number(reads, "")?,
        ),
        ["policy", name] => Step::Policy(name.to_owned()),
        ["clock", ns] => Step::Clock(ns.parse().ok()?),
        ["deadline"] => Step::Deadline,
        _ => return None,
    })
}

fn number<T: FromStr>(word: &str, prefix: &str) -> Option<T> {
    word.strip_prefix(prefix)?.parse().ok()
}

fn list(word: &str) -> Option<Columns> {
    word.strip_prefix("col")?.split(',').map(|n| n.parse().ok()).collect()
}

fn ranges(word: &str) -> Option<Runs> {
    let range = |text: &str| {
        let (from, to) = text.split_once("..")?;
        Some((from.parse().ok()?, to.parse().ok()?))
    };
    word.strip_prefix('c')?.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_as_they_are_written() {
        let steps = [
            Step::Register(3),
            Step::Work(0, 1),
            Step::Active(1, 0),
            Step::Suspend(1, 2),
            Step::Discard(4, 0),
            Step::Workspace(4, 0, 33),
            Step::Finish(2, vec![]),
            Step::Finish(0, vec![1, 3]),
            Step::Fail(1, vec![0]),
            Step::Gone(2),
            Step::Unneed(0, vec![(0, 2), (5, 6)]),
            Step::Budget(77),
            Step::Grow(0),
            Step::Invalidate(1, vec![(2, 3)]),
            Step::Drop(0),
            Step::Decoded(0, 4, 2, 10),
            Step::Points(5),
            Step::Waiting(0, 4, 2, 1),
            Step::Policy("relevance".to_owned()),
            Step::Clock(5),
            Step::Clock(-5),
            Step::Deadline,
        ];
        for step in steps {
            assert_eq!(step.to_string().parse(), Ok(step));
        }
    }

    #[test]
    fn what_is_no_step_is_named() {
        for text in ["work q0", "finish l0 c1", "register 0", "unneed q0 c3", ""] {
            let error = text.parse::<Step>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is not a step")), "{error}");
        }
    }
}
