//! One file of a scan: its needed rows and columns, and the expressions over them.
//!
//! [`version`] finds the version of a file to read, and [`version_bytes`] reads it outside the engine.
//! [`plan`] follows DataFusion's own scan step by step. [`pruning`] and [`always_true`] use statistics.
//! [`variant`] and [`row_filter`] define the reading of row groups. [`conditions`], [`ranges`] and
//! [`dictionaries`] test rows, and [`packed`] has the form of their columns. [`shared_answers`] shares test
//! results between queries. [`join_filter`] and [`known_keys`] drop rows that no join above wants. This
//! module knows no other scans.

pub(crate) mod always_true;
pub(crate) mod batch;
pub(crate) mod bounded_reader;
pub(crate) mod chosen_rows;
pub(crate) mod conditions;
pub(crate) mod counters;
pub(crate) mod decoding;
pub(crate) mod dictionaries;
pub(crate) mod expressions;
pub(crate) mod few_pages;
pub(crate) mod footers;
pub(crate) mod join_filter;
pub(crate) mod known_keys;
pub(crate) mod marks;
pub(crate) mod packed;
pub(crate) mod plan;
pub(crate) mod pruning;
pub(crate) mod ranges;
pub(crate) mod recipe;
pub(crate) mod request;
pub(crate) mod row_filter;
pub(crate) mod shared_answers;
pub(crate) mod table_root;
pub(crate) mod variant;
pub(crate) mod version;
pub(crate) mod version_bytes;
pub(crate) mod view;
