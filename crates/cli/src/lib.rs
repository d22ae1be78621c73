//! The program `coscan`: parses arguments, runs one subcommand, returns an exit code. The binary and the command of the
//! Python package call [`run`].
//!
//! | module | contents |
//! |---|---|
//! | `settings`, `session` | the options that all subcommands share, and the engine opened with them |
//! | `sql` | `coscan sql`: one-shot, from a file, interactive |
//! | `serve`, `user` | `coscan serve`: many clients, one engine; `coscan user`: its users |
//! | `cluster` | the options of a cluster, and `coscan worker` |
//! | `bench` | `coscan bench`: external workloads and the paper's |
//! | `device` | `coscan device`: measurements of storage |
//! | `generate` | `coscan generate`: TPC-H as Parquet |
//! | `layout`, `partial` | `coscan layout`: column chunks on the boundaries of a device; files that appear when complete |
//! | `tier` | `coscan tier`: pending, cached and paid restores |
//! | `policies` | `coscan policies`: the registry |
//! | `cache` | `coscan cache`: page replacement on reference traces |
//! | `sim`, `repro` | `coscan sim`, `coscan repro`: the simulator, the papers' experiments |
//! | `allocator` | the memory allocator |
//! | `processor` | the check of processor instructions |
//! | `failure`, `meant`, `progress`, `signals`, `tables`, `rows`, `counters`, `cpu` | errors, output, signals and measurements |
//!
//! Only `session` uses the interfaces of the query engine and of the scan engine, and only `settings` their
//! settings. `session` and `tier` use those of tiers, and `cluster` those of workers.

mod allocator;
mod bench;
mod cache;
mod cluster;
mod counters;
mod cpu;
mod device;
mod failure;
mod generate;
mod layout;
mod meant;
mod partial;
mod policies;
mod processor;
mod progress;
mod repro;
mod rows;
mod serve;
mod session;
mod settings;
mod signals;
mod sim;
mod sql;
mod tables;
mod tier;
mod user;

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;

/// Many SQL queries over the same Parquet files, one stream of I/O
#[derive(Parser, Debug)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    /// Log more on stderr; twice for everything. COSCAN_LOG takes a filter such as coscan_engine=debug
    #[arg(long, short, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// Form of the log
    #[arg(long, global = true, env = "COSCAN_LOG_FORMAT", value_enum, default_value_t, value_name = "FORM")]
    log_format: LogFormat,

    #[command(subcommand)]
    command: Command,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// A JSON object in each line
    Json,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run SQL over Parquet files and folders, local or in object stores
    Sql(Box<sql::SqlArgs>),
    /// Serve PostgreSQL and Arrow Flight SQL clients, and a page that shows the shared reads
    Serve(Box<serve::ServeArgs>),
    /// Run parts of other machines' statements: a worker of a cluster
    Worker(Box<cluster::WorkerArgs>),
    /// Manage the users of `coscan serve`
    #[command(subcommand)]
    User(user::UserCommand),
    /// Run many queries at once and measure
    Bench(Box<bench::BenchArgs>),
    /// Write test data as Parquet files
    #[command(subcommand)]
    Generate(generate::Generate),
    /// Align the column chunks of a Parquet file to the boundaries of a device
    Layout(layout::LayoutArgs),
    /// Simulate: scenarios, the papers' experiments, recorded traces
    Sim(sim::SimArgs),
    /// Reproduce the papers' experiments and compare with the papers' measurements
    Repro(repro::ReproArgs),
    /// Measure page replacement policies on traces of references
    #[command(subcommand)]
    Cache(cache::CacheCommand),
    /// Measure storage devices and compare them
    #[command(subcommand)]
    Device(device::DeviceCommand),
    /// Show tiers of slow storage, store the footers of their files, drop restored copies
    #[command(subcommand)]
    Tier(tier::TierCommand),
    /// List the policies. `coscan cache` runs page-level replacement, and `coscan repro --only dbmin` allocation
    /// (the engine's point reads use dbmin). Tiers and their scenarios use those of slow media. All other commands
    /// use the other policies
    Policies(policies::PoliciesArgs),
}

pub use allocator::set_up as set_up_allocator;
pub use failure::{error_text, exit, panic_text};

/// Runs the program with these arguments, the first of which is its name, and returns its exit status. Wrong arguments
/// end the process.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    if let Some(complaint) = processor::complaint() {
        eprintln!("error: {complaint}");
        return 1;
    }
    let cli = Cli::parse_from(arguments);
    log_to_stderr(cli.verbose, cli.log_format);
    let done = failure::catch(|| match &cli.command {
        Command::Sql(args) => sql::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Worker(args) => cluster::run(args),
        Command::User(command) => user::run(command),
        Command::Bench(args) => bench::run(args),
        Command::Generate(command) => generate::run(command),
        Command::Layout(args) => layout::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Repro(args) => repro::run(args),
        Command::Cache(command) => cache::run(command),
        Command::Device(command) => device::run(command),
        Command::Tier(command) => tier::run(command),
        Command::Policies(args) => policies::run(args),
    });
    match done {
        Ok(()) => 0,
        Err(error) => failure::report(&error),
    }
}

fn log_to_stderr(verbose: u8, format: LogFormat) {
    let default = match verbose {
        0 => "error",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("COSCAN_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    // Journals and files do not interpret escape sequences.
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours);
    let log = log.with_writer(io::stderr).with_target(true);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
