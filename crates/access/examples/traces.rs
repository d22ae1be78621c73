//! Runs the six queries of Chou & DeWitt 1985 and prints the needs of each beside the paper's Table 2. Saves
//! their traces if a file is named: `cargo run --release -p coscan-access --example traces [file]`.

use std::path::Path;

use coscan_access::{Database, Query, Settings, totals};

/// CPU seconds, disk operations, hot set size.
const TABLE_2: [(f64, u32, u32); 6] =
    [(0.53, 17, 3), (0.67, 99, 3), (2.95, 53, 5), (3.09, 120, 5), (3.47, 55, 17), (3.50, 138, 24)];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Database::generate(1)?;
    let mut traces = Vec::new();
    println!(
        "query   cpu s (paper)   disk operations (paper): kept, sets only   hot set (paper)   locality sets"
    );
    for (query, (cpu_s, disk, hot_set)) in Query::ALL.into_iter().zip(TABLE_2) {
        let settings = Settings::default();
        let trace = query.run(&database, &settings)?.trace;
        let found = totals(&trace);
        println!(
            "{:<7} {:.2} ({cpu_s:.2}) {:>20} ({disk}) {:>22} {:>15} ({hot_set}) {:>14}",
            query.to_string(),
            found.cpu_s,
            found.disk_operations_at_least,
            found.disk_operations,
            found.hot_set_pages,
            query.plan(&database).locality_pages(&settings.model),
        );
        traces.push(trace);
    }
    if let Some(path) = std::env::args().nth(1) {
        coscan_trace::pages::save(Path::new(&path), &traces)?;
    }
    Ok(())
}
