//! The best window for the working set of a query, from its trace string alone.
//!
//! Source: Chou & DeWitt 1985, section 4.2. There are two windows for all queries, "determined from an
//! analysis of working set functions on the single-query trace strings", and each query gets the more
//! advantageous one. The paper does not say how advantage is measured; **choice:** by the space-time product
//! (Denning), with the mean time of a disk access for each fault.

use std::collections::BTreeMap;

use coscan_core::Span;

use super::disk::ACCESS_MS_MEAN;
use super::program::{Op, Program};

/// The two windows of the paper, in processor time.
pub const OF_THE_PAPER: [Span; 2] = [Span::from_millis(10), Span::from_millis(15)];

/// The candidate windows, in milliseconds: each a quarter to a half longer than the previous one.
const CANDIDATES_MS: [u64; 16] = [2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 70, 100, 150, 200, 300];

/// The window that costs a query less; the first if there is no difference.
pub(super) fn better(program: &Program, windows: [Span; 2]) -> Span {
    let [first, second] = windows;
    if space_time(program, second) < space_time(program, first) { second } else { first }
}

/// The two windows with the least total cost of the programs, each with the better one.
pub fn best_two(programs: &[&Program]) -> [Span; 2] {
    let windows = CANDIDATES_MS.map(Span::from_millis);
    let costs = windows.map(|window| programs.iter().map(|p| space_time(p, window)).collect::<Vec<_>>());
    let together = |a: usize, b: usize| costs[a].iter().zip(&costs[b]).map(|(a, b)| a.min(*b)).sum::<f64>();
    let pairs = (0..windows.len()).flat_map(|a| (a..windows.len()).map(move |b| (a, b)));
    let best = pairs.min_by(|(a, b), (c, d)| together(*a, *b).total_cmp(&together(*c, *d)));
    best.map_or(OF_THE_PAPER, |(a, b)| [windows[a], windows[b]])
}

/// The cost of the working set with a window, alone: frames held, over processor time and over the time of
/// the faults, in frame-milliseconds.
fn space_time(program: &Program, window: Span) -> f64 {
    let mut files = BTreeMap::new();
    let mut last_use: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let (mut cost, mut before) = (0.0, 0);
    for (cpu, op) in &program.ops {
        let now = cpu.as_nanos();
        match op {
            Op::Open { instance, file, .. } => drop(files.insert(*instance, *file)),
            Op::Close { .. } => {}
            Op::Page { instance, page, .. } => {
                last_use.retain(|_, used| now - *used <= window.as_nanos());
                let key = (files.get(instance).copied().unwrap_or_default(), *page);
                let fault = last_use.insert(key, now).is_none();
                let waited_ms = if fault { ACCESS_MS_MEAN } else { 0.0 };
                cost += last_use.len() as f64 * ((now - before) as f64 / 1e6 + waited_ms);
                before = now;
            }
        }
    }
    cost
}

#[cfg(test)]
mod tests {
    use coscan_pool::Access;

    use super::*;

    /// A loop over three pages, a reference every 4 ms.
    fn looping() -> Program {
        let page = |at: u64| {
            let op = Op::Page { instance: 0, page: (at % 3) as u32, access: Access::Read };
            (Span::from_millis(4 * at), op)
        };
        let cpu = Span::from_millis(400);
        let ops = (0..100).map(page).collect();
        Program { files: vec![None], ops, cpu, instances: 1, hot_set_pages: 3, window: Span::ZERO }
    }

    #[test]
    fn a_window_as_long_as_the_loop_costs_less_than_shorter_ones() {
        let program = looping();
        // With 12 ms: three faults while the set grows to three pages, then 97 references at 4 ms and 3 pages
        // each.
        let expected = 27.6 + 2.0 * (4.0 + 27.6) + 3.0 * (4.0 + 27.6) + 97.0 * 12.0;
        assert!((space_time(&program, Span::from_millis(12)) - expected).abs() < 1e-6);
        // With 5 ms each reference is a fault, and the set is its page and the previous one.
        let expected = 27.6 + 99.0 * 2.0 * (4.0 + 27.6);
        assert!((space_time(&program, Span::from_millis(5)) - expected).abs() < 1e-6);
        assert_eq!(better(&program, OF_THE_PAPER), OF_THE_PAPER[1]);
        assert!(best_two(&[&program]).contains(&Span::from_millis(15)));
    }
}
