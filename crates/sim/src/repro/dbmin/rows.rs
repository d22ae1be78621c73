//! Compares with what Chou & DeWitt 1985 say: Table 2, and the statements of section 4.3 about the figures.
//!
//! The paper gives ranges ("7 to 13 %") or an order; a range is its middle with a tolerance, an upper limit is half
//! of it. Where a row is outside, its note says what was measured that may be the reason.

use std::collections::BTreeMap;

use coscan_access::{Totals, totals};
use coscan_core::allocation::AllocationName::{self, Clock, Dbmin, HotSet, Random, WorkingSet};
use coscan_core::allocation::load_control::LoadControlName;
use coscan_trace::pages::{PageOp, QueryTrace};

use super::{CONCURRENT, FEWER, NAME, SIMPLE, Traces, VARIANTS, point};
use crate::dbmin::windows::OF_THE_PAPER as WINDOWS;
use crate::dbmin::workload::{Mix, QueryKind, Sharing};
use crate::dbmin::{Grid, Point, Policy};
use crate::report::Row;

/// From here on memory is short.
const MANY: u32 = 8;

pub(super) fn rows(points: &[Point], traces: &Traces) -> Vec<Row> {
    let mut rows = table_2(traces);
    let gaps = gaps(traces);
    for mix in Mix::ALL {
        let hot = lead(points, mix, HotSet);
        rows.push(row(format!("dbmin over hot-set, {mix}, 8 and more queries"), 0.10, &hot, 0.8, ""));
        let set = lead(points, mix, WorkingSet);
        rows.push(row(
            format!("dbmin over working-set, {mix}, 8 and more queries"),
            0.35,
            &set,
            0.286,
            &gaps,
        ));
        rows.extend(SIMPLE.map(|policy| thrashing(points, mix, policy)));
    }
    rows.extend(Mix::ALL.map(|mix| convergence(points, mix)));
    rows.extend(Mix::ALL.into_iter().flat_map(|mix| load_control(points, mix, &gaps)));
    let widest = points.iter().map(|p| p.half_width / p.throughput_per_s).fold(0.0, f64::max);
    rows.push(row("widest half of a confidence interval, of the mean".into(), 0.0, &[widest], 0.05, ""));
    rows
}

/// A row whose value is the median of what was measured; the note is kept if it is outside.
fn row(quantity: String, paper: f64, measured: &[f64], tolerance: f64, note: &str) -> Row {
    let mut sorted = measured.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
    let spread = (sorted.first().copied().unwrap_or(middle), sorted.last().copied().unwrap_or(middle));
    let mut row = Row {
        experiment: NAME.to_owned(),
        quantity,
        paper,
        measured: middle,
        spread,
        seeds: 1,
        tolerance,
        within: false,
        note: String::new(),
    }
    .judged();
    if !row.within {
        row.note = note.to_owned();
    }
    row
}

fn table_2(traces: &Traces) -> Vec<Row> {
    let of_kind = |kind: QueryKind| {
        let own = traces.0.iter().filter(|((k, _), _)| *k == kind);
        let all: Vec<Totals> = own.map(|(_, trace)| totals(trace)).collect();
        let paper = kind.in_the_paper();
        let of = |what: fn(&Totals) -> f64| all.iter().map(what).collect::<Vec<_>>();
        let disk_note = "every result is stored and a file's header is read; the paper's storage system had other \
                         headers, index pages and tuples of results";
        let mut rows = vec![
            row(format!("query {kind}: CPU (s)"), paper.cpu_ms as f64 / 1e3, &of(|t| t.cpu_s), 0.05, ""),
            row(
                format!("query {kind}: disk operations"),
                f64::from(paper.disk_operations),
                &of(|t| t.disk_operations_at_least as f64),
                0.1,
                disk_note,
            ),
            row(
                format!("query {kind}: hot set (pages)"),
                f64::from(paper.hot_set_pages),
                &of(|t| f64::from(t.hot_set_pages)),
                0.0,
                "",
            ),
        ];
        rows.iter_mut().for_each(|row| row.seeds = VARIANTS);
        rows
    };
    QueryKind::ALL.into_iter().flat_map(of_kind).collect()
}

fn throughput(points: &[Point], policy: Policy, mix: Mix, sharing: Sharing, concurrent: u32) -> f64 {
    point(points, policy, mix, sharing, concurrent).map_or(f64::NAN, |p| p.throughput_per_s)
}

fn alone(points: &[Point], policy: AllocationName, mix: Mix, concurrent: u32) -> f64 {
    throughput(points, Policy::of_the_paper(policy), mix, Sharing::None, concurrent)
}

/// How far DBMIN is above another policy without sharing, for each number of queries where memory is short.
fn lead(points: &[Point], mix: Mix, other: AllocationName) -> Vec<f64> {
    let many = CONCURRENT.into_iter().filter(|n| *n >= MANY);
    many.map(|n| alone(points, Dbmin, mix, n) / alone(points, other, mix, n) - 1.0).collect()
}

fn thrashing(points: &[Point], mix: Mix, policy: AllocationName) -> Row {
    let best = CONCURRENT.into_iter().map(|n| alone(points, policy, mix, n)).fold(0.0, f64::max);
    let left = alone(points, policy, mix, 32) / best;
    let disk = point(points, Policy::of_the_paper(policy), mix, Sharing::None, 32)
        .map_or_else(String::new, |p| format!("{:.0} reads per query at 32 queries", p.reads_per_query));
    row(format!("{policy} thrashes: at 32 queries of its best, {mix}"), 0.25, &[left], 1.0, &disk)
}

/// The lowest over the highest throughput at 32 queries when all data are shared: policies converge for M1 and M2,
/// not for M3. The paper gives no number; "diverge" is taken as below three quarters.
fn convergence(points: &[Point], mix: Mix) -> Row {
    let own = Grid::paper().policies.into_iter();
    let all: Vec<f64> = own.map(|policy| throughput(points, policy, mix, Sharing::Full, 32)).collect();
    let (low, high) = all.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
    let (what, paper, tolerance) = match mix {
        Mix::M3 => ("diverge", 0.375, 1.0),
        Mix::M1 | Mix::M2 => ("converge", 1.0, 0.25),
    };
    let random = throughput(points, Policy::of_the_paper(Random), mix, Sharing::Full, 32);
    let note = format!("at 32 queries from {low:.3} to {high:.3} per second, random {random:.3}");
    row(
        format!("policies {what} under full sharing, lowest of highest, {mix}"),
        paper,
        &[low / high],
        tolerance,
        &note,
    )
}

fn load_control(points: &[Point], mix: Mix, gaps: &str) -> Vec<Row> {
    let many = || FEWER.into_iter().filter(|n| *n >= MANY);
    let under = |allocation, n| {
        let policy = Policy { allocation, load_control: LoadControlName::FEEDBACK };
        throughput(points, policy, mix, Sharing::None, n)
    };
    let above = SIMPLE.into_iter().filter(|simple| {
        let mean = |of: &dyn Fn(u32) -> f64| many().map(of).sum::<f64>();
        mean(&|n| under(*simple, n)) > mean(&|n| alone(points, WorkingSet, mix, n))
    });
    let close: Vec<f64> = many().map(|n| under(Clock, n) / alone(points, HotSet, mix, n)).collect();
    vec![
        row(
            format!("simple policies above working-set under feedback, {mix}"),
            3.0,
            &[above.count() as f64],
            0.0,
            gaps,
        ),
        row(format!("clock under feedback, of hot-set, {mix}"), 1.0, &close, 0.1, ""),
    ]
}

/// How many of the references to pages used before come later than the longer window of the working set: what it
/// has dropped by then.
fn gaps(traces: &Traces) -> String {
    let share = |kind: QueryKind| {
        let own = traces.0.iter().filter(|((k, _), _)| *k == kind);
        let (again, late) = own.map(|(_, trace)| late(trace)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        format!("{kind} {:.0}% ({late})", 100.0 * late as f64 / (again as f64).max(1.0))
    };
    let shares: Vec<String> = QueryKind::ALL.into_iter().map(share).collect();
    format!(
        "references that come back to a page more than {} ms of processor time after its last use, of all that \
         come back (number in {VARIANTS} traces): {}",
        WINDOWS[1].as_nanos() / 1_000_000,
        shares.join(", ")
    )
}

/// References to pages used before, and those of them that come later than the window.
fn late(trace: &QueryTrace) -> (u64, u64) {
    let (mut files, mut used) = (BTreeMap::new(), BTreeMap::new());
    let (mut again, mut late) = (0, 0);
    for record in &trace.records {
        match record.op {
            PageOp::Open { instance, file, .. } => drop(files.insert(instance, file)),
            PageOp::Close { .. } => {}
            PageOp::Read { instance, page } | PageOp::Write { instance, page } => {
                if let Some(before) = used.insert((files.get(&instance).copied(), page), record.cpu_ns) {
                    again += 1;
                    late += u64::from(record.cpu_ns - before > WINDOWS[1].as_nanos());
                }
            }
        }
    }
    (again, late)
}
