//! The path from a statement to its plan. No function of this module is compiled into a caller. clippy.toml
//! lists the functions that other modules must not call.
#![expect(clippy::disallowed_methods, reason = "they are called here so that nobody else does")]

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use futures::future::{BoxFuture, FutureExt};

use crate::statement::all_columns::{with_columns, without_columns};
use crate::statement::mend::mend_statement;
use crate::statement::repeated::OwnNames;
use crate::statement::using::{MergedColumns, Read};
use crate::statement::with_options::with_options;
use crate::statement::{computed_keys, prepared, qualifiers, recursive, repeated, set_types, using};
use crate::walk::Tree;

/// Plans a statement as [`SessionContext::sql`] does, after the corrections of [`mend_statement`]. Options of
/// a table may also be written `WITH (key = value)`: [`with_options`].
///
/// # Errors
/// If the statement cannot be parsed or planned, or a setting has an invalid value.
#[inline(never)]
pub fn sql<'a>(ctx: &'a SessionContext, statement: &'a str) -> BoxFuture<'a, Result<DataFrame>> {
    async move {
        let state = ctx.state();
        let dialect = state.config().options().sql_parser.dialect;
        let mut statement = state.sql_to_statement(&with_options(statement), &dialect)?;
        mend_statement(&mut statement);
        let plan = statement_to_plan(&state, statement).await?;
        execute_logical_plan(ctx, plan).await
    }
    .boxed()
}

/// Plans statements without corrections.
pub trait PlainSql {
    /// Calls [`SessionContext::sql`].
    ///
    /// # Errors
    /// If the statement cannot be parsed or planned, or a setting has an invalid value.
    fn plain_sql<'a>(&'a self, statement: &'a str) -> BoxFuture<'a, Result<DataFrame>>;
}

impl PlainSql for SessionContext {
    #[inline(never)]
    fn plain_sql<'a>(&'a self, statement: &'a str) -> BoxFuture<'a, Result<DataFrame>> {
        self.sql(statement).boxed()
    }
}

/// Calls [`SessionState::statement_to_plan`], with `JOIN USING`, `NATURAL JOIN` and names by the SQL
/// standard. A prepared statement is planned when it runs, by [`execute_logical_plan`].
///
/// # Errors
/// If the statement cannot be planned.
#[inline(never)]
pub fn statement_to_plan(
    state: &SessionState,
    mut statement: Statement,
) -> BoxFuture<'_, Result<LogicalPlan>> {
    async move {
        let found = found(state, &mut statement, None).await?;
        let state = &found.planning(state);
        let plan = |statement| async move { found.finished(planned(state, statement).await) }.boxed();
        prepared::kept(statement, plan).await
    }
    .boxed()
}

/// The features of a statement that are not planned as in DataFusion.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    merged_columns: bool,
    subqueries: bool,
    sets: bool,
}

/// Corrects the names of a statement, and returns the corrections that remain for its plan.
///
/// # Errors
/// If it names join keys that do not exist or are ambiguous.
pub(crate) async fn found(
    state: &SessionState,
    statement: &mut Statement,
    types: Option<Arc<dyn TypePlanner>>,
) -> Result<Found> {
    fn look<T: Tree>(state: &SessionState, of: &mut T) -> Found {
        qualifiers::check(state, of);
        Found { merged_columns: false, subqueries: repeated::find(of), sets: set_types::has_sets(of) }
    }
    let found = match using::read(statement) {
        Some(Read::Statement(ast)) => look(state, ast),
        Some(Read::Query(query)) => look(state, query),
        None => Found { merged_columns: false, subqueries: false, sets: false },
    };
    let merged = using::mend(state, statement, types.clone()).await.map_err(repeated::with_error)?;
    recursive::widen(state, statement, types).await?;
    Ok(Found { merged_columns: merged, ..found })
}

impl Found {
    /// Returns the session with planners for features that DataFusion lacks.
    fn planning<'a>(&self, state: &'a SessionState) -> Cow<'a, SessionState> {
        let mut state = Cow::Borrowed(state);
        if self.subqueries {
            let _ = state.to_mut().register_relation_planner(Arc::new(OwnNames));
        }
        if self.merged_columns {
            let _ = state.to_mut().register_relation_planner(Arc::new(MergedColumns));
        }
        state
    }

    /// Corrects the finished plan.
    ///
    /// # Errors
    /// If `plan` is an error.
    pub(crate) fn finished(self, plan: Result<LogicalPlan>) -> Result<LogicalPlan> {
        let mut plan = computed_keys::with_columns(plan.map_err(repeated::with_error)?)?;
        if self.sets {
            plan = set_types::with_common_types(plan)?;
        }
        let names_columns = matches!(plan, LogicalPlan::Ddl(_));
        if self.subqueries || names_columns { repeated::shown(plan) } else { Ok(plan) }
    }
}

async fn planned(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    let plan = match without_columns(&mut statement) {
        false => state.statement_to_plan(statement).await?,
        true => with_columns(state.statement_to_plan(statement).await?)?,
    };
    with_numbers_of_one_kind(state, plan)
}

/// Applies the session's rule [`MIXED_NUMBERS`] to the plan.
pub(crate) fn with_numbers_of_one_kind(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    match state.analyzer().rules.iter().find(|rule| rule.name() == MIXED_NUMBERS) {
        Some(rule) => rule.analyze(plan, state.config_options()),
        None => Ok(plan),
    }
}

/// The analyzer rule that decides the common type of several kinds of numbers. It is applied to plans from
/// the start, because it decides types of columns, and DataFusion casts the numbers in a view when it is
/// created.
pub const MIXED_NUMBERS: &str = "mixed_numbers";

/// Calls [`SessionContext::execute_logical_plan`]: `SET` and `CREATE` take effect, and a prepared statement
/// gets its values.
///
/// # Errors
/// If such a statement fails.
#[inline(never)]
pub fn execute_logical_plan(ctx: &SessionContext, plan: LogicalPlan) -> BoxFuture<'_, Result<DataFrame>> {
    async move {
        let Some(given) = prepared::values_given(&plan) else { return ctx.execute_logical_plan(plan).await };
        let frame = ctx.execute_logical_plan(plan).await?;
        match prepared::with_values(frame.logical_plan(), given)? {
            Some(plan) => Ok(DataFrame::new(frame.into_parts().0, plan)),
            None => Ok(frame),
        }
    }
    .boxed()
}
