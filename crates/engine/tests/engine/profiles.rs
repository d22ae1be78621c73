//! Devices with profiles: reads take their shape, constants set by hand have priority, and rows are the same.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use coscan_engine::{
    ByProfile, Cancel, Engine, EngineConfig, EngineError, FileSpec, RangeReader, ReadError, Source,
};
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::PageIndexPolicy;
use rustix::fs::{major, minor, stat};

use crate::support::*;

const GROUPS: usize = 8;
/// The columns that are read have a gap between them that is longer than the constant.
const ROOTS: &[usize] = &[0, 2];

/// A device on which every request takes some time, however many there are.
struct Slow {
    inner: Arc<dyn RangeReader>,
    fixed: Duration,
    bytes_per_s: f64,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
}

impl RangeReader for Slow {
    fn read(
        &self,
        source: &Source,
        parts: &[Range<u64>],
        cancel: &Cancel,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(1 + self.now.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
        let bytes = parts.last().map_or(0, |last| last.end) - parts.first().map_or(0, |first| first.start);
        std::thread::sleep(self.fixed + Duration::from_secs_f64(bytes as f64 / self.bytes_per_s));
        let read = self.inner.read(source, parts, cancel, arrived);
        self.now.fetch_sub(1, Ordering::SeqCst);
        read
    }
}

/// A profile of the device of a folder, which takes two requests at the same time.
fn profile(dir: &Path) -> PathBuf {
    let device = stat(dir).unwrap().st_dev;
    profile_of(dir, &format!("{}:{}", major(device), minor(device)), 0.03, 85e6)
}

/// A profile of a device with that name, which takes two requests at the same time.
fn profile_of(dir: &Path, id: &str, fixed_s: f64, bytes_per_s: f64) -> PathBuf {
    let text = format!(
        r#"
        version = 1
        device_ids = ["{id}"]
        bytes = 1000000000
        block_bytes = 4096
        complete = true
        boundaries_searched = true
        regime_searched = true
        fixed_cost_s = {{ value = {fixed_s:?}, low = {fixed_s:?}, high = {fixed_s:?} }}
        bytes_per_s = {{ value = {bytes_per_s:?}, low = {bytes_per_s:?}, high = {bytes_per_s:?} }}
        depth = {{ request_bytes = 1048576, enough = {{ value = 2.0, low = 2.0, high = 2.0 }}, throughput = [] }}
        "#
    );
    let path = dir.join(format!("{}.toml", id.replace(['/', ':'], "-")));
    std::fs::write(&path, text).unwrap();
    path
}

/// The requests of a scan, and the maximum at the same time.
async fn scanned(path: &Path, config: EngineConfig) -> (u64, usize, Engine) {
    let (now, most) = (Arc::default(), Arc::<AtomicUsize>::default());
    let seen = most.clone();
    let engine = Engine::with_reader(config, |inner| {
        let (fixed, bytes_per_s) = (Duration::from_millis(30), f64::INFINITY);
        Arc::new(Slow { inner, fixed, bytes_per_s, now, most, reads: Arc::default() })
    })
    .unwrap();
    let file = open(&engine, path).await;
    let scan = engine.scan(request(std::slice::from_ref(&file), Some(ROOTS))).unwrap();
    assert_eq!(scan_all(&scan, 2).await.unwrap(), plain(&[path], Some(ROOTS)));
    drop(scan);
    assert_idle(&engine).await;
    (engine.stats().requests, seen.load(Ordering::SeqCst), engine)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_shapes_reads_and_constants_set_by_hand_win() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", GROUPS, 40_000);
    let between = spec(&path).await.0.metadata.row_group(0).column(1).compressed_size();
    assert!(between > 70_000, "{between}");
    let constants = EngineConfig { loads_in_flight: 2, io_threads: 2, ..config("relevance", 64 << 20) };
    let profiled = EngineConfig { device_profiles: vec![profile(dir.path())], ..constants.clone() };
    let gap_by_hand =
        EngineConfig { by_profile: ByProfile { gap: false, ..ByProfile::default() }, ..profiled.clone() };
    let by_hand = EngineConfig {
        by_profile: ByProfile { requests: false, gap: false, ..ByProfile::default() },
        ..profiled.clone()
    };

    let (requests, most, engine) = scanned(&path, constants).await;
    assert_eq!((requests, engine.devices().len()), (2 * GROUPS as u64, 0));
    assert!(most <= 2, "{most}");

    let (requests, most, engine) = scanned(&path, profiled).await;
    assert_eq!(requests, GROUPS as u64, "the gap costs less than a request");
    assert!(most <= 4, "{most}");
    let devices = engine.devices();
    assert_eq!((devices.len(), devices[0].requests), (1, 4));
    assert!(devices[0].reads > 0 && devices[0].over_profile > 0.5, "{devices:?}");

    let (requests, most, _) = scanned(&path, gap_by_hand).await;
    assert!(requests == 2 * GROUPS as u64 && most <= 4, "{requests} {most}");

    let (requests, most, _) = scanned(&path, by_hand).await;
    assert!(requests == 2 * GROUPS as u64 && most <= 2, "{requests} {most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_is_measured_at_first_use_if_that_is_allowed_and_only_then() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", GROUPS, 40_000);
    let measured = EngineConfig { device_probe: Duration::from_secs(60), ..config("relevance", 64 << 20) };
    for (config, devices) in [(config("relevance", 64 << 20), 0), (measured, 1)] {
        let reads = Arc::<AtomicUsize>::default();
        let (fixed, bytes_per_s, counted) = (Duration::from_millis(2), 50e6, reads.clone());
        let (now, most) = (Arc::default(), Arc::default());
        let wrap = |inner| {
            Arc::new(Slow { inner, fixed, bytes_per_s, now, most, reads: counted }) as Arc<dyn RangeReader>
        };
        let engine = Engine::with_reader(config, wrap).unwrap();
        let file = open(&engine, &path).await;
        // A second caller waits, too.
        let (first, second) = tokio::join!(engine.know_device(&file.id), async {
            let known = engine.know_device(&file.id).await;
            assert_eq!(engine.devices().len(), devices);
            known
        });
        assert!(first.is_ok() && second.is_ok());
        let found = engine.devices();
        assert_eq!(found.len(), devices);
        if let Some(found) = found.first() {
            // The precision of a measurement depends on other work on the machine. `coscan-device` tests it
            // on simulated devices.
            assert!(found.requests >= 4 && found.profile == "measured at first use", "{found:?}");
            assert!(found.gap_bytes > 0, "{found:?}");
        }
        assert_eq!(reads.load(Ordering::SeqCst) > 0, devices > 0);
        // One measurement is enough.
        let before = reads.load(Ordering::SeqCst);
        engine.know_device(&file.id).await.unwrap();
        assert_eq!((reads.load(Ordering::SeqCst), engine.devices().len()), (before, devices));
        let scan = engine.scan(request(std::slice::from_ref(&file), Some(ROOTS))).unwrap();
        assert_eq!(scan_all(&scan, 2).await.unwrap(), plain(&[&path], Some(ROOTS)));
        drop(scan);
        assert_idle(&engine).await;
    }
}

/// A file of integers in one row group in a store in memory, with its page index.
async fn object(values: std::ops::Range<i64>) -> (FileSpec, ArrowReaderMetadata) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (location, rows) = (StorePath::from("a.parquet"), (values.end - values.start) as usize);
    let bytes = bytes::Bytes::from(numbers(values, rows));
    store.put(&location, bytes.clone().into()).await.unwrap();
    let (mut spec, arrow) = store_spec(store, "memory://bucket", location, "t".into()).await;
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    spec.metadata = ArrowReaderMetadata::load(&bytes, options).unwrap().metadata().clone();
    (spec, arrow)
}

#[tokio::test(flavor = "multi_thread")]
async fn large_parts_of_objects_are_read_in_ranges_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    // 4 MB, of which a megabyte is an efficient request.
    let values = 0..500_000;
    let (spec, arrow) = object(values.clone()).await;
    let profiled = |id: &str| {
        let profiles = vec![profile_of(dir.path(), id, 1e-4, 1e9)];
        EngineConfig { device_profiles: profiles, ..config("relevance", 64 << 20) }
    };
    let by_hand = ByProfile { requests: false, ..ByProfile::default() };
    for (config, requests) in [
        (profiled("memory://other"), 1),
        (EngineConfig { by_profile: by_hand, ..profiled("memory://bucket") }, 1),
        (profiled("memory://bucket"), 4),
    ] {
        let engine = Engine::new(config).unwrap();
        let file = opened(&engine, spec.clone(), &arrow);
        let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
        assert_eq!(all_numbers(&scan_all(&scan, 2).await.unwrap()), Vec::from_iter(values.clone()));
        drop(scan);
        assert_eq!(engine.stats().requests, requests);
        assert_idle(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_have_the_size_that_suits_the_device_unless_it_is_set() {
    let dir = tempfile::tempdir().unwrap();
    // 28 MB: two chunks of 16 MiB each, or one of 32 MiB.
    let (spec, arrow) = object(0..3_500_000).await;
    let constants = EngineConfig { chunk_bytes: 16 << 20, ..config("relevance", 1 << 30) };
    let profiles = vec![profile_of(dir.path(), "memory://bucket", 0.03, 85e6)];
    let profiled = EngineConfig { device_profiles: profiles, ..constants.clone() };
    let by_hand = ByProfile { chunks: false, ..ByProfile::default() };
    for (config, chunk_bytes, chunks) in [
        (constants, 16 << 20, 2),
        (profiled.clone(), 32 << 20, 1),
        (EngineConfig { by_profile: by_hand, ..profiled.clone() }, 16 << 20, 2),
        (EngineConfig { chunk_bytes: 0, ..profiled }, 0, 1),
    ] {
        let engine = Engine::new(config).unwrap();
        let location = &spec.meta.location;
        assert_eq!(engine.chunk_bytes("memory://bucket", location, None), chunk_bytes);
        let file = opened(&engine, spec.clone(), &arrow);
        assert_eq!(file.id.chunks().len(), chunks);
        assert!(engine.devices().iter().all(|device| device.chunk_bytes == chunk_bytes));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nothing.toml");
    std::fs::write(&path, "not a profile").unwrap();
    let config = EngineConfig { device_profiles: vec![path], ..config("relevance", 64 << 20) };
    let error = Engine::new(config).map(drop).unwrap_err();
    assert!(
        matches!(&error, EngineError::DeviceProfile { path, .. } if path.ends_with("nothing.toml")),
        "{error}"
    );
}
