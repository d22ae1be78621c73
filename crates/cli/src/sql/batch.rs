//! Runs SQL of commands, files and pipes.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::output::{Format, Printer};
use super::progress::Bar;
use super::session::SqlSession;
use super::statements;
use crate::failure::{one_line, wrong_usage};

/// The result of a statement.
pub struct Done {
    pub rows: u64,
    pub took: Duration,
    /// Set if the statement had a result.
    pub has_columns: bool,
}

impl Done {
    /// The line for `--timing`.
    pub fn to_text(&self) -> String {
        format!("{} rows in {:.3} s", self.rows, self.took.as_secs_f64())
    }
}

/// Runs one statement and prints its result to `out` as it arrives.
pub async fn run_statement<W: Write>(
    session: &SqlSession,
    statement: &str,
    format: Format,
    bar: &Bar,
    out: W,
) -> anyhow::Result<Done> {
    let start = Instant::now();
    let mut rows = session.run(statement).await?;
    let schema = rows.schema();
    let has_columns = !schema.fields().is_empty();
    let mut printer = Printer::new(format, schema, out)?;
    while let Some(batch) = rows.next().await {
        if !format.waits_for_all() {
            bar.make_way();
        }
        printer.write(batch?)?;
    }
    let took = start.elapsed();
    bar.make_way();
    Ok(Done { rows: printer.finish()?, took, has_columns })
}

/// Runs the statements of `text` one after another, up to the first failure.
pub async fn run_script(
    session: &Arc<SqlSession>,
    text: &str,
    format: Format,
    timing: bool,
) -> anyhow::Result<()> {
    let statements = statements::all(text);
    for (number, statement) in statements.iter().enumerate() {
        let out = io::BufWriter::new(io::stdout());
        let bar = Bar::start(session);
        let done = run_statement(session, statement, format, &bar, out).await.with_context(|| {
            if statements.len() == 1 { String::new() } else { format!("statement {}", number + 1) }
        })?;
        if timing {
            eprintln!("{}", done.to_text());
        }
    }
    Ok(())
}

/// Runs all commands at the same time, all to their end. Prints their results in the order of the commands, and then
/// reports failures.
pub async fn run_commands(
    session: &Arc<SqlSession>,
    commands: &[String],
    format: Format,
    timing: bool,
) -> anyhow::Result<()> {
    if let Some(empty) = commands.iter().position(|text| statements::all(text).is_empty()) {
        return Err(wrong_usage(format!("command {} holds no SQL", empty + 1)));
    }
    if let [command] = commands {
        return run_script(session, command, format, timing).await;
    }
    let bar = Arc::new(Bar::for_several(session));
    let tasks: Vec<_> = commands
        .iter()
        .map(|text| {
            let (session, text, bar) = (session.clone(), text.clone(), bar.clone());
            tokio::spawn(async move { run_buffered(&session, &text, format, &bar).await })
        })
        .collect();
    let mut failures = Vec::new();
    for (number, task) in tasks.into_iter().enumerate() {
        let (output, timings, result) = task.await.context("a command panicked")?;
        io::stdout().lock().write_all(&output)?;
        if timing {
            timings.iter().for_each(|took| eprintln!("command {}: {took}", number + 1));
        }
        failures.extend(result.err().map(|error| format!("command {}: {}", number + 1, one_line(&error))));
    }
    match failures.as_slice() {
        [] => Ok(()),
        [only] => Err(anyhow!("{only}")),
        [first, ..] => Err(anyhow!("{} of {} commands failed; {first}", failures.len(), commands.len())),
    }
}

/// Runs the statements of one command and collects the output, so that outputs of commands do not mix.
async fn run_buffered(
    session: &SqlSession,
    text: &str,
    format: Format,
    bar: &Bar,
) -> (Vec<u8>, Vec<String>, anyhow::Result<()>) {
    let (mut output, mut timings) = (Vec::new(), Vec::new());
    for statement in statements::all(text) {
        match run_statement(session, statement, format, bar, &mut output).await {
            Ok(done) => timings.push(done.to_text()),
            Err(error) => return (output, timings, Err(error)),
        }
    }
    (output, timings, Ok(()))
}
