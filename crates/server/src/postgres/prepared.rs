//! Prepared statements of the protocol and of SQL.
//!
//! A statement is planned when it is prepared. It is planned again when it is used after tables, views or settings
//! may have changed. The files of a table are listed each time a plan runs. As in PostgreSQL, parameters keep the
//! types that the client knows, and columns must not change.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion::sql::sqlparser::ast;
use pgwire::api::Type;
use pgwire::api::portal::Format;
use pgwire::error::PgWireResult;
use pgwire::messages::extendedquery::Bind;

use super::connection::{Connection, has_rows};
use super::error::error;
use super::parameters::{self, Parameter};
use super::rows::fields;
use super::stated::cast_parameters;
use super::statement::{Statement, ends_failure};
use crate::sql::{QueryError, result_columns};

/// A prepared statement.
pub(crate) struct Prepared {
    pub(crate) sql: String,
    /// The parameter types that the client has stated.
    given: Vec<Option<Type>>,
    /// `None` for an empty text.
    pub(crate) statement: Option<Statement>,
    pub(crate) parameters: Vec<Parameter>,
    planned: Planned,
    /// The reservation of the statement in the user's memory.
    _reserved: MemoryReservation,
}

/// The moment at which a statement was planned.
#[derive(Clone, Copy, PartialEq)]
struct Planned {
    /// The connection's count of executions.
    done: u64,
    /// The connection's count of changed settings and the count of table changes. `None` if the plan reads tables
    /// that are not the server's.
    holds: Option<(u64, u64)>,
}

/// The properties of a column that a client relies on: name, type, modifier.
type Column = (String, u32, i32);

impl Prepared {
    fn plan(&self) -> Option<&LogicalPlan> {
        match &self.statement {
            Some(Statement::Plan(plan) | Statement::Declare { plan, .. } | Statement::CopyOut(plan, _)) => {
                Some(plan)
            }
            _ => None,
        }
    }

    /// The plan with these parameter values.
    pub(crate) fn bound(&self, plan: &LogicalPlan, values: &ParamValues) -> Result<LogicalPlan, QueryError> {
        match self.parameters.is_empty() {
            true => Ok(plan.clone()),
            false => plan.clone().replace_params_with_values(values).map_err(QueryError::from),
        }
    }
}

impl Connection<'_> {
    /// Plans a text with at most one statement. `exact` has the parameter types to use where the client has stated
    /// none.
    pub(crate) async fn prepared(
        &mut self,
        sql: String,
        given: Vec<Option<Type>>,
        exact: &[Parameter],
    ) -> PgWireResult<Prepared> {
        let reserved = self.session.reserve_plan("a prepared statement", &sql)?;
        let (done, changed) = self.extended.moment();
        let tables = self.session.table_changes();
        let mut types = parameters::stated(&given);
        let mut told = given.clone();
        for (at, exact) in exact.iter().enumerate() {
            types.resize(types.len().max(at + 1), None);
            told.resize(told.len().max(at + 1), None);
            types[at] = types[at].take().or_else(|| exact.arrow.clone());
            told[at] = Some(exact.told.clone());
        }
        let mut parsed = self.read(&sql).await?;
        let statement = match (parsed.pop(), parsed.is_empty()) {
            (None, _) => None,
            (Some(mut parsed), true) => {
                self.admit(ends_failure(&parsed))?;
                cast_parameters(&mut parsed, &given);
                Some(self.plan(parsed, &types).await?)
            }
            _ => return Err(error("42601", "cannot insert multiple commands into a prepared statement")),
        };
        let planned = Planned { done, holds: None };
        let mut prepared =
            Prepared { sql, given, statement, parameters: Vec::new(), planned, _reserved: reserved };
        if let Some(plan) = prepared.plan() {
            let holds = self.session.holds(plan).then_some((changed, tables));
            prepared.parameters = parameters::of(plan, &told)?;
            prepared.planned.holds = holds;
        }
        Ok(prepared)
    }

    /// The statement of this name. It is planned again if something may have changed.
    pub(crate) async fn current(&mut self, name: &str) -> PgWireResult<Arc<Prepared>> {
        let before = self.extended.statement(name)?;
        let (done, changed) = self.extended.moment();
        let holds = before.planned.holds == Some((changed, self.session.table_changes()));
        if before.plan().is_none() || before.planned.done == done || holds {
            return Ok(before);
        }
        let mut now = Box::pin(self.prepared(before.sql.clone(), before.given.clone(), &[])).await?;
        let told = |of: &Prepared| of.parameters.iter().map(|of| of.told.clone()).collect::<Vec<_>>();
        if told(&now) != told(&before) {
            now =
                Box::pin(self.prepared(before.sql.clone(), before.given.clone(), &before.parameters)).await?;
        }
        if self.columns_of(&now)? != self.columns_of(&before)? {
            return Err(error("0A000", "cached plan must not change result type"));
        }
        let now = Arc::new(now);
        self.extended.keep(name.to_owned(), now.clone());
        Ok(now)
    }

    fn columns_of(&self, prepared: &Prepared) -> PgWireResult<Option<Vec<Column>>> {
        let Some(plan) = prepared.plan().filter(|plan| has_rows(plan)) else { return Ok(None) };
        let fields = fields(&result_columns(plan), &Format::UnifiedText, &self.text())?;
        let column = |of: &pgwire::api::results::FieldInfo| {
            (of.name().to_owned(), of.datatype().oid(), of.type_modifier())
        };
        Ok(Some(fields.iter().map(column).collect()))
    }

    /// PREPARE.
    pub(crate) async fn prepare(
        &mut self,
        name: &str,
        types: &[ast::DataType],
        sql: &str,
    ) -> PgWireResult<()> {
        self.extended.admits(name)?;
        let mut given = Vec::new();
        for of in types {
            // As in PostgreSQL, such a parameter is like one without a type.
            given.push(match of.to_string().eq_ignore_ascii_case("unknown") {
                true => None,
                false => Some(self.named(of).await?),
            });
        }
        let prepared = Box::pin(self.prepared(sql.to_owned(), given, &[])).await?;
        let is_query = |plan: &LogicalPlan| {
            let explains = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
            has_rows(plan) && !explains || matches!(plan, LogicalPlan::Dml(_))
        };
        if !matches!(&prepared.statement, Some(Statement::Plan(plan)) if is_query(plan)) {
            return Err(error("42601", "PREPARE takes a query: other statements are sent as they are"));
        }
        self.extended.keep(name.to_owned(), Arc::new(prepared));
        Ok(())
    }

    /// The type of this name.
    async fn named(&self, of: &ast::DataType) -> PgWireResult<Type> {
        // They are texts to the query engine.
        match of {
            ast::DataType::JSON => return Ok(Type::JSON),
            ast::DataType::JSONB => return Ok(Type::JSONB),
            ast::DataType::Uuid => return Ok(Type::UUID),
            _ => {}
        }
        let plan = self.query(&format!("SELECT CAST(NULL AS {of})")).await?;
        arrow_pg::datatypes::into_pg_type(plan.schema().field(0).data_type())
    }

    /// Executes EXECUTE up to the statement and its parameter values.
    pub(crate) async fn executed(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
    ) -> PgWireResult<(Arc<Prepared>, ParamValues)> {
        let prepared = Box::pin(self.current(name)).await?;
        let (given, wanted) = (arguments.len(), prepared.parameters.len());
        if given != wanted {
            let text = format!(
                "wrong number of parameters for prepared statement \"{name}\": it has {wanted}, not {given}"
            );
            return Err(error("42601", text));
        }
        let mut values = Vec::new();
        if wanted > 0 {
            let arguments = arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let plan = self.query(&format!("SELECT {arguments}")).await?;
            let types: Vec<_> = prepared.parameters.iter().map(|of| of.arrow.clone()).collect();
            values = self.computed(constants(plan, types)?).await?.ok_or_else(|| {
                QueryError::unsupported(
                    "arguments of EXECUTE have to be constants of the types of its parameters",
                )
            })?;
        }
        Ok((prepared, ParamValues::from(values)))
    }

    /// Reads the values that are bound as texts like constants of SQL: `today`, or a time in the session's zone.
    pub(crate) async fn read_texts(
        &self,
        bind: &Bind,
        prepared: &Prepared,
    ) -> PgWireResult<BTreeMap<usize, ScalarValue>> {
        let texts = parameters::texts(bind, &prepared.parameters)?;
        if texts.is_empty() {
            return Ok(BTreeMap::new());
        }
        let (places, casts): (Vec<usize>, Vec<Expr>) = texts.into_iter().unzip();
        let names = casts.into_iter().zip(&places).map(|(cast, at)| cast.alias(format!("${}", at + 1)));
        let plan = LogicalPlanBuilder::empty(true).project(names).and_then(LogicalPlanBuilder::build);
        let values = self.computed(plan.map_err(QueryError::from)?).await?;
        let values = values.ok_or_else(|| error("22P02", "a bound text has no value of its type"))?;
        Ok(places.into_iter().zip(values).collect())
    }

    /// The values of a query of constants. `None` if it is none.
    async fn computed(&self, plan: LogicalPlan) -> PgWireResult<Option<Vec<ScalarValue>>> {
        let state = self.session.context().state();
        let computing = async move { state.optimize(&plan).map_err(QueryError::from) };
        let plan = self.session.within(&self.run(), self.session.planning(computing)).await???;
        Ok(literals(&plan))
    }

    async fn query(&self, sql: &str) -> PgWireResult<LogicalPlan> {
        let parsed = self.read(sql).await?.pop();
        match self.plan(parsed.ok_or_else(|| error("42601", "a value is expected"))?, &[]).await? {
            Statement::Plan(plan) => Ok(*plan),
            _ => Err(error("42601", "a value is expected")),
        }
    }
}

/// The query's columns, cast to these types.
fn constants(plan: LogicalPlan, types: Vec<Option<DataType>>) -> Result<LogicalPlan, QueryError> {
    let LogicalPlan::Projection(projection) = plan else {
        return Err(QueryError::unsupported("arguments of EXECUTE have to be constants"));
    };
    let as_type = |(at, (expr, of)): (usize, (Expr, Option<DataType>))| {
        let expr = expr.unalias();
        of.map_or(expr.clone(), |of| cast(expr, of)).alias(format!("${}", at + 1))
    };
    let exprs = projection.expr.into_iter().zip(types).enumerate().map(as_type);
    let input = Arc::unwrap_or_clone(projection.input);
    Ok(LogicalPlanBuilder::from(input).project(exprs)?.build()?)
}

/// The values of a query without tables.
fn literals(plan: &LogicalPlan) -> Option<Vec<ScalarValue>> {
    let LogicalPlan::Projection(projection) = plan else { return None };
    let value = |expr: &Expr| match expr.clone().unalias() {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    };
    projection.expr.iter().map(value).collect()
}
