//! `coscan device probe`: measures, prints the findings, and writes them to a file.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use coscan_device::probe::{ProbeOptions, Profile, Search, probe};
use tokio::runtime::Builder;
use url::Url;

use super::budget::Budget;
use super::file::FileTarget;
use super::object::ObjectTarget;
use super::shown;
use crate::failure::wrong_usage;
use crate::progress;
use crate::settings::Bytes;

/// Arguments of `coscan device probe`.
#[derive(Args, Debug)]
pub struct ProbeArgs {
    /// A file, a block device, or the address of an object; only read, unless --writes is given
    #[arg(value_name = "PATH-OR-URL")]
    target: String,

    /// Print the profile as JSON
    #[arg(long)]
    json: bool,

    /// Write the profile as TOML
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Stop after this many seconds; findings up to then are reported
    #[arg(long, value_name = "S", default_value_t = 120)]
    time_limit: u64,

    /// Stop after reading this many bytes
    #[arg(long, value_name = "BYTES", default_value = "16GiB")]
    byte_limit: Bytes,

    /// Share of time for reads, so that other programs can read: 0.1 leaves nine tenths to them
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    share: f64,

    /// Reads per size
    #[arg(long, value_name = "N", default_value_t = 60)]
    samples: usize,

    /// The largest read
    #[arg(long, value_name = "BYTES", default_value = "4MiB")]
    size_max: Bytes,

    /// Maximum number of reads in flight to try
    #[arg(long, value_name = "N", default_value_t = 64)]
    depth_max: usize,

    /// Longest distance between boundaries to look for
    #[arg(long, value_name = "BYTES", default_value = "2MiB")]
    period_max: Bytes,

    /// Also measure reads beside writes: bytes that were read are written back to the same place. Only for a file or
    /// device that no other program writes to
    #[arg(long)]
    writes: bool,

    /// Seed of random addresses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Measures and reports.
pub fn run(args: &ProbeArgs) -> anyhow::Result<()> {
    if !(args.share > 0.0 && args.share <= 1.0) {
        return Err(wrong_usage("--share is above 0 and at most 1: 0.1 reads a tenth of the time"));
    }
    if args.samples < 10 || args.depth_max == 0 {
        return Err(wrong_usage("a measurement takes at least 10 --samples and a --depth-max of 1"));
    }
    let options = ProbeOptions {
        seed: args.seed,
        samples: args.samples,
        bytes_max: args.size_max.0,
        depth_max: args.depth_max,
        search: Search { period_max_bytes: args.period_max.0, ..Search::default() },
        writes: args.writes,
    };
    let unwritable = |path: &Path| format!("cannot write the profile to {}", path.display());
    if let Some(path) = &args.out {
        writable(path).with_context(|| unwritable(path))?;
    }
    let stopped = stop_at_interrupt()?;
    let time_limit = Duration::from_secs(args.time_limit.min(TIME_LIMIT_MAX_S));
    let budget = Budget::new(time_limit, args.byte_limit.0, args.share, stopped);
    let profile = measure(args, &options, budget)?;
    if let Some(path) = &args.out {
        fs::write(path, profile.to_toml()?).with_context(|| unwritable(path))?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{:#}", serde_json::to_value(&profile)?)?;
    } else {
        writeln!(out, "{}", shown::findings(&profile))?;
    }
    Ok(())
}

/// Multiple of the target's size. If more bytes were read, the same places were read repeatedly, and a cache below
/// may have answered.
const REREAD: u64 = 4;
/// Maximum time limit: a year.
const TIME_LIMIT_MAX_S: u64 = 365 * 24 * 3600;

/// Fails before the measurement if the profile cannot be written. Leaves no new file behind.
fn writable(path: &Path) -> io::Result<()> {
    let new = !path.exists();
    OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
    if new { fs::remove_file(path) } else { Ok(()) }
}

/// A flag that the first Ctrl-C sets: earlier findings are reported. The second Ctrl-C ends the program.
fn stop_at_interrupt() -> anyhow::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = stopped.clone();
    let runtime = Builder::new_current_thread().enable_all().build().context("cannot wait for signals")?;
    thread::spawn(move || {
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.store(true, Ordering::Relaxed);
            }
            if tokio::signal::ctrl_c().await.is_ok() {
                process::exit(INTERRUPTED);
            }
        });
    });
    Ok(stopped)
}

/// The exit code that shells use for a program ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

fn measure(args: &ProbeArgs, options: &ProbeOptions, budget: Budget) -> anyhow::Result<Profile> {
    let bar = progress::spinner();
    let mut step = |what: &str| bar.set_message(what.to_owned());
    let address = Url::parse(&args.target).ok().filter(|url| url.has_host());
    let (mut profile, bytes_read) = match address {
        Some(_) if args.writes => return Err(wrong_usage("objects are only read: leave out --writes")),
        Some(url) => {
            let mut target = ObjectTarget::open(&url, budget)?;
            let mut profile = probe(&mut target, options, &mut step).with_context(|| args.target.clone())?;
            let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
            let host = url.host_str().unwrap_or_default();
            profile.device_ids = vec![format!("{}://{host}{port}", url.scheme())];
            (profile, target.bytes_read())
        }
        None => {
            let mut target = FileTarget::open(Path::new(&args.target), budget, args.writes)?;
            if !target.direct {
                tracing::error!(
                    "no direct reads on this file system: what is measured may be the page cache"
                );
            }
            let mut profile = probe(&mut target, options, &mut step).with_context(|| args.target.clone())?;
            profile.declared = target.declared();
            profile.device_ids.extend(target.device_id());
            profile.declared.insert("direct_reads".to_owned(), target.direct.to_string());
            (profile, target.bytes_read())
        }
    };
    bar.finish_and_clear();
    if bytes_read > REREAD * profile.bytes {
        tracing::warn!(
            bytes_read,
            bytes = profile.bytes,
            "the same places were read again and again, so that a cache below may have answered: a larger file tells more"
        );
    }
    profile.device.clone_from(&args.target);
    tracing::info!(bytes_read, complete = profile.complete, "measured");
    Ok(profile)
}
