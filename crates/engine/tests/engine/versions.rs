//! Files that are replaced while they are used: a query gets the data it planned for or a clear error, and
//! queries that know the newer version continue.

use std::sync::Arc;

use coscan_engine::{Engine, EngineError, FileSpec};
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::properties::WriterProperties;

use crate::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_stands_beside_the_old_one_until_a_read_decides() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 6, 1_500);
    let old = plain(&[&path], None);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    assert_eq!(open(&engine, &path).await.id, file.id, "the same version is the same file");
    let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
    let mut worker = scan.worker();
    let mut chunk = worker.next().await.unwrap().unwrap();
    chunk.slice(0).await.unwrap();
    write(&path, &[batch(700, 5)], WriterProperties::default());
    let new = open(&engine, &path).await;
    assert_ne!(new.id, file.id);
    drop(chunk);
    let rest = drain(&mut worker).await;
    match &rest {
        Ok(chunks) => assert!(chunks.iter().all(|(at, arrays)| *arrays == old[at]), "versions are mixed"),
        Err(error) => assert!(matches!(error, EngineError::FileReplaced { .. }), "{error}"),
    }
    let got = scan_all(&engine.scan(request(&[new], None)).unwrap(), 1).await.unwrap();
    assert_eq!(got, plain(&[&path], None));
    drop((worker, scan));
    assert_idle(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_overwritten_in_place_with_its_old_time_is_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let (first, second) = (numbers(0..3000, 500), numbers(-9000..-6000, 500));
    assert_eq!(first.len(), second.len());
    for rename in [false, true] {
        std::fs::write(&path, &first).unwrap();
        let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
        let before = open(&engine, &path).await;
        let got = scan_all(&engine.scan(request(std::slice::from_ref(&before), None)).unwrap(), 1).await;
        assert_eq!(all_numbers(&got.unwrap()), Vec::from_iter(0..3000));
        // Times have the resolution of the system's clock.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let target = if rename { dir.path().join("other") } else { path.clone() };
        std::fs::write(&target, &second).unwrap();
        std::fs::File::options().write(true).open(&target).unwrap().set_modified(modified).unwrap();
        std::fs::rename(&target, &path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), modified);
        let after = open(&engine, &path).await;
        let got = scan_all(&engine.scan(request(&[after], None)).unwrap(), 1).await.unwrap();
        assert_eq!(all_numbers(&got), Vec::from_iter(-9000..-6000), "renamed: {rename}");
    }
}

/// Puts a version of an object, and describes it as a listing at that time does.
async fn put(store: &Arc<dyn ObjectStore>, bytes: Vec<u8>) -> (FileSpec, ArrowReaderMetadata) {
    let location = StorePath::from("a.parquet");
    store.put(&location, bytes.into()).await.unwrap();
    store_spec(store.clone(), "memory://bucket", location, "t".into()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn interleaved_listings_harm_nobody_who_has_the_newer_one() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let (old, old_arrow) = put(&store, numbers(0..3000, 300)).await;
    let (mut new, new_arrow) = put(&store, numbers(5000..8000, 300)).await;
    // The times of a store may be too coarse to tell versions apart.
    new.meta.last_modified = old.meta.last_modified;
    // A buffer for few chunks, so that wanted ones have to be read.
    let engine = Engine::new(config("relevance", 40 << 10)).unwrap();
    let newer = opened(&engine, new.clone(), &new_arrow);
    let scan = engine.scan(request(std::slice::from_ref(&newer), None)).unwrap();
    let mut worker = scan.worker();
    let first = worker.next().await.unwrap().unwrap();
    for _ in 0..3 {
        let older = opened(&engine, old.clone(), &old_arrow);
        let outcome = scan_all(&engine.scan(request(&[older], None)).unwrap(), 1).await;
        match outcome {
            Err(EngineError::FileReplaced { file, .. }) => assert_eq!(file, "memory://bucket/a.parquet"),
            other => panic!("{other:?}"),
        }
        let again = opened(&engine, new.clone(), &new_arrow);
        assert_eq!(again.id, newer.id, "the newer version is still the same file");
        let got = scan_all(&engine.scan(request(&[again], None)).unwrap(), 1).await.unwrap();
        assert_eq!(all_numbers(&got), Vec::from_iter(5000..8000));
    }
    drop(first);
    assert_eq!(drain(&mut worker).await.unwrap().len(), 9, "a running scan goes on");
    drop((worker, scan));
    assert_idle(&engine).await;
}
