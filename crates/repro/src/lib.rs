//! The papers' experiments, run and compared.
//!
//! [`reproduce`](fn@reproduce) runs them and gives a [`report::Report`]: a scoreboard, a section with text and figures
//! for each experiment, and where the numbers come from. Scenario files ([`experiments`]) hold parameters and what a
//! paper measured; `judge` compares, `sections` writes what the report says; `ours` shows what is no paper's. Experiments that are no scenarios have a
//! module each: `chunked_io`, `reuse`, `cost`, `lachesis`, and `throughput`, which plays traces of pages in the simulated system of
//! 1985 ([`dbmin`]). Nothing is printed or written to files here.
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
pub mod report;
mod reproduce;
mod reuse;
mod sections;
mod slow_media;
mod throughput;
pub mod timeline;

pub use error::ReproError;
pub use reproduce::{names, reproduce};
