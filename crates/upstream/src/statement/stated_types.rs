//! Plans a statement with types of parameters that are known: those that its client has stated, or those of its values.
//! DataFusion infers only the others.
//!
//! DataFusion's own entry for whole statements takes no such types. It infers one type for the operands of an
//! operator, so `at + $1` would add two timestamps, and refuses `$1 || $2`. This module provides the entry with the
//! types.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::{ParamValues, Result, internal_err, plan_datafusion_err};
use datafusion::dataframe::DataFrame;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{Expr as LogicalExpr, ExprSchemable, LogicalPlan, Projection, WriteOp};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::{Expr, Value, ValueWithSpan};
use futures::future::{BoxFuture, FutureExt};

use crate::statement::known::{Known, options};
use crate::statement::mend::mend_statement;
use crate::statement::plan::{execute_logical_plan, found, statement_to_plan, with_numbers_of_one_kind};
use crate::statement::with_options::with_options;
use crate::walk::visit_expressions_mut;

/// Plans a statement with the values of its parameters, which are `$1` and so on, or `$name`. The values have the
/// types that they bring. Statements that change something are carried out.
///
/// # Errors
/// If the statement cannot be parsed or planned, or a parameter has no value.
#[inline(never)]
pub fn sql_with_values<'a>(
    ctx: &'a SessionContext,
    statement: &'a str,
    values: ParamValues,
) -> BoxFuture<'a, Result<DataFrame>> {
    async move {
        let state = ctx.state();
        let dialect = state.config().options().sql_parser.dialect;
        let mut statement = state.sql_to_statement(&with_options(statement), &dialect)?;
        mend_statement(&mut statement);
        let values = numbered_values(&mut statement, values)?;
        let stated = values.iter().map(|value| Some(value.value().data_type()).filter(|of| !of.is_null()));
        let plan = plan(&state, statement, stated.collect(), None).await?;
        execute_logical_plan(ctx, with_values(plan, values)?).await
    }
    .boxed()
}

/// The plan with the values of its parameters. Values that are written to a table get the types of its columns.
///
/// DataFusion takes the type of the column for that of the parameter, plans no cast, and would write a value of another
/// type as it is.
///
/// # Errors
/// If a parameter has no value, or a value cannot have the type of its column.
pub fn with_values(plan: LogicalPlan, values: Vec<ScalarAndMetadata>) -> Result<LogicalPlan> {
    let plan = plan.replace_params_with_values(&ParamValues::List(values))?;
    let LogicalPlan::Dml(mut dml) = plan else { return Ok(plan) };
    if let (WriteOp::Insert(_) | WriteOp::Update, LogicalPlan::Projection(rows)) =
        (&dml.op, dml.input.as_ref())
    {
        let cast = |(expr, column): (&LogicalExpr, &FieldRef)| {
            if expr.get_type(rows.input.schema())? == *column.data_type() {
                return Ok(expr.clone());
            }
            let cast = expr.clone().unalias().cast_to(column.data_type(), rows.input.schema())?;
            Ok(cast.alias(column.name()))
        };
        let columns = dml.target.schema();
        let exprs = rows.expr.iter().zip(columns.fields()).map(cast).collect::<Result<_>>()?;
        dml.input = Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&rows.input))?));
    }
    Ok(LogicalPlan::Dml(dml))
}

/// Makes the parameters `$name` of a statement `$1` and so on. Returns the values of all parameters by their numbers.
///
/// # Errors
/// If a named parameter has no value.
pub fn numbered_values(statement: &mut Statement, values: ParamValues) -> Result<Vec<ScalarAndMetadata>> {
    match values {
        ParamValues::List(values) => Ok(values),
        ParamValues::Map(named) => numbered(statement, &named.into_iter().collect()),
    }
}

/// Makes the parameters `$name` of a statement `$1` and so on, in the order of their names. Returns their values.
fn numbered(
    statement: &mut Statement,
    named: &BTreeMap<String, ScalarAndMetadata>,
) -> Result<Vec<ScalarAndMetadata>> {
    let Statement::Statement(ast) = statement else { return Ok(Vec::new()) };
    let visited = visit_expressions_mut(ast.as_mut(), |expr| {
        if let Expr::Value(ValueWithSpan { value: Value::Placeholder(parameter), .. }) = expr {
            let name = parameter.trim_start_matches(['$', ':', '@']);
            match named.keys().position(|known| known == name) {
                Some(at) => *parameter = format!("${}", at + 1),
                None => return ControlFlow::Break(parameter.clone()),
            }
        }
        ControlFlow::Continue(())
    });
    match visited {
        ControlFlow::Break(parameter) => Err(plan_datafusion_err!("no value for parameter {parameter}")),
        ControlFlow::Continue(()) => Ok(named.values().cloned().collect()),
    }
}

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
    plan(state, statement, stated, Some(types))
}

fn plan(
    state: &SessionState,
    statement: Statement,
    stated: Vec<Option<DataType>>,
    types: Option<Arc<dyn TypePlanner>>,
) -> BoxFuture<'_, Result<LogicalPlan>> {
    let none = stated.iter().all(Option::is_none);
    match statement {
        Statement::Statement(ast) if !none => async move {
            let mut statement = Statement::Statement(ast);
            let found = found(state, &mut statement, types.clone()).await?;
            let known = Known::of(state, &statement, types).await?;
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
