//! Statements as they are written, where DataFusion 55 does not know them or reads something else.

use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CopyToSource, Statement};

use crate::session::with_options::with_options;
use crate::session::{counted_sets, precedence};

/// Plans a statement in a session, as [`SessionContext::sql`] does, but for what is mended in it: [`mend_statement`]. Options of
/// a table may be written `WITH (key = value)`, too: [`with_options`].
///
/// # Errors
/// If the statement cannot be parsed or planned, or a setting cannot have its value.
pub async fn sql(ctx: &SessionContext, statement: &str) -> Result<DataFrame> {
    let state = ctx.state();
    let dialect = state.config().options().sql_parser.dialect;
    let mut statement = state.sql_to_statement(&with_options(statement), &dialect)?;
    mend_statement(&mut statement);
    let plan = state.statement_to_plan(statement).await?;
    ctx.execute_logical_plan(plan).await
}

/// Mends a statement that DataFusion 55 has read: conditions after `IS DISTINCT FROM` are grouped as they bind, and EXCEPT ALL and
/// INTERSECT ALL are marked for sessions [that count their rows](crate::with_mended_planning).
pub fn mend_statement(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => {
            precedence::group(statement);
            counted_sets::mark(statement);
        }
        Statement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                precedence::group(query);
                counted_sets::mark(query);
            }
        }
        Statement::Explain(explain) => mend_statement(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
    }
}
