//! The interactive shell: statements over several lines until a semicolon, history, and a few commands
//! that begin with a backslash. Ctrl-C cancels the running query, Ctrl-D leaves.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::batch::run_statement;
use super::output::Format;
use super::statements;
use crate::failure::one_line;
use crate::session::{Session, Threads};

const HELP: &str = "\
\\d            list the tables
\\d NAME       columns of a table
\\policy NAME  set the sharing policy (SET coscan.policy)
\\stats        what the engine has done so far
\\timing       time every statement, or stop doing so
\\format NAME  table, csv, json or ndjson
\\q            leave
Statements end with a semicolon. Ctrl-C cancels.";

struct Shell<'a> {
    threads: &'a Threads,
    session: &'a Arc<Session>,
    format: Format,
    timing: bool,
}

/// Talks to the person at the terminal until they leave.
pub fn run(threads: &Threads, session: &Arc<Session>, format: Format, timing: bool) -> anyhow::Result<()> {
    let mut shell = Shell { threads, session, format, timing };
    let mut editor = DefaultEditor::new()?;
    let history = history_file();
    if let Some(path) = &history {
        // No history yet is no error.
        let _ = editor.load_history(path);
    }
    println!("coscan {}; \\? for help", env!("CARGO_PKG_VERSION"));
    let mut pending = String::new();
    loop {
        let prompt = if statements::is_blank(&pending) { "coscan> " } else { "   ...> " };
        match editor.readline(prompt) {
            Ok(line) if pending.is_empty() && line.trim_start().starts_with('\\') => {
                let _ = editor.add_history_entry(line.trim());
                if !shell.command(line.trim())? {
                    break;
                }
            }
            Ok(line) => {
                pending.push_str(&line);
                pending.push('\n');
                let (ready, rest) = statements::split(&pending);
                for statement in &ready {
                    let _ = editor.add_history_entry(format!("{statement};"));
                    shell.statement(statement)?;
                }
                pending = if statements::is_blank(rest) { String::new() } else { rest.to_owned() };
            }
            Err(ReadlineError::Interrupted) => pending.clear(),
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(path) = &history
        && let Err(error) = editor.save_history(path)
    {
        tracing::warn!(%error, path = %path.display(), "cannot save the history");
    }
    Ok(())
}

fn history_file() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let state = std::env::var_os("XDG_STATE_HOME").map_or_else(|| home.join(".local/state"), PathBuf::from);
    let folder = state.join("coscan");
    std::fs::create_dir_all(&folder).ok()?;
    Some(folder.join("history"))
}

impl Shell<'_> {
    /// Runs a statement; its failure is printed and the shell goes on.
    fn statement(&self, statement: &str) -> anyhow::Result<()> {
        let result = self.threads.block_on(async {
            tokio::select! {
                result = run_statement(self.session, statement, self.format, io::stdout().lock()) => Some(result),
                _ = tokio::signal::ctrl_c() => None,
            }
        });
        match result {
            None => println!("cancelled"),
            Some(Ok(done)) if self.timing => println!("{}", done.to_text()),
            Some(Ok(_)) => {}
            Some(Err(error)) => eprintln!("{}", one_line(&error)),
        }
        io::stdout().flush()?;
        Ok(())
    }

    /// Carries out a command; false means leave.
    fn command(&mut self, line: &str) -> anyhow::Result<bool> {
        let mut words = line.split_whitespace();
        let (name, argument) =
            (words.next().unwrap_or_default(), words.next().map(|w| w.trim_end_matches(';')));
        match (name, argument) {
            ("\\q", _) => return Ok(false),
            ("\\?", _) => println!("{HELP}"),
            ("\\d", None) => self.statement("SHOW TABLES")?,
            ("\\d", Some(table)) => self.statement(&format!("DESCRIBE {table}"))?,
            ("\\policy", Some(policy)) => {
                self.statement(&format!("SET coscan.policy = '{}'", policy.replace('\'', "''")))?;
            }
            ("\\policy", None) => self.statement("SHOW coscan.policy")?,
            ("\\stats", _) => println!("{}", self.session.counters().to_text()),
            ("\\timing", _) => {
                self.timing = !self.timing;
                println!("timing is {}", if self.timing { "on" } else { "off" });
            }
            ("\\format", Some(format)) => match clap::ValueEnum::from_str(format, true) {
                Ok(format) => self.format = format,
                Err(_) => eprintln!("{format} is no format: table, csv, json or ndjson"),
            },
            _ => eprintln!("{name} is no command; \\? lists them"),
        }
        Ok(true)
    }
}
