//! Why a server does not start, or does not take new settings.

use std::net::SocketAddr;
use std::path::PathBuf;

/// A server could not be started or reloaded. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A setting has a value it cannot have, or two do not fit each other.
    #[error("{setting}: {problem}")]
    Setting {
        /// The setting, as in the configuration file.
        setting: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Others could reach an address without proving who they are, or could be overheard.
    #[error(
        "{address} can be reached from other machines, and there is {missing}: give --users, --tls-cert and --tls-key, \
         listen on 127.0.0.1, or give --insecure if everybody who reaches the address may read every table"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// A file that the server needs cannot be used.
    #[error("cannot use {what} {}: {problem}", path.display())]
    File {
        /// What the file is for.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A table cannot be opened.
    #[error("cannot open table {name} at {location}: {problem}")]
    Table {
        /// The table.
        name: String,
        /// Where it should be.
        location: String,
        /// What is wrong.
        problem: String,
    },
    /// A tier cannot be opened.
    #[error(transparent)]
    Tier(#[from] coscan_tier::TierError),
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The query engine refused.
    #[error("{0}")]
    Engine(String),
}

impl ServeError {
    /// Whether the command was used wrongly, rather than something failed.
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
