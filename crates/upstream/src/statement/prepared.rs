//! Prepared statements that are planned when they run.
//!
//! DataFusion 55 optimizes a statement when it is prepared, and again when it runs. The first time, its types
//! are unknown and the session's analyzer has corrected nothing. So `x NOT IN (9, 2) OR x NOT IN (9, NULL)`
//! is true for 2. An expression that both passes extract as a common one gets the name of another. DataFusion
//! also guesses the types of parameters from the operands with which they are compared, and casts values to
//! them: `x < 2.5` is `x < 2` if `x` is an integer. If it cannot guess all types, it refuses the statement.
//!
//! Here the parsed statement is kept in a node that no rule enters. When it runs, it is planned like any
//! other, with its values in place. Values of parameters with a type (`PREPARE p (INT) AS`) are cast to it.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result, ScalarValue, exec_err, internal_err, not_impl_err};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, Prepare, Statement as PlanStatement, UserDefinedLogicalNodeCore,
};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use futures::future::BoxFuture;

use crate::statement::stated_types;

/// A statement that is parsed and not planned.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Prepared {
    statement: LogicalPlan,
    /// Its parameters; when it runs, their values.
    parameters: Vec<Expr>,
    /// The number of each.
    numbers: Vec<usize>,
}

/// Plans the statement by `plan`. If it is PREPARE, keeps the prepared statement.
pub(crate) async fn kept<'a>(
    statement: Statement,
    plan: impl FnOnce(Statement) -> BoxFuture<'a, Result<LogicalPlan>>,
) -> Result<LogicalPlan> {
    let untyped = match statement {
        Statement::Statement(statement) => match *statement {
            ast::Statement::Prepare { name, data_types, statement } if data_types.is_empty() => {
                Ok((name, statement))
            }
            other => Err(Statement::Statement(Box::new(other))),
        },
        other => Err(other),
    };
    let (name, fields, statement) = match untyped {
        Ok((name, statement)) => {
            let name = if name.quote_style.is_some() { name.value } else { name.value.to_ascii_lowercase() };
            (name, Vec::new(), plan(Statement::Statement(statement)).await?)
        }
        Err(statement) => match plan(statement).await? {
            LogicalPlan::Statement(PlanStatement::Prepare(Prepare { name, fields, input })) => {
                (name, fields, Arc::unwrap_or_clone(input))
            }
            other => return Ok(other),
        },
    };
    let parameters = parameters(&statement)?;
    let numbers = parameters.iter().map(number).collect::<Result<_>>()?;
    let node = Arc::new(Prepared { statement, parameters, numbers });
    let input = Arc::new(LogicalPlan::Extension(Extension { node }));
    Ok(LogicalPlan::Statement(PlanStatement::Prepare(Prepare { name, fields, input })))
}

/// Returns the number of values that a plan gives to a prepared statement, if it runs one.
pub(crate) fn values_given(plan: &LogicalPlan) -> Option<usize> {
    match plan {
        LogicalPlan::Statement(PlanStatement::Execute(execute)) => Some(execute.parameters.len()),
        _ => None,
    }
}

/// Returns the kept statement with the values of its parameters, of which `given` were given. Returns `None`
/// if the plan is no kept statement.
pub(crate) fn with_values(plan: &LogicalPlan, given: usize) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Extension(Extension { node }) = plan else { return Ok(None) };
    let Some(prepared) = node.as_any().downcast_ref::<Prepared>() else { return Ok(None) };
    let wanted = prepared.numbers.iter().max().copied().unwrap_or(0);
    if given > wanted {
        return exec_err!("the prepared statement has {wanted} parameters, and {given} values were given");
    }
    let mut values = vec![ScalarAndMetadata::from(ScalarValue::Null); wanted];
    for (number, value) in prepared.numbers.iter().zip(&prepared.parameters) {
        values[number - 1] = literal(value)?;
    }
    stated_types::with_values(prepared.statement.clone(), values).map(Some)
}

/// Returns the distinct parameters, in the order of their names.
fn parameters(statement: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut parameters: Vec<Placeholder> = Vec::new();
    statement.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::Placeholder(found) = expr
                    && let Err(at) = parameters.binary_search_by(|known| known.id.cmp(&found.id))
                {
                    parameters.insert(at, found.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(parameters.into_iter().map(Expr::Placeholder).collect())
}

/// Returns a parameter's number. `$1` is the first.
fn number(parameter: &Expr) -> Result<usize> {
    let Expr::Placeholder(Placeholder { id, .. }) = parameter else {
        return internal_err!("{parameter} is no parameter");
    };
    match id.strip_prefix('$').and_then(|number| number.parse().ok()) {
        Some(number) if number > 0 => Ok(number),
        _ => not_impl_err!("parameters of prepared statements are numbers, and this one is {id}"),
    }
}

/// Returns a value, which may have the name of its parameter.
fn literal(value: &Expr) -> Result<ScalarAndMetadata> {
    match value {
        Expr::Literal(value, metadata) => Ok(ScalarAndMetadata::new(value.clone(), metadata.clone())),
        Expr::Alias(alias) => literal(&alias.expr),
        other => internal_err!("a prepared statement runs with {other}, which is no value"),
    }
}

/// Such nodes have no order.
impl PartialOrd for Prepared {
    fn partial_cmp(&self, _: &Self) -> Option<Ordering> {
        None
    }
}

impl UserDefinedLogicalNodeCore for Prepared {
    fn name(&self) -> &str {
        "Prepared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        Vec::new()
    }

    fn schema(&self) -> &DFSchemaRef {
        self.statement.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.parameters.clone()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Prepared: {}", self.statement.display())
    }

    fn with_exprs_and_inputs(&self, parameters: Vec<Expr>, _: Vec<LogicalPlan>) -> Result<Self> {
        Ok(Prepared { statement: self.statement.clone(), parameters, numbers: self.numbers.clone() })
    }
}
