//! `JOIN ... USING (k)` and `NATURAL JOIN`.
//!
//! For the merged column of every join, DataFusion 55 takes the left side's `k`, even where only the right
//! side has a row (<https://github.com/apache/datafusion/issues/22881>, 22998). In WHERE it calls `k`
//! ambiguous, and it refuses chains of FULL joins. This module rewrites such a join to a join with ON before
//! the statement is planned. Each name of a merged column becomes an expression: the left side's column for
//! INNER and LEFT joins, and the right side's for RIGHT joins. For FULL joins it is `coalesce` of both. `*`
//! becomes a list in which merged columns come once and first.
//!
//! `coalesce` is computed where the tables are joined, in a relation with a name of its own
//! ([`MergedColumns`]), so that every clause can refer to it. The same is done if an inner join merges
//! numbers of different types, or if a SELECT lists `k` and `a.k`, because two columns with one qualified
//! name cannot coexist. Other joins are planned as if ON had been written.
//!
//! Only statements with such a join are changed. Fields of a merged struct column are not resolved.

mod columns;
mod from;
mod merged;
mod names;
mod select;

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{Cte, Query, Select, TableFactor, TableWithJoins, Visitor};

use self::columns::Scope;
pub(crate) use self::merged::{MERGED, MergedColumns};
use self::names::Names;
use crate::statement::known::Known;
use crate::walk::{Tree, visit, visit_mut};

/// Replaces joins by columns of the same name. Returns whether the statement must be planned with
/// [`MergedColumns`].
///
/// # Errors
/// If a table is unknown, or a side of such a join does not have the column exactly once.
pub(crate) async fn mend(
    state: &SessionState,
    statement: &mut Statement,
    types: Option<Arc<dyn TypePlanner>>,
) -> Result<bool> {
    let has_joins = match read(statement) {
        Some(Read::Statement(ast)) => has_named_joins(ast),
        Some(Read::Query(query)) => has_named_joins(query),
        None => false,
    };
    if !has_joins {
        return Ok(false);
    }
    let types = types.or_else(|| SessionStateBuilder::new_from_existing(state.clone()).type_planner().take());
    let known = Known::of(state, statement, types).await?;
    let mut mender =
        Mender { known: &known, tables: Vec::new(), scopes: Vec::new(), strict: false, merged: 0 };
    let mut names = Names::of(&mut mender);
    let found = match read(statement) {
        Some(Read::Statement(ast)) => visit_mut(ast, &mut names),
        Some(Read::Query(query)) => visit_mut(query, &mut names),
        None => ControlFlow::Continue(()),
    };
    match found {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(mender.merged > 0),
    }
}

/// The part of a statement that reads tables.
pub(crate) enum Read<'a> {
    Statement(&'a mut datafusion::sql::sqlparser::ast::Statement),
    Query(&'a mut Query),
}

pub(crate) fn read(statement: &mut Statement) -> Option<Read<'_>> {
    match statement {
        Statement::Statement(statement) => Some(Read::Statement(statement)),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => Some(Read::Query(query)),
            CopyToSource::Relation(_) => None,
        },
        Statement::Explain(explain) => read(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => None,
    }
}

/// Returns whether a join of the statement has USING or NATURAL.
fn has_named_joins<T: Tree>(statement: &T) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            if names_keys(&select.from) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    visit(statement, &mut Search).is_break()
}

/// Returns whether a join of these tables, or of nested ones in parentheses, has USING or NATURAL.
fn names_keys(from: &[TableWithJoins]) -> bool {
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => {
            names_keys(std::slice::from_ref(table_with_joins))
        }
        _ => false,
    };
    from.iter().any(|table| {
        nested(&table.relation)
            || table.joins.iter().any(|join| nested(&join.relation) || from::is_by_name(&join.join_operator))
    })
}

/// The state of a walk through a statement.
struct Mender<'a> {
    known: &'a Known<'a>,
    /// The visible tables of WITH, the innermost last.
    tables: Vec<Cte>,
    /// The columns of each enclosing SELECT, the innermost last.
    scopes: Vec<Scope>,
    /// Whether columns of tables must be known. Otherwise, a table that cannot be planned by itself has no
    /// known columns.
    strict: bool,
    /// The number of relations with merged columns.
    merged: usize,
}
