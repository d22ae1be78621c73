//! PostgreSQL's SQL in a session of a program that has the query engine inside it, such as one in Python: the functions, the
//! operators and the translation of statements, without users, limits and PostgreSQL's own tables. Uuids stay bytes.

use std::sync::Arc;

use coscan_upstream::{numbered_values, parse_statements, statement_to_plan, with_options, with_values};
use datafusion::common::{DataFusionError, ParamValues, Result};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use datafusion_pg_catalog::pg_catalog::create_current_database_udf;
use futures::future::{BoxFuture, FutureExt};

use super::dialect::{Averages, Typed, translated};
use super::session::only_one;
use super::types::CatalogTypes;
use super::{QueryError, explain, functions, nesting, parameter_types, parsable};

/// Equips a session for the plans of [`plan`]. `user` is the name that `current_user` returns.
pub fn speak(context: &SessionContext, user: &str) {
    functions::register(context);
    functions::register_owner(context, user);
    let database = context.copied_config().options().catalog.default_catalog.clone();
    context.register_udf(create_current_database_udf(&database));
    let session = context.session_id();
    let state = functions::with_operators(context.state());
    let mut config = state.config().clone();
    set_options(&mut config);
    let state = SessionStateBuilder::new_from_existing(state)
        .with_session_id(session)
        .with_config(config)
        .with_type_planner(Arc::new(CatalogTypes))
        .with_analyzer_rule(Arc::new(Typed))
        .with_optimizer_rule(Arc::new(Averages))
        .build();
    *context.state_ref().write() = state;
}

/// Sets what statements of PostgreSQL need.
pub(super) fn set_options(config: &mut SessionConfig) {
    let options = config.options_mut();
    // Timestamps with a zone need a zone, and now() is such a timestamp.
    options.execution.time_zone.get_or_insert_with(|| "+00:00".to_owned());
    // 2.5 is numeric, and round(2.5) is 3.
    options.sql_parser.parse_float_as_decimal = true;
}

/// Plans a statement in a session that [`speak`] has equipped, with the values of its parameters, which are `$1` and so on, or
/// `$name`. What only the session's own dialect has, such as lists in brackets, is read, too.
///
/// Names of columns of the result may have marks: see [`shown_schema`](super::shown_schema).
///
/// # Errors
///
/// If it is invalid, names a missing object, or a parameter has no value.
#[inline(never)]
pub fn plan<'a>(
    state: &'a SessionState,
    sql: &'a str,
    values: Option<ParamValues>,
) -> BoxFuture<'a, Result<LogicalPlan>> {
    async move {
        let mut statement = parsed(state, sql)?;
        let values = values.map(|values| numbered_values(&mut statement, values)).transpose()?;
        if is_about_tables(&statement) {
            return statement_to_plan(state, statement).await;
        }
        let types = values.iter().flatten().map(|value| value.value().data_type());
        let stated = types.map(|of| Some(of).filter(|of| !of.is_null())).collect();
        let statement = translated(statement).map_err(external)?;
        let plan = parameter_types::plan(state, statement, stated).await?;
        match values {
            Some(values) => with_values(plan, values),
            None => Ok(plan),
        }
    }
    .boxed()
}

fn parsed(state: &SessionState, sql: &str) -> Result<Statement> {
    let given = with_options(sql);
    let sql = parsable(&given);
    nesting::check(&sql).map_err(external)?;
    if let Some(statement) = explain::written(&sql) {
        return Ok(statement);
    }
    parse_statements(&sql).and_then(only_one).or_else(|error| {
        let dialect = state.config().options().sql_parser.dialect;
        state.sql_to_statement(&given, &dialect).map_err(|_| error)
    })
}

/// Returns whether a statement lists tables. The session has tables about them that differ from those of the server.
fn is_about_tables(statement: &Statement) -> bool {
    let Statement::Statement(ast) = statement else { return false };
    matches!(ast.as_ref(), Ast::ShowTables { .. } | Ast::ShowCreate { .. })
}

fn external(error: QueryError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::common::ScalarValue;

    use super::*;

    async fn answer(sql: &str, values: Option<Vec<ScalarValue>>) -> Result<String> {
        let context = SessionContext::new();
        speak(&context, "someone");
        let values = values.map(ParamValues::from);
        let plan = plan(&context.state(), sql, values).await?;
        let rows = coscan_upstream::execute_logical_plan(&context, plan).await?.collect().await?;
        let text = pretty_format_batches(&rows)?.to_string();
        Ok(text.lines().nth(3).unwrap_or_default().trim_matches(['|', ' ']).to_owned())
    }

    #[tokio::test]
    async fn a_session_speaks_postgresql() -> Result<()> {
        for (sql, wanted) in [
            ("SELECT 2^3", "8.0"),
            ("SELECT 'abc' SIMILAR TO 'a%'", "true"),
            ("SELECT to_char(DATE '2020-01-01', 'YYYY')", "2020"),
            ("SELECT INTERVAL '24 hours' = INTERVAL '1 day'", "true"),
            ("SELECT current_user", "someone"),
            ("SELECT [1, 2]", "[1, 2]"),
        ] {
            assert_eq!(answer(sql, None).await?, wanted, "{sql}");
        }
        let seven = || Some(vec![ScalarValue::from(7_i64)]);
        assert_eq!(answer("SELECT $1 + 1", seven()).await?, "8");
        assert!(answer("SELECT 1.0 / 0", None).await.is_err());
        assert!(answer("SELECT 1; SELECT 2", None).await.is_err());
        Ok(())
    }
}
