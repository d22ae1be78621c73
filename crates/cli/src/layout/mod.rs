//! `coscan layout`: moves the column chunks of a Parquet file so that they do not cross the boundaries of a device
//! needlessly.
//!
//! Nothing is decoded: chunks are copied byte by byte with gaps between them, and the footer gets their new
//! positions. Boundaries come from arguments or from a profile. `coscan device probe` measures the cost of crossing
//! them.

mod file;
mod place;

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use coscan_device::probe::Profile;

use crate::failure::wrong_usage;
use crate::settings::Bytes;

pub use file::lay_out;
pub use place::Units;

/// The default limit on gaps between chunks, in percent of the data.
pub const WASTE_PERCENT: u8 = 10;

/// Arguments of `coscan layout`.
#[derive(Args, Debug)]
pub struct LayoutArgs {
    /// The Parquet file to read
    #[arg(value_name = "FROM")]
    from: PathBuf,

    /// The file to write; it appears when it is complete
    #[arg(value_name = "TO")]
    to: PathBuf,

    /// Bytes from one boundary to the next: the stripe unit of an array, the part size of an object store
    #[arg(long, value_name = "BYTES", required_unless_present = "profile", conflicts_with = "profile")]
    unit: Option<Bytes>,

    /// Bytes from the start of the file to the first boundary
    #[arg(long, value_name = "BYTES", default_value = "0", conflicts_with = "profile")]
    offset: Bytes,

    /// Take the boundaries from a profile that `coscan device probe` wrote
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,

    /// Maximum size of gaps between chunks, in percent of the data
    #[arg(long, value_name = "PERCENT", default_value_t = WASTE_PERCENT, value_parser = clap::value_parser!(u8).range(..=100))]
    waste_max: u8,
}

/// Writes the file and prints the changes.
pub fn run(args: &LayoutArgs) -> anyhow::Result<()> {
    let (unit, offset) = match (&args.unit, &args.profile) {
        (Some(unit), _) => (unit.0, args.offset.0),
        (None, Some(path)) => boundaries_in(path)?,
        (None, None) => return Err(wrong_usage("give --unit or --profile")),
    };
    if unit == 0 {
        return Err(wrong_usage("--unit is at least 1 byte"));
    }
    let units = Units { unit, offset, waste_percent: args.waste_max };
    let laid = lay_out(&args.from, &args.to, &units)?;
    println!(
        "{} column chunks, {:.1} MB: {} crossings of boundaries, {} before; {:.1}% room between chunks",
        laid.chunks,
        laid.bytes as f64 / 1e6,
        laid.crossings,
        laid.crossings_before,
        100.0 * laid.room as f64 / laid.bytes.max(1) as f64
    );
    Ok(())
}

fn boundaries_in(path: &Path) -> anyhow::Result<(u64, u64)> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
    let profile = Profile::from_toml(&text).with_context(|| format!("cannot use {shown}"))?;
    let boundary = profile
        .boundary
        .with_context(|| format!("{shown} has no boundary: none was detected, so that any layout will do"))?;
    Ok((boundary.period_bytes, boundary.offset_bytes))
}
