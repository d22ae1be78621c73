//! Writing of a trace while the engine runs: lines pass through a queue to a thread.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::record::{Header, Line, Record};

/// Maximum number of lines in the queue. If recording is faster than the disk, it waits: a trace with gaps
/// could not be replayed.
const LINES_WAITING: usize = 1 << 16;

/// Writes a trace. Recording a line costs a copy of its facts. A full disk does not stop the engine: writing
/// ends, and [`Recorder::finish`] reports the error.
#[derive(Debug)]
pub struct Recorder {
    lines: Option<SyncSender<Line>>,
    writer: Option<JoinHandle<io::Result<()>>>,
}

impl Recorder {
    /// Begins a trace in a new file.
    ///
    /// # Errors
    /// If a file of that name exists, because files are never overwritten, or if it cannot be written.
    pub fn create(path: &Path, header: &Header) -> io::Result<Self> {
        let file = File::create_new(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                let message = format!("{} exists; remove it or choose another name", path.display());
                io::Error::new(io::ErrorKind::AlreadyExists, message)
            }
            _ => error,
        })?;
        Self::write_to(file, header)
    }

    fn write_to(file: impl Write + Send + 'static, header: &Header) -> io::Result<Self> {
        let mut out = BufWriter::new(file);
        write_line(&mut out, header)?;
        out.flush()?;
        let (lines, incoming) = sync_channel(LINES_WAITING);
        let thread = std::thread::Builder::new().name("coscan-trace".to_owned());
        let writer = thread.spawn(move || write_all(out, &incoming))?;
        Ok(Recorder { lines: Some(lines), writer: Some(writer) })
    }

    /// Adds a line; waits if the queue is full.
    pub fn record(&self, ns: u64, record: Record) {
        if let Some(lines) = &self.lines {
            // The writer is missing only after an error, which `finish` reports.
            let _ = lines.send(Line { ns, record });
        }
    }

    /// Writes the lines that are still in the queue.
    ///
    /// # Errors
    /// If a line could not be written: the trace is incomplete.
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
        // Errors are reported by `finish`.
        let _ = self.end();
    }
}

fn write_all(mut out: BufWriter<impl Write>, incoming: &Receiver<Line>) -> io::Result<()> {
    for line in incoming {
        write_line(&mut out, &line)?;
    }
    out.flush()
}

fn write_line(out: &mut impl Write, line: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Condvar, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::VERSION;

    fn header() -> Header {
        Header {
            coscan_trace: VERSION,
            policy: "relevance".to_owned(),
            buffer_bytes: 1,
            loads_in_flight: 1,
            processors: 1,
            read_limit_bytes_per_s: 0,
        }
    }

    #[test]
    fn a_file_that_exists_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        std::fs::write(&path, "a trace that took a day").unwrap();
        let refused = Recorder::create(&path, &header()).unwrap_err();
        assert!(refused.to_string().contains("trace exists"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a trace that took a day");
    }

    /// A disk that writes only the header until it is released.
    struct Stalled {
        written: Arc<AtomicUsize>,
        open: Arc<(Mutex<bool>, Condvar)>,
    }

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.written.fetch_add(bytes.len(), Ordering::SeqCst) > 0 {
                let (open, opened) = &*self.open;
                drop(opened.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
            }
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_waits_for_a_slow_disk_is_bounded_and_nothing_is_lost() {
        let (written, open) = (Arc::new(AtomicUsize::new(0)), Arc::<(Mutex<bool>, Condvar)>::default());
        let disk = Stalled { written: written.clone(), open: open.clone() };
        let recorder = Recorder::write_to(disk, &header()).unwrap();
        let began = written.load(Ordering::SeqCst);
        let (lines, recorded) = (4 * LINES_WAITING, Arc::new(AtomicUsize::new(0)));
        let counter = recorded.clone();
        let recording = std::thread::spawn(move || {
            for ns in 0..lines {
                recorder.record(ns as u64, Record::TimePassed);
                counter.store(ns + 1, Ordering::SeqCst);
            }
            recorder.finish().unwrap();
        });
        let mut before = usize::MAX;
        while before != recorded.load(Ordering::SeqCst) {
            before = recorded.load(Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(before < 2 * LINES_WAITING, "{before} lines wait");
        *open.0.lock().unwrap() = true;
        open.1.notify_all();
        recording.join().unwrap();
        let line = |ns: usize| serde_json::to_string(&Line { ns: ns as u64, record: Record::TimePassed });
        let bytes: usize = (0..lines).map(|ns| line(ns).unwrap().len() + 1).sum();
        assert_eq!(written.load(Ordering::SeqCst), began + bytes);
    }
}
