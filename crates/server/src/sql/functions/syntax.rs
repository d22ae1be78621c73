//! What operators and special forms of SQL become that the query engine plans in another way than PostgreSQL, or not at all.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::interval::Times;
use super::pattern::Substring;

/// The same state, with PostgreSQL's meaning of these before the query engine's.
pub(crate) fn with_syntax(state: SessionState) -> SessionState {
    let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(Postgres::new())];
    planners.extend_from_slice(state.expr_planners());
    SessionStateBuilder::new_from_existing(state).with_expr_planners(planners).build()
}

#[derive(Debug)]
struct Postgres {
    substring: Arc<ScalarUDF>,
    times: Arc<ScalarUDF>,
}

impl Postgres {
    fn new() -> Self {
        Postgres {
            substring: Arc::new(ScalarUDF::from(Substring::default())),
            times: Arc::new(ScalarUDF::from(Times::default())),
        }
    }
}

fn is_interval(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_))
}

impl ExprPlanner for Postgres {
    /// An interval times a number.
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::Multiply {
            return Ok(PlannerResult::Original(expr));
        }
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        Ok(match (is_interval(&left), is_interval(&right)) {
            (true, false) if right.is_numeric() => {
                PlannerResult::Planned(self.times.call(vec![expr.left, expr.right]))
            }
            (false, true) if left.is_numeric() => {
                PlannerResult::Planned(self.times.call(vec![expr.right, expr.left]))
            }
            _ => PlannerResult::Original(expr),
        })
    }

    /// `substring(text FROM x)`, where `x` may be a position or a pattern. A number that is written down is a position.
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match &args[..] {
            [_, Expr::Literal(from, _)] if from.data_type().is_numeric() => PlannerResult::Original(args),
            [_, _] => PlannerResult::Planned(self.substring.call(args)),
            _ => PlannerResult::Original(args),
        })
    }
}
