//! The settings of a server, one row per setting. Flags, environment variables, keys of the configuration file, help
//! and the table in `docs/serve.md` come from these rows.
//!
//! This module does not read the environment or arguments. The program does that and calls [`ServeConfig::set`].
//! Settings of the engine are in `coscan_engine::settings`.

mod table;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use table::{SERVE_SETTINGS, ServeSetting};

use crate::access::Limits;
use crate::error::ServeError;

/// The default address.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:5433";

/// The configuration of a server. [`ServeConfig::default`] listens on this machine only, and has no tables.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeConfig {
    /// Addresses for PostgreSQL clients, Flight SQL clients and browsers. The first bytes of a connection decide the
    /// protocol.
    pub listen: Vec<SocketAddr>,
    /// Addresses for Flight SQL alone.
    pub flight_listen: Vec<SocketAddr>,
    /// Addresses for HTTP alone: the page, health and metrics.
    pub http_listen: Vec<SocketAddr>,
    /// Host names of the page, if there are no users.
    pub http_hosts: Vec<String>,
    /// Tables: a name, and a file, folder, pattern or URL.
    pub tables: BTreeMap<String, String>,
    /// Catalogs of lake tables: a name and an address. The program adds them to the server's context.
    pub catalogs: BTreeMap<String, String>,
    /// Declared clustering of tables: `orders (l_orderkey = o_orderkey)`.
    pub clustered_with: BTreeMap<String, String>,
    /// Folders in which every subfolder and every Parquet file is a table. They are checked again while the server
    /// runs.
    pub watch: Vec<PathBuf>,
    /// Interval of these checks.
    pub watch_every: Duration,
    /// Files that define slow tiers. Tables under a tier's root are restored as queries need them.
    pub tiers: Vec<PathBuf>,
    /// The file with users and roles. Without it, clients are not authenticated.
    pub users: Option<PathBuf>,
    /// The role of all clients if they are not authenticated: `read` or `admin`.
    pub anonymous_role: String,
    /// The server's certificate chain, PEM.
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate, PEM.
    pub tls_key: Option<PathBuf>,
    /// Certificates of authorities for client certificates. If given, every client needs a certificate.
    pub tls_client_ca: Option<PathBuf>,
    /// Allows addresses that other machines can reach without users or TLS.
    pub insecure: bool,
    /// Concurrent connections, of all protocols.
    pub max_connections: usize,
    /// Concurrent connections from one address.
    pub max_connections_per_address: usize,
    /// Connections of `max_connections` that only administrators get.
    pub reserved_connections: usize,
    /// Concurrent connections whose client has not logged in yet.
    pub max_logins: usize,
    /// Concurrently running queries. Others wait for their turn.
    pub max_queries: usize,
    /// Queries of `max_queries` that only administrators run.
    pub reserved_queries: usize,
    /// Maximum time from the start of a connection to its login.
    pub handshake_timeout: Duration,
    /// Maximum time for which a client may leave a result unread. Then its query is stopped.
    pub stalled_client_timeout: Duration,
    /// Maximum time for which a connection may be idle. Zero: forever.
    pub idle_timeout: Duration,
    /// Maximum bytes of one message from a client.
    pub max_message_bytes: usize,
    /// Lifetime of a bearer token of Flight SQL.
    pub token_lifetime: Duration,
    /// Maximum wait for running queries when the server shuts down.
    pub drain_timeout: Duration,
    /// The file of the audit log, with one JSON object per line.
    pub audit_log: Option<PathBuf>,
    /// Set if logins and statements are refused while the audit log cannot be written.
    pub audit_must_work: bool,
    /// The address of a collector of OpenTelemetry traces.
    pub traces: Option<String>,
    /// Default limits of a user.
    pub limits: Limits,
}

impl Default for ServeConfig {
    fn default() -> Self {
        ServeConfig {
            listen: Vec::new(),
            flight_listen: Vec::new(),
            http_listen: Vec::new(),
            http_hosts: Vec::new(),
            tables: BTreeMap::new(),
            catalogs: BTreeMap::new(),
            clustered_with: BTreeMap::new(),
            watch: Vec::new(),
            watch_every: Duration::from_secs(10),
            tiers: Vec::new(),
            users: None,
            anonymous_role: "read".to_owned(),
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            insecure: false,
            max_connections: 2000,
            max_connections_per_address: 2000,
            reserved_connections: 8,
            max_logins: 200,
            max_queries: 400,
            reserved_queries: 4,
            handshake_timeout: Duration::from_secs(10),
            stalled_client_timeout: Duration::from_secs(300),
            idle_timeout: Duration::ZERO,
            max_message_bytes: 16 << 20,
            token_lifetime: Duration::from_secs(12 * 3600),
            drain_timeout: Duration::from_secs(30),
            audit_log: None,
            audit_must_work: true,
            traces: None,
            limits: Limits::default(),
        }
    }
}

impl ServeConfig {
    /// Sets a setting by its name. A setting that may be given several times gets a further value.
    ///
    /// # Errors
    ///
    /// If there is no such setting, or the value is not allowed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ServeError> {
        let setting = ServeSetting::named(name).ok_or_else(|| {
            let names: Vec<_> = SERVE_SETTINGS.iter().map(|setting| setting.name).collect();
            ServeError::setting(name, format!("there is no such setting; there are {}", names.join(", ")))
        })?;
        (setting.set)(self, value.trim())
            .map_err(|wanted| ServeError::setting(name, format!("'{value}' is not {wanted}")))
    }

    /// Applies the table `serve` of a configuration file. Keys are the names of flags. Settings that may be given
    /// several times take lists. Those of tables also take a table of names.
    ///
    /// # Errors
    ///
    /// If a key is not a setting, or its value is not allowed.
    pub fn add_toml(&mut self, table: &toml::Table) -> Result<(), ServeError> {
        for (name, value) in table {
            match value {
                toml::Value::Array(values) => {
                    values.iter().try_for_each(|value| self.set(name, &plain(value)))?;
                }
                toml::Value::Table(named)
                    if ServeSetting::named(name).is_some_and(ServeSetting::is_of_a_table) =>
                {
                    for (table, value) in named {
                        self.set(name, &format!("{table}={}", plain(value)))?;
                    }
                }
                value => self.set(name, &plain(value))?,
            }
        }
        Ok(())
    }

    /// Returns true if clients have to authenticate.
    pub fn asks_who(&self) -> bool {
        self.users.is_some()
    }

    /// Fills in the default address, and refuses addresses that other machines could reach without users and TLS.
    ///
    /// # Errors
    ///
    /// [`ServeError::Exposed`], or settings that contradict each other.
    pub fn check(&mut self) -> Result<(), ServeError> {
        if self.listen.is_empty() {
            self.listen.push(
                table::address(DEFAULT_LISTEN).map_err(|wanted| ServeError::setting("listen", wanted))?,
            );
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(ServeError::setting(
                "tls-cert",
                "tls-cert and tls-key belong together: give both or neither",
            ));
        }
        if self.tls_client_ca.is_some() && self.tls_cert.is_none() {
            return Err(ServeError::setting("tls-client-ca", "needs tls-cert and tls-key"));
        }
        let missing = match (self.users.is_some(), self.tls_cert.is_some()) {
            (true, true) => return Ok(()),
            (false, false) => "neither a password nor TLS",
            (false, true) => "no password",
            (true, false) => "no TLS",
        };
        let addresses = self.listen.iter().chain(&self.flight_listen).chain(&self.http_listen);
        match addresses.into_iter().find(|address| !address.ip().to_canonical().is_loopback()) {
            Some(address) if !self.insecure => Err(ServeError::Exposed { address: *address, missing }),
            _ => Ok(()),
        }
    }
}

fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_what_the_table_says() {
        for setting in SERVE_SETTINGS.iter().filter(|setting| setting.default != "none" && !setting.repeats) {
            let mut config = ServeConfig::default();
            config.set(setting.name, setting.default).unwrap();
            assert_eq!(config, ServeConfig::default(), "{}", setting.name);
        }
    }

    #[test]
    fn what_others_reach_needs_users_and_tls_or_a_word() {
        let checked = |set: &[(&str, &str)]| {
            let mut config = ServeConfig::default();
            set.iter().try_for_each(|(name, value)| config.set(name, value))?;
            config.check()
        };
        let everywhere = ("listen", "0.0.0.0:5433");
        let (users, cert, key) = (("users", "u"), ("tls-cert", "c"), ("tls-key", "k"));
        assert!(checked(&[]).is_ok());
        assert!(checked(&[("listen", "[::1]:5433"), ("listen", "127.8.9.1:1")]).is_ok());
        for exposed in [
            &[everywhere][..],
            &[everywhere, users],
            &[everywhere, cert, key],
            &[("http-listen", "[::]:80")],
            &[("listen", "[::ffff:10.0.0.1]:5433")],
            &[("flight-listen", "10.0.0.1:1")],
        ] {
            assert!(matches!(checked(exposed), Err(ServeError::Exposed { .. })), "{exposed:?}");
        }
        assert!(checked(&[everywhere, users, cert, key]).is_ok());
        assert!(checked(&[everywhere, ("insecure", "true")]).is_ok());
        assert!(checked(&[cert]).is_err() && checked(&[("tls-client-ca", "x")]).is_err());
    }

    #[test]
    fn the_document_lists_every_setting() {
        let document =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md")).unwrap();
        for setting in SERVE_SETTINGS {
            let repeats = if setting.repeats { "; repeatable" } else { "" };
            let value = setting.value.replace('|', "/");
            let row = format!(
                "| `{}` | {value} | {}{repeats} | {} |",
                setting.name, setting.summary, setting.default
            );
            assert!(document.contains(&row), "docs/serve.md lacks\n{row}");
        }
    }

    #[test]
    fn a_file_says_the_same_as_flags() {
        let text = "listen = [\"127.0.0.1:1\", \"localhost:2\"]\nmax-queries = 7\n[table]\nt = \"/data/t\"\n\
            [clustered-with]\nt = \"o (k = k)\"\n";
        let mut config = ServeConfig::default();
        config.add_toml(&text.parse().unwrap()).unwrap();
        assert_eq!((config.listen.len(), config.max_queries), (2, 7));
        assert_eq!((&*config.tables["t"], &*config.clustered_with["t"]), ("/data/t", "o (k = k)"));
        for (text, name) in [("lissen = 1", "lissen"), ("[tabel]", "tabel")] {
            let wrong = config.add_toml(&text.parse().unwrap()).unwrap_err();
            assert!(wrong.to_string().contains(name), "{wrong}");
        }
    }
}
