//! The progress of statements on one line of the terminal, for statements that take longer than a second.
//!
//! Without a terminal, only long waits for slow storage are shown. The line counts the chunks that scans have
//! announced so far. Chunks that a plan announces later, for example those of a join's second side, are added then.

use std::sync::Arc;
use std::time::Duration;

use bytesize::ByteSize;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::task::JoinHandle;

use super::session::{Progress, SqlSession};
use crate::tier::waiting::Waiting;

/// Statements that take less time show nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval of updates.
const TICK: Duration = Duration::from_millis(100);

/// A progress line for some statements, removed when dropped.
pub struct Bar {
    line: ProgressBar,
    ticks: JoinHandle<()>,
    /// Set if several statements share it. Their output is printed after the line is gone.
    shared: bool,
}

impl Bar {
    /// A progress line for one statement that prints its own output. Must be called inside a runtime.
    pub fn start(session: &Arc<SqlSession>) -> Self {
        Self::watch(session, false)
    }

    /// A progress line for several statements that print after it is gone. Must be called inside a runtime.
    pub fn for_several(session: &Arc<SqlSession>) -> Self {
        Self::watch(session, true)
    }

    fn watch(session: &Arc<SqlSession>, shared: bool) -> Self {
        let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{bar:24.cyan/dim} {msg}, {elapsed}");
        line.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let (session, shown) = (session.clone(), line.clone());
        let ticks = tokio::spawn(async move {
            tokio::time::sleep(PATIENCE).await;
            let mut waiting = Waiting::shown();
            loop {
                let progress = session.progress();
                shown.set_length(progress.chunks_wanted.max(1));
                shown.set_position(progress.chunks_done.min(progress.chunks_wanted));
                let waits = waiting.look(&session.engine).map(str::to_owned);
                shown.set_message(waits.unwrap_or_else(|| described(&progress)));
                if shown.is_hidden() {
                    // From here on, the line is visible.
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                }
                tokio::time::sleep(TICK).await;
            }
        });
        Bar { line, ticks, shared }
    }

    /// Hides the line before a statement prints, because output and line may share a terminal.
    pub fn make_way(&self) {
        if !self.shared {
            self.hide();
        }
    }

    fn hide(&self) {
        self.ticks.abort();
        self.line.finish_and_clear();
        self.line.set_draw_target(ProgressDrawTarget::hidden());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.hide();
    }
}

/// The progress as text.
fn described(progress: &Progress) -> String {
    if progress.chunks_wanted == 0 {
        return "planning, or nothing to scan".to_owned();
    }
    let Progress { chunks_wanted, chunks_done, on_their_way, .. } = progress;
    let mut text = format!("{chunks_done} of {chunks_wanted} chunks");
    if *on_their_way > 0 {
        text.push_str(&format!(", {on_their_way} on their way"));
    }
    let size = |bytes| ByteSize(bytes).display().si();
    text.push_str(&format!(", {} read", size(progress.bytes_read)));
    if progress.bytes_spared > 0 {
        text.push_str(&format!(", {} did not have to be", size(progress.bytes_spared)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let mut progress = Progress { chunks_wanted: 100, chunks_done: 7, ..Progress::default() };
        assert_eq!(described(&progress), "7 of 100 chunks, 0 B read");
        progress = Progress { on_their_way: 3, bytes_read: 2_000_000, bytes_spared: 500, ..progress };
        let text = "7 of 100 chunks, 3 on their way, 2.0 MB read, 500 B did not have to be";
        assert_eq!(described(&progress), text);
        assert_eq!(described(&Progress::default()), "planning, or nothing to scan");
    }
}
