//! Cooperative scans seen through SQL.

mod aggregates;
mod clustered;
mod corpus;
mod data;
mod decided;
mod dynamic_filters;
mod equivalence;
mod executions;
mod faults;
mod key_filters;
mod load_control;
mod ordered;
mod ordered_filters;
mod ordered_lies;
mod ordered_turns;
mod points;
mod resident;
mod resident_shapes;
mod rewrites;
mod settings;
mod shared_results;
mod shared_subplans;
mod speed;
mod stores;
mod support;
mod tpch;
