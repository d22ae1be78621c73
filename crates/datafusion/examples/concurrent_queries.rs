//! Runs many queries at once over one Parquet file and shows what they shared:
//!
//! ```text
//! cargo run --release -p coscan-datafusion --example concurrent_queries -- \
//!     lineitem.parquet "SELECT count(*) FROM t" "SELECT max(l_tax) FROM t"
//! ```

use coscan_datafusion::CoscanContext;
use datafusion::error::{DataFusionError, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        return Err(DataFusionError::Plan("usage: concurrent_queries FILE SQL...".to_owned()));
    };
    let coscan = CoscanContext::builder().policy("relevance").buffer_bytes(256 << 20).build()?;
    coscan.register_parquet("t", &file).await?;

    let queries: Vec<_> = arguments
        .map(|sql| {
            let session = coscan.ctx.clone();
            tokio::spawn(async move { coscan_datafusion::sql(&session, &sql).await?.collect().await })
        })
        .collect();
    for query in queries {
        let batches = query.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        println!("{} rows", batches.iter().map(|batch| batch.num_rows()).sum::<usize>());
    }

    let stats = coscan.engine.stats();
    println!("{} bytes read in {} loads", stats.bytes_read, stats.loads);
    println!("{} slices decoded, {} shared", stats.slices_decoded, stats.slices_shared);
    Ok(())
}
