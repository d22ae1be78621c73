//! Translation of PostgreSQL's SQL to that of the query engine.
//!
//! | module | translation |
//! |---|---|
//! | `arrays` | comparisons with ANY and ALL of an array, `ARRAY(SELECT ...)` |
//! | `fetch` | FETCH FIRST, limits that are no integers |
//! | `forms` | clauses and expressions: SIMILAR TO, COLLATE, intervals with a clock, casts to JSON, numbers with an exponent |
//! | `casts` | aggregates and keys that differ only in casts |
//! | `calls` | calls of functions with other names, arguments or types |
//! | `names` | PostgreSQL's names for columns without a name; several columns with equal names |
//! | `lateral` | names of columns of subqueries with LATERAL |
//! | `refused` | clauses that PostgreSQL refuses |
//! | `literals` | texts that are cast to times: 'now', 'epoch', times without seconds; lists in braces |
//! | `dates` | dates and times in other forms than that of ISO 8601 |
//! | `infinite` | infinite times in comparisons |
//! | `rows` | functions that return rows |
//! | `json` | functions that make JSON |
//! | `typed` | casts and calls that depend on types; it calls `literals` and `infinite` |
//! | `numbers` | division and multiplication of decimals |
//! | `numerics` | sums, parts of times and branches that are numeric |
//! | `integers` | the type of a whole number by what it comes from |
//! | `averages` | averages of decimals |
//! | `operators` | operators that are functions, slices of arrays |
//! | `sample` | TABLESAMPLE |
//! | `bytes` | bytes written as text |
//! | `unions` | text constants in UNION |
//! | `uuids` | columns of files that are uuids |
//! | `constants` | text constants in lists, in BETWEEN and in CASE |
//! | `chosen` | values of CASE, COALESCE and subqueries that are JSON or uuids |
//! | `date_sums` | sums of dates and intervals in the result |
//! | `ordered_lists` | lists of the rows of an ordered subquery |
//! | `whole_rows` | whole rows as records and as JSON; the value of a function in FROM |
//! | `plain_texts` | casts of JSON and of uuids to text |
//! | `each` | calls such a change for each expression of a plan |
//! | `outer_aggregates` | aggregates of columns of the query around a subquery |
//!
//! `names` and `forms` change the parsed statement; `forms` calls `calls`, `fetch`, `arrays`, `operators`, `ordered_lists`, `rows` and
//! `sample`. `numbers` plans expressions.
//! `uuids` plans tables. `typed`, `averages`, `numerics`, `unions`, `constants`, `chosen`, `date_sums`, `whole_rows` and
//! `plain_texts` change the plan, where all types are known.

mod arrays;
mod averages;
mod bytes;
mod calls;
mod casts;
mod chosen;
mod constants;
mod date_sums;
mod dates;
mod each;
mod fetch;
mod forms;
mod infinite;
mod integers;
mod interval;
mod json;
mod lateral;
mod literals;
mod names;
mod numbers;
mod numerics;
mod operators;
mod ordered_lists;
mod outer_aggregates;
mod plain_texts;
mod refused;
mod rows;
mod sample;
mod typed;
mod unions;
mod uuids;
mod whole_rows;

use std::ops::ControlFlow;

use coscan_upstream::mend_statement;
use coscan_upstream::walk::visit_mut;
use datafusion::common::DataFusionError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, Set, ShowCreateObject, Statement as Ast};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

pub(crate) use arrays::{ALL, ANY, array_elements, compared, in_rows};
pub(crate) use averages::Averages;
pub(crate) use bytes::bytea;
pub(crate) use chosen::with_marks;
pub(crate) use constants::with_operand_types;
pub(crate) use date_sums::with_timestamps;
pub(crate) use forms::check_collations;
pub(crate) use interval::in_words;
pub(crate) use names::{given_names, keep_names};
pub(crate) use numbers::Numbers;
pub(crate) use numerics::with_numerics;
pub(crate) use outer_aggregates::check_outer_aggregates;
pub(crate) use plain_texts::with_plain_texts;
pub(crate) use typed::Typed;
pub(crate) use unions::with_typed_constants;
pub(crate) use uuids::{StoredUuids, Uuids};
pub(crate) use whole_rows::{with_records, with_rows_for};

use super::ast::{folded, literal, text};
use super::visible::{DEFINITIONS, INFORMATION_SCHEMA};
use super::{QueryError, explain, time_zone};

/// The statement in the query engine's SQL.
///
/// # Errors
///
/// If it has a form that the query engine would understand differently.
pub(crate) fn translated(mut statement: Statement) -> Result<Statement, QueryError> {
    translate(&mut statement)?;
    explain::read(&mut statement)?;
    mend_statement(&mut statement);
    Ok(statement)
}

fn translate(statement: &mut Statement) -> Result<(), QueryError> {
    match statement {
        Statement::Statement(ast) => translate_ast(ast),
        Statement::Explain(explain) => translate(&mut explain.statement),
        _ => Ok(()),
    }
}

/// The answer to SHOW TABLES, which the query engine would fill with the tables of PostgreSQL's catalog.
const TABLES: &str = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables \
                      WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2, 3";

/// The answer to SHOW CREATE TABLE. The subquery refuses a missing table.
fn definition_of(table: &ObjectName) -> String {
    let parts = table.0.iter().rev().filter_map(|part| part.as_ident()).map(folded);
    let columns = ["table_name", "table_schema", "table_catalog"].into_iter().zip(parts);
    let same: Vec<String> = columns.map(|(column, name)| format!("{column} = {}", literal(name))).collect();
    format!(
        "SELECT table_catalog, table_schema, table_name, definition FROM {INFORMATION_SCHEMA}.{DEFINITIONS} \
         WHERE {} AND NOT EXISTS (SELECT 1 FROM {table} WHERE false)",
        same.join(" AND ")
    )
}

fn translate_ast(ast: &mut Ast) -> Result<(), QueryError> {
    let listing = match &*ast {
        Ast::ShowTables { .. } => Some(TABLES.to_owned()),
        Ast::ShowCreate { obj_type: ShowCreateObject::Table, obj_name } => Some(definition_of(obj_name)),
        _ => None,
    };
    if let Some(listing) = listing {
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &listing).map_err(DataFusionError::from)?;
        parsed.into_iter().for_each(|query| *ast = query);
    }
    refused::check(&*ast)?;
    // Names come from the original text.
    match ast {
        Ast::Query(query) => names::name_columns(query),
        Ast::CreateView(view) => names::name_columns(&mut view.query),
        Ast::Set(set) => {
            if let Set::SetTimeZone { value, .. } = set {
                let zone = text(value).map_or_else(|| value.to_string(), str::to_owned);
                let values = vec![literal(time_zone(&zone)?)];
                let variable = ObjectName::from(vec![Ident::new("timezone")]);
                *set = Set::SingleAssignment { scope: None, hivevar: false, variable, values };
            }
        }
        Ast::Explain { statement, .. } => {
            if let Ast::Query(query) = statement.as_mut() {
                names::name_columns(query);
            }
        }
        _ => {}
    }
    match visit_mut(ast, &mut forms::Forms) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
