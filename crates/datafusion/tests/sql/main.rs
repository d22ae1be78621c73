//! Cooperative scans seen through SQL.

mod aggregates;
mod corpus;
mod data;
mod decided;
mod dynamic_filters;
mod equivalence;
mod faults;
mod points;
mod settings;
mod speed;
mod stores;
mod support;
mod tpch;
