//! Many clients over one engine: the server of `coscan serve`.
//!
//! A [`Server`] listens, authenticates clients, and runs their SQL in sessions of their own over tables that all
//! share. The engine shares scans of all sessions, as it does within one program. Statements of every protocol go
//! through [`sql::Session`], which checks, counts, limits and can stop them.
//!
//! ```text
//! server    starts, reloads, drains
//!  ├── listen     which protocol is spoken; transport below it: sockets, TLS, how many connections
//!  │    ├── postgres   the PostgreSQL protocol: psql, drivers, dashboards
//!  │    ├── flight     Arrow Flight SQL: ADBC and other columnar clients
//!  │    └── http       the live page, health, metrics
//!  ├── traces     spans of statements, for OpenTelemetry
//!  ├── sql        sessions, what runs in them, tables, the catalog a user sees
//!  ├── values     values in PostgreSQL's text and binary formats
//!  ├── access     users, passwords, roles, limits, the audit log
//!  └── config     every setting in one table
//! ```
//!
//! [`LocalSession`] is a session of the same SQL inside the calling process.
//!
//! The server has no scheduling and no SQL engine of its own: [`coscan_datafusion`] does both.
#![deny(missing_docs)]

pub mod access;
mod cancel_keys;
pub mod config;
mod error;
mod flight;
pub mod http;
mod listen;
mod local;
mod postgres;
mod server;
pub mod sql;
mod state;
mod traces;
mod transport;
mod values;

pub use config::ServeConfig;
pub use error::ServeError;
pub use local::{LocalColumn, LocalSession};
pub use server::Server;
pub use sql::shown_schema;
pub use state::{SharedState, State};
pub use values::shown_values;
