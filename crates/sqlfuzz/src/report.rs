//! A failure as a folder: the Parquet files, and a script that runs unchanged.

use std::fmt::Write;
use std::io;
use std::path::Path;

use crate::case::{Case, Found};
use crate::data::encode;

/// Engine settings that are fixed at its start and given in the environment. Others are in the script.
const AT_START: [&str; 11] = [
    "point_share",
    "point_latency_ms",
    "decoded_share",
    "buffer_start",
    "slice_rows",
    "chunk_size",
    "loads_in_flight",
    "io_threads",
    "direct_io",
    "page_cache",
    "stall_ms",
];

/// Returns the script: comments on the data, then tables, settings and queries as SQL.
pub(crate) fn script(seed: u64, case: &Case, found: &Found) -> String {
    let mut text = format!("-- seed {seed}: {}\n", found.difference.to_string().replace('\n', " "));
    let settings = &case.settings;
    let mut environment = format!("COSCAN_POLICY={} COSCAN_BUFFER={}", settings.policy(0), found.buffer);
    for (name, value) in settings.coscan.iter().filter(|(name, _)| AT_START.contains(name)) {
        let _ = write!(environment, " COSCAN_{}={value}", name.to_uppercase());
    }
    let _ = writeln!(text, "-- run here: {environment} coscan sql --file reproduction.sql");
    let _ = writeln!(text, "-- and without: COSCAN_ENABLED=false coscan sql --file reproduction.sql");
    if found.together {
        text += "-- the queries ran at the same time, on two sessions of one engine\n";
    }
    if let Some(refusals) = settings.refusals {
        let _ = writeln!(
            text,
            "-- operators are refused memory as src/refusals.rs of coscan-sqlfuzz says: {refusals:?}"
        );
    }
    if let Some(odd) = &settings.odd {
        let _ = writeln!(text, "-- tables are planned as src/odd of coscan-sqlfuzz says: {odd:?}");
    }
    if settings.shadowing {
        text += "-- sum, count, avg and abs are user-defined functions, as in src/functions.rs of coscan-sqlfuzz\n";
    }
    if case.tests.iter().any(|test| test.query.to_sql().contains("volatile_")) {
        text += "-- volatile_same and volatile_random are user-defined functions, as in src/functions.rs of coscan-sqlfuzz\n";
    }
    let _ = writeln!(
        text,
        "-- {}",
        if settings.local { "local files" } else { "files in an object store in memory" }
    );
    for table in &case.database.tables {
        let _ = writeln!(text, "-- {}: {:?}", table.name, table.writer);
        for column in &table.columns {
            let _ = writeln!(
                text,
                "--   {} {:?}: {:?}, nulls {:?}, seed {:#x}{}",
                column.name,
                column.kind,
                column.spread,
                column.nulls,
                column.seed,
                if column.nullable { "" } else { ", required" }
            );
        }
        for (at, file) in table.files.iter().enumerate() {
            let stored: Vec<_> = table.columns.iter().zip(&file.stored).collect();
            let other = stored.iter().filter(|(_, stored)| **stored != crate::data::Stored::AsDeclared);
            let other: Vec<String> =
                other.map(|(column, stored)| format!("{} {stored:?}", column.name)).collect();
            let _ = writeln!(
                text,
                "--   {}: rows from {} in groups of {:?} {}",
                table.path(at),
                file.first_row,
                file.row_groups,
                other.join(", ")
            );
        }
    }
    for (name, value) in &settings.datafusion {
        let _ = writeln!(text, "SET datafusion.{name} = '{value}';");
    }
    for (name, value) in settings.coscan.iter().filter(|(name, _)| !AT_START.contains(name)) {
        let _ = writeln!(text, "SET coscan.{name} = '{value}';");
    }
    for table in &case.database.tables {
        let _ = writeln!(text, "{};", table.declaration("", true));
    }
    for (at, test) in case.tests.iter().enumerate() {
        if settings.policies.len() > 1 {
            let _ = writeln!(text, "SET coscan.policy = '{}';", settings.policy(at));
        }
        let statement = test.statement(&format!("p{at}"));
        for sql in statement.prepare.iter().chain([&statement.sql]) {
            let _ = writeln!(text, "{sql};");
        }
    }
    text
}

/// Writes script and files into a folder.
pub(crate) fn write(folder: &Path, script: &str, case: &Case) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("reproduction.sql"), script)?;
    for table in &case.database.tables {
        for (at, file) in table.files.iter().enumerate() {
            let path = folder.join(table.path(at));
            std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
            std::fs::write(path, encode(table, file).map_err(io::Error::other)?)?;
        }
    }
    Ok(())
}
