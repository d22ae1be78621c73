//! SQL as text, and its plans in Apache DataFusion.
//!
//! [`sql`] plans a statement as it is meant where DataFusion 55 reads something else: [`mend_statement`], [`with_options`].
//! [`statement_to_plan`] plans `JOIN USING` and `NATURAL JOIN` as SQL has them, in every clause, refuses names that are ambiguous
//! or have a schema that no table has, and gives EXCEPT and INTERSECT the types that both sides have in common.
//! [`plan_with_types`] plans one whose parameters have types that its client has stated. What `PREPARE` prepares is planned when it
//! runs.
//!
//! Each of DataFusion's ways from a statement to a plan is an asynchronous function, which Rust compiles anew in every crate and
//! test that awaits it, with the whole planner below. [`PlainSql`], [`statement_to_plan`] and [`execute_logical_plan`] are those
//! ways compiled once: whoever needs a plan takes it from here.

#![deny(missing_docs)]

mod all_columns;
mod counted_sets;
mod known;
mod mend;
mod plan;
mod precedence;
mod prepared;
mod qualifiers;
mod repeated;
mod row_values;
mod set_types;
mod stated_types;
mod using;
mod with_options;

pub use counted_sets::COUNTED_ROWS;
pub use mend::mend_statement;
pub use plan::{MIXED_NUMBERS, PlainSql, execute_logical_plan, sql, statement_to_plan};
pub use repeated::REPEATED;
pub use stated_types::plan_with_types;
pub use with_options::with_options;
