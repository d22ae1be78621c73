//! Sessions to compare: the same tables and settings, with and without cooperative scans.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan_datafusion::{CoscanContext, CoscanOptions, engine_error, install};
use coscan_engine::{Engine, EngineConfig, EngineError, PolicyName, Usage};
use coscan_upstream::PlainSql;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};

use crate::data;

/// A buffer that holds all test data at once, also decoded.
pub const LARGE_BUFFER: u64 = 512 << 20;

/// Time limit that no query of these tests approaches.
pub const QUERY_ENDS_AFTER: Duration = Duration::from_secs(300);

/// The planning of a session's queries. Results must not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Four partitions that share their work.
    Default,
    /// Filters in the scan.
    PushdownFilters,
    /// Each partition reads its own files, as distributed engines require.
    NoWorkStealing,
    /// One partition.
    Single,
    /// Files are cut into byte ranges if they exceed a few kilobytes.
    Ranges,
}

/// All variants.
pub const VARIANTS: [Variant; 5] =
    [Variant::Default, Variant::PushdownFilters, Variant::NoWorkStealing, Variant::Single, Variant::Ranges];

/// Returns the configuration of a variant.
pub fn config(variant: Variant) -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(4).with_information_schema(true);
    let options = config.options_mut();
    options.execution.parquet.pushdown_filters = variant == Variant::PushdownFilters;
    options.execution.enable_file_stream_work_stealing = variant != Variant::NoWorkStealing;
    if variant == Variant::Single {
        config = config.with_target_partitions(1);
    }
    if matches!(variant, Variant::Ranges | Variant::NoWorkStealing) {
        config = config.with_repartition_file_min_size(4096);
    }
    config
}

/// Returns an engine with settings that make tests quick.
pub fn engine(policy: PolicyName, buffer_bytes: u64) -> Engine {
    cutting_engine(policy, buffer_bytes, 0)
}

/// Like [`engine`], with row groups cut to chunks of about so many bytes.
pub fn cutting_engine(policy: PolicyName, buffer_bytes: u64, chunk_bytes: u64) -> Engine {
    let mut config = EngineConfig::new(policy, buffer_bytes);
    config.stall_after = Duration::from_millis(5);
    // Several slices per row group.
    config.slice_rows = 256;
    config.chunk_bytes = chunk_bytes;
    Engine::new(config).expect("an engine")
}

/// Returns the policy of that name.
pub fn policy(name: &str) -> PolicyName {
    name.parse().expect("a policy")
}

/// Returns a session whose scans are cooperative, for tables of any size.
pub fn cooperative(engine: &Engine, variant: Variant) -> SessionContext {
    let mut config = config(variant);
    let mut options = CoscanOptions::default();
    options.small_table_bytes = 0;
    // Equal concurrent queries must run separately; `shared_results.rs` tests sharing.
    options.share_results = false;
    config.options_mut().extensions.insert(options);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    SessionContext::new_with_state(install(builder, engine.clone()).build())
}

/// Returns a session of plain DataFusion.
pub fn upstream(variant: Variant) -> SessionContext {
    SessionContext::new_with_config(config(variant))
}

/// Returns a session without cooperative scans that reads all rows, because DataFusion draws wrong
/// conclusions from some statistics. INT96 times have the same unit as in other sessions.
pub fn plain(variant: Variant) -> SessionContext {
    let mut config = config(variant).with_collect_statistics(false);
    let parquet = &mut config.options_mut().execution.parquet;
    (parquet.pruning, parquet.enable_page_index, parquet.bloom_filter_on_read) = (false, false, false);
    parquet.coerce_int96 = Some("us".to_owned());
    SessionContext::new_with_config(config)
}

/// Declares the tables of [`data`].
pub async fn declare(ctx: &SessionContext) {
    for statement in data::declarations() {
        ctx.plain_sql(&statement).await.expect(&statement).collect().await.expect(&statement);
    }
}

/// Returns a cooperative session with the tables of [`data`].
pub async fn session(engine: &Engine, variant: Variant) -> SessionContext {
    let ctx = cooperative(engine, variant);
    declare(&ctx).await;
    ctx
}

/// Returns a context over the tables of [`data`] with default settings, all tables cooperative.
pub async fn context(settings: &[(&str, &str)]) -> CoscanContext {
    let mut builder = CoscanContext::builder()
        .policy("relevance")
        .buffer_bytes(LARGE_BUFFER)
        .set("small_table_bytes", "0")
        .set("share_results", "false")
        .set("stall_ms", "5")
        .session_config(config(Variant::Default));
    for (name, value) in settings {
        builder = builder.set(name, value);
    }
    let coscan = builder.build().expect("a context");
    declare(&coscan.ctx).await;
    coscan
}

/// Returns the rows of a query's result, each as one line of text. A query that does not end is an error,
/// too.
pub async fn rows(ctx: &SessionContext, sql: &str) -> Result<Vec<String>> {
    let batches = tokio::time::timeout(QUERY_ENDS_AFTER, async { ctx.plain_sql(sql).await?.collect().await });
    let batches = batches.await.map_err(|_| DataFusionError::Execution(format!("does not end: {sql}")))??;
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|c| ArrayFormatter::try_new(c.as_ref(), &options))
            .collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            rows.push(values.join(" | "));
        }
    }
    Ok(rows)
}

/// Returns the same, sorted. Panics on an error.
pub async fn sorted_rows(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let mut rows = rows(ctx, sql).await.expect(sql);
    rows.sort();
    rows
}

/// Declares the files of a folder as table `t`.
pub async fn with_table(ctx: SessionContext, folder: &tempfile::TempDir) -> SessionContext {
    let path = folder.path().to_str().expect("a path");
    ctx.register_parquet("t", path, ParquetReadOptions::default()).await.expect("a table");
    ctx
}

/// Returns the first counter of this name in the output of EXPLAIN ANALYZE.
pub fn counter(shown: &str, name: &str) -> usize {
    let (_, rest) = shown.split_once(&format!("{name}=")).unwrap_or_else(|| panic!("{name}: {shown}"));
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().expect("digits");
    digits.parse().expect("a number")
}

/// Returns the number that a query returns.
pub async fn number(ctx: &SessionContext, sql: &str) -> i64 {
    let rows = rows(ctx, sql).await.expect(sql);
    rows[0].parse().expect("a number")
}

/// Waits until nothing is being read or consumed, and returns the rest. Dropped scans may still have reads in
/// progress.
pub async fn settled(engine: &Engine) -> Usage {
    let deadline = Instant::now() + QUERY_ENDS_AFTER;
    loop {
        let usage = engine.usage();
        if usage.loading == 0 && usage.workspace == 0 {
            assert!(usage.resident + usage.decoded <= usage.budget, "over budget: {usage:?}");
            return usage;
        }
        assert!(Instant::now() < deadline, "the engine does not come to rest: {usage:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the smallest buffer in which all these queries can run, as the engine states it.
pub async fn minimum_buffer(ctx: &SessionContext, engine: &Engine, queries: &[&str]) -> u64 {
    let mut buffer = 16 << 10;
    engine.set_buffer(buffer).expect("a small buffer");
    for sql in queries {
        while let Err(error) = rows(ctx, sql).await {
            buffer = needed(&error).unwrap_or_else(|| panic!("{sql}: {error}")).max(buffer + 1);
            engine.set_buffer(buffer).expect("a larger buffer");
        }
    }
    buffer
}

fn needed(error: &DataFusionError) -> Option<u64> {
    match engine_error(error) {
        Some(EngineError::BufferTooSmall { needed, .. }) => Some(*needed),
        _ => None,
    }
}

/// Runs `jobs` in the background, `concurrency` at a time, and returns their results in order.
pub async fn at_a_time<T, F>(jobs: Vec<F>, concurrency: usize) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let permits = Arc::new(tokio::sync::Semaphore::new(concurrency));
    let mut handles = Vec::new();
    for job in jobs {
        let permits = Arc::clone(&permits);
        handles.push(tokio::spawn(async move {
            let _permit = permits.acquire().await.expect("a permit");
            job.await
        }));
    }
    let mut results = Vec::new();
    for handle in handles {
        results.push(handle.await.expect("a job that ends"));
    }
    results
}
