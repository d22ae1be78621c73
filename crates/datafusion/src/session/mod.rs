//! Sessions: the installation of cooperative scans, settings, and corrections of plans.

pub(crate) mod account;
pub(crate) mod admission;
pub(crate) mod any_case;
pub(crate) mod context;
pub(crate) mod install;
pub(crate) mod layer;
pub(crate) mod queries;
pub(crate) mod statement;
pub(crate) mod url_tables;
