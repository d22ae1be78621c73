//! The engine against real files, stores and faults.

#[path = "../support/mod.rs"]
mod support;

mod budget;
mod cancellation;
mod columns;
mod faults;
mod points;
mod s3;
mod sharing;
mod types;
