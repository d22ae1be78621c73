//! The simulator: the active buffer manager of `coscan-core` in virtual time.
//!
//! [`host`] plays the part of the engine: queries arrive, workers process chunks on simulated processors
//! ([`cpu`]), loads go to a device model. [`operator`] has the work of queries on their chunks, in order or
//! not. A [`workload::World`] and a [`workload::Workload`] define a run. They are plain data from a
//! [`scenario`] file and a seed, or from a recorded trace ([`replay`]). [`run`] runs a scenario under
//! policies and seeds, [`outcome`] has the figures of a run, [`statistics`] summarises them over seeds, and
//! [`bounds`] has lower bounds for every policy. [`cluster`] is a model of its own, of many machines over an object store. The crate draws no figures and knows no experiment of a
//! paper: see `coscan-figure` and `coscan-repro`.
#![deny(missing_docs)]

pub mod bounds;
pub mod cluster;
pub mod cpu;
pub mod host;
pub mod media;
pub mod operator;
pub mod outcome;
mod placement;
pub mod replay;
pub mod run;
pub mod scenario;
pub mod statistics;
pub mod workload;
