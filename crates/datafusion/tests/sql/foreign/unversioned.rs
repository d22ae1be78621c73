//! Files of which the table knows only path and size: `PartitionedFile::new` states 1970 and no ETag.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use coscan_engine::{Reads, WrappedStore};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{GetOptions, GetResult, ObjectStore, ObjectStoreExt};
use url::Url;

use super::table::{Odd, OddTable};
use crate::support::{self, LARGE_BUFFER, Variant};

const SUM: &str = "SELECT sum(n) FROM t";

async fn session(table: &OddTable) -> (coscan_engine::Engine, SessionContext) {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    ctx.register_table("t", table.provider()).expect("a table");
    (engine, ctx)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_without_a_time_are_read_and_their_next_version_too() {
    // The log of a lake table may state another time than the file, in milliseconds.
    for written_ms in [None, Some(1_600_000_000_123)] {
        let table = OddTable::write(&[(0, 1000), (1000, 1000)], Odd { written_ms, ..Odd::default() });
        let (engine, ctx) = session(&table).await;
        assert_eq!(support::number(&ctx, SUM).await, 1_999_000);
        assert!(engine.stats().bytes_read > 0, "the scan is cooperative");
        let read = engine.stats().bytes_read;
        assert_eq!(support::number(&ctx, SUM).await, 1_999_000);
        assert_eq!(engine.stats().bytes_read, read, "it is the same version");
        let bytes = std::fs::metadata(table.path(0)).expect("a file").len();
        std::thread::sleep(std::time::Duration::from_millis(20));
        table.overwrite(0, 5000, 1000);
        assert_eq!(std::fs::metadata(table.path(0)).expect("a file").len(), bytes, "of the same size");
        assert_eq!(support::number(&ctx, SUM).await, 1_999_000 + 5_000_000);
        support::settled(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_size_that_is_not_so_is_an_error_that_says_so() {
    let table = OddTable::write(&[(0, 1000)], Odd { longer: 3, ..Odd::default() });
    let (_, ctx) = session(&table).await;
    let bytes = std::fs::metadata(table.path(0)).expect("a file").len();
    let error = support::rows(&ctx, SUM).await.expect_err("a wrong size").to_string();
    let expected = format!("0.parquet has {bytes} bytes, its table says {}", bytes + 3);
    assert!(error.contains(&expected), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tables_of_one_file_share_it() {
    let table = OddTable::write(&[(0, 1000)], Odd::default());
    let (engine, ctx) = session(&table).await;
    let path = table.folder.path().to_str().expect("a path");
    let listing = format!("CREATE EXTERNAL TABLE l STORED AS PARQUET LOCATION '{path}/'");
    coscan_upstream::PlainSql::plain_sql(&ctx, &listing)
        .await
        .expect("a table")
        .collect()
        .await
        .expect("a table");
    let again = OddTable::provider(&table);
    ctx.register_table("u", again).expect("a table");
    assert_eq!(support::number(&ctx, SUM).await, 499_500);
    let (read, parts) = (engine.stats().bytes_read, engine.stats().parts_loaded);
    for table in ["l", "u", "t"] {
        assert_eq!(support::number(&ctx, &format!("SELECT sum(n) FROM {table}")).await, 499_500);
    }
    assert_eq!((engine.stats().bytes_read, engine.stats().parts_loaded), (read, parts));
    assert_eq!(engine.catalog_size().files, 1);
}

/// Counts requests.
#[derive(Debug, Default)]
struct Counted {
    heads: Arc<AtomicUsize>,
}

#[async_trait]
impl Reads for Counted {
    const NAME: &'static str = "Counted";

    async fn get_opts(
        &self,
        inner: &dyn ObjectStore,
        location: &Path,
        options: GetOptions,
    ) -> object_store::Result<GetResult> {
        // The engine, and readers of footers, request ranges.
        self.heads.fetch_add(usize::from(options.head), Ordering::Relaxed);
        inner.get_opts(location, options).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_asked_once_for_each_file() {
    let odd = Odd {
        url: ObjectStoreUrl::parse("s3://bucket").expect("a URL"),
        prefix: Some("t/".to_owned()),
        ..Odd::default()
    };
    let table = OddTable::write(&[(0, 1000), (1000, 1000), (2000, 1000)], odd);
    let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let put = async |at: usize| {
        let bytes = std::fs::read(table.path(at)).expect("a file");
        memory.put(&Path::from(format!("t/{at}.parquet")), bytes.into()).await.expect("put");
    };
    for at in 0..3 {
        put(at).await;
    }
    let counted = Counted::default();
    let heads = Arc::clone(&counted.heads);
    let store: Arc<dyn ObjectStore> = Arc::new(WrappedStore::around(Arc::clone(&memory), counted));
    let (engine, ctx) = session(&table).await;
    ctx.register_object_store(&Url::parse("s3://bucket").expect("a URL"), store);
    assert_eq!(support::number(&ctx, SUM).await, 4_498_500);
    let first = heads.load(Ordering::Relaxed);
    assert!(first >= 3, "{first}");
    let read = engine.stats().bytes_read;
    for _ in 0..3 {
        assert_eq!(support::number(&ctx, SUM).await, 4_498_500);
    }
    assert_eq!(
        (heads.load(Ordering::Relaxed), engine.stats().bytes_read),
        (first, read),
        "nothing is asked again"
    );
    // The next read notices that an object was replaced, and the following query reads the new one.
    table.overwrite(1, 11_000, 1000);
    put(1).await;
    engine.set_buffer(1).expect("a buffer");
    engine.set_buffer(LARGE_BUFFER).expect("a buffer");
    let error = support::rows(&ctx, SUM).await.expect_err("replaced").to_string();
    assert!(error.contains("t/1.parquet was replaced while in use"), "{error}");
    assert_eq!(support::number(&ctx, SUM).await, 4_498_500 + 10_000_000);
}
