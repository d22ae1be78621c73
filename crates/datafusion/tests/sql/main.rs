//! Cooperative scans seen through SQL.

mod corpus;
mod data;
mod debug;
mod dynamic_filters;
mod equivalence;
mod faults;
mod settings;
mod support;
mod tpch;
