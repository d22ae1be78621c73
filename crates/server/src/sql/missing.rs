//! Missing functions, with the types of their arguments.
//!
//! PostgreSQL names the types: `function foo(integer, text) does not exist`. The query engine looks a function up before
//! it plans the arguments. So the statement is planned again with a function of this name that refuses its arguments.

use std::ops::ControlFlow;
use std::sync::Arc;

use coscan_upstream::plan_with_types;
use coscan_upstream::walk::visit_expressions;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use datafusion::sql::parser::Statement;

use super::QueryError;
use super::dialect::translated;
use super::said::argument_type;
use super::types::CatalogTypes;

/// Maximum number of expressions of a statement that is planned again.
const EXPRESSIONS_MAX: usize = 1000;

/// A copy of a statement, to plan it again. `None` for a large one.
pub(super) fn if_small(statement: &Statement) -> Option<Statement> {
    let Statement::Statement(ast) = statement else { return None };
    let mut count = 0;
    let counted = visit_expressions(ast.as_ref(), |_| {
        count += 1;
        if count > EXPRESSIONS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    counted.is_continue().then(|| statement.clone())
}

/// The error with the types of the arguments, if it is about a missing function.
pub(super) async fn with_arguments(
    mut state: SessionState,
    statement: Option<Statement>,
    stated: Vec<Option<DataType>>,
    error: QueryError,
) -> QueryError {
    let Some(name) = error.missing_function().map(str::to_owned) else { return error };
    let Some(statement) = statement else { return error };
    let is_known =
        state.scalar_functions().contains_key(&name) || state.aggregate_functions().contains_key(&name);
    if !is_known && state.window_functions().contains_key(&name) {
        return QueryError::no_window(&name);
    }
    // The refusing function would stand for the right calls, too.
    let call = format!("{name}(");
    if is_known && statement.to_string().to_ascii_lowercase().matches(&call).count() != 1 {
        return error;
    }
    let Ok(statement) = translated(statement) else { return error };
    if state.register_udf(Arc::new(ScalarUDF::from(Refusing::of(&name)))).is_err() {
        return error;
    }
    match plan_with_types(&state, statement, stated, Arc::new(CatalogTypes)).await.map_err(QueryError::from) {
        Err(other) if other.missing_function() == Some(&name) => other,
        _ => error,
    }
}

/// A function that refuses its arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Refusing {
    name: String,
    signature: Signature,
}

impl Refusing {
    fn of(name: &str) -> Self {
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        Refusing { name: name.to_owned(), signature: Signature::one_of(any, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Refusing {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("its type depends on fields")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = args.arg_fields.iter().zip(args.scalar_arguments);
        let types = types.map(|(field, constant)| argument_type(field.data_type(), *constant)).collect();
        Err(DataFusionError::External(Box::new(QueryError::no_function(&self.name, types))))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("it has no values")
    }
}
