//! The simulator: the active buffer manager of `coscan-core` in virtual time.

pub mod bounds;
pub mod cpu;
pub mod dbmin;
pub mod experiments;
pub mod figure;
pub mod fuzz;
pub mod host;
pub mod model;
pub mod outcome;
mod placement;
pub mod replay;
pub mod report;
pub mod repro;
pub mod run;
pub mod scenario;
pub mod workload;
