//! SQL of a user: sessions, statements, and the visible catalog.
//!
//! | module | contents |
//! |---|---|
//! | `session` | a user's connection to the engine: plan, check, run |
//! | `settings` | variables of a session, set and shown |
//! | `results` | the rows of a running statement, limited and stoppable |
//! | `registry` | sessions, running statements, finished statements |
//! | `permissions` | permissions of plans |
//! | `tables`, `visible`, `catalog` | the tables, those that a user sees, and the catalogs of them |
//! | `pg_catalog`, `information_schema`, `columns` | PostgreSQL's own tables about them |
//! | `definitions`, `computed` | columns of own tables without rows; own tables whose rows are computed |
//! | `attempt` | statements in the audit log that run no plan |
//! | `activity` | sessions and statements, as PostgreSQL's table of them |
//! | `ast` | construction and inspection of syntax trees |
//! | `dialect` | translation of PostgreSQL's SQL to that of the query engine |
//! | `types` | names of types that clients use |
//! | `text` | places in the text of a statement |
//! | `objects` | names of objects in catalogs |
//! | `zone` | time zones as clients write them |
//! | `tiers` | tables whose files lie in an archive or on tape |
//! | `functions` | functions of PostgreSQL that clients call |
//! | `work` | the threads of statements |
//! | `turns` | turns to run, shared fairly between users |
//! | `watched` | rules of the planner that end when their statement was stopped |
//! | `memory`, `size` | memory reserved by a user's queries; bytes of rows |
//! | `arguments` | arguments of functions |
//! | `parameter_types` | types of parameters whose client states none |
//! | `bounded` | memory limits for results of expressions |
//! | `nesting` | depth of a statement, before it is parsed |
//! | `expanded` | size of a statement after its views, WITH queries and columns are expanded |
//! | `again` | restart after a file was replaced, or with smaller batches |
//! | `explain` | EXPLAIN |
//! | `missing` | missing functions with the types of their arguments |
//! | `spoken` | the same SQL in a session of a program, such as one in Python |
//! | `error`, `sqlstate`, `said` | errors with PostgreSQL's codes and words |
//!
//! These modules know no protocol.

mod activity;
mod again;
mod arguments;
pub(crate) mod ast;
mod attempt;
mod bounded;
mod catalog;
mod columns;
mod computed;
mod definitions;
mod dialect;
mod error;
mod expanded;
mod explain;
mod functions;
mod information_schema;
mod memory;
mod missing;
mod nesting;
mod objects;
mod parameter_types;
mod parsable;
mod permissions;
mod pg_catalog;
mod registry;
mod results;
mod said;
mod session;
pub(crate) mod settings;
mod shown;
mod size;
mod spoken;
mod sqlstate;
mod tables;
mod text;
mod tiers;
mod turns;
mod type_numbers;
mod types;
mod visible;
mod watched;
mod work;
mod zone;

pub(crate) use columns::{modifier, type_shown};
pub(crate) use dialect::{
    array_elements, bytea, check_collations, compared, given_names, in_rows, keep_names,
};
pub use error::{More, QueryError};
pub(crate) use explain::{about, columns as result_columns};
pub use functions::function_session;
pub(crate) use functions::quoted_name;
pub(crate) use nesting::check as check_nesting;
pub(crate) use objects::{FUNCTION_NUMBER, OBJECT_NAME, OID_ARRAY, TO_REGTYPE};
pub(crate) use parameter_types::{of as parameters_of, position as parameter_position};
pub(crate) use parsable::{is_move, parsable};
pub(crate) use pg_catalog::{is_own_table, is_without_rows};
pub use registry::{Cancel, Ended, Finished, Phase, Protocol, Registry, RunningQuery, SessionEntry, Stop};
pub use results::Results;
pub(crate) use session::Unread;
pub use session::{Run, Session, SessionBase};
pub(crate) use settings::known::POSTGRES_VERSION;
pub use spoken::{plan, speak};
pub(crate) use tables::Sources;
pub use tables::{Tables, TablesChange};
pub(crate) use text::with_numbered_parameters;
pub(crate) use tiers::open_tiers;

pub(crate) use shown::shown;
pub use shown::shown_schema;
pub(crate) use type_numbers::type_number;
pub(crate) use zone::{abbreviated, time_zone, zone_at, zone_clock};
