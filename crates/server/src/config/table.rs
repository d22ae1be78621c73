//! The table of a server's settings. `config.rs` applies them.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use coscan_engine::settings::{bytes, number, truth};

use super::ServeConfig;

/// One setting, and a function that applies a value to a configuration.
#[derive(Debug)]
pub struct ServeSetting {
    /// Its key in the configuration file and its long flag.
    pub name: &'static str,
    /// Placeholder of its value.
    pub value: &'static str,
    /// Set if it may be given several times.
    pub repeats: bool,
    /// Its effect, in one sentence without a full stop.
    pub summary: &'static str,
    /// Its default.
    pub default: &'static str,
    pub(super) set: fn(&mut ServeConfig, &str) -> Result<(), String>,
}

impl ServeSetting {
    /// The setting with this name.
    pub fn named(name: &str) -> Option<&'static ServeSetting> {
        SERVE_SETTINGS.iter().find(|setting| setting.name == name)
    }

    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("COSCAN_SERVE_{}", self.name.replace('-', "_").to_uppercase())
    }

    /// Returns true if each value belongs to one table: `NAME=...`. Values of flags and of the configuration file
    /// add up.
    pub fn is_of_a_table(&self) -> bool {
        self.value.starts_with("NAME=")
    }
}

macro_rules! setting {
    ($name:literal, $value:literal, $summary:literal, $default:literal, $set:expr) => {
        ServeSetting {
            name: $name,
            value: $value,
            repeats: false,
            summary: $summary,
            default: $default,
            set: $set,
        }
    };
    (many $name:literal, $value:literal, $summary:literal, $default:literal, $set:expr) => {
        ServeSetting {
            name: $name,
            value: $value,
            repeats: true,
            summary: $summary,
            default: $default,
            set: $set,
        }
    };
    (of_a_table $name:literal, $value:literal, $summary:literal, $tables:ident) => {
        setting!(many $name, $value, $summary, "none", |config, value| {
            let (table, of) = value.split_once('=').ok_or($value)?;
            config.$tables.insert(table.trim().to_owned(), of.trim().to_owned());
            Ok(())
        })
    };
}

/// Every setting of a server.
pub const SERVE_SETTINGS: &[ServeSetting] = &[
    setting!(many "listen", "ADDRESS", "address for PostgreSQL clients, Flight SQL clients and browsers alike", "127.0.0.1:5433",
        |config, value| address(value).map(|address| config.listen.push(address))),
    setting!(many "flight-listen", "ADDRESS", "address for Flight SQL alone", "none",
        |config, value| address(value).map(|address| config.flight_listen.push(address))),
    setting!(many "http-listen", "ADDRESS", "address for the page, health and metrics alone", "none",
        |config, value| address(value).map(|address| config.http_listen.push(address))),
    setting!(many "http-host", "NAME", "host name of the page besides localhost and IP addresses; only needed without users", "none",
        |config, value| { config.http_hosts.push(value.to_owned()); Ok(()) }),
    setting!(of_a_table "table", "NAME=PATH-OR-URL", "a table: a Parquet file, a folder of them, a pattern, or a URL", tables),
    setting!(of_a_table "catalog", "NAME=ADDRESS", "a catalog of lake tables, whose namespaces are schemas: `docs/lake.md`", catalogs),
    setting!(of_a_table "clustered-with", "NAME=TABLE (KEY = KEY)", "a table that is clustered by a key which matches one of another table: `docs/order.md`", clustered_with),
    setting!(many "watch", "FOLDER", "a folder of which every subfolder and Parquet file is a table, also those that come later", "none",
        |config, value| { config.watch.push(value.into()); Ok(()) }),
    setting!("watch-every", "SECONDS", "how often watched folders are looked at", "10", |config, value| {
        seconds(value, 1).map(|time| config.watch_every = time)
    }),
    setting!(many "tier", "FILE", "definition of a slow tier; tables under its root are restored as queries need them", "none",
        |config, value| { config.tiers.push(value.into()); Ok(()) }),
    setting!(
        "users",
        "FILE",
        "users and roles, as `coscan user` writes them; without it clients need no password",
        "none",
        |config, value| {
            config.users = Some(value.into());
            Ok(())
        }
    ),
    setting!(
        "anonymous-role",
        "read|admin",
        "role of all clients if there is no file of users",
        "read",
        |config, value| match value {
            "read" | "admin" => {
                config.anonymous_role = value.to_owned();
                Ok(())
            }
            _ => Err("read or admin".to_owned()),
        }
    ),
    setting!("tls-cert", "FILE", "certificate chain of the server, PEM", "none", |config, value| {
        config.tls_cert = Some(value.into());
        Ok(())
    }),
    setting!("tls-key", "FILE", "key of the certificate, PEM", "none", |config, value| {
        config.tls_key = Some(value.into());
        Ok(())
    }),
    setting!(
        "tls-client-ca",
        "FILE",
        "certificates that sign those of clients, PEM; every client then needs one",
        "none",
        |config, value| {
            config.tls_client_ca = Some(value.into());
            Ok(())
        }
    ),
    setting!(
        "insecure",
        "BOOL",
        "whether addresses that other machines reach may go without users or TLS",
        "false",
        |config, value| truth(value).map(|allowed| config.insecure = allowed)
    ),
    setting!("max-connections", "N", "connections at once, of all protocols", "2000", |config, value| {
        number(value, 1..=1_000_000).map(|n: usize| config.max_connections = n)
    }),
    setting!(
        "max-connections-per-address",
        "N",
        "connections at once from one address",
        "2000",
        |config, value| number(value, 1..=1_000_000).map(|n: usize| config.max_connections_per_address = n)
    ),
    setting!(
        "reserved-connections",
        "N",
        "connections of `max-connections` for administrators only, at most a quarter",
        "8",
        |config, value| number(value, 0..=1_000_000).map(|n: usize| config.reserved_connections = n)
    ),
    setting!(
        "max-logins",
        "N",
        "connections before their login; a further one ends one that is older than a second",
        "200",
        |config, value| number(value, 1..=1_000_000).map(|n: usize| config.max_logins = n)
    ),
    setting!(
        "max-queries",
        "N",
        "queries that run at once; others wait for their turn, and a user gets half of the turns that others leave",
        "400",
        |config, value| number(value, 1..=1_000_000).map(|n: usize| config.max_queries = n)
    ),
    setting!(
        "reserved-queries",
        "N",
        "queries of `max-queries` for administrators only, at most a quarter",
        "4",
        |config, value| number(value, 0..=1_000_000).map(|n: usize| config.reserved_queries = n)
    ),
    setting!(
        "handshake-timeout",
        "SECONDS",
        "how long a client may take until it has said who it is",
        "10",
        |config, value| seconds(value, 1).map(|time| config.handshake_timeout = time)
    ),
    setting!(
        "stalled-client-timeout",
        "SECONDS",
        "how long a client may leave a result unread; then its query is stopped",
        "300",
        |config, value| seconds(value, 1).map(|time| config.stalled_client_timeout = time)
    ),
    setting!(
        "idle-timeout",
        "SECONDS",
        "how long a connection may be idle; 0 is no limit",
        "0",
        |config, value| seconds(value, 0).map(|time| config.idle_timeout = time)
    ),
    setting!("max-message", "BYTES", "size of one message from a client", "16 MiB", |config, value| bytes(
        value,
        4096..=1 << 30
    )
    .map(|n| config.max_message_bytes = n as usize)),
    setting!(
        "token-lifetime",
        "SECONDS",
        "how long a bearer token of Flight SQL is good for",
        "43200",
        |config, value| seconds(value, 1).map(|time| config.token_lifetime = time)
    ),
    setting!(
        "drain-timeout",
        "SECONDS",
        "how long running queries are waited for when the server ends",
        "30",
        |config, value| seconds(value, 0).map(|time| config.drain_timeout = time)
    ),
    setting!(
        "audit-log",
        "FILE",
        "file to which logins and statements are appended, a JSON object in a line",
        "none",
        |config, value| {
            config.audit_log = Some(value.into());
            Ok(())
        }
    ),
    setting!(
        "audit-failure",
        "refuse|continue",
        "logins and statements while the audit log cannot be written",
        "refuse",
        |config, value| match value {
            "refuse" | "continue" => {
                config.audit_must_work = value == "refuse";
                Ok(())
            }
            _ => Err("refuse or continue".to_owned()),
        }
    ),
    setting!(
        "traces",
        "ADDRESS",
        "collector of OpenTelemetry traces, OTLP over gRPC, such as `http://localhost:4317`",
        "none",
        |config, value| {
            config.traces = Some(value.to_owned());
            Ok(())
        }
    ),
    setting!(
        "user-connections",
        "N",
        "connections at once of a user; 0 for no limit",
        "0",
        |config, value| config.limits.set("connections", value)
    ),
    setting!(
        "user-queries",
        "N",
        "queries of a user that run at once, others wait; 0 for no limit",
        "0",
        |config, value| config.limits.set("queries", value)
    ),
    setting!(
        "user-planning",
        "N",
        "statements of a user that are read and planned at once, others wait; 0 for no limit",
        "8",
        |config, value| config.limits.set("planning", value)
    ),
    setting!(
        "user-memory",
        "BYTES",
        "memory for sorts, joins and aggregates of a user's queries together; 0 for no limit",
        "0",
        |config, value| config.limits.set("memory", value)
    ),
    setting!("user-result", "BYTES", "size of one result; 0 for no limit", "0", |config, value| config
        .limits
        .set("result", value)),
    setting!(
        "user-cursors",
        "N",
        "open cursors and suspended portals of a user; 0 for no limit",
        "100",
        |config, value| config.limits.set("cursors", value)
    ),
    setting!(
        "user-plan-nodes",
        "N",
        "parts of a statement's plan after views and WITH queries are expanded; 0 for no limit",
        "10000",
        |config, value| config.limits.set("plan-nodes", value)
    ),
    setting!(
        "user-plan-expressions",
        "N",
        "operators of a statement's plan after columns are replaced by their expressions; 0 for no limit",
        "100000",
        |config, value| config.limits.set("plan-expressions", value)
    ),
    setting!(
        "user-grouping-sets",
        "N",
        "grouping sets of one GROUP BY; 0 for no limit",
        "4096",
        |config, value| config.limits.set("grouping-sets", value)
    ),
    setting!(
        "statement-timeout",
        "SECONDS",
        "how long a statement may take, waiting included; 0 is no limit",
        "0",
        |config, value| config.limits.set("statement-timeout", value)
    ),
    setting!(
        "user-priority",
        "N",
        "how much the scans of a user's queries count when the engine chooses what to read, up to 1000; 0 as 1",
        "0",
        |config, value| config.limits.set("priority", value)
    ),
];

pub(super) fn address(value: &str) -> Result<SocketAddr, String> {
    let value =
        value.strip_prefix("localhost:").map_or_else(|| value.to_owned(), |port| format!("127.0.0.1:{port}"));
    SocketAddr::from_str(&value)
        .map_err(|_| "an address and a port, as in 127.0.0.1:5433 or [::1]:5433".to_owned())
}

fn seconds(value: &str, least: u64) -> Result<Duration, String> {
    number(value.trim_end_matches('s'), least..=10 * 365 * 24 * 3600).map(Duration::from_secs)
}
