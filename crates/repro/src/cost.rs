//! 2007, Fig. 8: the cost of scheduling, measured on the core itself.
//!
//! Runs of I/O-bound queries over the same bytes, cut into more and more chunks, are timed by the wall clock.
//! The measured time is that of the whole simulated run, including the host, so it is an upper bound of the
//! core's. It is compared with the virtual time of the run. Only this experiment and the overhead of slow
//! media read a clock.

use std::time::Instant as Clock;

use coscan_core::{ChunkSet, ColumnSet, DeliveryOrder, Instant, PolicyName, Span, TableId, TableLayout};
use coscan_device::{DeviceModel, DeviceSpec};
use fastrand::Rng;

use crate::error::ReproError;
use crate::report::Finding;
use crate::report::{Block, Row, Section};
use coscan_figure::axis::Axis;
use coscan_figure::line::{Draw, LineChart, LinePanel, Point, Series};
use coscan_sim::host::{self, Observe};
use coscan_sim::operator::Operator;
use coscan_sim::scenario::Basis;
use coscan_sim::workload::{Query, Stream, Table, Workload, World};

/// The paper's relation of 2 GB, its buffer of 1 GB, and a disk of just over 200 MB/s.
const TABLE_BYTES: u64 = 128 * (16 << 20);
const BUFFER_BYTES: u64 = 64 * (16 << 20);
const BYTES_PER_S: u64 = 209_300_000;
/// The paper's figure goes to 2048 chunks. The rest shows that the cost does not grow with the number of
/// chunks.
const CHUNKS: [u32; 9] = [128, 256, 512, 1024, 2048, 8192, 32_768, 65_536, 131_072];
const PAPER_CHUNKS: usize = 5;
const SHARES: [u32; 3] = [1, 10, 100];
const POLICIES: [&str; 4] = ["normal", "attach", "elevator", "relevance"];
/// With more chunks than in the paper, a query reads at most this many divided by the number of streams: more
/// would only take longer.
const CHUNKS_MAX: u32 = 32_768;
/// Runs per point. The fastest counts, because other work on the machine only adds time.
const RUNS: u32 = 2;

/// One measured point.
struct Cost {
    chunks: u32,
    /// Nanoseconds per event.
    event_ns: f64,
    /// Share of the virtual execution time.
    share: f64,
}

pub(crate) fn find() -> Result<Finding, ReproError> {
    let (mut by_share, mut rows) = (Vec::new(), Vec::new());
    for share in SHARES {
        let costs = curve("relevance", 16, share, &CHUNKS[..PAPER_CHUNKS])?;
        rows.push(row(share, &costs));
        by_share.push(series(format!("{share}% ranges"), &costs, |cost| cost.share * 100.0));
    }
    let mut by_policy = Vec::new();
    for policy in POLICIES {
        let costs = curve(policy, 16, 10, &CHUNKS)?;
        by_policy.push(series(policy.to_owned(), &costs, |cost| cost.event_ns / 1000.0));
    }
    let mut many = Vec::new();
    for scans in [16, 64, 256] {
        let costs = curve("relevance", scans, 10, &CHUNKS)?;
        many.push(series(format!("{scans} scans"), &costs, |cost| cost.event_ns / 1000.0));
    }
    let chunks = || Axis::log("chunks");
    let panel = |title: &str, y: Axis, series| LinePanel { title: title.to_owned(), x: chunks(), y, series };
    let chart = LineChart {
        title: "The cost of scheduling".to_owned(),
        description: "Time per event and share of execution time over the number of chunks.".to_owned(),
        panels: vec![
            panel("relevance, 16 streams", Axis::linear("share of execution time (%)"), by_share),
            panel("16 streams, 10% ranges", Axis::linear("time per event (µs)"), by_policy),
            panel("relevance, 10% ranges", Axis::linear("time per event (µs)"), many),
        ],
        columns: 2,
    };
    let text = "The same bytes cut into more chunks: 16 streams of 4 I/O-bound queries. Decisions look at scans \
                and at classes of chunks that the same scans want, not at chunks, so that an event costs about \
                the same however many there are; smaller chunks mean more events.";
    let section = Section {
        experiment: "scan07-fig8".to_owned(),
        title: "Scheduling cost (2007, Fig. 8)".to_owned(),
        blocks: vec![
            Block::Text(text.to_owned()),
            Block::Figure { caption: "Measured on this machine".to_owned(), svg: chart.svg()? },
        ],
    };
    Ok(Finding { rows, section })
}

/// The worst share over the paper's numbers of chunks. The row does not count: it compares a present-day
/// processor with the execution time of the machine of 2007.
fn row(share: u32, costs: &[Cost]) -> Row {
    const LIMIT: f64 = 0.01;
    let worst = costs.iter().map(|cost| cost.share).fold(0.0, f64::max);
    let quantity = format!("relevance.scheduling_share of {share}% ranges, worst of 128 to 2048 chunks");
    let row = Row::of_median("scan07-fig8", quantity, LIMIT, &[worst], 1, 0.0);
    let note = "an upper limit; the time of this processor over the simulated time of the machine of 2007";
    Row { within: worst < LIMIT, note: note.to_owned(), ..row.on(Basis::Input) }
}

fn series(name: String, costs: &[Cost], of: impl Fn(&Cost) -> f64) -> Series {
    let points = costs.iter().map(|cost| Point::exact(f64::from(cost.chunks), of(cost))).collect();
    Series { name, points, draw: Draw::Marked, look: None }
}

fn curve(policy: &str, streams: u32, share: u32, chunks: &[u32]) -> Result<Vec<Cost>, ReproError> {
    let policy: PolicyName = policy.parse().expect("the registry has the papers' policies");
    chunks.iter().map(|chunks| measure(policy, streams, share, *chunks)).collect()
}

fn measure(policy: PolicyName, streams: u32, share: u32, chunks: u32) -> Result<Cost, ReproError> {
    let (world, workload) = (world(chunks), workload(streams, share, chunks));
    let mut fastest: Option<Cost> = None;
    for _ in 0..RUNS {
        let began = Clock::now();
        let record = host::run(&world, &workload, policy, Observe::default())?;
        let wall_s = began.elapsed().as_secs_f64();
        let virtual_s = host::seconds(record.end - Instant::ZERO);
        let cost = Cost { chunks, event_ns: wall_s * 1e9 / record.events as f64, share: wall_s / virtual_s };
        if fastest.as_ref().is_none_or(|before| cost.event_ns < before.event_ns) {
            fastest = Some(cost);
        }
    }
    Ok(fastest.expect("there is at least one run"))
}

fn world(chunks: u32) -> World {
    let layout = TableLayout::rows((0..chunks).map(|_| TABLE_BYTES / u64::from(chunks)));
    let device = DeviceModel::SeekDisk { bytes_per_s: BYTES_PER_S, seek: Span::ZERO };
    World {
        tables: vec![Table { name: "lineitem".to_owned(), layout: layout.expect("chunks have bytes") }],
        buffer_bytes: BUFFER_BYTES,
        device: DeviceSpec::new(device).expect("the model is sound"),
        ..World::plain()
    }
}

/// Streams of four queries over random ranges with almost no processing cost.
fn workload(streams: u32, share: u32, chunks: u32) -> Workload {
    let mut rng = Rng::with_seed(8);
    let length = (chunks / 100 * share).max(1).min(CHUNKS_MAX / streams);
    let work: std::sync::Arc<[Span]> = vec![Span::from_nanos(1000); chunks as usize].into();
    let mut query = || {
        let from = rng.u32(0..=chunks - length);
        Query {
            kind: 0,
            table: TableId(0),
            columns: ColumnSet::first(1),
            chunks: ChunkSet::range(from..from + length),
            order: DeliveryOrder::Any,
            workers: 1,
            weight: 1,
            workspace_bytes: 0,
            work: work.clone(),
            operator: Operator::Scan,
            matching: Vec::new(),
            cancel_after: None,
        }
    };
    let stream = |at: u32| (Instant::from_nanos(u64::from(at) * 3_000_000_000), 4);
    let streams = (0..streams).map(stream);
    let streams =
        streams.map(|(start, queries)| Stream { start, queries: (0..queries).map(|_| query()).collect() });
    Workload { kinds: vec!["F".to_owned()], streams: streams.collect(), budget_changes: Vec::new() }
}
