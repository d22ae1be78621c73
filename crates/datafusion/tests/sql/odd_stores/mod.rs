//! Odd stores, of which there are many. A query returns the right rows, or a clear error where [`oddities`]
//! expects one, within a bounded number of requests. `COSCAN_SEEDS=A..B` replaces the default seeds.

mod oddities;
mod server;

use std::sync::Arc;
use std::time::Duration;

use coscan_datafusion::{CoscanContext, store_requests};
use datafusion::common::Result;
use datafusion::prelude::ParquetReadOptions;

use self::oddities::{BODIES, BUSY, CONDITIONS, Expected, HEADS, Oddities, PLAIN, RANGES, TAGS, TIMES};
use self::server::Server;
use crate::data;
use crate::support;

/// Rows of the object.
const ROWS: i64 = 6000;

/// Bound on the requests of a query, whatever goes wrong.
const REQUESTS_MAX: u64 = 250;

/// The object, and another one of the same size and shape. A sum over rows of both differs from the sum of
/// either.
fn versions() -> [Vec<u8>; 2] {
    [0, 1_000_000_000].map(|first| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("numbers.parquet");
        let properties = data::row_groups(500)
            .set_dictionary_enabled(false)
            .set_compression(parquet::basic::Compression::UNCOMPRESSED)
            .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None);
        data::write(&path, &data::numbers(first, ROWS), properties.build());
        std::fs::read(path).expect("a file")
    })
}

/// The sum over the rows of a version.
fn sum(version: i64) -> i64 {
    (0..ROWS).map(|row| row + version * 1_000_000_000).sum()
}

fn context() -> CoscanContext {
    let settings = [("small_table_bytes", "0"), ("chunk_size", "0"), ("read_deadline_ms", "20000")];
    let mut builder = CoscanContext::builder().policy("relevance").buffer_bytes(64 << 20);
    for (name, value) in settings {
        builder = builder.set(name, value);
    }
    builder.session_config(support::config(support::Variant::Default)).build().expect("a context")
}

async fn answer(address: &str, listed: bool) -> Result<i64> {
    let context = context();
    let url = format!("{address}/t/{}", if listed { "" } else { "t.parquet" });
    context.ctx.register_parquet("t", url, ParquetReadOptions::default()).await?;
    let rows = support::rows(&context.ctx, "SELECT sum(n) FROM t").await?;
    Ok(rows[0].parse().unwrap_or(-1))
}

/// Runs the query against one store. Returns an error if the answer is wrong.
async fn play(oddities: Oddities, versions: [Vec<u8>; 2]) -> Result<(), String> {
    let (server, address) = Server::start(oddities, versions).await;
    let answered = tokio::time::timeout(Duration::from_secs(90), answer(&address, oddities.listed)).await;
    let Ok(answered) = answered else { return Err("no answer".to_owned()) };
    let requests = server.requests();
    if requests > REQUESTS_MAX {
        return Err(format!("{requests} requests"));
    }
    let right = match (oddities.expected(), &answered) {
        (Expected::Rows, Ok(answer)) => *answer == sum(0),
        (Expected::OneVersion, Ok(answer)) => *answer == sum(0) || *answer == sum(1),
        // A store that fails occasionally may do so for too long.
        (Expected::OneVersion, Err(error)) => {
            let error = error.to_string();
            error.contains("replaced") || oddities.fails_at_times() && !error.contains("corrupt")
        }
        (Expected::Error(texts), Err(error)) => {
            let error = error.to_string();
            texts.iter().any(|text| error.contains(text))
        }
        (Expected::Rows, Err(_)) | (Expected::Error(_), Ok(_)) => false,
        (Expected::Anything, _) => true,
    };
    match right {
        true => Ok(()),
        false => Err(format!("{answered:?} instead of {:?}", oddities.expected())),
    }
}

/// Runs several stores at a time. Fails with all errors.
async fn play_all(stores: Vec<(String, Oddities)>) {
    let versions = versions();
    assert_eq!(versions[0].len(), versions[1].len());
    let (names, jobs): (Vec<_>, Vec<_>) = stores
        .into_iter()
        .map(|(name, oddities)| (format!("{name}: {oddities:?}"), play(oddities, versions.clone())))
        .unzip();
    let outcomes = support::at_a_time(jobs, 8).await;
    let wrong = names
        .iter()
        .zip(outcomes)
        .filter_map(|(name, outcome)| Some(format!("{name}\n  {}", outcome.err()?)));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} of {} stores:\n{}", wrong.len(), names.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_oddity_alone_is_read_or_refused_clearly() {
    let mut stores =
        vec![("none".to_owned(), PLAIN), ("missing".to_owned(), Oddities { missing: true, ..PLAIN })];
    let mut add = |oddities: Oddities| {
        for listed in [false, true] {
            stores.push(("alone".to_owned(), Oddities { listed, ..oddities }));
        }
    };
    TAGS.into_iter().for_each(|tags| add(Oddities { tags, ..PLAIN }));
    TIMES.into_iter().for_each(|times| add(Oddities { times, ..PLAIN }));
    TIMES.into_iter().for_each(|times| add(Oddities { times, tags: oddities::Tags::Absent, ..PLAIN }));
    HEADS.into_iter().for_each(|heads| add(Oddities { heads, ..PLAIN }));
    RANGES.into_iter().for_each(|ranges| add(Oddities { ranges, ..PLAIN }));
    CONDITIONS.into_iter().for_each(|conditions| add(Oddities { conditions, ..PLAIN }));
    BUSY.into_iter().for_each(|busy| add(Oddities { busy, ..PLAIN }));
    BODIES.into_iter().for_each(|bodies| add(Oddities { bodies, ..PLAIN }));
    play_all(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_replaced_is_read_in_one_version_or_refused() {
    let mut stores = Vec::new();
    for tags in TAGS {
        // The later ones come while the store is asked about doubtful marks.
        for after in 1..28 {
            let oddities = Oddities { tags, replaced_after: Some(after), ..PLAIN };
            stores.push((format!("after {after}"), oddities));
        }
    }
    play_all(stores).await;
}

/// Reads of footers do not belong to the engine: their bodies continue where they broke.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_break_off_go_on_whatever_marks_the_store_has() {
    let mut stores = Vec::new();
    for tags in TAGS {
        for times in TIMES {
            for every in [3, 5] {
                let bodies = oddities::Bodies::BreakOff(every);
                stores.push(("each".to_owned(), Oddities { tags, times, bodies, ..PLAIN }));
            }
        }
    }
    play_all(stores).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_stores_are_read_or_refused_clearly() {
    let seeds = std::env::var("COSCAN_SEEDS").ok();
    let seeds = seeds.as_deref().and_then(|seeds| seeds.split_once(".."));
    let seeds = seeds.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?)).unwrap_or(0..150);
    let stores = seeds.map(|seed| (format!("seed {seed}"), Oddities::draw(seed)));
    play_all(stores.collect()).await;
}

/// Returns the number of requests, and the answer as text.
async fn asked(oddities: Oddities) -> (u64, String) {
    let (server, address): (Arc<Server>, String) = Server::start(oddities, versions()).await;
    let answered = answer(&address, oddities.listed).await;
    (server.requests(), answered.map_or_else(|error| error.to_string(), |sum| sum.to_string()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_there_or_not_done_is_said_at_once() {
    let (requests, text) = asked(Oddities { missing: true, ..PLAIN }).await;
    assert!(requests <= 2 && text.contains("t.parquet") && !text.contains("PROPFIND"), "{requests}: {text}");
    let (requests, text) = asked(Oddities { busy: oddities::Busy::Always(501), ..PLAIN }).await;
    assert!(requests <= 4 && text.contains("501"), "{requests}: {text}");
    let (_, text) = asked(Oddities { busy: oddities::Busy::Always(401), listed: true, ..PLAIN }).await;
    assert!(text.contains("Odd: as asked") && !text.contains("Detail"), "{text}");
    // Reads that begin before the first answer find out that conditions are refused. Later reads use none.
    let (plain, _) = asked(PLAIN).await;
    for conditions in CONDITIONS {
        let (requests, text) = asked(Oddities { conditions, ..PLAIN }).await;
        assert!(requests <= 2 * plain && text == sum(0).to_string(), "{conditions:?}, {requests}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_counted_by_store() {
    for listed in [false, true] {
        let (server, address) = Server::start(Oddities { listed, ..PLAIN }, versions()).await;
        // A server of another test may have had the same address.
        let counted = || {
            let known = store_requests().into_iter().find(|of| of.store == address);
            known.map_or((0, 0, 0), |of| (of.reads, of.lists, of.bytes))
        };
        let before = counted();
        answer(&address, listed).await.expect("an answer");
        let after = counted();
        let (reads, lists, bytes) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
        assert_eq!(reads + lists, server.requests(), "{reads} reads, {lists} lists");
        assert_eq!(lists > 0, listed, "{lists} lists");
        let object = versions()[0].len() as u64;
        // The footer's read has the whole of a small object.
        assert!((object..4 * object).contains(&bytes), "{bytes} bytes, of {object}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cause_of_a_failed_connection_is_said() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", socket.local_addr().expect("an address"));
    drop(socket);
    let error = answer(&address, false).await.expect_err("no server").to_string();
    assert!(error.contains("Connection refused"), "{error}");
}
