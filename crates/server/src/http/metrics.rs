//! Metrics for Prometheus.
//!
//! The engine's counters are read at each scrape. Latencies are kept as histograms per user and policy. Users beyond
//! the first [`USERS_MAX`] are counted together, so invented names do not become series.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::extract::State as Extract;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use coscan_datafusion::{StoreRequests, result_taken_from, store_requests};
use coscan_engine::{StorePrices, StoreUse, registry as policies};
use datafusion::physical_plan::ExecutionPlan;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::Http;
use crate::sql::Finished;
use crate::state::{SharedState, State};

/// Users with series of their own.
const USERS_MAX: usize = 50;

/// Label of users and outcomes that are counted together.
const OTHER: &str = "other";

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    user: String,
    policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    protocol: String,
    outcome: String,
}

/// The metrics of a server.
pub(crate) struct Metrics {
    registry: Registry,
}

/// Counters of finished statements.
struct Ended {
    users: Mutex<HashSet<String>>,
    seconds: Family<Kind, Histogram, fn() -> Histogram>,
    statements: Family<Outcome, Counter>,
    rows: Counter,
    taken: Counter,
}

impl Metrics {
    pub(crate) fn new(state: &SharedState) -> Self {
        let mut registry = Registry::with_prefix("coscan");
        let histogram: fn() -> Histogram = || Histogram::new(exponential_buckets(0.001, 2.0, 20));
        let ended = Arc::new(Ended {
            users: Mutex::default(),
            seconds: Family::new_with_constructor(histogram),
            statements: Family::default(),
            rows: Counter::default(),
            taken: Counter::default(),
        });
        let help =
            "Time of statements from start to end, waiting included, by user and by the policy at the start";
        registry.register_with_unit("statement", help, Unit::Seconds, ended.seconds.clone());
        registry.register(
            "statements",
            "Statements that ended, by protocol and outcome",
            ended.statements.clone(),
        );
        registry.register("result_rows", "Rows handed to clients", ended.rows.clone());
        let help = "Statements that took their result from an equal one that ran at the same time";
        registry.register("results_taken", help, ended.taken.clone());
        registry.register_collector(Box::new(Engine(Arc::downgrade(state))));
        state.registry().on_end(move |statement| {
            if let Some((query, finished)) = statement.run {
                ended.note(finished, query.plan());
            }
        });
        Metrics { registry }
    }

    fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl Ended {
    fn note(&self, finished: &Finished, plan: Option<&Arc<dyn ExecutionPlan>>) {
        let kind = Kind { user: self.user(&finished.user), policy: policy(&finished.policy) };
        self.seconds.get_or_create(&kind).observe(finished.took.as_secs_f64());
        // By the classes of PostgreSQL's error codes, since there are few of them.
        let outcome = finished.error.as_ref().map_or("ok", |(code, _)| code.get(..2).unwrap_or(OTHER));
        let outcome =
            Outcome { protocol: finished.protocol.as_str().to_owned(), outcome: outcome.to_owned() };
        self.statements.get_or_create(&outcome).inc();
        self.rows.inc_by(finished.rows);
        if plan.and_then(result_taken_from).is_some() {
            self.taken.inc();
        }
    }

    /// The user's label.
    fn user(&self, name: &str) -> String {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.contains(name) || (users.len() < USERS_MAX && users.insert(name.to_owned())) {
            return name.to_owned();
        }
        OTHER.to_owned()
    }
}

fn policy(name: &str) -> String {
    let known = policies::sharing().any(|known| known.as_str() == name);
    if known { name.to_owned() } else { OTHER.to_owned() }
}

/// Reads the engine's counters. Has no values after the server has ended.
struct Engine(Weak<State>);

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Engine")
    }
}

impl Collector for Engine {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let Some(state) = self.0.upgrade() else { return Ok(()) };
        let (stats, usage) = (state.engine().stats(), state.engine().usage());
        let counters = [
            ("wanted_bytes", "Encoded bytes that scans announced they will want", stats.bytes_wanted),
            ("read_bytes", "Encoded bytes that were read", stats.bytes_read),
            (
                "delivered_bytes",
                "Encoded bytes of the parts that were handed to scans",
                stats.bytes_delivered,
            ),
            ("loads", "Loads of chunks", stats.loads),
            ("requests", "Requests to devices and stores, retries included", stats.requests),
            ("retries", "Requests repeated after a transient error", stats.retries),
            ("hedged", "Second requests for slow ones", stats.hedged),
            ("chunks_delivered", "Chunks handed to workers of scans", stats.chunks_delivered),
            ("parts_loaded", "Parts read", stats.parts_loaded),
            (
                "parts_shared",
                "Parts delivered that were resident or read for another scan",
                stats.parts_from_buffer,
            ),
            ("evictions", "Parts dropped from the buffer", stats.evictions),
            ("idle_releases", "How often an idle engine's buffer was emptied", stats.idle_releases),
            (
                "idle_released_bytes",
                "What an idle engine's buffer gave back, encoded and decoded",
                stats.idle_released_bytes,
            ),
            ("suspensions", "Chunks taken back from consumers that stood still", stats.suspensions),
            ("point_reads", "Point reads begun", stats.point_reads),
            ("slices_decoded", "Slices decoded", stats.slices_decoded),
            ("slices_shared", "Slices taken from another scan's decoding", stats.slices_shared),
        ];
        for (name, help, value) in counters {
            counter(&mut encoder, name, help, value)?;
        }
        let times = [
            ("decode", "Time spent decoding, over all workers", stats.decode_ns),
            ("wait", "Time workers waited for chunks, over all workers", stats.abm_wait_ns),
        ];
        for (name, help, ns) in times {
            let value = ConstCounter::new(ns as f64 / 1e9);
            let metric = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), value.metric_type())?;
            value.encode(metric)?;
        }
        let queries = state.registry().queries();
        let running = queries.iter().filter(|query| query.is_running()).count();
        let gauges = [
            ("buffer_bytes", "The budget of the buffer in force", usage.budget),
            ("buffer_encoded_bytes", "Encoded parts in the buffer", usage.resident),
            ("buffer_decoded_bytes", "Decoded arrays kept for others", usage.decoded),
            ("buffer_loading_bytes", "Parts being read", usage.loading),
            ("buffer_workspace_bytes", "Workspaces of workers that hold a chunk", usage.workspace),
            ("buffer_points_bytes", "What point reads have", usage.points),
            ("loads_in_flight", "Loads in flight", state.engine().loads_in_flight() as u64),
            ("statements_running", "Statements that run", running as u64),
            ("statements_queued", "Statements that wait for their turn", (queries.len() - running) as u64),
            ("sessions", "Sessions of clients", state.registry().sessions().len() as u64),
        ];
        for (name, help, value) in gauges {
            let value = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, value.metric_type())?;
            value.encode(metric)?;
        }
        stores(&mut encoder, &state.engine().stores())?;
        requests(&mut encoder, &state.engine().config().store_prices)
    }
}

/// Number of requests per store.
fn stores(encoder: &mut DescriptorEncoder, stores: &[StoreUse]) -> fmt::Result {
    let allowed: fn(&StoreUse) -> usize = |store| store.requests;
    let gauges = [
        ("store_requests_allowed", "Requests for loads that a store gets at the same time", allowed),
        ("store_requests_reading", "Requests in progress at a store", |store| store.reading),
    ];
    for (name, help, value) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for store in stores {
            let labels = [("store", plain(&store.store)), ("why", store.why.as_str().into())];
            let value = ConstGauge::new(i64::try_from(value(store)).unwrap_or(i64::MAX));
            value.encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Requests and bytes per store, and their price where it is known.
fn requests(encoder: &mut DescriptorEncoder, prices: &StorePrices) -> fmt::Result {
    let stores = store_requests();
    let reads: fn(&StoreRequests) -> u64 = |store| store.reads;
    let counts = [
        ("store_reads", "GET and HEAD requests to a store", reads),
        ("store_lists", "Lists of a store, and requests that write", |store| store.lists),
        ("store_bytes", "Bytes that a store's answers announced", |store| store.bytes),
    ];
    for (name, help, count) in counts {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for store in &stores {
            ConstCounter::new(count(store))
                .encode(family.encode_family(&[("store", plain(&store.store))])?)?;
        }
    }
    let help = "The price of a store's requests and bytes in dollars, by store_prices";
    let mut family = encoder.encode_descriptor("store_cost_dollars", help, None, MetricType::Counter)?;
    for store in &stores {
        if let Some(dollars) = store.price(prices) {
            ConstCounter::new(dollars).encode(family.encode_family(&[("store", plain(&store.store))])?)?;
        }
    }
    Ok(())
}

/// The address of a store without the user and the password that it may have.
fn plain(store: &str) -> Cow<'_, str> {
    let Some((scheme, rest)) = store.split_once("://") else { return store.into() };
    let host = rest.split('/').next().unwrap_or(rest);
    match host.rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]).into(),
        None => store.into(),
    }
}

fn counter(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: u64) -> fmt::Result {
    let value = ConstCounter::new(value);
    let metric = encoder.encode_descriptor(name, help, None, value.metric_type())?;
    value.encode(metric)
}

/// The metrics as text.
pub(crate) async fn scrape(Extract(http): Extract<Arc<Http>>) -> Response {
    match http.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT)], text).into_response(),
        Err(fmt::Error) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_stores_show_no_password() {
        for (store, shown) in [
            ("http://user:secret@host:80", "http://host:80"),
            ("https://user:s@cret@host/a@b", "https://host/a@b"),
            ("s3://bucket/a@b", "s3://bucket/a@b"),
            ("this machine", "this machine"),
        ] {
            assert_eq!(plain(store), shown);
        }
    }

    #[test]
    fn names_that_are_made_up_become_no_series() {
        let histogram: fn() -> Histogram = || Histogram::new([1.0]);
        let ended = Ended {
            users: Mutex::default(),
            seconds: Family::new_with_constructor(histogram),
            statements: Family::default(),
            rows: Counter::default(),
            taken: Counter::default(),
        };
        let labels: HashSet<String> = (0..10 * USERS_MAX).map(|n| ended.user(&format!("u{n}"))).collect();
        assert_eq!(labels.len(), USERS_MAX + 1);
        assert_eq!((ended.user("u0"), ended.user("new")), ("u0".to_owned(), OTHER.to_owned()));
        assert_eq!((policy("relevance"), policy("my own")), ("relevance".to_owned(), OTHER.to_owned()));
    }
}
