//! Many clients over one engine: what `coscan serve` runs.
//!
//! A [`Server`] listens, finds out who asks, and lets them run SQL in sessions of their own over tables that all share. Scans
//! meet in the engine, as those of one program do. Whatever protocol a statement comes by, it goes through
//! [`sql::Session`], which checks it, counts it, limits it and can stop it.
//!
//! ```text
//! server    starts, reloads, drains
//!  ├── listen     sockets, TLS, which protocol is spoken, how many connections
//!  │    ├── postgres   the PostgreSQL protocol: psql, drivers, dashboards
//!  │    ├── flight     Arrow Flight SQL: ADBC and other columnar clients
//!  │    └── http       the live page, health, metrics
//!  ├── sql        sessions, what runs in them, tables, the catalog a user sees
//!  ├── access     users, passwords, roles, limits, the audit log
//!  └── config     every setting in one table
//! ```
//!
//! No scheduling and no SQL of its own: [`coscan_datafusion`] does both.
#![deny(missing_docs)]

pub mod access;
pub mod config;
mod error;
mod flight;
pub mod http;
mod listen;
mod postgres;
mod server;
pub mod sql;
mod state;

pub use config::ServeConfig;
pub use error::ServeError;
pub use server::Server;
pub use state::{SharedState, State};
