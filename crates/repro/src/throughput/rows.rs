//! Comparison with Chou & DeWitt 1985: Table 2, and the statements of section 4.3 about the figures.
//!
//! The paper gives ranges ("7 to 13 %") or an order. A range becomes its middle with a tolerance, an upper
//! limit becomes half of it, and a statement that holds is 1. Words such as "thrashes" or "slightly" have a
//! number that is ours. Each row states its basis, and values that a choice was fitted to do not count.
//! Differences are relative to the better one (footnote 11). If a row is outside the tolerance, its note
//! gives measurements that may explain it.

use std::collections::BTreeMap;

use coscan_access::{Totals, totals};
use coscan_pool::AllocationName::{self, Clock, Dbmin, Fifo, HotSet, Random, WorkingSet};
use coscan_pool::allocation::load_control::LoadControlName;
use coscan_sim::scenario::Basis;
use coscan_trace::pages::{PageOp, QueryTrace};

use super::measured::{CONCURRENT, FEWER, LOCAL, MANY, Measured, NAME, SIMPLE, Traces, UNLIMITED, VARIANTS};
use crate::dbmin::windows::OF_THE_PAPER as WINDOWS;
use crate::dbmin::workload::{Mix, QueryKind, Sharing};
use crate::dbmin::{Point, Policy};
use crate::report::Row;

/// The number of queries at which the simple policies without limit are compared with their best.
const THRASHING: u32 = 16;
/// The maximum number of concurrent queries.
const MOST: u32 = 32;

pub(crate) fn rows(measured: &Measured, traces: &Traces) -> Vec<Row> {
    let mut rows = table_2(traces);
    let gaps = gaps(traces);
    for mix in Mix::ALL {
        rows.extend(leads(measured, mix, &gaps).map(|row| row.on(Basis::Range)));
        rows.extend(SIMPLE.map(|policy| thrashing(measured, mix, policy).on(Basis::Reading)));
    }
    rows.push(clock_is_best(measured).on(Basis::Reading));
    let shared = Mix::ALL.into_iter().flat_map(|mix| convergence(measured, mix));
    let shared = std::iter::once(sharing_helps(measured)).chain(shared);
    rows.extend(shared.map(|row| fitted(row, CHOSEN_FOR_SHARING)));
    let controlled = Mix::ALL.into_iter().flat_map(|mix| load_control(measured, mix, &gaps));
    rows.extend(controlled.map(|row| row.on(Basis::Reading)));
    let all = measured.points.iter().chain(&measured.others).chain(&measured.windowed);
    let widest = all.map(|p| p.half_width / p.throughput_per_s).fold(0.0, f64::max);
    rows.push(row("widest half of a confidence interval, of the mean".into(), 0.0, &[widest], 0.05, ""));
    rows
}

/// A row whose value is the median of the measurements at different loads, with one seed: the spread, which is
/// that over seeds, is the value.
fn row(quantity: String, paper: f64, measured: &[f64], tolerance: f64, note: &str) -> Row {
    let row = over_seeds(quantity, paper, measured, 1, tolerance, note);
    Row { spread: (row.measured, row.measured), ..row }
}

/// A row whose value is the median over seeds; the note is kept if the row is outside the tolerance.
fn over_seeds(quantity: String, paper: f64, measured: &[f64], seeds: u32, tolerance: f64, note: &str) -> Row {
    let mut row = Row::of_median(NAME, quantity, paper, measured, seeds, tolerance);
    if !row.within {
        row.note = note.to_owned();
    }
    row
}

/// The row with a description of the fit, which excludes it from the count.
fn fitted(mut row: Row, how: &str) -> Row {
    let stop = if row.note.is_empty() { "" } else { "; " };
    row.note = format!("fitted: {how}{stop}{}", row.note);
    row.on(Basis::Fitted)
}

/// The reason why the rows under full sharing do not count.
const CHOSEN_FOR_SHARING: &str = "one trace string for each kind of query, and temporary files that copies share, were \
    chosen because with them throughput rises with the degree of sharing, as the paper says";

fn table_2(traces: &Traces) -> Vec<Row> {
    let of_kind = |kind: QueryKind| {
        let own = traces.0.iter().filter(|((k, _), _)| *k == kind);
        let all: Vec<Totals> = own.map(|(_, trace)| totals(trace)).collect();
        let paper = kind.in_the_paper();
        let of = |what: fn(&Totals) -> f64| all.iter().map(what).collect::<Vec<_>>();
        let disk_note = "every result is stored and a file's header is read; the paper's storage system had other \
                         headers, index pages and tuples of results";
        let row = |what: &str, paper, measured: Vec<f64>, tolerance, note| {
            over_seeds(format!("query {kind}: {what}"), paper, &measured, VARIANTS, tolerance, note)
        };
        let [cpu, disk, hot_set] = [
            row("CPU (s)", paper.cpu_ms as f64 / 1e3, of(|t| t.cpu_s), 0.05, ""),
            row(
                "disk operations",
                f64::from(paper.disk_operations),
                of(|t| t.disk_operations_at_least as f64),
                0.1,
                disk_note,
            ),
            row(
                "hot set (pages)",
                f64::from(paper.hot_set_pages),
                of(|t| f64::from(t.hot_set_pages)),
                0.0,
                "",
            ),
        ];
        let processor = "the processor time of an operation was chosen by these six";
        let sizes = "the pages of the hash file and of the inner relation, and the frames counted for other open files, \
                     were chosen so that these six come out";
        [fitted(cpu, processor), disk, fitted(hot_set, sizes)]
    };
    QueryKind::ALL.into_iter().flat_map(of_kind).collect()
}

/// The lead of DBMIN over the other two policies that limit queries by their demand, without sharing and with
/// short memory.
fn leads(measured: &Measured, mix: Mix, gaps: &str) -> [Row; 3] {
    let many = || CONCURRENT.into_iter().filter(|n| *n >= MANY);
    let ahead = |of: &dyn Fn(u32) -> f64| -> Vec<f64> {
        many().map(|n| ahead(measured.alone(Dbmin, mix, n), of(n))).collect()
    };
    let set = |n| measured.alone(WorkingSet, mix, n);
    let windowed = |n| {
        let point = measured.windowed.iter().find(|p| (p.mix, p.concurrent) == (mix, n));
        point.map_or(f64::NAN, |p| p.throughput_per_s)
    };
    let [short, long] = measured.windows.map(|window| window.as_nanos() / 1_000_000);
    let name = |what: &str| format!("dbmin ahead of {what}, {mix}, {MANY} and more queries");
    [
        row(
            name("hot-set"),
            0.10,
            &ahead(&|n| measured.alone(HotSet, mix, n)),
            0.3,
            "each of the two throughputs is known to 5 % only",
        ),
        row(name("working-set"), 0.35, &ahead(&set), 0.286, gaps),
        row(
            name(&format!("working-set with windows best for these traces ({short} and {long} ms)")),
            0.35,
            &ahead(&windowed),
            0.286,
            "the paper chose its windows by the working set functions of its traces; with the windows that cost \
             least on these, the working set keeps the loops that the paper's did not",
        ),
    ]
}

/// The lead of one throughput over another, relative to the better one.
fn ahead(this: f64, other: f64) -> f64 {
    (this - other) / this.max(other)
}

fn thrashing(measured: &Measured, mix: Mix, policy: AllocationName) -> Row {
    let best = UNLIMITED.into_iter().map(|n| measured.alone(policy, mix, n)).fold(0.0, f64::max);
    let left = measured.alone(policy, mix, THRASHING) / best;
    row(format!("{policy} thrashes: at {THRASHING} queries of its best, {mix}"), 0.25, &[left], 1.0, "")
}

/// "Before severe thrashing occurred, CLOCK was generally better than both": the number of cases with few
/// queries in which it is.
fn clock_is_best(measured: &Measured) -> Row {
    let cases = Mix::ALL.into_iter().flat_map(|mix| [1, 2, 4].map(|n| (mix, n)));
    let (best, others): (Vec<_>, Vec<_>) = cases.partition(|(mix, n)| {
        [Random, Fifo].iter().all(|p| measured.alone(Clock, *mix, *n) >= measured.alone(*p, *mix, *n))
    });
    let part = best.len() as f64 / (best.len() + others.len()) as f64;
    let note =
        others.iter().map(|(mix, n)| format!("not at {n} queries of {mix}")).collect::<Vec<_>>().join(", ");
    row(
        "cases of 1 to 4 queries where clock is the best of the simple ones".into(),
        1.0,
        &[part],
        0.15,
        &note,
    )
}

/// "For each of the algorithms, the throughput increases as the degree of data sharing increases."
fn sharing_helps(measured: &Measured) -> Row {
    let policies = SIMPLE.into_iter().chain(LOCAL);
    let cases = policies.flat_map(|policy| Mix::ALL.map(|mix| (policy, mix)));
    let (rising, others): (Vec<_>, Vec<_>) = cases.partition(|(policy, mix)| {
        let of = |sharing| measured.throughput(Policy::of_the_paper(*policy), *mix, sharing, MANY);
        of(Sharing::None) < of(Sharing::Half) && of(Sharing::Half) < of(Sharing::Full)
    });
    let part = rising.len() as f64 / (rising.len() + others.len()) as f64;
    let not = others.iter().map(|(policy, mix)| format!("{policy} {mix}")).collect::<Vec<_>>().join(", ");
    let note =
        format!("not for {not}, where neighbours are within their confidence intervals or both thrash");
    row(
        format!("policies and mixes that gain with each degree of sharing, {MANY} queries"),
        1.0,
        &[part],
        0.1,
        &note,
    )
}

/// The effect of full sharing on the differences at the maximum number of queries. For M1 and M2 policies are
/// close, with RAND and FIFO "slightly" below the others. For M3 they diverge, which is read as a lowest
/// below three quarters.
fn convergence(measured: &Measured, mix: Mix) -> Vec<Row> {
    let of = |policy| measured.throughput(Policy::of_the_paper(policy), mix, Sharing::Full, MOST);
    let lowest_of =
        |policies: &[AllocationName]| policies.iter().map(|p| of(*p)).fold(f64::INFINITY, f64::min);
    let best = SIMPLE.into_iter().chain(LOCAL).map(of).fold(0.0, f64::max);
    let others = lowest_of(&[Clock, WorkingSet, HotSet, Dbmin]) / best;
    let blind = lowest_of(&[Random, Fifo]) / best;
    let under = |what: &str| format!("full sharing, {MOST} queries, {mix}: {what}");
    if mix == Mix::M3 {
        return vec![row(under("policies diverge, lowest of best"), 0.375, &[blind.min(others)], 1.0, "")];
    }
    let note = "they lose the hash files of queries VI, pages that come in once throw out as many pages of loops as \
                others: the paper has no number for it";
    vec![
        row(under("lowest of clock, working-set, hot-set, dbmin, of best"), 1.0, &[others], 0.15, ""),
        row(under("random and fifo slightly below, lower of best"), 0.9, &[blind], 0.111, note),
    ]
}

fn load_control(measured: &Measured, mix: Mix, gaps: &str) -> Vec<Row> {
    let many = || FEWER.into_iter().filter(|n| *n >= MANY);
    let feedback = |allocation| Policy { allocation, load_control: LoadControlName::FEEDBACK };
    let under = |allocation, n| measured.throughput(feedback(allocation), mix, Sharing::None, n);
    let mean = |of: &dyn Fn(u32) -> f64| many().map(of).sum::<f64>();
    let above = SIMPLE
        .into_iter()
        .filter(|simple| mean(&|n| under(*simple, n)) > mean(&|n| measured.alone(WorkingSet, mix, n)));
    let helped = SIMPLE
        .into_iter()
        .filter(|simple| under(*simple, THRASHING) > 1.5 * measured.alone(*simple, mix, THRASHING));
    let close: Vec<f64> = many().map(|n| under(Clock, n) / measured.alone(HotSet, mix, n)).collect();
    let disk = |policy| {
        measured.point(policy, mix, Sharing::None, MOST).map_or(f64::NAN, |p: &Point| p.disk_utilisation)
    };
    let note = format!(
        "at {MOST} queries the disk is busy {:.2} of the time under feedback, {:.2} under hot-set: with the same \
         transfers for a query, that ratio is all it can reach",
        disk(feedback(Clock)),
        disk(Policy::of_the_paper(HotSet))
    );
    vec![
        row(
            format!("simple policies that feedback takes out of thrashing, {mix}"),
            3.0,
            &[helped.count() as f64],
            0.0,
            "",
        ),
        row(
            format!("simple policies above working-set under feedback, {mix}"),
            3.0,
            &[above.count() as f64],
            0.0,
            gaps,
        ),
        row(format!("clock under feedback, of hot-set, {mix}"), 1.0, &close, 0.1, &note),
    ]
}

/// The share of references to pages used before that come later than the longer window of the working set.
/// The working set has dropped these pages by then.
fn gaps(traces: &Traces) -> String {
    let share = |kind: QueryKind| {
        let own = traces.0.iter().filter(|((k, _), _)| *k == kind);
        let (again, late) = own.map(|(_, trace)| late(trace)).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        format!("{kind} {:.0}% ({late})", 100.0 * late as f64 / (again as f64).max(1.0))
    };
    let shares: Vec<String> = QueryKind::ALL.into_iter().map(share).collect();
    format!(
        "query VI refers to the 20 pages of its hash file about 1800 times in 3.2 s of processor time, in no order: \
         {} ms see a third of them, and the rest is read again unless it is still on the free list. The paper's figure \
         leaves room for a quarter of these reads. References that come back to a page after the longer window, of all that come back (number in {VARIANTS} \
         traces): {}",
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
