//! Lists of IN with a null.
//!
//! DataFusion 55 makes one list of several that a column is compared with, as if no list had a null: `x NOT IN (9, 2) OR
//! x NOT IN (9, NULL)` is null where x is 2, and becomes `x NOT IN (9)`, which is true. Here `x NOT IN (9, NULL)` is
//! `x NOT IN (9) AND NULL`, and `x IN (9, NULL)` is `x IN (9) OR NULL`: the same, and they stay as they are.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, lit};
use datafusion::optimizer::Analyzer;

/// The analyzer with nulls beside lists instead of in them.
pub(super) fn with_null_lists(mut analyzer: Analyzer) -> Analyzer {
    analyzer.add_function_rewrite(Arc::new(NullLists));
    analyzer
}

#[derive(Debug)]
struct NullLists;

impl FunctionRewrite for NullLists {
    fn name(&self) -> &str {
        "null_lists"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let Expr::InList(InList { expr, mut list, negated }) = expr else {
            return Ok(Transformed::no(expr));
        };
        if !list.iter().any(is_null) {
            return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
        }
        list.retain(|item| !is_null(item));
        let null = lit(ScalarValue::Boolean(None));
        let without_null = Expr::InList(InList { expr, list, negated });
        Ok(Transformed::yes(if negated { without_null.and(null) } else { without_null.or(null) }))
    }
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}
