//! Arguments of `generate_series` and `range` in FROM.
//!
//! DataFusion 55 takes literals of bigint and of times in nanoseconds only. It refuses `1::smallint`, and takes an argument whose computation fails for no
//! literal. Here arguments are computed, so that their errors are those of the computation, and integers become bigint.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, TimeUnit};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::catalog::{Session, TableFunction, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::Expr;

const SERIES: [&str; 2] = ["generate_series", "range"];

/// Wraps these functions of the session.
pub(crate) fn with_computed_series(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    if let Some(functions) = builder.table_functions() {
        SERIES.iter().for_each(|name| wrap(functions, name));
    }
    builder
}

fn wrap(functions: &mut HashMap<String, Arc<TableFunction>>, name: &str) {
    if let Some(function) = functions.get_mut(name) {
        let series = Arc::new(Series(Arc::clone(function.function())));
        *function = Arc::new(TableFunction::new(name.to_owned(), series));
    }
}

#[derive(Debug)]
struct Series(Arc<dyn TableFunctionImpl>);

impl TableFunctionImpl for Series {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let computed = args.exprs().iter().map(|expr| computed(expr, args.session()));
        let computed = computed.collect::<Result<Vec<_>>>()?;
        self.0.call_with_args(TableFunctionArgs::new(&computed, args.session()))
    }
}

/// Returns the argument as a literal, or unchanged if it has no value yet.
fn computed(expr: &Expr, session: &dyn Session) -> Result<Expr> {
    let value = match expr {
        Expr::Literal(value, _) => value.clone(),
        _ if expr.is_volatile() => return Ok(expr.clone()),
        _ => {
            let Ok(planned) = session.create_physical_expr(expr.clone(), &DFSchema::empty()) else {
                return Ok(expr.clone());
            };
            let one_row = RecordBatchOptions::new().with_row_count(Some(1));
            let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one_row)?;
            ScalarValue::try_from_array(&planned.evaluate(&row)?.into_array(1)?, 0)?
        }
    };
    let value = match value.data_type() {
        of if of.is_integer() && value.is_null() => ScalarValue::Null,
        of if of.is_integer() => value.cast_to(&DataType::Int64)?,
        DataType::Timestamp(_, zone) => value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, zone))?,
        _ => value,
    };
    Ok(Expr::Literal(value, None))
}
