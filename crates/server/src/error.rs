//! Errors of starting a server or of changing its settings.

use std::net::SocketAddr;
use std::path::PathBuf;

/// A server could not be started or reloaded. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting's value is not allowed, or two settings contradict each other.
    #[error("{setting}: {problem}")]
    Setting {
        /// The setting, as in the configuration file.
        setting: String,
        /// The problem and the remedy.
        problem: String,
    },
    /// Other machines could reach an address without authentication or without encryption.
    #[error(
        "{address} can be reached from other machines, and there is {missing}: give --users, --tls-cert and --tls-key, \
         listen on 127.0.0.1, or give --insecure if everybody who reaches the address may read every table"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
        /// The missing protection.
        missing: &'static str,
    },
    /// A file that the server needs cannot be used.
    #[error("cannot use {what} {}: {problem}", path.display())]
    File {
        /// The purpose of the file.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// A table cannot be opened.
    #[error("cannot open table {name} at {location}: {problem}")]
    Table {
        /// The table.
        name: String,
        /// Its location.
        location: String,
        /// The problem.
        problem: String,
    },
    /// A tier cannot be opened.
    #[error(transparent)]
    Tier(#[from] coscan_tier::TierError),
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The query engine's error.
    #[error("{0}")]
    Engine(String),
}

impl ServeError {
    /// Returns true if the command was used wrongly, and false if an operation failed.
    pub fn is_usage(&self) -> bool {
        use coscan_tier::TierError::Config;
        matches!(
            self,
            ServeError::Setting { .. } | ServeError::Exposed { .. } | ServeError::Tier(Config { .. })
        )
    }

    pub(crate) fn setting(setting: &str, problem: impl Into<String>) -> Self {
        ServeError::Setting { setting: setting.to_owned(), problem: problem.into() }
    }

    pub(crate) fn file(what: &'static str, path: &std::path::Path, problem: impl ToString) -> Self {
        ServeError::File { what, path: path.to_owned(), problem: problem.to_string() }
    }
}
