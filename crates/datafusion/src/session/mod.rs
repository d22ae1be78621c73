//! Sessions: the installation of cooperative scans, settings, corrections of plans, and object stores.

pub(crate) mod account;
pub(crate) mod any_case;
pub(crate) mod bounded_store;
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
pub mod options;
pub(crate) mod presigned;
pub(crate) mod remote;
pub(crate) mod rounded;
pub(crate) mod stores;
pub(crate) mod subqueries;

pub(crate) mod url_tables;
