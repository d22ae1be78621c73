//! Many files and many versions: the engine's records of them are bounded, and opening one costs the same
//! however many there are.

use std::sync::Arc;

use coscan_engine::{Engine, FileSpec};
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use crate::support::*;

async fn spec_of(
    store: &Arc<dyn ObjectStore>,
    name: &str,
    bytes: Vec<u8>,
) -> (FileSpec, ArrowReaderMetadata) {
    let location = StorePath::from(name);
    store.put(&location, bytes.into()).await.unwrap();
    store_spec(store.clone(), "memory://bucket", location, "t".into()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_versions_of_a_file_leave_no_trace() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let engine = Engine::new(config("relevance", 1 << 20)).unwrap();
    let (still, still_arrow) = spec_of(&store, "still.parquet", numbers(0..100, 50)).await;
    let mut most = engine.catalog_size();
    for version in 0..5_000i64 {
        let (spec, arrow) = spec_of(&store, "a.parquet", numbers(version..version + 40, 20)).await;
        let mut files = vec![opened(&engine, spec, &arrow)];
        if version % 100 == 0 {
            files.push(opened(&engine, still.clone(), &still_arrow));
        }
        let got = scan_all(&engine.scan(request(&files, None)).unwrap(), 1).await.unwrap();
        assert_eq!(all_numbers(&got)[..40], Vec::from_iter(version..version + 40));
        let size = engine.catalog_size();
        most.files = most.files.max(size.files);
        most.tables = most.tables.max(size.tables);
        most.chunks = most.chunks.max(size.chunks);
        most.bytes = most.bytes.max(size.bytes);
    }
    assert!(most.files <= 8 && most.tables <= 2, "{most:?}");
    assert!(most.chunks <= 2 * (1024 + 8), "{most:?}");
    assert!(most.bytes <= 64 << 10, "{most:?}");
    assert_idle(&engine).await;
}

/// The processor time of this thread in nanoseconds, independent of other work on the machine.
fn processor_ns() -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    schedule.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_files_cost_ten_thousand_times_one() {
    const FILES: usize = 10_000;
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let engine = Engine::new(config("relevance", 256 << 20)).unwrap();
    let bytes = numbers(0..10, 10);
    let mut specs = Vec::new();
    for at in 0..FILES {
        specs.push(spec_of(&store, &format!("{at}.parquet"), bytes.clone()).await);
    }
    let mut times = Vec::new();
    let mut files = Vec::new();
    for quarter in specs.chunks(FILES / 4) {
        let before = processor_ns();
        files.extend(quarter.iter().map(|(spec, arrow)| opened(&engine, spec.clone(), arrow)));
        times.push(processor_ns() - before);
    }
    assert!(times[3] < times[0] * 4, "opening gets slower, in ns: {times:?}");
    let full = engine.catalog_size();
    assert_eq!((full.files, full.tables, full.chunks), (FILES, 1, FILES as u64));
    // The records of so many files take room of the buffer, except for their share beside it.
    let beyond = full.bytes - (16 << 20);
    assert!(beyond > 4 << 20, "{full:?}");
    assert_eq!(engine.usage().budget, (256 << 20) - (beyond >> 20 << 20));
    let got = scan_all(&engine.scan(request(&files, None)).unwrap(), 2).await.unwrap();
    assert_eq!(got.len(), FILES);

    // Files in use stay, however small the buffer is.
    engine.set_buffer(1 << 20).unwrap();
    let (one, arrow) = &specs[0];
    files.push(opened(&engine, one.clone(), arrow));
    assert_eq!(engine.catalog_size(), full);
    drop(files);
    // Unused files are forgotten as others come.
    for at in 0..200 {
        let (spec, arrow) = spec_of(&store, &format!("more-{at}.parquet"), bytes.clone()).await;
        opened(&engine, spec, &arrow);
    }
    let left = engine.catalog_size();
    assert!(left.bytes <= 5 << 20 && left.files < FILES / 5, "{left:?}");
    assert!(left.tables <= 2, "{left:?}");
    assert_idle(&engine).await;
    // A forgotten file can be opened again.
    let again = opened(&engine, one.clone(), arrow);
    let got = scan_all(&engine.scan(request(&[again], None)).unwrap(), 1).await.unwrap();
    assert_eq!(all_numbers(&got), Vec::from_iter(0..10));
}
