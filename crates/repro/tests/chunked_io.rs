//! Chunked I/O (2004, §3.2 and §4.2) as `coscan repro` runs it: its part of the report, and its agreement
//! with the paper and with itself.

use std::sync::OnceLock;

use coscan_repro::report::{Block, Report, Row};
use coscan_repro::{baseline, names, reproduce};

const NAME: &str = "scan04-chunked-io";

fn report() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| reproduce(Some(NAME), 1, |_| {}).unwrap())
}

#[track_caller]
fn row(quantity: &str) -> &'static Row {
    let found = report().scoreboard.rows.iter().find(|row| row.quantity == quantity);
    found.unwrap_or_else(|| panic!("no row '{quantity}'"))
}

#[test]
fn only_this_experiment_runs() {
    let report = report();
    assert!(names().contains(&NAME));
    assert!(report.scoreboard.rows.iter().all(|row| row.experiment == NAME));
    assert_eq!(report.sections.len(), 1);
    let figures = report.sections[0].blocks.iter().filter(|block| matches!(block, Block::Figure { .. }));
    assert_eq!(figures.count(), 3);
}

#[test]
fn every_quantity_is_within_its_tolerance() {
    let rows = &report().scoreboard.rows;
    // Two for each of three devices, three for each level and direction, four for the index.
    assert_eq!(rows.len(), 6 + 18 + 4);
    let outside: Vec<&Row> = rows.iter().filter(|row| !row.within).collect();
    assert!(outside.is_empty(), "{outside:#?}");
    assert!(rows.iter().all(|row| row.spread.0 <= row.measured && row.measured <= row.spread.1), "{rows:#?}");
}

/// The check of `coscan repro --check`, for the one experiment that is quick enough for every test run.
#[test]
fn its_rows_are_as_they_were_committed() {
    let departures = baseline::departures(&baseline::committed(), &report().scoreboard);
    assert!(
        departures.is_empty(),
        "{}",
        departures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    );
}

/// A chunk of n bytes costs t0 + n / B: 90% of the bandwidth at n = 9 t0 B. Desktop disk: 12.667 ms and 35.5
/// MB/s, so 3.86 MiB; the array divides a chunk by 7. Between sizes a factor of two apart the curve is read
/// off with a small error.
#[test]
fn chunk_sizes_follow_from_access_time_and_bandwidth() {
    let size = |device: &str| row(&format!("{device}: chunk size with 90% of streaming bandwidth (MiB)"));
    let between = |device: &str| -> f64 {
        let note = size(device).note.strip_prefix("between the sizes measured: ").unwrap();
        note.split(';').next().unwrap().parse().unwrap()
    };
    let desktop = 9.0 * 12.667e-3 * 35.5e6 / f64::from(1 << 20);
    let server = 9.0 * 7.7e-3 * 53e6 / f64::from(1 << 20);
    assert!((between("desktop disk") / desktop - 1.0).abs() < 0.04, "{}", between("desktop disk"));
    assert!((between("server disk") / server - 1.0).abs() < 0.04, "{}", between("server disk"));
    assert!((between("RAID-5 of 8") / (7.0 * desktop) - 1.0).abs() < 0.05, "{}", between("RAID-5 of 8"));
    assert_eq!(size("desktop disk").measured, 4.0);
}

/// A page a step forward on a desktop disk costs 5.367 ms + 0.231 ms, a chunk at its best 236.3 ms. That is 42.2 pages,
/// which contain 0.0258% of the tuples. The array streams seven times as fast and fetches pages equally fast.
#[test]
fn the_array_breaks_even_at_a_seventh_of_a_disks_pages() {
    let pages = row("RAID-5 of 8, one page at a time: pages at break-even").measured;
    assert!((pages / (42.2 / 7.0) - 1.0).abs() < 0.05, "{pages}");
    let share =
        |fetch: &str| row(&format!("RAID-5 of 8, {fetch}: share of tuples at break-even (%)")).measured;
    let (single, listed) = (share("one page at a time"), share("all pages of a chunk at once"));
    // At best eight times as many, if the pages of a chunk were spread evenly over the disks.
    assert!(2.0 * single < listed && listed < 8.0 * single, "{single} {listed}");
}
