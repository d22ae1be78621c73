//! Groups a condition after `IS DISTINCT FROM` by the SQL standard.
use coscan_upstream::{PlainSql, sql};
use datafusion::common::Result;
use datafusion::prelude::SessionContext;

#[tokio::main]
async fn main() -> Result<()> {
    let ctx = SessionContext::new();
    let statement = "SELECT 1 IS DISTINCT FROM 2 AND false AS both";
    sql(&ctx, statement).await?.show().await?;
    // DataFusion reads `1 IS DISTINCT FROM (2 AND false)`.
    println!(
        "{}",
        ctx.plain_sql(statement).await.map_or_else(|error| error.to_string(), |_| "planned".to_owned())
    );
    Ok(())
}
