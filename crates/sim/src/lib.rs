//! The simulator: the active buffer manager of `coscan-core` in virtual time.
//!
//! [`host`] plays the part of the engine: queries arrive, workers process chunks on simulated processors ([`cpu`]),
//! loads go to a device model. What queries do with their chunks, in order or not, is in [`operator`]. What happens is
//! given by a [`workload::World`] and a [`workload::Workload`], plain data that come from a [`scenario`] file and a seed or
//! from a recorded trace ([`replay`]). [`run`] runs a scenario under policies and seeds, [`outcome`] has the figures,
//! [`statistics`] what is said of them over seeds, [`bounds`] what no policy can better. Nothing is drawn here, and no
//! experiment of a paper is known: see `coscan-figure` and `coscan-repro`.
#![deny(missing_docs)]

pub mod bounds;
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
