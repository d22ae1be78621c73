//! One corrupt file, read through cooperative scans and by plain DataFusion.

use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::Duration;

use coscan_datafusion::CoscanContext;
use coscan_engine::Engine;
use coscan_upstream::PlainSql;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use fastrand::Rng;
use futures::{FutureExt, StreamExt};

use crate::memory;

/// The buffer of the engine.
pub const BUFFER_BYTES: u64 = 24 << 20;

/// The memory of queries beside it.
pub const QUERY_BYTES: usize = 32 << 20;

/// The memory of a session, a plan and the rows of a result beside both.
const REST_BYTES: usize = 72 << 20;

/// Limit of the rows of a result that are read. A footer may claim any number.
const ROWS_MAX: usize = 20_000;

/// Time limit that no query approaches.
const QUERY_ENDS_AFTER: Duration = Duration::from_secs(300);

/// The outcome of a query.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// Its rows, sorted.
    Rows(Vec<String>),
    /// More rows than the limit.
    Long,
    Error(String),
    Panic(String),
    Endless,
}

/// The result of a case.
pub enum Verdict {
    Wrong(String),
    Answered,
    /// With the first error of a query that plain DataFusion answers.
    Refused {
        plain_answers: Option<String>,
    },
}

const QUERIES: [&str; 10] = [
    "SELECT * FROM t",
    "SELECT count(*), count(i), sum(l), min(s), max(t) FROM t",
    "SELECT s, count(*), sum(d), avg(w) FROM t GROUP BY s",
    "SELECT 1 AS one FROM t",
    "SELECT l, s FROM t WHERE i = 7",
    "SELECT i FROM t WHERE s = 'value 3 of a few'",
    "SELECT sum(d), count(f) FROM t WHERE i BETWEEN 3 AND 12 AND b",
    "SELECT n, r FROM t WHERE l > 0",
    "SELECT x, v FROM t WHERE t < TIMESTAMP '1970-01-01T00:01:00' LIMIT 5",
    "SELECT count(*) FROM t WHERE i > 1000000 OR w < 0",
];

fn config(partitions: usize) -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(partitions);
    config.options_mut().execution.parquet.bloom_filter_on_read = true;
    config
}

/// Reads the file in all ways. Calls `before_plain` before plain DataFusion runs.
pub async fn run(rng: &mut Rng, engine: &Engine, file: &Path, before_plain: impl FnOnce()) -> Verdict {
    let partitions = rng.usize(1..3);
    let before = memory::restart();
    let builder = CoscanContext::builder().engine(engine.clone()).set("small_table_bytes", "0");
    let builder = builder.memory_limit(QUERY_BYTES).session_config(config(partitions));
    let coscan = builder.build().expect("a context");
    let mut asked = vec![0];
    asked.extend((0..2).map(|_| rng.usize(1..QUERIES.len())));
    let mut cooperative = Vec::new();
    match registered(&coscan.ctx, file).await {
        Ok(()) => {
            for query in &asked {
                cooperative.push(outcome(&coscan.ctx, QUERIES[*query]).await);
            }
        }
        // DataFusion's own reading of footers, which is the same in both sessions.
        Err(refused) => cooperative.push(refused),
    }
    drop(coscan);
    let used = memory::peak().saturating_sub(before);
    if used > BUFFER_BYTES as usize + QUERY_BYTES + REST_BYTES {
        return Verdict::Wrong(format!("{} MiB were in use", used >> 20));
    }
    before_plain();
    let runtime = RuntimeEnvBuilder::new().with_memory_limit(QUERY_BYTES, 1.0).build_arc().unwrap();
    // Corrupt statistics would replace values.
    let plain = config(partitions).with_collect_statistics(false);
    let plain_session = SessionContext::new_with_config_rt(plain, runtime);
    let refused = registered(&plain_session, file).await.err();
    let (mut answered, mut plain_answers) = (true, None);
    for (query, got) in asked.iter().zip(cooperative) {
        let sql = QUERIES[*query];
        match got {
            // As many rows as the footer claims, if no column must be read. Plain DataFusion produces them,
            // too.
            Outcome::Endless => match outcome(&plain_session, sql).await {
                Outcome::Endless => answered = false,
                _ => return Verdict::Wrong(format!("does not end: {sql}")),
            },
            // A panic of DataFusion itself, which is the same in both sessions.
            Outcome::Panic(message) => {
                let same = matches!(refused, Some(Outcome::Panic(_)))
                    || matches!(outcome(&plain_session, sql).await, Outcome::Panic(plain) if plain == message);
                if !same {
                    return Verdict::Wrong(format!("panic: {message}: {sql}"));
                }
                answered = false;
            }
            Outcome::Error(error) => {
                answered = false;
                let plain = refused.is_none() && plain_answers.is_none();
                if plain && matches!(outcome(&plain_session, sql).await, Outcome::Rows(_) | Outcome::Long) {
                    plain_answers = Some(format!("{sql}: {error}"));
                }
            }
            got => match outcome(&plain_session, sql).await {
                // A read in another order may fail at another place. A limit may be reached earlier.
                Outcome::Error(_) | Outcome::Panic(_) | Outcome::Endless => {}
                expected if expected == got || sql.contains("LIMIT") => {}
                expected => return Verdict::Wrong(difference(sql, &expected, &got)),
            },
        }
    }
    if answered { Verdict::Answered } else { Verdict::Refused { plain_answers } }
}

fn difference(sql: &str, expected: &Outcome, got: &Outcome) -> String {
    match (expected, got) {
        (Outcome::Rows(a), Outcome::Rows(b)) => {
            let at = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
            let (x, y) = (a.get(at), b.get(at));
            format!("{sql}: {} rows, plain has {}; first difference {y:?}, plain {x:?}", b.len(), a.len())
        }
        _ => format!("{sql}: {got:.200?}, plain {expected:.200?}"),
    }
}

async fn registered(ctx: &SessionContext, file: &Path) -> std::result::Result<(), Outcome> {
    let path = file.to_str().unwrap();
    let registered = ctx.register_parquet("t", path, ParquetReadOptions::default());
    match AssertUnwindSafe(registered).catch_unwind().await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Outcome::Error(error.to_string())),
        Err(panic) => Err(Outcome::Panic(message(&*panic))),
    }
}

async fn outcome(ctx: &SessionContext, sql: &str) -> Outcome {
    let run = AssertUnwindSafe(rows(ctx, sql)).catch_unwind();
    match tokio::time::timeout(QUERY_ENDS_AFTER, run).await {
        Err(_) => Outcome::Endless,
        Ok(Err(panic)) => Outcome::Panic(message(&*panic)),
        Ok(Ok(Err(error))) if error.to_string().contains("panic") => Outcome::Panic(error.to_string()),
        Ok(Ok(Err(error))) => Outcome::Error(error.to_string()),
        Ok(Ok(Ok(None))) => Outcome::Long,
        Ok(Ok(Ok(Some(mut rows)))) => {
            rows.sort_unstable();
            Outcome::Rows(rows)
        }
    }
}

async fn rows(ctx: &SessionContext, sql: &str) -> Result<Option<Vec<String>>> {
    let mut stream = ctx.plain_sql(sql).await?.execute_stream().await?;
    let options = FormatOptions::default().with_null("NULL");
    let (mut rows, mut seen) = (Vec::new(), 0);
    while let Some(batch) = stream.next().await {
        let batch = batch?;
        seen += batch.num_rows();
        if seen > ROWS_MAX {
            return Ok(None);
        }
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options)).collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|c| c.value(row).to_string()).collect::<Vec<_>>().join("|"));
        }
    }
    Ok(Some(rows))
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}
