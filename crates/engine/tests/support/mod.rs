//! Shared functions of the tests: writing Parquet files, opening and scanning them, and reading them plainly
//! to compare. Tests of single modules are in the modules.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat;
use arrow::datatypes::{Int64Type, SchemaRef};
use coscan_engine::{
    ChunkRequest, DeliveryOrder, Engine, EngineConfig, EngineError, FileColumns, FileHandle, FileSpec,
    LocalFile, PolicyName, RetryConfig, ScanHandle, ScanRequest, StoreId, Worker, registry,
};
use object_store::local::LocalFileSystem;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::file::properties::WriterProperties;

/// A file that an engine has open.
#[derive(Clone)]
pub struct Open {
    pub id: FileHandle,
    pub schema: SchemaRef,
    pub row_groups: usize,
    pub bytes: u64,
}

/// A test that has not ended by then hangs, on any machine.
pub const ENDS: Duration = Duration::from_secs(300);

/// The result of a step of a test.
pub type Outcome<T> = Result<T, EngineError>;
/// The arrays of chunks, with slices joined, by the chunk's position in the request.
pub type Chunks = BTreeMap<usize, Vec<ArrayRef>>;

pub fn policy(name: &str) -> PolicyName {
    name.parse().unwrap()
}

pub fn policies() -> Vec<PolicyName> {
    registry::sharing().collect()
}

/// Small slices and quick retries.
pub fn config(name: &str, buffer_bytes: u64) -> EngineConfig {
    EngineConfig {
        slice_rows: 1000,
        // Row groups are chunks, unless a test is about their size.
        chunk_bytes: 0,
        // Data in the page cache stay there, whatever their size. Readers that inject faults do not know it.
        page_cache_bytes: 1,
        stall_after: Duration::from_millis(40),
        retry: RetryConfig {
            attempts: 4,
            base_delay: Duration::from_millis(1),
            max_delay: Duration::from_millis(4),
        },
        ..EngineConfig::new(policy(name), buffer_bytes)
    }
}

/// Integers that compress badly, integers that compress well, strings of a few values and of many.
pub fn batch(rows: usize, seed: u64) -> RecordBatch {
    let mut random = fastrand::Rng::with_seed(seed);
    let noise: Int64Array = (0..rows).map(|_| Some(random.i64(..))).collect();
    let count: Int64Array =
        (0..rows).map(|row| (row % 7 != 0).then_some(seed as i64 * 1000 + row as i64)).collect();
    let few: StringArray =
        (0..rows).map(|_| Some(["red", "green", "blue and a longer one"][random.usize(0..3)])).collect();
    let many: StringArray = (0..rows)
        .map(|_| (random.u8(0..9) > 0).then(|| format!("{:x}-{:x}", random.u64(..), random.u64(..))))
        .collect();
    let columns: [(&str, ArrayRef); 4] = [
        ("noise", Arc::new(noise)),
        ("count", Arc::new(count)),
        ("few", Arc::new(few)),
        ("many", Arc::new(many)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Writes one row group per batch.
pub fn write(path: &Path, batches: &[RecordBatch], properties: WriterProperties) {
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
        writer.flush().unwrap();
    }
    writer.close().unwrap();
}

/// A file of `groups` row groups of `rows` rows each.
pub fn sample(dir: &Path, name: &str, groups: usize, rows: usize) -> PathBuf {
    let path = dir.join(name);
    let batches: Vec<_> = (0..groups).map(|group| batch(rows, group as u64 + 1)).collect();
    write(&path, &batches, WriterProperties::default());
    path
}

pub async fn spec(path: &Path) -> (FileSpec, ArrowReaderMetadata) {
    let location = StorePath::from_filesystem_path(path).unwrap();
    let root = path.parent().unwrap().to_str().unwrap().to_owned();
    store_spec(Arc::new(LocalFileSystem::new()), "file:///", location, root).await
}

pub async fn store_spec(
    store: Arc<dyn ObjectStore>,
    store_url: &str,
    location: StorePath,
    table_root: String,
) -> (FileSpec, ArrowReaderMetadata) {
    let local = (store_url == "file:///").then(|| LocalFile::at(&location).unwrap());
    let meta = store.head(&location).await.unwrap();
    let bytes = store.get(&location).await.unwrap().bytes().await.unwrap();
    let arrow = ArrowReaderMetadata::load(&bytes, Default::default()).unwrap();
    let metadata = arrow.metadata().clone();
    let (store_id, store_url) = (StoreId::instance(&store), store_url.into());
    (FileSpec { store, store_url, store_id, local, meta, metadata, table_root }, arrow)
}

/// Bytes of a Parquet file of one column of integers without statistics or compression. Its size does not
/// depend on its values.
pub fn numbers(values: std::ops::Range<i64>, rows_per_group: usize) -> Vec<u8> {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    let batch = RecordBatch::try_from_iter([("n", column)]).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(rows_per_group))
        .set_compression(parquet::basic::Compression::UNCOMPRESSED)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .set_dictionary_enabled(false)
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

/// The first column of all chunks as one list, in the order of the request.
pub fn all_numbers(chunks: &Chunks) -> Vec<i64> {
    let values = |arrays: &Vec<ArrayRef>| arrays[0].as_primitive::<Int64Type>().values().to_vec();
    chunks.values().flat_map(values).collect()
}

pub async fn open(engine: &Engine, path: &Path) -> Open {
    let (spec, arrow) = spec(path).await;
    opened(engine, spec, &arrow)
}

pub fn opened(engine: &Engine, spec: FileSpec, arrow: &ArrowReaderMetadata) -> Open {
    let (row_groups, bytes) = (spec.metadata.num_row_groups(), spec.meta.size);
    Open { id: engine.open_file(spec).unwrap(), schema: arrow.schema().clone(), row_groups, bytes }
}

/// All row groups of these files, in the given root columns (all if none are given), for one worker.
pub fn request(files: &[Open], roots: Option<&[usize]>) -> ScanRequest {
    let chunks = files.iter().enumerate();
    let chunks = chunks.flat_map(|(at, f)| (0..f.id.chunks().len()).map(move |chunk| (at, chunk)));
    let chunks =
        chunks.enumerate().map(|(at, (columns, chunk))| ChunkRequest { columns, chunk, key: at as u32 });
    let columns = files.iter().map(|f| FileColumns {
        file: f.id.clone(),
        roots: roots.map_or_else(|| (0..f.schema.fields().len()).collect(), <[usize]>::to_vec),
        schema: f.schema.clone(),
    });
    ScanRequest {
        chunks: chunks.collect(),
        columns: columns.collect(),
        workers: 1,
        order: DeliveryOrder::Any,
        weight: 1,
        reader: None,
        matching: Vec::new(),
    }
}

/// Takes all chunks that this worker gets.
pub async fn drain(worker: &mut Worker) -> Outcome<Chunks> {
    let mut chunks = Chunks::new();
    while let Some(mut chunk) = worker.next().await? {
        let mut slices = Vec::new();
        for i in 0..chunk.slices() {
            slices.push(chunk.slice(i).await?);
            tokio::task::yield_now().await;
        }
        let rows: usize = slices.iter().filter_map(|slice| slice.first()).map(|array| array.len()).sum();
        assert!(slices.iter().all(Vec::is_empty) || rows == chunk.rows);
        let before = chunks.insert(chunk.key as usize, joined(&slices));
        assert!(before.is_none(), "chunk {} came twice", chunk.key);
    }
    Ok(chunks)
}

pub fn joined(slices: &[Vec<ArrayRef>]) -> Vec<ArrayRef> {
    let columns = slices.first().map_or(0, Vec::len);
    let column = |at: usize| {
        let arrays: Vec<&dyn Array> = slices.iter().map(|slice| slice[at].as_ref()).collect();
        concat(&arrays).unwrap()
    };
    (0..columns).map(column).collect()
}

/// Scans with that many workers at the same time, and joins their chunks.
pub async fn scan_all(scan: &ScanHandle, workers: usize) -> Outcome<Chunks> {
    let tasks: Vec<_> = (0..workers)
        .map(|_| {
            let mut worker = scan.worker();
            tokio::spawn(async move { drain(&mut worker).await })
        })
        .collect();
    let mut all = Chunks::new();
    let mut failed = None;
    for task in tasks {
        match task.await.unwrap() {
            Ok(chunks) => {
                for (index, arrays) in chunks {
                    assert!(all.insert(index, arrays).is_none(), "chunk {index} came to two workers");
                }
            }
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(all), Err)
}

/// The chunks that a plain reader reads from these files: the same as a scan of [`request`].
pub fn plain(paths: &[&Path], roots: Option<&[usize]>) -> Chunks {
    let mut chunks = Chunks::new();
    for path in paths {
        let groups = reader(path).metadata().num_row_groups();
        for group in 0..groups {
            let rows = reader(path).with_row_groups(vec![group]).with_batch_size(1 << 20).build().unwrap();
            let batches: Vec<_> = rows.map(|batch| batch.unwrap()).collect();
            let all: Vec<Vec<ArrayRef>> = batches.iter().map(|batch| batch.columns().to_vec()).collect();
            let all = joined(&all);
            let kept = match roots {
                Some(roots) if !all.is_empty() => roots.iter().map(|&root| all[root].clone()).collect(),
                _ => all,
            };
            chunks.insert(chunks.len(), kept);
        }
    }
    chunks
}

fn reader(path: &Path) -> ParquetRecordBatchReaderBuilder<File> {
    ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap()
}

/// Waits until the buffer is empty.
pub async fn emptied(engine: &Engine) {
    let deadline = Instant::now() + ENDS;
    while engine.usage().total() > 0 {
        assert!(Instant::now() < deadline, "{:?}", engine.usage());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Checks that nothing is pinned or in progress, and that the ledger agrees with memory.
pub async fn assert_idle(engine: &Engine) {
    // A load that was in progress when the last scan ended may still have to arrive.
    let deadline = Instant::now() + ENDS;
    while engine.usage().loading > 0 && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let usage = engine.usage();
    assert_eq!((usage.workspace, usage.loading), (0, 0), "{usage:?}");
    assert!(usage.total() <= usage.budget, "{usage:?}");
    assert_eq!(usage.resident, engine.resident_bytes(), "the ledger and the memory differ");
}
