//! `coscan device`: storage devices, measured and compared.
//!
//! `coscan-device` decides which requests are made, and computes the findings from their times. This module has the
//! targets, files and block devices (`file.rs`) and objects (`object.rs`), and the limits (`budget.rs`). Nothing is
//! written to a target without `--writes`.

mod budget;
mod compare;
mod draw;
mod file;
mod object;
mod probe;
mod shown;

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::Subcommand;
use coscan_device::probe::Profile;

/// The subcommands of `coscan device`.
#[derive(Subcommand, Debug)]
pub enum DeviceCommand {
    /// Measure a file, block device or object: cost of a read, requests in flight, boundaries
    Probe(probe::ProbeArgs),
    /// Show two profiles side by side
    Compare(compare::CompareArgs),
    /// Draw a profile: time against size, throughput against requests in flight
    Draw(draw::DrawArgs),
}

/// Runs one of the subcommands.
pub fn run(command: &DeviceCommand) -> anyhow::Result<()> {
    match command {
        DeviceCommand::Probe(args) => probe::run(args),
        DeviceCommand::Compare(args) => compare::run(args),
        DeviceCommand::Draw(args) => draw::run(args),
    }
}

fn read_profile(path: &Path) -> anyhow::Result<Profile> {
    let shown = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    Profile::from_toml(&text).with_context(|| shown.to_string())
}
