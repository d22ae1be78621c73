//! Cooperative scans seen through SQL.

mod aggregates;
mod believed;
mod chosen_rows;
mod clustered;
mod corpus;
mod data;
mod decided;
mod dynamic_filters;
mod equivalence;
mod executions;
mod fairness;
mod faults;
mod few_rows;
mod first_rows;
mod foreign;
mod guards;
mod join_settings;
mod key_filters;
mod lasting_casts;
mod legacy;
mod listing;
mod load_control;
mod many_files;
mod mixed_numbers;
mod names;
mod null_keys;
mod odd_stores;
mod ordered;
mod ordered_filters;
mod ordered_lies;
mod ordered_pieces;
mod ordered_turns;
mod overflow;
mod points;
mod presigned;
mod rejected_pairs;
mod resident;
mod resident_shapes;
mod rewrites;
mod rounded;
mod schemas;
mod settings;
mod shared_aggregates;
mod shared_results;
mod shared_subplans;
mod speed;
mod statements;
mod stores;
mod subqueries;
mod support;
mod tables;
mod text_filters;
mod times;
mod tpch;
mod using;

// Tests of other crates use the rest of these two.
#[allow(dead_code)]
#[path = "../../../parquet/tests/legacy/cases.rs"]
mod cases;
#[allow(dead_code)]
#[path = "../corruption/thrift.rs"]
mod thrift;

// For `cases`, which is shared with another crate's tests.
use datafusion::{arrow, parquet};
