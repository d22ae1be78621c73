//! Functions of the session in views.
//!
//! A view keeps the functions of the session that created it. `current_user` in a view must be the reader, and
//! `pg_cancel_backend` must stop what the reader may stop. This rule replaces the functions about a session by those of
//! the session that runs the statement.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;

/// The functions about a session, by name.
#[derive(Debug, Default)]
pub(crate) struct OwnFunctions(RwLock<HashMap<String, Arc<ScalarUDF>>>);

impl OwnFunctions {
    /// Sets a function.
    pub(crate) fn set(&self, function: ScalarUDF) {
        let mut own = self.0.write().unwrap_or_else(PoisonError::into_inner);
        own.insert(function.name().to_owned(), Arc::new(function));
    }

    fn of(&self, other: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
        let own = self.0.read().unwrap_or_else(PoisonError::into_inner);
        own.get(other.name()).filter(|own| own.as_ref() != other.as_ref()).cloned()
    }
}

/// The rule.
#[derive(Debug)]
pub(crate) struct ReaderFunctions(pub(crate) Arc<OwnFunctions>);

impl AnalyzerRule for ReaderFunctions {
    fn name(&self) -> &str {
        "reader_functions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let in_expr = |expr: Expr| {
            Ok(match expr {
                Expr::ScalarFunction(ScalarFunction { func, args }) => match self.0.of(&func) {
                    Some(func) => Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })),
                    None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
                },
                expr => Transformed::no(expr),
            })
        };
        // Names of columns stay, also where a function gave them its own.
        let in_node = |node: LogicalPlan| node.map_expressions(|expr| expr.transform_up(in_expr));
        Ok(plan.transform_up_with_subqueries(in_node)?.data)
    }
}
