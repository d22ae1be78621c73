//! Tables in an object store instead of the local file system.

use std::sync::Arc;

use datafusion::prelude::SessionContext;
use object_store::memory::InMemory;
use object_store::path::Path;
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
    ctx.sql(sql).await.expect(sql).collect().await.expect(sql);
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
