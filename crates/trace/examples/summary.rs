//! Reads and deliveries of an engine, from its trace:
//! `cargo run --release -p coscan-trace --example summary -- run.jsonl`
//!
//! `coscan sql --record run.jsonl` makes such a trace.

use std::error::Error;
use std::path::Path;

use coscan_trace::{Record, read};

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: summary FILE")?;
    let (header, lines) = read(Path::new(&file))?;
    let (mut scans, mut loads, mut bytes_read, mut deliveries) = (0, 0, 0, 0);
    for line in &lines {
        match &line.record {
            Record::ScanRegistered { .. } => scans += 1,
            Record::Deliver { .. } => deliveries += 1,
            Record::Load { bytes, .. } => {
                loads += 1;
                bytes_read += bytes;
            }
            _ => {}
        }
    }
    println!("policy {}, buffer of {} bytes", header.policy, header.buffer_bytes);
    println!("{scans} scans, {loads} loads of {bytes_read} bytes, {deliveries} chunks delivered");
    Ok(())
}
