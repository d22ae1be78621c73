//! One file of a scan: which of its rows are needed, in which columns, and what is computed of them.
//!
//! [`version`] says which version of a file is read, [`plan`] follows DataFusion's own scan step by step. [`pruning`] and
//! [`always_true`] use statistics, [`variant`] and [`row_filter`] say how row groups are read, [`conditions`], [`ranges`] and
//! [`dictionaries`] how rows are tested, [`packed`] in which form their columns come, [`shared_answers`] what of it is found
//! once for several queries, [`join_filter`] and [`known_keys`] which rows no join above wants. Nothing here reads data or
//! knows other scans.

pub(crate) mod always_true;
pub(crate) mod batch;
pub(crate) mod bounded_reader;
pub(crate) mod conditions;
pub(crate) mod counters;
pub(crate) mod decoding;
pub(crate) mod dictionaries;
pub(crate) mod expressions;
pub(crate) mod few_pages;
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
pub(crate) mod view;
