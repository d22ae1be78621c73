//! Cooperative scans in Apache DataFusion. SQL and results stay the same. Queries that read the same Parquet
//! files at the same time share one stream of I/O, one decode and one bounded buffer.
//!
//! The last rule of the physical optimizer replaces every scan of Parquet files by a [`CScan`] ([`rule`]). A
//! `CScan` plans its files as DataFusion does, prunes them and announces the remaining chunks to the engine.
//! It gets these chunks in any order and turns them into record batches.
//!
//! [`CoscanContext`] is a session ready to use. [`install`] equips an existing session. [`rewrite_plan`] is
//! for hosts that make plans elsewhere. The engine decides the order of reads and the contents of the buffer.
#![deny(missing_docs)]

mod clustered;
mod determined;
mod eligibility;
mod error;
mod file;
mod held_back;
mod interrupt;
mod kept_bytes;
mod key_filter;
mod load_control;
mod lock;
mod made_once;
pub mod options;
mod ordered;
pub mod remote;
pub mod rule;
mod scan;
mod session;
mod shared_result;
mod shared_subplan;
mod slices;
mod stores;
mod table;
mod wide_rows;

pub use coscan_upstream::{sql, with_all_digits};
pub use error::{engine_error, from_engine, is_gone};
pub use interrupt::{Interrupt, Interruptible, check_interrupt, in_parts, install_interrupts};
pub use load_control::{anonymous_bytes, default_query_memory, is_merge};
pub use made_once::MadeOnce;
pub use options::CoscanOptions;
pub use rule::foreign::declare_node;
pub use rule::{CooperativeScans, rewrite_plan};
pub use scan::{CScan, scanned_files};
pub use session::account::with_account;
pub use session::any_case::{AnyCaseSchema, in_any_case};
pub use session::context::{CoscanContext, CoscanContextBuilder};
pub use session::install::{install, with_mended_planning};
pub use session::layer::{SessionLayer, set_session_layer};
pub use session::statement::{Versions, once_in_statement, only_reads, version_age};
pub use session::url_tables::with_url_tables;
pub use shared_result::{in_small_batches, result_taken_from};
pub use stores::requests::{StoreRequests, store_requests};
pub use stores::{EnvironmentStores, SharedStores, store_for, store_with};
pub use table::adapter::adapters_for_declared_columns;
pub use table::lake::folder_url;
pub use table::listing::table_files;
pub use table::uuids::{as_uuid, is_uuid};
pub use wide_rows::Narrow;
