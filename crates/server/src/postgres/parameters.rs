//! Values in: the types of a plan's parameters, and what a client bound to them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_pg::datatypes::df::deserialize_parameters_with_server_types;
use arrow_pg::datatypes::{PG_OID_ALIAS_KEY, into_pg_type, pg_type_for_alias_kind};
use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::ParamValues;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use pgwire::api::Type;
use pgwire::api::portal::Portal;
use pgwire::api::stmt::StoredStatement;
use pgwire::error::PgWireResult;
use pgwire::messages::extendedquery::Bind;

use super::error::{error, violation};
use super::numeric;
use crate::sql::QueryError;

/// The most parameters of a statement, as in PostgreSQL.
const PARAMETERS_MAX: usize = 65_535;

/// A parameter: what the query engine makes of it, and what the client is told that it is.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    arrow: Option<DataType>,
    /// It has the type that the client gave it: the plan expects none, or one that has not all of its values.
    is_given: bool,
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
        let given = given.get(at).cloned().flatten().filter(|told| *told != Type::UNKNOWN);
        let takes = |given: &Type| arrow.as_ref().is_some_and(|arrow| has_all_values(arrow, given));
        let own = given.as_ref().filter(|given| !takes(given)).and_then(own_type);
        let told = given.or(alias).or(inferred).unwrap_or(Type::TEXT);
        Parameter { is_given: own.is_some(), arrow: own.or(arrow), told }
    };
    Ok((0..count).map(parameter).collect())
}

/// The plan with those parameters as what they are given as, so that comparisons and results have the types that follow.
pub(crate) fn given(plan: LogicalPlan, parameters: &[Parameter]) -> Result<LogicalPlan, QueryError> {
    if !parameters.iter().any(|parameter| parameter.is_given) {
        return Ok(plan);
    }
    let typed = |expr: Expr| {
        let Expr::Placeholder(Placeholder { id, field }) = expr else { return Ok(Transformed::no(expr)) };
        let of = position(&id).ok().and_then(|at| parameters.get(at)).filter(|parameter| parameter.is_given);
        let own =
            of.and_then(|parameter| parameter.arrow.clone()).map(|own| Arc::new(Field::new("", own, true)));
        let is_given = own.is_some();
        Ok(Transformed::new_transformed(
            Expr::Placeholder(Placeholder { id, field: own.or(field) }),
            is_given,
        ))
    };
    let typed = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| expr.transform_up(typed))?.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(typed.data)
}

/// Whether a type of the query engine has all values of a number or time that the client gave. Others are converted.
fn has_all_values(arrow: &DataType, given: &Type) -> bool {
    use DataType::{Decimal128, Duration, Float32, Float64, Int16, Int32, Int64, Interval, Timestamp};
    match *given {
        Type::INT2 => matches!(arrow, Int16 | Int32 | Int64 | Float32 | Float64),
        Type::INT4 => matches!(arrow, Int32 | Int64 | Float64),
        Type::INT8 => matches!(arrow, Int64 | Float64),
        Type::FLOAT4 => matches!(arrow, Float32 | Float64),
        Type::FLOAT8 => matches!(arrow, Float64),
        Type::NUMERIC => matches!(arrow, Decimal128(..)),
        Type::TIMESTAMP | Type::TIMESTAMPTZ => matches!(arrow, Timestamp(..)),
        Type::INTERVAL => matches!(arrow, Interval(_) | Duration(_)),
        _ => true,
    }
}

/// What a number or time is by itself.
fn own_type(given: &Type) -> Option<DataType> {
    Some(match *given {
        // As literals: functions know no smaller ones.
        Type::INT2 | Type::INT4 | Type::INT8 => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        // As that of a cast to numeric; values have digits of their own.
        Type::NUMERIC => DataType::Decimal128(38, 10),
        Type::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        Type::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => return None,
    })
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
    // The reader of all other types has 28 digits for numerics.
    let others = bind.parameters.iter().zip(&told).map(|(value, told)| match *told {
        Type::NUMERIC => None,
        _ => value.clone(),
    });
    let (portal, statement) = (bind.portal_name.clone(), bind.statement_name.clone());
    let (formats, columns) = (bind.parameter_format_codes.clone(), bind.result_column_format_codes.clone());
    let others = Bind::new(portal, statement, formats, others.collect(), columns);
    let portal = Portal::try_new(&others, Arc::new(stored))?;
    let arrow: Vec<Option<&DataType>> = parameters.iter().map(|parameter| parameter.arrow.as_ref()).collect();
    let types: Vec<Option<&Type>> = told.iter().map(Some).collect();
    let read = || deserialize_parameters_with_server_types(&portal, &arrow, &types);
    let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
    let mut read = read.unwrap_or_else(|_| Err(error("22P03", "a bound value does not fit its type")))?;
    if let ParamValues::List(values) = &mut read {
        for (at, (value, bound)) in values.iter_mut().zip(&bind.parameters).enumerate() {
            if let Some(bytes) = bound.as_ref().filter(|_| told[at] == Type::NUMERIC) {
                let number =
                    if is_binary(bind, at) { numeric::from_binary(bytes) } else { numeric::from_text(bytes) };
                *value = number?.into();
            }
        }
    }
    Ok(read)
}

fn is_binary(bind: &Bind, at: usize) -> bool {
    let formats = &bind.parameter_format_codes;
    formats.get(if formats.len() == 1 { 0 } else { at }).is_some_and(|&format| format == 1)
}
