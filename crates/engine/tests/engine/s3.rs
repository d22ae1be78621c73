//! A real S3 server on the loopback interface, and stores in memory.

use std::path::Path;
use std::sync::Arc;

use coscan_engine::{Engine, EngineError, LimitedStore, ReadLimit, TokenBucket};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use object_store::aws::AmazonS3Builder;
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{ObjectStore, ObjectStoreExt};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;

use crate::support::*;

/// Serves `root` (its folders are buckets) until the runtime ends. Returns a client for one bucket.
async fn serve(root: &Path, bucket: &str) -> Arc<dyn ObjectStore> {
    let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root).unwrap());
    builder.set_auth(SimpleAuth::from_single("key", "secret"));
    let service = builder.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let server = Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    let client = AmazonS3Builder::new()
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_bucket_name(bucket)
        .with_access_key_id("key")
        .with_secret_access_key("secret");
    Arc::new(client.build().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_of_an_s3_bucket_share_reads_and_notice_replacement() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("bucket")).unwrap();
    let path = sample(dir.path(), "local.parquet", 5, 2_000);
    let whole = plain(&[&path], None);
    let store = serve(dir.path(), "bucket").await;
    let location = StorePath::from("table/a.parquet");
    store.put(&location, std::fs::read(&path).unwrap().into()).await.unwrap();
    let (spec, arrow) = store_spec(store.clone(), "s3://bucket", location.clone(), "table".into()).await;
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = opened(&engine, spec, &arrow);
    let scans: Vec<_> =
        (0..3).map(|_| engine.scan(request(std::slice::from_ref(&file), None)).unwrap()).collect();
    for chunks in futures::future::join_all(scans.iter().map(|scan| scan_all(scan, 1))).await {
        assert_eq!(chunks.unwrap(), whole);
    }
    assert_eq!(engine.stats().parts_loaded, 20);
    drop(scans);

    let fresh = Engine::new(config("relevance", 64 << 20)).unwrap();
    let (spec, arrow) = store_spec(store.clone(), "s3://bucket", location.clone(), "table".into()).await;
    let file = opened(&fresh, spec, &arrow);
    let other = sample(dir.path(), "other.parquet", 5, 2_100);
    store.put(&location, std::fs::read(&other).unwrap().into()).await.unwrap();
    let failed = scan_all(&fresh.scan(request(std::slice::from_ref(&file), None)).unwrap(), 1).await;
    assert!(matches!(failed, Err(EngineError::FileReplaced { .. })), "{failed:?}");
    let (spec, arrow) = store_spec(store.clone(), "s3://bucket", location.clone(), "table".into()).await;
    let file = opened(&fresh, spec, &arrow);
    let scan = fresh.scan(request(std::slice::from_ref(&file), None)).unwrap();
    assert_eq!(scan_all(&scan, 2).await.unwrap(), plain(&[&other], None));

    // A file that is gone is a read error, not a replaced file.
    fresh.set_buffer(1).unwrap();
    fresh.set_buffer(64 << 20).unwrap();
    store.delete(&location).await.unwrap();
    let failed = scan_all(&fresh.scan(request(&[file], None)).unwrap(), 1).await;
    assert!(matches!(failed, Err(EngineError::Read { .. })), "{failed:?}");
    assert_idle(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_several_stores_are_one_scan() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (sample(dir.path(), "a.parquet", 3, 1_200), sample(dir.path(), "b.parquet", 2, 900));
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let location = StorePath::from("b.parquet");
    memory.put(&location, std::fs::read(&b).unwrap().into()).await.unwrap();
    let (spec, arrow) = store_spec(memory, "memory:///", location, String::new()).await;
    let files = [open(&engine, &a).await, opened(&engine, spec, &arrow)];
    let mut wanted = request(&files, None);
    wanted.chunks.swap(1, 4);
    wanted.chunks.iter_mut().enumerate().for_each(|(at, chunk)| chunk.key = at as u32);
    wanted.workers = 2;
    let got = scan_all(&engine.scan(wanted).unwrap(), 2).await.unwrap();
    let mut whole: Vec<_> = plain(&[&a, &b], None).into_values().collect();
    whole.swap(1, 4);
    assert_eq!(got.into_values().collect::<Vec<_>>(), whole);
    assert_idle(&engine).await;
}

#[tokio::test]
async fn a_plain_store_obeys_the_same_bucket() {
    let store = InMemory::new();
    let location = StorePath::from("data");
    store.put(&location, vec![1u8; 200_000].into()).await.unwrap();
    let limit = ReadLimit { bytes_per_s: 1_000_000, latency: std::time::Duration::ZERO };
    let limited = LimitedStore::new(Arc::new(store), Arc::new(TokenBucket::new(Some(limit))));
    let started = std::time::Instant::now();
    assert_eq!(limited.get(&location).await.unwrap().bytes().await.unwrap().len(), 200_000);
    limited.get_ranges(&location, &[0..50_000, 100_000..150_000]).await.unwrap();
    assert!(started.elapsed().as_millis() >= 240, "{:?}", started.elapsed());
    assert_eq!(limited.head(&location).await.unwrap().size, 200_000);
}
