//! Sessions with lake tables, and their answers as text.

use coscan_datafusion::CoscanContext;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;

pub fn context() -> CoscanContext {
    let coscan = CoscanContext::builder().policy("relevance").set("small_table_bytes", "0");
    let coscan = coscan.set("share_results", "false").build().expect("a context");
    coscan_lake::install(&coscan.ctx);
    coscan
}

pub async fn rows(coscan: &CoscanContext, sql: &str) -> Result<Vec<String>> {
    let batches = coscan.sql(sql).await?.collect().await?;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(values.join(" | "));
        }
    }
    Ok(rows)
}
