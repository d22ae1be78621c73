//! `coscan user`: the users of `coscan serve`.
//!
//! Passwords come from a terminal, a pipe or a variable, never from arguments, which every user of the machine can
//! read. A running server reads the new file on SIGHUP.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use coscan_server::access::{UserEntry, UsersFile, Verifier};

use crate::failure::wrong_usage;
use crate::tables::plain;

/// The environment variable for a password.
const PASSWORD_VARIABLE: &str = "COSCAN_PASSWORD";

/// The changes to users.
#[derive(Subcommand, Debug)]
pub enum UserCommand {
    /// Add a user, or change its password or role
    Add(AddArgs),
    /// Remove a user
    Remove(RemoveArgs),
    /// List users and their roles
    List(ListArgs),
}

/// Arguments of `coscan user add`.
#[derive(Args, Debug)]
pub struct AddArgs {
    /// The user
    name: String,

    /// `read`, `admin`, or a role in the file
    #[arg(long, default_value = "read")]
    role: String,

    /// The file with users
    #[arg(long, value_name = "FILE", env = "COSCAN_SERVE_USERS")]
    users: PathBuf,
}

/// Arguments of `coscan user remove`.
#[derive(Args, Debug)]
pub struct RemoveArgs {
    /// The user
    name: String,

    /// The file with users
    #[arg(long, value_name = "FILE", env = "COSCAN_SERVE_USERS")]
    users: PathBuf,
}

/// Arguments of `coscan user list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// The file with users
    #[arg(long, value_name = "FILE", env = "COSCAN_SERVE_USERS")]
    users: PathBuf,
}

/// Reads, changes and writes the file.
pub fn run(command: &UserCommand) -> anyhow::Result<()> {
    match command {
        UserCommand::Add(args) => {
            let mut file = read(&args.users)?;
            if !matches!(args.role.as_str(), "read" | "admin") && !file.roles.contains_key(&args.role) {
                return Err(wrong_usage(format!(
                    "there is no role {} in {}",
                    args.role,
                    args.users.display()
                )));
            }
            if args.name.is_empty() || args.name.chars().count() > 63 {
                return Err(wrong_usage("a user's name has 1 to 63 characters"));
            }
            let verifier = Verifier::of(&password()?).to_string();
            file.users.insert(args.name.clone(), UserEntry { role: args.role.clone(), verifier });
            Ok(file.write(&args.users)?)
        }
        UserCommand::Remove(args) => {
            let mut file = read(&args.users)?;
            if file.users.remove(&args.name).is_none() {
                bail!("there is no user {} in {}", args.name, args.users.display());
            }
            Ok(file.write(&args.users)?)
        }
        UserCommand::List(args) => {
            let mut table = plain(&["user", "role"]);
            for (name, user) in read(&args.users)?.users {
                table.add_row([name, user.role]);
            }
            println!("{table}");
            Ok(())
        }
    }
}

/// Reads the file. A missing file is empty.
fn read(path: &Path) -> anyhow::Result<UsersFile> {
    if !path.exists() {
        return Ok(UsersFile::default());
    }
    Ok(UsersFile::read(path)?)
}

/// The character that Ctrl-C types while it does not interrupt.
const INTERRUPT: char = '\u{3}';

/// A terminal without echo, until this is dropped. Ctrl-C is typed like any key in this time, because a process that
/// it ended would leave the terminal without echo.
struct Silent;

impl Silent {
    fn begin() -> anyhow::Result<Self> {
        if !stty(&["-echo", "-isig"]) {
            bail!(
                "the terminal cannot be kept from showing the password: give it in {PASSWORD_VARIABLE} or by a pipe"
            );
        }
        // After echo is off: keys typed earlier would be shown.
        eprint!("password: ");
        Ok(Silent)
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        stty(&["echo", "isig"]);
        eprintln!();
    }
}

/// Changes settings of the terminal on stdin.
fn stty(settings: &[&str]) -> bool {
    Command::new("stty").args(settings).status().is_ok_and(|status| status.success())
}

fn password() -> anyhow::Result<String> {
    let password = match std::env::var(PASSWORD_VARIABLE) {
        Ok(password) => password,
        Err(_) => {
            let silent = io::stdin().is_terminal().then(Silent::begin).transpose()?;
            let mut line = String::new();
            let read = io::stdin().read_line(&mut line);
            drop(silent);
            read.context("cannot read the password from stdin")?;
            if line.contains(INTERRUPT) {
                bail!("interrupted: nothing was changed");
            }
            line.trim_end_matches(['\r', '\n']).to_owned()
        }
    };
    if password.is_empty() {
        return Err(wrong_usage(format!("give a password on stdin or in {PASSWORD_VARIABLE}")));
    }
    Ok(password)
}
