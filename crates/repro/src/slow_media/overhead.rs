//! 1996, section 4.3: the cost of scheduling by the wall clock, over users and fragments. The time is that of
//! whole simulated runs, including executors, so it is an upper bound of the scheduler's.

use std::time::Instant as Clock;

use coscan_figure::axis::Axis;
use coscan_figure::line::{Draw, LineChart, LinePanel, Point, Series};
use coscan_media::Library;
use coscan_sim::media::{MediaQuery, MediaStart, MediaUser};
use coscan_sim::scenario::Basis;
use fastrand::Rng;

use super::relation::{Catalog, MB, Shelf};
use super::scans::{SCAN_PICOS, play};
use super::{Part, Scheme, row};
use crate::error::ReproError;
use crate::report::Block;

/// Runs per point. The fastest counts, because other work on the machine only adds time.
const RUNS: usize = 5;
const FRAGMENT_BYTES: u64 = 85 * MB;

/// The reason why the rows do not count.
const HOST: &str = "the time of a present-day processor against the paper's of 1996: it cannot fail";

/// Seconds per subquery, and as a share of the run's virtual time.
fn cost(users: usize, fragments: u64) -> Result<(f64, f64), ReproError> {
    let mut best = (f64::INFINITY, f64::INFINITY);
    for _ in 0..RUNS {
        let mut rng = Rng::with_seed(1);
        let mut shelf = Shelf::new(10, 10 * 1024 * MB);
        let relation = shelf.spread(fragments * FRAGMENT_BYTES, 5, &mut rng);
        let mut catalog = Catalog::default();
        let list = catalog.sequential(&relation, Scheme::Reorder, FRAGMENT_BYTES);
        let subqueries = list.len() * users;
        let query = MediaQuery { lists: vec![list], picos_per_byte: SCAN_PICOS };
        let user = MediaUser { start: MediaStart::default(), queries: vec![query] };
        let began = Clock::now();
        let outcome = play(Scheme::Reorder, &Library::tape_stacker_1996(), catalog, vec![user; users])?;
        let took = began.elapsed().as_secs_f64();
        best = (best.0.min(took / subqueries as f64), best.1.min(took / outcome.total_s));
    }
    Ok(best)
}

pub(crate) fn find() -> Result<Part, ReproError> {
    let users: Vec<(f64, f64)> = (1..=9).map(|users| cost(users, 100)).collect::<Result<_, _>>()?;
    let counts = [10u64, 25, 50, 75, 100];
    let fragments: Vec<(f64, f64)> = counts.iter().map(|n| cost(5, *n)).collect::<Result<_, _>>()?;
    let share = users.iter().chain(&fragments).map(|(_, share)| *share).fold(0.0, f64::max);
    let slowest = users.iter().chain(&fragments).map(|(time, _)| *time).fold(0.0, f64::max);
    let rows = vec![
        row("overhead: share of execution time (under 1 %)".into(), 0.005, &[share], 1.0, Basis::Input, HOST),
        row("overhead: ms per subquery (under 30)".into(), 15.0, &[slowest * 1e3], 1.0, Basis::Input, HOST),
        row(
            "overhead: cost of a subquery with 9 users over that with 1 (at most linear: under 9)".into(),
            4.5,
            &[users[8].0 / users[0].0],
            1.0,
            Basis::Input,
            HOST,
        ),
        row(
            "overhead: cost of a subquery with 100 fragments over that with 10 (at most linear: under 10)"
                .into(),
            5.0,
            &[fragments[4].0 / fragments[0].0],
            1.0,
            Basis::Input,
            HOST,
        ),
    ];
    let point = |x: f64, time: f64| Point { x, y: time * 1e6, spread: (time * 1e6, time * 1e6) };
    let series = |points| Series { name: "reorder".to_owned(), points, draw: Draw::Marked, look: None };
    let panel = |x: &str, points| LinePanel {
        title: String::new(),
        x: Axis::linear(x),
        y: Axis::linear("µs per subquery"),
        series: vec![series(points)],
    };
    let by_users = users.iter().enumerate().map(|(at, (time, _))| point(at as f64 + 1.0, *time)).collect();
    let by_fragments = counts.iter().zip(&fragments).map(|(n, (time, _))| point(*n as f64, *time)).collect();
    let chart = LineChart {
        title: "What scheduling costs".to_owned(),
        description: "Microseconds for each subquery over users and over fragments.".to_owned(),
        panels: vec![panel("users, 100 fragments", by_users), panel("fragments, 5 users", by_fragments)],
        columns: 2,
    };
    let caption =
        "Overhead, 1996 Fig. 8; fastest of five runs, executors and drives of the simulation included"
            .to_owned();
    Ok(Part { rows, blocks: vec![Block::Figure { caption, svg: chart.svg()? }] })
}
