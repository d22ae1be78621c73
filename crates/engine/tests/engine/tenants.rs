//! Several owners on one engine: no owner gets data that were read with another owner's store.

use std::sync::Arc;

use coscan_engine::{Engine, EngineError, FileSpec, StoreId};
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

use crate::support::*;

/// A separate store under the same address as the others, with a file that looks like all others.
async fn tenant(first: i64) -> (FileSpec, ArrowReaderMetadata) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let location = StorePath::from("a.parquet");
    store.put(&location, numbers(first..first + 3000, 300).into()).await.unwrap();
    store_spec(store, "s3://bucket", location, "t".into()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_under_one_address_share_nothing() {
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let (first, arrow) = tenant(0).await;
    let mut second = tenant(7000).await.0;
    // Their listings do not differ.
    second.meta = first.meta.clone();
    for _ in 0..2 {
        for (spec, from) in [(&first, 0), (&second, 7000)] {
            let file = opened(&engine, spec.clone(), &arrow);
            let got = scan_all(&engine.scan(request(&[file], None)).unwrap(), 1).await.unwrap();
            assert_eq!(all_numbers(&got), Vec::from_iter(from..from + 3000));
        }
    }
    assert_eq!(engine.catalog_size().tables, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_that_are_said_to_be_one_share_everything() {
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let (mut first, arrow) = tenant(0).await;
    let mut second = FileSpec { meta: first.meta.clone(), ..tenant(0).await.0 };
    for spec in [&mut first, &mut second] {
        spec.store_id = StoreId::named("warehouse");
    }
    let first = opened(&engine, first, &arrow);
    scan_all(&engine.scan(request(std::slice::from_ref(&first), None)).unwrap(), 1).await.unwrap();
    let read = engine.stats().bytes_read;
    let second = opened(&engine, second, &arrow);
    assert_eq!(first.id, second.id);
    scan_all(&engine.scan(request(&[second], None)).unwrap(), 1).await.unwrap();
    assert_eq!(engine.stats().bytes_read, read);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_another_engine_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 1, 100);
    let engines = [(); 2].map(|()| Engine::new(config("relevance", 64 << 20)).unwrap());
    let file = open(&engines[0], &path).await;
    let refused = engines[1].scan(request(&[file], None)).map(drop);
    assert!(matches!(refused, Err(EngineError::InvalidRequest(_))), "{refused:?}");
}
