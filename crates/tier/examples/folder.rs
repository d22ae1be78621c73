//! A folder as a tier: shows what a query would restore, then runs the query. The "recall" is a command that does
//! nothing, because the files are there.
//!
//!     cargo run --release -p coscan-tier --example folder

use coscan_datafusion::CoscanContext;
use coscan_tier::{TierConfig, Tiers, forecast, keep_footers};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let root = dir.path().join("archive");
    let coscan = CoscanContext::builder().set("small_table_bytes", "0").build()?;
    for month in 1..=3 {
        let sql = format!(
            "COPY (SELECT {month} AS month, value AS day FROM generate_series(1, 28)) TO '{}/trips/{month}.parquet'",
            root.display()
        );
        coscan.sql(&sql).await?.collect().await?;
    }

    let definition = "name = 'tape'\nroot = 'archive'\ncache = 'cache'\ncache_bytes = '1GB'\n\
                      [folder]\nrecall = ['true', '{path}']\nprice_request = 0.01\n";
    let tiers = Tiers::open([TierConfig::parse(definition, dir.path())?])?;
    tiers.attach(&coscan.ctx, Some(coscan.engine.clone()))?;
    let trips = format!("{}/trips/", root.display());
    keep_footers(&coscan.ctx, &tiers, &trips, |left, _| println!("{left} footers to go")).await?;
    coscan.register_parquet("trips", &trips).await?;

    let query =
        coscan.sql("SELECT month, count(*) FROM trips WHERE month > 1 GROUP BY month ORDER BY month").await?;
    for tier in forecast(&query.clone().create_physical_plan().await?).await? {
        println!("{}: {} of {} fragments cached", tier.tier, tier.cached, tier.fragments);
    }
    query.show().await?;
    Ok(())
}
