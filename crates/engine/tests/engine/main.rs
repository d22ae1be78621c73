//! The engine against real files, stores and faults.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests live in the real world")]

#[path = "../support/mod.rs"]
mod support;

mod ahead;
mod borders;
mod budget;
mod cancellation;
mod catalog;
mod chunks;
mod columns;
mod faults;
mod gate;
mod growth;
mod idle;
mod matching;
mod observe;
mod packing;
mod page_cache;
mod points;
mod profiles;
mod s3;
mod sharing;
mod stores;
mod tenants;
mod traffic;
mod types;
mod versions;
