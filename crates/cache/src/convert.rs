//! Conversion of a trace to another format.
//!
//! Times and sizes are kept if both formats have them. Otherwise the time of a request is its number, so that
//! times ascend, and its size is one. Ids are kept if all are numbers. If any id is a name and the other
//! format has only numbers, each id becomes its position in the order of appearance, from one. The next use
//! is always computed.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coscan_pool::{Future, PageSlot};

use crate::ids::Ids;
use crate::read::read;
use crate::{CacheError, Format};

/// The arguments of a conversion.
#[derive(Clone, Debug)]
pub struct ConvertOptions {
    /// The trace to read.
    pub from: PathBuf,
    /// Its format; by default the format of its name.
    pub from_format: Option<Format>,
    /// The file to write, replaced if it exists; compressed if its name ends in `.gz` or `.zst`.
    pub to: PathBuf,
    /// Its format: oracle-general, ids, or a table. A table has the columns time, obj_id, obj_size and
    /// next_access_vtime, independent of the named column. By default the format of its name.
    pub to_format: Option<Format>,
    /// The maximum number of requests to take, from the beginning.
    pub requests_max: Option<u64>,
}

/// The result of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Requests written.
    pub requests: u64,
    /// Distinct ids among them.
    pub distinct: usize,
}

/// Reads a trace and writes it in another format. Memory: 16 bytes for each request, and about 30 for each
/// distinct id.
///
/// # Errors
/// Those of [`Trace::read`](crate::Trace::read); the target's format is unknown or cannot be written; writing fails.
pub fn convert(options: &ConvertOptions) -> Result<Converted, CacheError> {
    let format = match &options.to_format {
        Some(format) => format.clone(),
        None if is_table(&options.to) => "csv:2,header".parse()?,
        None => Format::of_path(&options.to)?,
    };
    if matches!(format, Format::Arc | Format::Lirs) {
        return Err(CacheError::NotWritten { format: format.to_string() });
    }
    let requests = Requests::read(options)?;
    let write = || {
        let mut out = Packed::create(&options.to)?;
        requests.write(&format, &mut out)?;
        out.finish()
    };
    write().map_err(CacheError::io("write", &options.to))?;
    Ok(Converted { requests: requests.slots.len() as u64, distinct: requests.ids.len() })
}

fn is_table(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let name = [".gz", ".zst", ".zstd"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    name.ends_with(".csv")
}

/// A trace with everything that can be written.
struct Requests {
    /// By slot.
    ids: Vec<u64>,
    slots: Arc<[PageSlot]>,
    /// By request: time in seconds, size in bytes.
    notes: Vec<(u32, u32)>,
    /// By request: the position of the next one.
    next: Future,
}

impl Requests {
    fn read(options: &ConvertOptions) -> Result<Self, CacheError> {
        let (mut ids, mut slots, mut notes) = (Ids::default(), Vec::new(), Vec::new());
        read(&options.from, options.from_format.as_ref(), options.requests_max, &mut |request| {
            slots.push(PageSlot(ids.slot(request.id)));
            notes.push((request.time.unwrap_or(slots.len() as u32), request.size));
        })?;
        let slots: Arc<[PageSlot]> = slots.into();
        let next = Future::new(Arc::clone(&slots))?;
        Ok(Requests { ids: ids.into_numbers(), slots, notes, next })
    }

    fn write(&self, format: &Format, out: &mut dyn Write) -> io::Result<()> {
        if let Format::Csv(csv) = format
            && csv.header
        {
            let columns = ["time", "obj_id", "obj_size", "next_access_vtime"];
            writeln!(out, "{}", columns.join(&char::from(csv.delimiter).to_string()))?;
        }
        for ((page, (time, size)), next) in self.slots.iter().zip(&self.notes).zip(self.next.next_uses()) {
            let id = self.ids[page.0 as usize];
            // The format counts requests from one.
            let next = if *next == Future::NEVER { -1 } else { i64::from(*next) + 1 };
            match format {
                Format::OracleGeneral => {
                    out.write_all(&time.to_le_bytes())?;
                    out.write_all(&id.to_le_bytes())?;
                    out.write_all(&size.to_le_bytes())?;
                    out.write_all(&next.to_le_bytes())?;
                }
                Format::Csv(csv) => {
                    let delimiter = char::from(csv.delimiter);
                    writeln!(out, "{time}{delimiter}{id}{delimiter}{size}{delimiter}{next}")?;
                }
                Format::Ids | Format::Arc | Format::Lirs => writeln!(out, "{id}")?,
            }
        }
        Ok(())
    }
}

/// A file, compressed according to its name.
enum Packed {
    Plain(BufWriter<File>),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Packed {
    fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::with_capacity(1 << 18, File::create(path)?);
        match path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase()).as_deref() {
            Some("gz") => {
                Ok(Packed::Gzip(flate2::write::GzEncoder::new(file, flate2::Compression::default())))
            }
            Some("zst" | "zstd") => zstd::stream::write::Encoder::new(file, 0).map(Packed::Zstd),
            _ => Ok(Packed::Plain(file)),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Packed::Plain(file) => Ok(file),
            Packed::Gzip(encoder) => encoder.finish(),
            Packed::Zstd(encoder) => encoder.finish(),
        }?
        .flush()
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packed::Plain(out) => out.write(bytes),
            Packed::Gzip(out) => out.write(bytes),
            Packed::Zstd(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packed::Plain(out) => out.flush(),
            Packed::Gzip(out) => out.flush(),
            Packed::Zstd(out) => out.flush(),
        }
    }
}
