//! The interactive shell: statements over several lines until a semicolon, history, completion, and commands that
//! begin with a backslash. Ctrl-C cancels the running query, Ctrl-D leaves the shell.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::batch::{Done, run_statement};
use super::command::{self, Command, Copy, HELP, fits};
use super::complete::Names;
use super::output::Format;
use super::pager;
use super::progress::Bar;
use super::session::SqlSession;
use super::statements;
use crate::failure::one_line;
use crate::session::Threads;

/// The maximum nesting of files that run files.
const INCLUDES_MAX: usize = 16;

struct Shell<'a> {
    threads: &'a Threads,
    session: &'a Arc<SqlSession>,
    format: Format,
    timing: bool,
    pager: bool,
    /// Width and height of the terminal. `None` if the output is not a terminal.
    terminal: Option<pager::Size>,
    /// The file for results, if any.
    output: Option<File>,
    /// The beginning of a statement.
    pending: String,
    last: Option<String>,
    includes: usize,
    /// Ctrl-C, also between two checks.
    interrupts: Signal,
}

/// Continue or leave the shell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoOn,
    Leave,
}

/// Reads and runs lines until the user leaves.
pub fn run(threads: &Threads, session: &Arc<SqlSession>, format: Format) -> anyhow::Result<()> {
    let config = Config::builder().completion_type(CompletionType::List).build();
    let mut editor: Editor<Names, DefaultHistory> = Editor::with_config(config)?;
    editor.set_helper(Some(Names::default()));
    let mut shell = Shell {
        threads,
        session,
        format,
        timing: true,
        pager: true,
        terminal: None,
        output: None,
        pending: String::new(),
        last: None,
        includes: 0,
        interrupts: threads.block_on(async { signal(SignalKind::interrupt()) })?,
    };
    let history = history_file();
    if let Some(path) = &history {
        // A missing history is no error.
        let _ = editor.load_history(path);
    }
    println!("coscan {}; \\? for help", env!("CARGO_PKG_VERSION"));
    loop {
        if let Some(names) = editor.helper_mut() {
            names.tables = session.tables();
        }
        let prompt = if statements::is_blank(&shell.pending) { "coscan> " } else { "   ...> " };
        match editor.readline(prompt) {
            Ok(line) => {
                if !line.trim().is_empty() {
                    let _ = editor.add_history_entry(line.trim_end());
                }
                shell.terminal =
                    editor.dimensions().map(|(width, height)| (usize::from(width), usize::from(height)));
                // Keys pressed while no statement ran cancel nothing.
                while shell.interrupts.recv().now_or_never().is_some() {}
                if shell.line(&line)? == Flow::Leave {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => shell.pending.clear(),
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
    /// Handles a line: statements, the beginning of one, a command, or a statement and a command that runs it.
    fn line(&mut self, line: &str) -> anyhow::Result<Flow> {
        self.pending.push_str(line);
        self.pending.push('\n');
        let text = std::mem::take(&mut self.pending);
        let (before, command) = match statements::command_in(&text) {
            Some((before, command)) => (before, Some(command)),
            None => (text.as_str(), None),
        };
        let (ready, rest) = statements::split(before);
        for statement in ready {
            self.statement(statement, self.format)?;
            self.last = Some(statement.to_owned());
        }
        if !statements::is_blank(rest) {
            self.pending = rest.to_owned();
        }
        match command.map(command::parse) {
            None => Ok(Flow::GoOn),
            Some(Ok(command)) => self.command(command),
            Some(Err(wrong)) => {
                eprintln!("{wrong}");
                Ok(Flow::GoOn)
            }
        }
    }

    /// Runs a statement. A failure is printed and the shell continues. Returns false if the statement was cancelled
    /// or failed.
    fn statement(&mut self, statement: &str, format: Format) -> anyhow::Result<bool> {
        let mut text = Vec::new();
        let (threads, session, output) = (self.threads, self.session, &self.output);
        let interrupts = &mut self.interrupts;
        let held_back = output.is_none() && format.waits_for_all();
        let result = threads.block_on(async {
            let bar = Bar::start(session);
            let out: &mut (dyn Write + Send) = match output {
                Some(file) => &mut &*file,
                None if held_back => &mut text,
                None => &mut io::stdout(),
            };
            tokio::select! {
                result = run_statement(session, statement, format, &bar, out) => Some(result),
                _ = interrupts.recv() => None,
            }
        });
        match result {
            None => println!("cancelled"),
            Some(Err(error)) => eprintln!("{}", one_line(&error)),
            Some(Ok(done)) => {
                if held_back {
                    let terminal = self.terminal.filter(|_| self.pager);
                    pager::print(&String::from_utf8_lossy(&text), terminal)?;
                }
                println!("{}", self.footer(&done));
                return Ok(true);
            }
        }
        io::stdout().flush()?;
        Ok(false)
    }

    fn footer(&self, done: &Done) -> String {
        let rows = match (done.has_columns, done.rows) {
            (false, _) => "done".to_owned(),
            (true, 1) => "1 row".to_owned(),
            (true, rows) => format!("{rows} rows"),
        };
        if self.timing { format!("({rows}, {:.3} s)", done.took.as_secs_f64()) } else { format!("({rows})") }
    }

    /// Carries out a command.
    fn command(&mut self, command: Command) -> anyhow::Result<Flow> {
        let switched = |now: bool, to: Option<bool>| to.unwrap_or(!now);
        match command {
            Command::Quit => return Ok(Flow::Leave),
            Command::Help => println!("{HELP}"),
            Command::Tables(pattern) => self.list_tables(pattern.as_deref()),
            Command::Describe(table) => self.describe(&table),
            Command::Databases => self.list_databases(),
            Command::Connection => println!("{}", self.session.described()),
            Command::Edit(file) => return self.edit(file.as_deref()),
            Command::Copy(copy) => self.copy(&copy)?,
            Command::Go { expanded } => self.go(if expanded { Format::Expanded } else { self.format })?,
            Command::Watch(every) => self.watch(every)?,
            Command::Expanded(to) => {
                let on = switched(self.format == Format::Expanded, to);
                self.format = if on { Format::Expanded } else { Format::Table };
                say("one line per value", on);
            }
            Command::Timing(to) => {
                self.timing = switched(self.timing, to);
                say("timing", self.timing);
            }
            Command::Pager(to) => {
                self.pager = switched(self.pager, to);
                say("pager", self.pager);
            }
            Command::Include(path) => return self.include(&path),
            Command::Output(None) => self.output = None,
            Command::Output(Some(path)) => match File::create(&path) {
                Ok(file) => self.output = Some(file),
                Err(error) => eprintln!("cannot write to {}: {error}", path.display()),
            },
            Command::Print => println!("{}", self.pending.trim()),
            Command::Reset => self.pending.clear(),
            Command::Format(format) => self.format = format,
            Command::Echo(text) => println!("{text}"),
            Command::Policy(Some(policy)) => {
                let policy = policy.replace('\'', "''");
                self.statement(&format!("SET coscan.policy = '{policy}'"), self.format)?;
            }
            Command::Policy(None) => {
                self.statement("SHOW coscan.policy", self.format)?;
            }
            Command::Stats => {
                println!("{}{}", self.session.engine.counters().to_text(), self.session.engine.devices_text())
            }
        }
        Ok(Flow::GoOn)
    }

    fn list_tables(&self, pattern: Option<&str>) {
        let tables = self.session.tables();
        let mut list = crate::tables::plain(&["table", "columns"]);
        let fitting = tables.iter().filter(|(name, _)| pattern.is_none_or(|pattern| fits(pattern, name)));
        let mut count = 0;
        for (name, columns) in fitting {
            list.add_row([name.clone(), columns.len().to_string()]);
            count += 1;
        }
        match (count, pattern) {
            (0, Some(pattern)) => println!("no table fits {pattern}"),
            (0, None) => println!("there are no tables; start with -t NAME=PATH, or CREATE EXTERNAL TABLE"),
            _ => println!("{list}"),
        }
    }

    fn describe(&self, table: &str) {
        match self.threads.block_on(self.session.columns(table)) {
            Ok(columns) => {
                let mut list = crate::tables::plain(&["column", "type", "null"]);
                for column in columns {
                    let nullable = if column.nullable { "" } else { "not null" };
                    list.add_row([&column.name, &column.kind, nullable]);
                }
                println!("{list}");
            }
            Err(error) => eprintln!("{}", one_line(&error)),
        }
    }

    fn list_databases(&self) {
        let mut list = crate::tables::plain(&["database", "address"]);
        for (name, address) in self.session.databases() {
            list.add_row([name, address]);
        }
        println!("{list}");
    }

    /// Writes the rows of a statement to a file.
    fn copy(&mut self, copy: &Copy) -> anyhow::Result<()> {
        match File::create(&copy.path) {
            Ok(file) => {
                let before = self.output.replace(file);
                let copied = self.statement(&copy.statement, copy.format);
                self.output = before;
                copied?;
            }
            Err(error) => eprintln!("cannot write to {}: {error}", copy.path.display()),
        }
        Ok(())
    }

    /// Lets the user change a file, or the current statement, and runs what is complete in it.
    fn edit(&mut self, file: Option<&Path>) -> anyhow::Result<Flow> {
        let typed = std::mem::take(&mut self.pending);
        let scratch = match file {
            Some(_) => None,
            None => {
                let scratch = tempfile::Builder::new().suffix(".sql").tempfile()?;
                let text = if statements::is_blank(&typed) {
                    self.last.as_deref().unwrap_or_default()
                } else {
                    &typed
                };
                std::fs::write(scratch.path(), text)?;
                Some(scratch)
            }
        };
        let Some(path) = file.or(scratch.as_ref().map(|scratch| scratch.path())) else {
            return Ok(Flow::GoOn);
        };
        let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
        let editor = editor.unwrap_or_else(|| "vi".to_owned());
        let mut words = editor.split_whitespace();
        let program = words.next().unwrap_or("vi");
        match std::process::Command::new(program).args(words).arg(path).status() {
            Ok(status) if status.success() => match std::fs::read_to_string(path) {
                Ok(text) => {
                    print!("{}", text.trim_end());
                    println!();
                    return self.line(text.trim_end());
                }
                Err(error) => eprintln!("cannot read {}: {error}", path.display()),
            },
            Ok(status) => eprintln!("{editor} failed ({status}): the statement is as before"),
            Err(error) => eprintln!("cannot start {editor}: {error}; set EDITOR to an editor"),
        }
        self.pending = typed;
        Ok(Flow::GoOn)
    }

    /// The current statement without its semicolon, or the last one.
    fn current(&mut self) -> Option<String> {
        let typed = std::mem::take(&mut self.pending);
        if !statements::is_blank(&typed) {
            self.last = Some(typed.trim().to_owned());
        }
        if self.last.is_none() {
            eprintln!("there is no statement yet");
        }
        self.last.clone()
    }

    fn go(&mut self, format: Format) -> anyhow::Result<()> {
        if let Some(statement) = self.current() {
            self.statement(&statement, format)?;
        }
        Ok(())
    }

    /// Repeats a statement until it fails or Ctrl-C is pressed.
    fn watch(&mut self, every: Duration) -> anyhow::Result<()> {
        let Some(statement) = self.current() else { return Ok(()) };
        let pager = std::mem::replace(&mut self.pager, false);
        while self.statement(&statement, self.format)? {
            let stopped = self.threads.block_on(async {
                tokio::select! {
                    () = tokio::time::sleep(every) => false,
                    _ = self.interrupts.recv() => true,
                }
            });
            if stopped {
                break;
            }
        }
        self.pager = pager;
        Ok(())
    }

    fn include(&mut self, path: &Path) -> anyhow::Result<Flow> {
        if self.includes == INCLUDES_MAX {
            eprintln!("{}: files run files more than {INCLUDES_MAX} deep", path.display());
            return Ok(Flow::GoOn);
        }
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                eprintln!("cannot read {}: {error}", path.display());
                return Ok(Flow::GoOn);
            }
        };
        self.includes += 1;
        let mut flow = Flow::GoOn;
        for line in text.lines() {
            if flow == Flow::GoOn {
                flow = self.line(line)?;
            }
        }
        let rest = std::mem::take(&mut self.pending);
        if flow == Flow::GoOn && !statements::is_blank(&rest) {
            self.statement(rest.trim(), self.format)?;
        }
        self.includes -= 1;
        Ok(flow)
    }
}

fn say(what: &str, on: bool) {
    println!("{what} is {}", if on { "on" } else { "off" });
}
