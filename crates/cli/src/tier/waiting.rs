//! What queries wait for in tiers, for people: on the terminal with the progress of statements, and in lines on stderr, where no
//! terminal shows it.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::session::Session;

/// How often it is looked at: that takes a forecast.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a wait is before the first line about it; each line comes after twice the time of the one before.
const FIRST_NOTE: Duration = Duration::from_secs(10);

/// The longest time between lines.
const NOTE_EVERY: Duration = Duration::from_secs(3600);

/// A wait as it is shown.
pub struct Waiting {
    looked: Option<Instant>,
    text: Option<String>,
    /// Since when there is something to wait for, and when the next line is due after that.
    notes: Option<(Instant, Duration)>,
    writes_notes: bool,
}

impl Waiting {
    /// Shown by the caller; without a terminal also written to stderr.
    pub fn shown() -> Self {
        Waiting { looked: None, text: None, notes: None, writes_notes: !io::stderr().is_terminal() }
    }

    /// What is waited for now; `None` if nothing is.
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

/// Lines about waits, until it is dropped; inside a runtime.
pub struct Notes(JoinHandle<()>);

/// Writes lines on stderr about what is waited for, also on a terminal.
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
