//! Messages about queries that wait for tiers: on the terminal with the progress of statements, and as lines on
//! stderr without a terminal.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::session::Session;

/// Interval of checks. Each check makes a forecast.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Length of a wait before the first line. Each further line comes at twice the time of the previous one.
const FIRST_NOTE: Duration = Duration::from_secs(10);

/// The longest time between lines.
const NOTE_EVERY: Duration = Duration::from_secs(3600);

/// The current wait and its messages.
pub struct Waiting {
    looked: Option<Instant>,
    text: Option<String>,
    /// The start of the wait, and the time after it at which the next line is due.
    notes: Option<(Instant, Duration)>,
    writes_notes: bool,
}

impl Waiting {
    /// A wait that the caller shows. Without a terminal, lines are also written to stderr.
    pub fn shown() -> Self {
        Waiting { looked: None, text: None, notes: None, writes_notes: !io::stderr().is_terminal() }
    }

    /// The files that queries wait for, as text. `None` if no query waits.
    pub fn look(&mut self, session: &Session) -> Option<&str> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            self.looked = Some(Instant::now());
            self.text = session.waiting();
            self.note();
        }
        self.text.as_deref()
    }

    fn note(&mut self) {
        let Some(text) = &self.text else {
            self.notes = None;
            return;
        };
        let (began, due) = self.notes.get_or_insert((Instant::now(), FIRST_NOTE));
        if self.writes_notes && began.elapsed() >= *due {
            eprintln!("{text}");
            *due += (*due).min(NOTE_EVERY);
        }
    }
}

/// Writes lines about waits until it is dropped. Needs a runtime.
pub struct Notes(JoinHandle<()>);

/// Starts to write lines about waits on stderr, also on a terminal.
pub fn notes(session: &Arc<Session>) -> Notes {
    let session = Arc::clone(session);
    Notes(tokio::spawn(async move {
        let mut waiting = Waiting { writes_notes: true, ..Waiting::shown() };
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            waiting.look(&session);
        }
    }))
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.0.abort();
    }
}
