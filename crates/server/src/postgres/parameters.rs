//! Values in: the types of a plan's parameters, and what a client bound to them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_pg::datatypes::df::deserialize_parameters_with_server_types;
use arrow_pg::datatypes::{PG_OID_ALIAS_KEY, into_pg_type, pg_type_for_alias_kind};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ParamValues;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use pgwire::api::Type;
use pgwire::api::portal::Portal;
use pgwire::api::stmt::StoredStatement;
use pgwire::error::PgWireResult;
use pgwire::messages::extendedquery::Bind;

use super::error::{error, violation};
use crate::sql::QueryError;

/// The most parameters of a statement, as in PostgreSQL.
const PARAMETERS_MAX: usize = 65_535;

/// A parameter: what the query engine makes of it, and what the client is told that it is.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    arrow: Option<DataType>,
    /// What the client is told.
    pub(crate) told: Type,
}

/// The parameters of a plan, `$1` first. What the client said they are goes before what follows from the plan.
pub(crate) fn of(plan: &LogicalPlan, given: &[Option<Type>]) -> Result<Vec<Parameter>, QueryError> {
    let mut known: HashMap<usize, (Option<DataType>, Option<Type>)> = HashMap::new();
    for (id, arrow) in plan.get_parameter_types()? {
        known.insert(position(&id)?, (arrow, None));
    }
    plan.apply_with_subqueries(|node| {
        for expr in node.expressions() {
            expr.apply(|part| {
                note(part, &mut known);
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let count = known.keys().max().map_or(0, |last| last + 1).max(given.len());
    if count > PARAMETERS_MAX {
        return Err(QueryError::other(
            "54023",
            format!("the statement has {count} parameters; {PARAMETERS_MAX} are allowed"),
        ));
    }
    let parameter = |at: usize| {
        let (arrow, alias) = known.remove(&at).unwrap_or_default();
        let inferred = arrow.as_ref().and_then(|arrow| into_pg_type(arrow).ok());
        let told = given.get(at).cloned().flatten().filter(|told| *told != Type::UNKNOWN);
        Parameter { arrow, told: told.or(alias).or(inferred).unwrap_or(Type::TEXT) }
    };
    Ok((0..count).map(parameter).collect())
}

fn position(id: &str) -> Result<usize, QueryError> {
    let number =
        id.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()).filter(|&number| number > 0);
    number
        .map(|number| number - 1)
        .ok_or_else(|| QueryError::other("42P02", format!("{id} is not a parameter: write $1, $2, ...")))
}

/// Notes what an expression tells about a parameter: a cast around it, and columns that hold object numbers.
fn note(expr: &Expr, known: &mut HashMap<usize, (Option<DataType>, Option<Type>)>) {
    let (cast, placeholder) = match expr {
        Expr::Cast(cast) => match cast.expr.as_ref() {
            Expr::Placeholder(placeholder) => (Some(cast.field.data_type().clone()), placeholder),
            _ => return,
        },
        Expr::Placeholder(placeholder) => (None, placeholder),
        _ => return,
    };
    let Ok(at) = position(&placeholder.id) else { return };
    let (arrow, alias) = known.entry(at).or_default();
    if arrow.is_none() {
        *arrow = cast;
    }
    if let Some(field) = &placeholder.field
        && *field.data_type() == DataType::Int32
        && let Some(kind) = field.metadata().get(PG_OID_ALIAS_KEY)
    {
        *alias = pg_type_for_alias_kind(kind);
    }
}

/// What the client bound, as values of the query engine.
pub(crate) fn values(bind: &Bind, parameters: &[Parameter]) -> PgWireResult<ParamValues> {
    let (given, wanted) = (bind.parameters.len(), parameters.len());
    if given != wanted {
        return Err(violation(format!(
            "the client bound {given} parameters, but the statement has {wanted}"
        )));
    }
    let formats = bind.parameter_format_codes.len();
    if formats > 1 && formats != given {
        return Err(violation(format!("the client sent {formats} formats for {given} parameters")));
    }
    let told: Vec<Type> = parameters.iter().map(|parameter| parameter.told.clone()).collect();
    let stored = StoredStatement::new(String::new(), (), told.iter().cloned().map(Some).collect());
    let portal = Portal::try_new(bind, Arc::new(stored))?;
    let arrow: Vec<Option<&DataType>> = parameters.iter().map(|parameter| parameter.arrow.as_ref()).collect();
    let told: Vec<Option<&Type>> = told.iter().map(Some).collect();
    let read = || deserialize_parameters_with_server_types(&portal, &arrow, &told);
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err(error("22P03", "a bound value does not fit its type")))
}
