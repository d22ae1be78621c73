//! SQL for somebody: sessions, what runs in them, and what they see.
//!
//! | module | question |
//! |---|---|
//! | `session` | a user's connection to the engine: plan, check, run |
//! | `results` | the rows of a running statement, limited and stoppable |
//! | `registry` | which sessions there are, what runs in them, what has run |
//! | `permissions` | may this user do what this plan does? |
//! | `tables`, `catalog` | which tables there are, which of them a user sees |
//! | `pg_catalog`, `columns` | what PostgreSQL's own tables say about them |
//! | `activity` | who is connected and what runs, as PostgreSQL's table of it has it |
//! | `ast` | parts of statements: how they are made and looked into |
//! | `dialect` | what PostgreSQL's SQL says that the query engine's says otherwise |
//! | `types` | which names of types clients use |
//! | `tiers` | tables whose files lie in an archive or on tape |
//! | `functions` | functions of PostgreSQL that clients call when they connect |
//! | `work` | where do statements compute? |
//! | `memory`, `size` | what a user's queries have reserved; how many bytes rows have |
//! | `arguments` | what functions get |
//! | `bounded` | what expressions make, before they make it |
//! | `nesting` | how deep a statement is nested, before it is read |
//! | `again` | what runs once more because a file was replaced |
//! | `error`, `sqlstate` | why a statement failed, with PostgreSQL's code |
//!
//! It knows no protocol.

mod activity;
mod again;
mod arguments;
pub(crate) mod ast;
mod bounded;
mod catalog;
mod columns;
mod dialect;
mod error;
mod functions;
mod memory;
mod nesting;
mod permissions;
mod pg_catalog;
mod registry;
mod results;
mod session;
mod size;
mod sqlstate;
mod tables;
mod tiers;
mod types;
mod work;

pub(crate) use columns::modifier;
pub(crate) use dialect::{bytea, compared, shown, shown_schema};
pub use error::QueryError;
pub(crate) use functions::POSTGRES_VERSION;
pub(crate) use nesting::check as check_nesting;
pub(crate) use pg_catalog::{information_table, is_own_table, is_without_rows};
pub use registry::{Cancel, Finished, Protocol, Registry, RunningQuery, SessionEntry, Stop};
pub use results::Results;
pub use session::{Run, Session, SessionBase};
pub(crate) use tables::Sources;
pub use tables::{Tables, TablesChange};
pub(crate) use tiers::open_tiers;
