//! Plans a statement with types of parameters that its client has stated. DataFusion infers only the others.
//!
//! DataFusion's own entry for whole statements takes no such types. It infers one type for the operands of an
//! operator, so `at + $1` would add two timestamps. This module provides the entry with the types.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use futures::future::{BoxFuture, FutureExt};

use crate::statement::known::{Known, options};
use crate::statement::plan::{found, statement_to_plan, with_numbers_of_one_kind};

/// Plans a statement. `stated` has the known types of `$1` and so on, and `types` knows the type names that a
/// cast may use.
///
/// # Errors
/// If the statement cannot be planned.
#[inline(never)]
pub fn plan_with_types(
    state: &SessionState,
    statement: Statement,
    stated: Vec<Option<DataType>>,
    types: Arc<dyn TypePlanner>,
) -> BoxFuture<'_, Result<LogicalPlan>> {
    let none = stated.iter().all(Option::is_none);
    match statement {
        Statement::Statement(ast) if !none => async move {
            let mut statement = Statement::Statement(ast);
            let found = found(state, &mut statement, Some(Arc::clone(&types))).await?;
            let known = Known::of(state, &statement, Some(types)).await?;
            let Statement::Statement(ast) = statement else {
                return internal_err!("the statement became another");
            };
            let field = |of: DataType| -> FieldRef { Arc::new(Field::new("", of, true)) };
            let fields = stated.into_iter().map(|of| of.map(field)).collect();
            let mut context = PlannerContext::new().with_prepare_param_data_types(fields);
            let planner = SqlToRel::new_with_options(&known, options(state));
            let plan = planner.sql_statement_to_plan_with_context(*ast, &mut context);
            found.finished(plan.and_then(|plan| with_numbers_of_one_kind(state, plan)))
        }
        .boxed(),
        statement => statement_to_plan(state, statement),
    }
}
