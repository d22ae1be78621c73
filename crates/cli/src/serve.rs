//! `coscan serve`: takes the settings of a server from flags, environment and the table `serve` of the config file,
//! and runs the server until a signal ends it.
//!
//! SIGTERM and SIGINT let running queries finish; a second one does not. SIGHUP reads tables, users, certificates
//! and folders again.

use std::sync::LazyLock;

use anyhow::{Context, anyhow};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use coscan_server::config::{SERVE_SETTINGS, ServeSetting};
use coscan_server::{ServeConfig, ServeError, Server};
use tokio::signal::unix::SignalKind;

use crate::cluster::ClusterArgs;
use crate::failure::wrong_usage;
use crate::session::{Threads, cooperative, sql_error};
use crate::settings::{EngineArgs, Settings};
use crate::signals::told;

/// Arguments of `coscan serve`.
#[derive(Args, Debug)]
pub struct ServeArgs {
    #[command(flatten)]
    serve: ServeSettingArgs,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    engine: EngineArgs,
}

/// A flag and an environment variable for every setting of a server.
#[derive(Clone, Debug, Default)]
struct ServeSettingArgs {
    /// The given values, in the order of the settings. The flag is true for values of the command line, and false
    /// for those of the environment.
    given: Vec<(&'static ServeSetting, Vec<String>, bool)>,
}

static VARIABLES: LazyLock<Vec<String>> =
    LazyLock::new(|| SERVE_SETTINGS.iter().map(ServeSetting::variable).collect());

impl Args for ServeSettingArgs {
    fn augment_args(command: Command) -> Command {
        SERVE_SETTINGS.iter().zip(&*VARIABLES).fold(command, |command, (setting, variable)| {
            let mut letters = setting.summary.chars();
            let first = letters.next().map_or_else(String::new, |first| first.to_uppercase().collect());
            let repeats = if setting.repeats { "; repeatable" } else { "" };
            let help = format!("{first}{}{repeats} [default: {}]", letters.as_str(), setting.default);
            let mut arg =
                Arg::new(setting.name).long(setting.name).env(variable.as_str()).value_name(setting.value);
            arg = arg.help(help).help_heading("Server options");
            if setting.repeats {
                arg = arg.action(ArgAction::Append);
            }
            if setting.name == "table" {
                arg = arg.short('t');
            }
            if setting.value == "BOOL" {
                arg = arg.num_args(0..=1).default_missing_value("true").require_equals(true);
            }
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServeSettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = SERVE_SETTINGS.iter().filter_map(|setting| {
            let values: Vec<String> = matches.get_many::<String>(setting.name)?.cloned().collect();
            let on_command_line = matches.value_source(setting.name) == Some(ValueSource::CommandLine);
            Some((setting, values, on_command_line))
        });
        Ok(ServeSettingArgs { given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ServeArgs {
    /// The effective settings: flags over environment over config file. A repeatable setting comes from one of these
    /// sources, one that is set per table from all.
    fn config(&self, settings: &Settings) -> Result<ServeConfig, ServeError> {
        let given = |name: &str| self.serve.given.iter().any(|(setting, ..)| setting.name == name);
        let mut file = settings.serve.clone();
        let is_of_a_table = |name: &str| ServeSetting::named(name).is_some_and(ServeSetting::is_of_a_table);
        file.retain(|name, _| !given(name) || is_of_a_table(name));
        let mut config = ServeConfig::default();
        config.add_toml(&file)?;
        let mut given: Vec<_> = self.serve.given.iter().collect();
        given.sort_by_key(|(_, _, on_command_line)| *on_command_line);
        for (setting, values, _) in given {
            values.iter().try_for_each(|value| config.set(setting.name, value))?;
        }
        config.check()?;
        Ok(config)
    }
}

/// Serves until a signal ends it.
pub fn run(args: &ServeArgs) -> anyhow::Result<()> {
    let settings = args.engine.resolve()?;
    let config = args.config(&settings).map_err(usage_or_failure)?;
    let threads = Threads::start(settings.threads)?;
    threads.block_on(async {
        let cluster = args.cluster.start().await?;
        let coscan = cooperative(&settings, false, cluster.as_ref())?;
        let engine = coscan.engine.clone();
        for (name, address) in &config.catalogs {
            let attached = coscan_lake::attach(&coscan.ctx, name, address).await;
            attached.map_err(sql_error).with_context(|| format!("cannot open the catalog {name}"))?;
        }
        let server = Server::start(config, coscan).await.map_err(usage_or_failure)?;
        for address in server.addresses() {
            eprintln!("coscan serves at {address}");
        }
        until_told(&server, args).await?;
        eprintln!("coscan ends: waiting for running queries");
        let mut again = told(SignalKind::terminate())?;
        let mut interrupted = told(SignalKind::interrupt())?;
        tokio::select! {
            () = server.shut_down() => {}
            _ = again.recv() => {}
            _ = interrupted.recv() => {}
        }
        match engine.record(None) {
            Some(recorder) => recorder.finish().context("cannot write the recording"),
            None => Ok(()),
        }
    })
}

/// Waits for a signal that ends the server; SIGHUP reloads it.
async fn until_told(server: &Server, args: &ServeArgs) -> anyhow::Result<()> {
    let (mut end, mut interrupt) = (told(SignalKind::terminate())?, told(SignalKind::interrupt())?);
    let mut reload = told(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = end.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = reload.recv() => match again(server, args).await {
                Ok(()) => tracing::info!("read tables, users, certificates and folders again; tiers and other settings are those of the start"),
                Err(error) => tracing::error!(%error, "not everything could be read again"),
            },
        }
    }
}

/// Reads the configuration file, and the files that it names, again.
async fn again(server: &Server, args: &ServeArgs) -> anyhow::Result<()> {
    let config = args.engine.resolve().and_then(|settings| Ok(args.config(&settings)?));
    match config {
        Ok(config) => Ok(server.reload_with(&config).await?),
        // The other files are still read.
        Err(error) => server.reload().await.map_err(anyhow::Error::from).and(Err(error)),
    }
}

/// Classifies wrong settings as wrong usage.
pub fn usage_or_failure(error: ServeError) -> anyhow::Error {
    if error.is_usage() { wrong_usage(error.to_string()) } else { anyhow!(error) }
}
