//! Writing a trace beside the work that is recorded: lines go through a queue to a thread of their own.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::record::{Header, Line, Record};

/// Writes a trace; recording a line costs a copy of its facts. A full disk does not stop what is recorded:
/// writing ends there, and [`Recorder::finish`] says so.
#[derive(Debug)]
pub struct Recorder {
    lines: Option<Sender<Line>>,
    writer: Option<JoinHandle<io::Result<()>>>,
}

impl Recorder {
    /// Begins a trace in a new file; one that exists is replaced.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let mut out = BufWriter::new(File::create(path)?);
        write_line(&mut out, header)?;
        out.flush()?;
        let (lines, incoming) = channel();
        let thread = std::thread::Builder::new().name("coscan-trace".to_owned());
        let writer = thread.spawn(move || write_all(out, &incoming))?;
        Ok(Recorder { lines: Some(lines), writer: Some(writer) })
    }

    /// Adds a line.
    pub fn record(&self, ns: u64, record: Record) {
        if let Some(lines) = &self.lines {
            // The writer is gone only after an error, which `finish` reports.
            let _ = lines.send(Line { ns, record });
        }
    }

    /// Writes what is under way, and says whether everything was written.
    pub fn finish(mut self) -> io::Result<()> {
        self.end()
    }

    fn end(&mut self) -> io::Result<()> {
        drop(self.lines.take());
        match self.writer.take() {
            Some(writer) => {
                writer.join().unwrap_or_else(|_| Err(io::Error::other("the trace writer panicked")))
            }
            None => Ok(()),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Who wants to know calls `finish`.
        let _ = self.end();
    }
}

fn write_all(mut out: BufWriter<File>, incoming: &Receiver<Line>) -> io::Result<()> {
    for line in incoming {
        write_line(&mut out, &line)?;
    }
    out.flush()
}

fn write_line(out: &mut impl Write, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}
