//! SQL text and its plans in Apache DataFusion.
//!
//! [`sql`] corrects statements that DataFusion 55 misreads ([`mend_statement`], [`with_options()`]) and plans
//! them. [`statement_to_plan`] plans `JOIN USING` and `NATURAL JOIN` by the SQL standard in every clause. It
//! refuses ambiguous names and names with a schema that no table has, and gives EXCEPT and INTERSECT the
//! common types of both sides. [`plan_with_types`] plans a statement whose client has stated types of
//! parameters, and [`sql_with_values`] one with values. A prepared statement is planned when it runs.
//!
//! In DataFusion, each path from a statement to a plan is an asynchronous function. Rust compiles it, with
//! the whole planner below, again in every crate and test that awaits it. [`PlainSql`], [`statement_to_plan`]
//! and [`execute_logical_plan`] are these paths compiled once, for all callers.

#![deny(missing_docs)]

mod all_columns;
mod computed_keys;
mod counted_sets;
mod dialect;
mod grouping_sets;
mod known;
mod like_subqueries;
mod long_conditions;
mod mend;
mod named_windows;
mod plan;
mod precedence;
mod prepared;
mod qualifiers;
mod recursive;
mod repeated;
mod row_values;
mod set_types;
mod stated_types;
mod using;
mod with_options;

pub use counted_sets::COUNTED_ROWS;
pub use dialect::{parse_postgresql, parse_statements};
pub use grouping_sets::{DISTINCT_SETS, GROUPING_SETS, grouping_set_count};
pub use mend::mend_statement;
pub use plan::{MIXED_NUMBERS, PlainSql, execute_logical_plan, sql, statement_to_plan};
pub use repeated::REPEATED;
pub use stated_types::{numbered_values, plan_with_types, sql_with_values, with_values};
pub use with_options::with_options;
