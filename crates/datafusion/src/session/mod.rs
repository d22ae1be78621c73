//! Sessions: the installation of cooperative scans, settings, and corrections of plans.

pub(crate) mod account;
pub(crate) mod any_case;
pub(crate) mod constant_keys;
pub(crate) mod context;
pub(crate) mod counted_sets;
pub(crate) mod dependencies;
pub(crate) mod float_extrema;
pub(crate) mod install;
pub(crate) mod join_settings;
pub(crate) mod lasting_casts;
pub(crate) mod mended;
pub(crate) mod mixed_numbers;
pub(crate) mod null_keys;
pub(crate) mod null_lists;
pub(crate) mod rounded;
pub(crate) mod subqueries;
pub(crate) mod url_tables;
