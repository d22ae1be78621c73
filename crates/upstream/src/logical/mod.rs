//! Corrections of logical plans, and planners around the session's own.

pub(crate) mod computed_keys;
pub(crate) mod constant_keys;
pub(crate) mod constants_behind;
pub(crate) mod counted_sets;
pub(crate) mod dependencies;
pub(crate) mod dictionary_numbers;
pub(crate) mod estimates;
pub(crate) mod float_extrema;
pub(crate) mod groups_without_rows;
pub(crate) mod guarded_arguments;
pub(crate) mod join_settings;
pub(crate) mod lasting_casts;
pub(crate) mod merged_lists;
pub(crate) mod missing_rows;
pub(crate) mod mixed_numbers;
pub(crate) mod moving_frames;
pub(crate) mod null_keys;
pub(crate) mod null_lists;
pub(crate) mod plain_laterals;
pub(crate) mod rounded;
pub(crate) mod subqueries;
pub(crate) mod subquery_columns;
mod usual;
