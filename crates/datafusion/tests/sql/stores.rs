//! Tables in an object store instead of the local file system.

use std::sync::Arc;

use coscan_datafusion::SharedStores;
use coscan_upstream::PlainSql;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use url::Url;

use crate::data;
use crate::support::{self, LARGE_BUFFER, Variant};

async fn store() -> Arc<dyn ObjectStore> {
    let store = InMemory::new();
    for part in 0..4 {
        let bytes = std::fs::read(data::folder().join(format!("orders/{part}.parquet"))).expect("a file");
        let path = Path::from(format!("tables/orders/{part}.parquet"));
        store.put(&path, PutPayload::from(bytes)).await.expect("put");
    }
    Arc::new(store)
}

async fn declare(ctx: &SessionContext, store: &Arc<dyn ObjectStore>) {
    ctx.register_object_store(&Url::parse("s3://bucket").expect("a URL"), Arc::clone(store));
    let sql = "CREATE EXTERNAL TABLE orders STORED AS PARQUET LOCATION 's3://bucket/tables/orders/'";
    ctx.plain_sql(sql).await.expect(sql).collect().await.expect(sql);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_in_an_object_store_are_read_cooperatively() {
    let store = store().await;
    let plain = support::plain(Variant::Default);
    declare(&plain, &store).await;
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    declare(&ctx, &store).await;
    for sql in [
        "SELECT status, count(*), min(order_id), max(event_id) FROM orders GROUP BY status ORDER BY status",
        "SELECT order_id FROM orders WHERE order_id >= 1990 AND order_id < 4010 ORDER BY order_id",
    ] {
        assert_eq!(support::rows(&plain, sql).await.expect(sql), support::rows(&ctx, sql).await.expect(sql));
    }
    assert!(engine.stats().bytes_read > 0);
    support::settled(&engine).await;
}

/// A table `t` of the numbers from `first` on.
fn numbers(first: i64) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("numbers.parquet");
    data::write(&path, &data::numbers(first, 3000), data::row_groups(500).build());
    std::fs::read(path).expect("a file")
}

async fn declare_numbers(ctx: &SessionContext, location: &str) {
    let sql = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{location}'");
    ctx.plain_sql(&sql).await.expect(&sql).collect().await.expect(&sql);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_with_other_stores_under_one_address_see_their_own_data() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let mut sessions = Vec::new();
    for first in [0, 1_000_000] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        store.put(&Path::from("t/a.parquet"), numbers(first).into()).await.expect("put");
        let ctx = support::cooperative(&engine, Variant::Default);
        ctx.register_object_store(&Url::parse("s3://bucket").expect("a URL"), store);
        declare_numbers(&ctx, "s3://bucket/t/").await;
        sessions.push((ctx, first));
    }
    for (ctx, first) in sessions.iter().chain(&sessions) {
        assert_eq!(support::number(ctx, "SELECT min(n) FROM t").await, *first);
    }
    support::settled(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_state_that_their_stores_are_one_share_what_they_read() {
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let (url, bytes) = (Url::parse("s3://bucket").expect("a URL"), numbers(0));
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    store.put(&Path::from("t/a.parquet"), bytes.into()).await.expect("put");
    let mut read = Vec::new();
    for stated in [false, true, true] {
        // Each session has its own store over the same data.
        let own: Arc<dyn ObjectStore> = Arc::new(PrefixStore::new(Arc::clone(&store), ""));
        let ctx = support::cooperative(&engine, Variant::Default);
        if stated {
            let shared =
                SharedStores::default().with(ObjectStoreUrl::parse("s3://bucket").expect("a URL"), "lake");
            ctx.state_ref().write().config_mut().set_extension(Arc::new(shared));
        }
        ctx.register_object_store(&url, own);
        declare_numbers(&ctx, "s3://bucket/t/").await;
        assert_eq!(support::number(&ctx, "SELECT sum(n) FROM t").await, 2999 * 3000 / 2);
        read.push(engine.stats().bytes_read);
    }
    assert!(read[1] > read[0], "not stated, not shared");
    assert_eq!(read[2], read[1], "stated, shared");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_registered_for_local_files_is_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = folder.path().join("only/here/a.parquet");
    std::fs::create_dir_all(table.parent().expect("a folder")).expect("a folder");
    std::fs::write(&table, numbers(0)).expect("write");
    let engine = support::engine(support::policy("relevance"), LARGE_BUFFER);
    let ctx = support::cooperative(&engine, Variant::Default);
    let rooted = LocalFileSystem::new_with_prefix(folder.path()).expect("a folder");
    ctx.register_object_store(&Url::parse("file:///").expect("a URL"), Arc::new(rooted));
    declare_numbers(&ctx, "file:///only/here/").await;
    assert_eq!(support::number(&ctx, "SELECT sum(n) FROM t").await, 2999 * 3000 / 2);
    support::settled(&engine).await;
}
