//! One Parquet file from pieces of a table that are generated and encoded in parallel.
//!
//! Threads take the next piece and encode it as a row group in memory. The calling thread appends the row groups in
//! order. A thread does not start a piece that is too far ahead of the writer, which bounds the memory. The file is
//! written under a temporary name, flushed and renamed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::Codec;
use super::tpch::Table;
use crate::partial::Partial;

/// Footer key with the settings that made the file.
const RECIPE_KEY: &str = "coscan.recipe";
/// Maximum number of pieces per thread between a new piece and the writer.
const AHEAD_PER_THREAD: usize = 2;

/// A file to write.
pub struct FileJob {
    pub table: Table,
    pub scale_factor: f64,
    /// This file of `files`, from zero.
    pub file: u32,
    pub files: u32,
    pub row_group_rows: u64,
    pub codec: Codec,
    /// Column chunks do not cross multiples of this needlessly.
    pub unit: Option<u64>,
    pub path: PathBuf,
}

impl FileJob {
    /// Approximate number of rows.
    pub fn rows(&self) -> u64 {
        self.table.rows(self.scale_factor) / u64::from(self.files)
    }

    /// Approximate number of bytes.
    pub fn bytes_estimated(&self) -> u64 {
        self.rows() * self.table.row_bytes()
    }

    /// The label of the progress bar.
    pub fn label(&self) -> String {
        if self.files == 1 {
            self.table.to_string()
        } else {
            format!("{} {}/{}", self.table, self.file + 1, self.files)
        }
    }

    /// All settings that determine the content, as text.
    pub fn recipe(&self) -> String {
        format!(
            "tpch {} sf={} file={}/{} row_group_rows={} compression={:?}",
            self.table,
            self.scale_factor,
            self.file + 1,
            self.files,
            self.row_group_rows,
            self.codec
        )
        .to_lowercase()
            + &self.unit.map_or_else(String::new, |unit| format!(" unit={unit}"))
    }

    /// Number of row groups in this file. Their sizes are nearly equal and at most the requested size.
    fn row_groups(&self) -> u32 {
        let units = self.table.units(self.scale_factor) / u64::from(self.files);
        let wanted = self.rows().div_ceil(self.row_group_rows);
        wanted.clamp(1, units.clamp(1, (i32::MAX as u64) / u64::from(self.files))) as u32
    }

    fn properties(&self) -> anyhow::Result<WriterProperties> {
        let codec = match self.codec {
            Codec::Snappy => Compression::SNAPPY,
            Codec::Zstd => Compression::ZSTD(ZstdLevel::try_new(3)?),
            Codec::None => Compression::UNCOMPRESSED,
        };
        let recipe = KeyValue::new(RECIPE_KEY.to_owned(), self.recipe());
        Ok(WriterProperties::builder()
            .set_compression(codec)
            .set_max_row_group_row_count(None)
            .set_created_by(concat!("coscan ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_key_value_metadata(Some(vec![recipe]))
            .build())
    }
}

/// The settings that made the file at `path`. `None` if they are missing or the file is not a complete Parquet file.
pub fn recipe_in(path: &Path) -> Option<String> {
    let reader = SerializedFileReader::new(File::open(path).ok()?).ok()?;
    let pairs = reader.metadata().file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == RECIPE_KEY)?.value.clone()
}

/// Writes the file, which appears under its name only when it is complete.
pub fn write_file(job: &FileJob, threads: usize, bar: &ProgressBar) -> anyhow::Result<()> {
    let partial = Partial::create(&job.path)?;
    let schema = job.table.schema();
    let writer =
        ArrowWriter::try_new(BufWriter::new(&partial.file), schema.clone(), Some(job.properties()?))?;
    let (mut writer, factory) = writer.into_serialized_writer()?;
    let turns = Turns::new(job.row_groups(), threads * AHEAD_PER_THREAD);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(at) = turns.take() {
                    // The writer waits for every row group, so a panic must also hand in a result.
                    let encoded = panic::catch_unwind(AssertUnwindSafe(|| encode(job, &factory, at)));
                    turns.hand_in(at, encoded.unwrap_or_else(|_| Err(anyhow!("the generator panicked"))));
                }
            });
        }
        let written = (0..turns.count).try_for_each(|at| {
            let encoded = turns.wait_for(at)?;
            let mut group = writer.next_row_group()?;
            for chunk in encoded.chunks {
                chunk.append_to_row_group(&mut group)?;
            }
            group.close()?;
            bar.inc(encoded.rows);
            anyhow::Ok(())
        });
        turns.stop();
        written
    })?;
    writer.finish()?;
    drop(writer);
    partial.publish()
}

/// A row group, ready to be appended.
struct Encoded {
    rows: u64,
    chunks: Vec<ArrowColumnChunk>,
}

fn encode(job: &FileJob, factory: &ArrowRowGroupWriterFactory, at: u32) -> anyhow::Result<Encoded> {
    let groups = job.row_groups();
    let (piece, pieces) = (job.file * groups + at, job.files * groups);
    let schema = job.table.schema();
    let mut columns = factory.create_column_writers(at as usize)?;
    let mut rows = 0;
    for batch in job.table.piece(job.scale_factor, piece, pieces) {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        let mut writers = columns.iter_mut();
        for (field, array) in schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array)? {
                writers.next().context("a column has more leaves than writers")?.write(&leaf)?;
            }
        }
    }
    let chunks = columns.into_iter().map(|column| column.close()).collect::<Result<_, _>>()?;
    Ok(Encoded { rows, chunks })
}

/// The row groups in encoding, and those that wait to be appended.
struct Turns {
    count: u32,
    ahead: usize,
    state: Mutex<TurnState>,
    changed: Condvar,
}

#[derive(Default)]
struct TurnState {
    next: u32,
    appended: u32,
    stopped: bool,
    ready: BTreeMap<u32, anyhow::Result<Encoded>>,
}

impl Turns {
    fn new(count: u32, ahead: usize) -> Self {
        Turns { count, ahead, state: Mutex::default(), changed: Condvar::new() }
    }

    /// The next row group to encode, once the writer is near enough. `None` after the last one.
    fn take(&self) -> Option<u32> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let far = |s: &mut TurnState| {
            !s.stopped && s.next < self.count && (s.next - s.appended) as usize >= self.ahead
        };
        let mut state = self.changed.wait_while(state, far).unwrap_or_else(PoisonError::into_inner);
        if state.stopped || state.next == self.count {
            return None;
        }
        state.next += 1;
        Some(state.next - 1)
    }

    fn hand_in(&self, at: u32, encoded: anyhow::Result<Encoded>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.ready.insert(at, encoded);
        self.changed.notify_all();
    }

    fn wait_for(&self, at: u32) -> anyhow::Result<Encoded> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |s: &mut TurnState| !s.ready.contains_key(&at);
        let mut state = self.changed.wait_while(state, missing).unwrap_or_else(PoisonError::into_inner);
        state.appended = at + 1;
        self.changed.notify_all();
        state.ready.remove(&at).context("a row group went missing")?
    }

    fn stop(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).stopped = true;
        self.changed.notify_all();
    }
}
