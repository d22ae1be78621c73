//! `coscan generate`: test data as Parquet files.
//!
//! `mod.rs` has the arguments, decides which files have to be written and shows the progress. `tpch.rs` has the
//! tables of TPC-H. `parquet_file.rs` writes one file from row groups that are encoded in parallel. A file appears
//! under its final name only when it is complete. Its footer says how it was made, so an interrupted run can be
//! continued. Nothing is random: the same arguments give the same rows.

mod parquet_file;
pub mod tpch;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::ProgressBar;

use crate::failure::wrong_usage;
use crate::layout::{Units, WASTE_PERCENT, lay_out};
use crate::progress;
use crate::settings::Bytes;
use parquet_file::{FileJob, write_file};
use tpch::Table;

/// The data to generate.
#[derive(Subcommand, Debug)]
pub enum Generate {
    /// The tables of TPC-H
    Tpch(TpchArgs),
}

/// Arguments of `coscan generate tpch`.
#[derive(Args, Debug)]
pub struct TpchArgs {
    /// Size of the data; 1 is about 8.7 million rows, 1 GB as text
    #[arg(long, short = 's', value_name = "N", default_value_t = 1.0)]
    pub scale_factor: f64,

    /// Directory to write to; created if missing
    #[arg(long, short, value_name = "DIR")]
    pub out: PathBuf,

    /// Tables to write, separated by commas [default: all eight]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tables: Vec<Table>,

    /// Rows in a row group, within a percent
    #[arg(long, value_name = "N", default_value_t = 480_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub row_group_rows: u64,

    /// Number of files per table; more than one go into a folder of the table's name
    #[arg(long, visible_alias = "parts", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub files_per_table: u32,

    /// Compression of the column chunks
    #[arg(long, value_enum, default_value_t = Codec::Snappy)]
    pub compression: Codec,

    /// Lay out column chunks so that they do not cross multiples of this needlessly: the stripe unit of an array,
    /// the part size of an object store; see `coscan layout`
    #[arg(long, value_name = "BYTES")]
    pub unit: Option<Bytes>,

    /// Replace files that were made with other settings
    #[arg(long)]
    pub force: bool,

    /// Threads that generate and encode [default: one per core]
    #[arg(long, env = "COSCAN_THREADS", value_name = "N")]
    pub threads: Option<usize>,
}

/// Compression of column chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Codec {
    Snappy,
    Zstd,
    None,
}

/// Generates the data for `command`.
pub fn run(command: &Generate) -> anyhow::Result<()> {
    match command {
        Generate::Tpch(args) => tpch(args),
    }
}

/// Writes one table of TPC-H into one file in `folder`, unless the file exists. Other settings have their defaults.
pub fn one_table(
    table: Table,
    scale_factor: f64,
    folder: &Path,
    row_group_rows: u64,
    threads: usize,
) -> anyhow::Result<()> {
    tpch(&TpchArgs {
        scale_factor,
        out: folder.to_owned(),
        tables: vec![table],
        row_group_rows,
        files_per_table: 1,
        compression: Codec::Snappy,
        unit: None,
        force: false,
        threads: Some(threads),
    })
}

/// Writes the tables of TPC-H that are missing.
fn tpch(args: &TpchArgs) -> anyhow::Result<()> {
    if !(args.scale_factor > 0.0 && args.scale_factor <= 100_000.0) {
        return Err(wrong_usage(format!(
            "--scale-factor {} is out of range: give a number above 0, up to 100000",
            args.scale_factor
        )));
    }
    if args.unit.is_some_and(|unit| unit.0 == 0) {
        return Err(wrong_usage("--unit is at least 1 byte"));
    }
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create the directory {}", args.out.display()))?;
    let mut jobs = Vec::new();
    for table in selected(&args.tables) {
        for job in jobs_of(table, args) {
            if !is_done(&job, args.force)? {
                jobs.push(job);
            }
        }
    }
    check_space(&args.out, &jobs)?;
    let rows = jobs.iter().map(FileJob::rows).sum();
    let bar = progress::counter(rows, "rows");
    let threads = args.threads.filter(|&n| n > 0).unwrap_or_else(crate::settings::cores);
    for job in &jobs {
        bar.set_message(job.label());
        write(job, threads, &bar)?;
    }
    bar.finish_and_clear();
    tracing::info!(files = jobs.len(), rows, out = %args.out.display(), "generated");
    Ok(())
}

fn selected(tables: &[Table]) -> Vec<Table> {
    let mut wanted = if tables.is_empty() { Table::ALL.to_vec() } else { tables.to_vec() };
    wanted.sort();
    wanted.dedup();
    wanted
}

fn jobs_of(table: Table, args: &TpchArgs) -> Vec<FileJob> {
    // Tables of fixed size cannot be split, and empty files are useless.
    let files =
        args.files_per_table.min(table.units(args.scale_factor).min(u64::from(u32::MAX)) as u32).max(1);
    (0..files)
        .map(|file| FileJob {
            table,
            scale_factor: args.scale_factor,
            file,
            files,
            row_group_rows: args.row_group_rows,
            codec: args.compression,
            unit: args.unit.map(|unit| unit.0),
            path: path_of(&args.out, table, file, files),
        })
        .collect()
}

fn path_of(out: &Path, table: Table, file: u32, files: u32) -> PathBuf {
    if files == 1 {
        out.join(format!("{table}.parquet"))
    } else {
        out.join(table.to_string()).join(format!("{table}.{}.parquet", file + 1))
    }
}

/// Returns true if the job's file exists with the job's settings. Another file of that name is an error, unless
/// `force` allows to replace it.
fn is_done(job: &FileJob, force: bool) -> anyhow::Result<bool> {
    if !job.path.try_exists().with_context(|| format!("cannot look at {}", job.path.display()))? {
        return Ok(false);
    }
    let found = parquet_file::recipe_in(&job.path);
    if found.as_deref() == Some(job.recipe().as_str()) {
        return Ok(true);
    }
    if force {
        return Ok(false);
    }
    let made = found.map_or_else(|| "not by this command".to_owned(), |recipe| format!("with {recipe}"));
    bail!(
        "{} exists but was made {made}; add --force to replace it, or choose another --out",
        job.path.display()
    )
}

fn write(job: &FileJob, threads: usize, bar: &ProgressBar) -> anyhow::Result<()> {
    if let Some(folder) = job.path.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create the directory {}", folder.display()))?;
    }
    let failed = || format!("cannot write {}", job.path.display());
    let Some(unit) = job.unit else { return write_file(job, threads, bar).with_context(failed) };
    let name = job.path.file_name().context("no file name")?.to_string_lossy();
    let plain = FileJob { path: job.path.with_file_name(format!(".{name}.plain")), ..*job };
    let written = write_file(&plain, threads, bar).and_then(|()| {
        lay_out(&plain.path, &job.path, &Units { unit, offset: 0, waste_percent: WASTE_PERCENT })
    });
    let removed = fs::remove_file(&plain.path);
    written.with_context(failed)?;
    removed.with_context(|| format!("cannot remove {}", plain.path.display()))
}

/// Fails if the disk is too small, before anything is written.
fn check_space(out: &Path, jobs: &[FileJob]) -> anyhow::Result<()> {
    let needed: u64 = jobs.iter().map(FileJob::bytes_estimated).sum();
    let disk = rustix::fs::statvfs(out).with_context(|| format!("cannot look at {}", out.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if needed > free {
        bail!(
            "{} has {} free, the data needs about {}; free some space or choose another --out",
            out.display(),
            bytesize::ByteSize(free),
            bytesize::ByteSize(needed)
        );
    }
    Ok(())
}
