//! The papers' experiments, run and compared.
//!
//! [`reproduce`](fn@reproduce) runs them and returns a [`report::Report`]: a scoreboard, a section with text
//! and figures for each experiment, and the provenance of the numbers. Scenario files ([`experiments`]) hold
//! parameters and a paper's values. `judge` compares, `sections` writes the report's text, and `ours` shows
//! experiments that are in no paper. Experiments without a scenario have a module each: `chunked_io`,
//! `reuse`, `cost`, `lachesis`, `slow_media` and `throughput`, which plays page traces in the simulated
//! system of 1985 ([`dbmin`]). The crate prints nothing and writes no files.
#![deny(missing_docs)]

pub mod baseline;
mod chunked_io;
mod cost;
pub mod dbmin;
mod error;
pub mod experiments;
mod judge;
mod lachesis;
mod ours;
pub mod papers;
pub mod report;
mod reproduce;
mod reuse;
mod sections;
mod sensitivity;
mod slow_media;
mod throughput;
pub mod timeline;

pub use error::ReproError;
pub use reproduce::{names, reproduce};
