//! A stalled store beside others, and limits that change while queries wait for them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use coscan_engine::{Engine, EngineConfig, EngineError, ReadError, ReadLimit};
use futures::future::Either;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::gate::until;
use crate::support::*;

/// A store that takes requests for ranges and never answers them.
#[derive(Debug)]
struct Stalled(InMemory);

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stalled({})", self.0)
    }
}

#[async_trait]
impl ObjectStore for Stalled {
    async fn get_opts(&self, location: &StorePath, options: GetOptions) -> Result<GetResult> {
        if options.range.is_some() {
            std::future::pending::<()>().await;
        }
        self.0.get_opts(location, options).await
    }

    async fn put_opts(&self, at: &StorePath, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.0.put_opts(at, payload, opts).await
    }

    async fn put_multipart_opts(
        &self,
        at: &StorePath,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(at, opts).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<StorePath>>,
    ) -> BoxStream<'static, Result<StorePath>> {
        self.0.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&StorePath>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&StorePath>) -> Result<ListResult> {
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &StorePath, to: &StorePath, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

/// A file on the stalled store, and one on this machine.
async fn files(engine: &Engine, dir: &std::path::Path) -> (Open, Open) {
    let path = sample(dir, "a.parquet", 6, 1_500);
    let store = InMemory::new();
    let location = StorePath::from("a.parquet");
    store.put(&location, std::fs::read(&path).unwrap().into()).await.unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(Stalled(store));
    let (spec, arrow) = store_spec(store, "dead://", location, String::new()).await;
    (opened(engine, spec, &arrow), open(engine, &path).await)
}

/// Queries of a stalled store wait for its deadline, which is longer than any test. Others do not.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stands_still_costs_its_own_queries_only() {
    let read_deadline = Duration::from_secs(24 * 3600);
    for policy in policies() {
        let dir = tempfile::tempdir().unwrap();
        // The small buffer has room for the dead store's loads and one more chunk.
        for buffer in [64 << 20, 1 << 20] {
            let engine =
                Engine::new(EngineConfig { read_deadline, ..config(policy.as_str(), buffer) }).unwrap();
            let (dead, alive) = files(&engine, dir.path()).await;
            let waiting: Vec<_> =
                (0..6).map(|_| engine.scan(request(std::slice::from_ref(&dead), None)).unwrap()).collect();
            {
                let stuck: Vec<_> = waiting.iter().map(|scan| scan_all(scan, 2)).collect();
                let stuck = std::pin::pin!(futures::future::join_all(stuck));
                let healthy = std::pin::pin!(async {
                    let scan = engine.scan(request(std::slice::from_ref(&alive), None)).unwrap();
                    scan_all(&scan, 2).await.unwrap()
                });
                let first = tokio::time::timeout(ENDS, futures::future::select(healthy, stuck)).await;
                match first.expect("the healthy store is read") {
                    Either::Left((chunks, _)) => {
                        assert_eq!(chunks, plain(&[&dir.path().join("a.parquet")], None), "{policy}");
                    }
                    Either::Right((outcomes, _)) => panic!("{policy}: {outcomes:?}"),
                }
            }
            drop(waiting);
            assert_idle(&engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_of_a_store_that_stands_still_end_with_its_deadline() {
    for policy in policies() {
        let dir = tempfile::tempdir().unwrap();
        let read_deadline = Duration::from_millis(300);
        let engine = Engine::new(EngineConfig { read_deadline, ..config(policy.as_str(), 1 << 20) }).unwrap();
        let (dead, _) = files(&engine, dir.path()).await;
        let scans: Vec<_> =
            (0..6).map(|_| engine.scan(request(std::slice::from_ref(&dead), None)).unwrap()).collect();
        let stuck = futures::future::join_all(scans.iter().map(|scan| scan_all(scan, 2)));
        for outcome in tokio::time::timeout(ENDS, stuck).await.expect("they end") {
            let Err(EngineError::Read { source, .. }) = outcome else { panic!("{policy}: {outcome:?}") };
            let source = source.downcast_ref::<ReadError>();
            assert!(matches!(source, Some(ReadError::TimedOut { .. })), "{source:?}");
        }
        drop(scans);
        assert_idle(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_given_up_frees_what_it_had_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let (dead, _) = files(&engine, dir.path()).await;
    let scan = engine.scan(request(std::slice::from_ref(&dead), None)).unwrap();
    {
        let cut = std::pin::pin!(scan_all(&scan, 1));
        let loading = std::pin::pin!(until("a load", || engine.usage().loading > 0));
        let first = futures::future::select(cut, loading).await;
        assert!(matches!(first, Either::Right(_)), "the store stands still");
    }
    drop(scan);
    assert_eq!(engine.usage().loading, 0, "the deadline of a minute is not waited for");
    assert_idle(&engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lifting_the_limit_helps_reads_that_wait_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 4, 1_500);
    let settings = EngineConfig {
        read_limit: Some(ReadLimit { bytes_per_s: 100, latency: Duration::ZERO }),
        ..config("relevance", 64 << 20)
    };
    let engine = Engine::new(settings).unwrap();
    let file = open(&engine, &path).await;
    let scan = engine.scan(request(&[file], None)).unwrap();
    let lifting = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(engine.stats().parts_loaded, 0);
        engine.set_read_limit(None).unwrap();
    };
    let both = async { tokio::join!(scan_all(&scan, 1), lifting) };
    let (chunks, ()) = tokio::time::timeout(ENDS, both).await.expect("it goes on");
    assert_eq!(chunks.unwrap(), plain(&[&path], None));
}
