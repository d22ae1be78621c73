//! `coscan sql`: SQL over Parquet files.
//!
//! The SQL is that of `coscan serve` (`session.rs`). `statements.rs` splits text into statements, `output.rs` prints results, `progress.rs` shows the progress of a
//! long statement, and `batch.rs` runs the SQL of the command line, a file or a pipe. `shell.rs` is interactive: it
//! has commands (`command.rs`), completes names (`complete.rs`), and shows large results in a pager (`pager.rs`).
//! `dry_run.rs` prints the restores that queries would need from slow tiers. Several `--command`s run at the same
//! time on one engine, so that they share reads. The statements of one command run one after another.

mod batch;
mod command;
mod complete;
mod dry_run;
mod output;
mod pager;
mod progress;
mod session;
mod shell;
mod statements;
mod values;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;

use crate::cluster::ClusterArgs;
use crate::failure::wrong_usage;
use crate::session::Threads;
use crate::settings::EngineArgs;
use output::Format;
use session::SqlSession;

/// Arguments of `coscan sql`.
#[derive(Args, Debug)]
pub struct SqlArgs {
    /// A table: a file, folder, pattern or URL; without NAME it is named after the file. Repeatable
    #[arg(long, short, value_name = "NAME=PATH-OR-URL")]
    pub table: Vec<TableArg>,

    /// A catalog of lake tables, whose namespaces are schemas: SELECT .. FROM NAME.NAMESPACE.TABLE; see docs/lake.md. Repeatable
    #[arg(long, value_name = "NAME=ADDRESS")]
    pub catalog: Vec<CatalogArg>,

    /// Definition of a tier of slow storage; tables under its root are restored as queries need them. Repeatable
    #[arg(long, value_name = "FILE")]
    pub tier: Vec<PathBuf>,

    /// Restore nothing: print the files that each query needs from tiers, with their time and cost
    #[arg(long, requires = "tier")]
    pub dry_run: bool,

    /// SQL to run; several of these run at the same time
    #[arg(long, short, value_name = "SQL", conflicts_with = "file")]
    pub command: Vec<String>,

    /// File with SQL to run
    #[arg(long, short, value_name = "FILE")]
    pub file: Option<PathBuf>,

    /// Format of results
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,

    /// Print the time of each statement on stderr
    #[arg(long)]
    pub timing: bool,

    #[command(flatten)]
    pub cluster: ClusterArgs,

    #[command(flatten)]
    pub engine: EngineArgs,
}

/// A table's name and location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableArg {
    pub name: String,
    pub location: String,
}

impl FromStr for TableArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A path may contain `=` itself (year=2024/..), so the text before it must be a name.
        if let Some((name, location)) = text.split_once('=')
            && is_name(name)
            && !location.is_empty()
        {
            return Ok(TableArg { name: name.to_owned(), location: location.to_owned() });
        }
        let last = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let stem: String = last.split('.').next().unwrap_or_default().replace('-', "_");
        if is_name(&stem) {
            Ok(TableArg { name: stem, location: text.to_owned() })
        } else {
            Err(format!("give the table a name: NAME={text}"))
        }
    }
}

/// The name and the address of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogArg {
    pub name: String,
    pub address: String,
}

impl FromStr for CatalogArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, address)) if is_name(name) => {
                Ok(CatalogArg { name: name.to_owned(), address: address.to_owned() })
            }
            _ => Err("give the catalog a name: NAME=iceberg+rest://..".to_owned()),
        }
    }
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || c == '_')
}

/// Opens the tables and runs the statements: commands, a file, a pipe, or a shell.
pub fn run(args: &SqlArgs) -> anyhow::Result<()> {
    let settings = args.engine.resolve()?;
    let threads = Threads::start(settings.threads)?;
    let session = Arc::new(threads.block_on(SqlSession::open(args, &settings))?);
    let outcome = statements(args, &threads, &session);
    // A recording is kept even if a statement failed.
    session.engine.finish_recording()?;
    outcome
}

fn read_sql(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read the SQL file {}", path.display()))
}

fn read_stdin() -> anyhow::Result<String> {
    io::read_to_string(io::stdin()).context("cannot read SQL from stdin")
}

/// Runs the statements.
fn statements(args: &SqlArgs, threads: &Threads, session: &Arc<SqlSession>) -> anyhow::Result<()> {
    if args.dry_run {
        let mut texts = args.command.clone();
        if let Some(path) = &args.file {
            texts.push(read_sql(path)?);
        }
        if texts.is_empty() {
            if io::stdin().is_terminal() {
                return Err(wrong_usage("a dry run needs --command, --file or SQL on stdin"));
            }
            texts.push(read_stdin()?);
        }
        return threads.block_on(dry_run::run(session, &texts));
    }
    if !args.command.is_empty() {
        return threads.block_on(batch::run_commands(session, &args.command, args.format, args.timing));
    }
    if let Some(path) = &args.file {
        let text = read_sql(path)?;
        return threads.block_on(batch::run_script(session, &text, args.format, args.timing));
    }
    if io::stdin().is_terminal() {
        return shell::run(threads, session, args.format);
    }
    let text = read_stdin()?;
    threads.block_on(batch::run_script(session, &text, args.format, args.timing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_named_or_called_like_their_file() {
        let table = |text: &str| text.parse::<TableArg>().map(|t| (t.name, t.location));
        let of = |name: &str, location: &str| Ok((name.to_owned(), location.to_owned()));
        assert_eq!(table("t=/data/x.parquet"), of("t", "/data/x.parquet"));
        assert_eq!(table("/data/line-item.1.parquet"), of("line_item", "/data/line-item.1.parquet"));
        assert_eq!(table("s3://bucket/trips/"), of("trips", "s3://bucket/trips/"));
        assert_eq!(table("t=/data/year=2024/"), of("t", "/data/year=2024/"));
        assert!(table("/data/year=2024/").is_err());
        assert!(table("/data/*.parquet").is_err());
    }
}
