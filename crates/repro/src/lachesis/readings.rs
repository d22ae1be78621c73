//! Results under other readings of open points of the paper, for the rows that do not agree: evidence for
//! `docs/records/devices.md`.
//!
//! Readings are not adopted by their results: one that comes nearer to the paper is not better founded for
//! that.

use coscan_device::hard_disk::Schedule;

use super::volume::{JUDGED, Reading};
use super::{array, prototype, queries};

/// One seed is enough to see a difference.
const ONE: Reading = Reading { seeds: &[1], ..JUDGED };

const READINGS: [(&str, Reading); 8] = [
    ("as judged", ONE),
    ("one request outstanding", Reading { outstanding: 1, ..ONE }),
    ("in order of arrival", Reading { schedule: Some(Schedule::Fcfs), ..ONE }),
    ("by positioning time", Reading { schedule: Some(Schedule::Sptf), ..ONE }),
    ("by block, ascending", Reading { schedule: Some(Schedule::CLook), ..ONE }),
    ("one command at the disk", Reading { queue_depth: 1, ..ONE }),
    ("disks that read nothing ahead", Reading { reads_ahead: false, ..ONE }),
    ("all tables of a query in turns", Reading { all_in_turns: true, ..ONE }),
];

/// Prints a row for each; takes minutes. `COSCAN_READING` selects one by its prefix.
#[test]
#[ignore = "minutes: prints what docs/records/devices.md shows"]
fn what_other_readings_give() {
    let only = std::env::var("COSCAN_READING").unwrap_or_default();
    for (name, reading) in READINGS.iter().filter(|(name, _)| name.starts_with(&only)) {
        let rows = [
            queries::measure(2, reading).rows(),
            array::measure(2, reading).rows(),
            prototype::measure(2, reading).rows(),
        ];
        let values: Vec<String> = rows
            .iter()
            .flatten()
            .filter(|row| !matches!(row.quantity.as_str(), "prototype.lookup_share" | "db2.tpcc_time_ratio"))
            .map(|row| format!("{} {:.2} ({})", row.quantity, row.measured, row.paper))
            .collect();
        println!("{name}: {}", values.join(", "));
        // A client that starves gives no number.
        let starved = |quantity: &str| quantity == "prototype.client_speedup.heavy";
        let finite = |row: &crate::report::Row| row.measured.is_finite() || starved(&row.quantity);
        assert!(rows.iter().flatten().all(finite), "{name}");
    }
}
