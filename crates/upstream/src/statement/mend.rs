//! Corrections of parsed statements that DataFusion 55 does not know or misreads.

use datafusion::sql::parser::{CopyToSource, Statement};

use crate::statement::{
    counted_sets, grouping_sets, like_subqueries, long_conditions, named_windows, precedence, row_values,
};
use crate::walk::Tree;

/// Corrects a statement that DataFusion 55 has parsed. Conditions after `IS DISTINCT FROM` are grouped by
/// precedence. Rows of values are compared by their values. Keys beside grouping sets become grouping sets.
/// Windows that begin with the name of another get its parts. Different subqueries get different names. Long
/// chains of AND and OR are balanced.
/// EXCEPT ALL and INTERSECT ALL are marked by [`COUNTED_ROWS`](crate::COUNTED_ROWS), for sessions that count
/// their rows.
pub fn mend_statement(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => mend(statement),
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                mend(query);
            }
        }
        Statement::Explain(explain) => mend_statement(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
}

fn mend<T: Tree>(statement: &mut T) {
    precedence::group(statement);
    row_values::compare(statement);
    counted_sets::mark(statement);
    grouping_sets::separate(statement);
    named_windows::complete(statement);
    like_subqueries::tell_apart(statement);
    long_conditions::balance(statement);
}
