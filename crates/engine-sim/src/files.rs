//! Files: small real Parquet files in memory, in versions, with their contents.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::{Int64Type, SchemaRef};
use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use coscan_engine::LocalFile;
use object_store::ObjectMeta;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Compression;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::properties::WriterProperties;

/// The number of different contents. Each is made once in a process.
const CONTENTS: u64 = 192;

/// The bytes of a file, and its content.
#[derive(Debug)]
pub struct Content {
    /// The file.
    pub bytes: Bytes,
    /// Its footer, with the page index if it has one.
    pub metadata: Arc<ParquetMetaData>,
    /// Its schema.
    pub schema: SchemaRef,
    /// The columns of every row group.
    pub groups: Vec<Vec<ArrayRef>>,
}

static KNOWN: LazyLock<Mutex<BTreeMap<u64, Arc<Content>>>> = LazyLock::new(Mutex::default);

/// The content of this number.
pub fn content(number: u64) -> Arc<Content> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let number = number % CONTENTS;
    known.entry(number).or_insert_with(|| Arc::new(make(number))).clone()
}

fn column(kind: u32, rows: usize, random: &mut fastrand::Rng) -> ArrayRef {
    let words = ["red", "green", "blue and a longer one", ""];
    match kind {
        0 => Arc::new((0..rows).map(|_| Some(random.i64(..))).collect::<Int64Array>()),
        1 => Arc::new((0..rows).map(|row| (row % 7 != 0).then_some(row as i32)).collect::<Int32Array>()),
        2 => Arc::new((0..rows).map(|_| Some(words[random.usize(..4)])).collect::<StringArray>()),
        3 => {
            let text = |random: &mut fastrand::Rng| format!("{:x}-{:x}", random.u64(..), random.u32(..));
            Arc::new((0..rows).map(|_| random.bool().then(|| text(random))).collect::<StringArray>())
        }
        4 => Arc::new((0..rows).map(|_| Some(random.bool())).collect::<BooleanArray>()),
        _ => {
            let list = |random: &mut fastrand::Rng| {
                random
                    .bool()
                    .then(|| (0..random.usize(..4)).map(|_| Some(random.i64(..9))).collect::<Vec<_>>())
            };
            let lists: Vec<_> = (0..rows).map(|_| list(random)).collect();
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
        }
    }
}

fn make(number: u64) -> Content {
    let mut random = fastrand::Rng::with_seed(number ^ 0x5eed);
    let kinds: Vec<u32> = (0..random.usize(1..6)).map(|_| random.u32(0..6)).collect();
    let groups = random.usize(1..8);
    let most = [30, 400, 2500][random.usize(..3)];
    let mut columns: Vec<Vec<ArrayRef>> = Vec::new();
    for _ in 0..groups {
        let rows = if random.u8(..20) == 0 { 1 } else { random.usize(1..most) };
        columns.push(kinds.iter().map(|kind| column(*kind, rows, &mut random)).collect());
    }
    let codecs = [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::LZ4_RAW];
    let properties = WriterProperties::builder()
        .set_compression(codecs[random.usize(..3)])
        .set_data_page_row_count_limit(random.usize(20..600))
        .set_write_batch_size(random.usize(16..200))
        .set_offset_index_disabled(random.u8(..5) == 0)
        // Columns of different widths then have pages of different numbers of rows, which straddle chunk
        // boundaries.
        .set_data_page_size_limit([200, 1000, 1 << 20][random.usize(..3)])
        .set_dictionary_enabled(random.bool())
        .build();
    let batch = |arrays: &Vec<ArrayRef>| {
        let named = arrays.iter().enumerate().map(|(at, array)| (format!("c{at}"), array.clone(), true));
        RecordBatch::try_from_iter_with_nullable(named).expect("columns of one length")
    };
    let schema = batch(&columns[0]).schema();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema.clone(), Some(properties))
        .expect("the schema can be written");
    for arrays in &columns {
        writer.write(&batch(arrays)).and_then(|()| writer.flush()).expect("a batch can be written to memory");
    }
    let bytes = Bytes::from(writer.into_inner().expect("a file can be written to memory"));
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    let metadata = ArrowReaderMetadata::load(&bytes, options).expect("what was written can be read");
    Content { bytes, metadata: metadata.metadata().clone(), schema, groups: columns }
}

/// A store's mark of a file's version besides its size and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Etag {
    /// `"v1"`
    Strong,
    /// `W/"v1"`
    Weak,
    /// No tag.
    Missing,
}

/// One version of a file.
#[derive(Clone, Debug)]
pub struct Version {
    /// The store's description of it.
    pub meta: ObjectMeta,
    /// Its bytes; of a file that was cut, fewer than the content has.
    pub bytes: Bytes,
    /// Its content, unless it was cut.
    pub content: Option<Arc<Content>>,
}

impl Version {
    /// The result of a look at it on this machine, if it is the file of this number.
    pub fn local(&self, file: usize) -> LocalFile {
        let seconds = self.meta.last_modified.timestamp();
        let inode = (file as u64) << 32 | seconds as u64;
        let path = format!("/{}", self.meta.location).into();
        LocalFile::played(path, seconds as u64, inode, self.meta.size, (seconds, 0))
    }
}

/// A file that changes.
#[derive(Debug)]
pub struct SimFile {
    /// Its store, by number.
    pub store: usize,
    /// All versions; the last is current.
    pub versions: Vec<Version>,
    etag: Etag,
    location: Path,
}

impl SimFile {
    /// A file in its first version.
    pub fn new(store: usize, location: &str, etag: Etag, first: Arc<Content>) -> Self {
        let mut file = SimFile { store, versions: Vec::new(), etag, location: Path::from(location) };
        file.push(first.bytes.clone(), Some(first));
        file
    }

    fn push(&mut self, bytes: Bytes, content: Option<Arc<Content>>) {
        let number = self.versions.len();
        let e_tag = match self.etag {
            Etag::Strong => Some(format!("\"v{number}\"")),
            Etag::Weak => Some(format!("W/\"v{number}\"")),
            Etag::Missing => None,
        };
        let last_modified: DateTime<Utc> =
            DateTime::UNIX_EPOCH + TimeDelta::seconds(1000 + 10 * number as i64);
        let meta = ObjectMeta {
            location: self.location.clone(),
            last_modified,
            size: bytes.len() as u64,
            e_tag,
            version: None,
        };
        self.versions.push(Version { meta, bytes, content });
    }

    /// Replaces it by another file.
    pub fn replace(&mut self, with: Arc<Content>) {
        self.push(with.bytes.clone(), Some(with));
    }

    /// Cuts off its second half.
    pub fn cut(&mut self) {
        let bytes = self.current().bytes.clone();
        self.push(bytes.slice(..bytes.len() / 2), None);
    }

    /// The current version.
    pub fn current(&self) -> &Version {
        &self.versions[self.versions.len() - 1]
    }
}
