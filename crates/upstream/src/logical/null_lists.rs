//! IN lists that contain a null.
//!
//! DataFusion 55 merges several lists with which a column is compared as if no list had a null.
//! `x NOT IN (9, 2) OR x NOT IN (9, NULL)` is null where x is 2, but becomes `x NOT IN (9)`, which is true.
//! This rule rewrites `x NOT IN (9, NULL)` to `x NOT IN (9) AND NULL`, and `x IN (9, NULL)` to
//! `x IN (9) OR NULL`. These are equivalent and are not merged.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, lit};
use datafusion::optimizer::Analyzer;

/// Adds a rewrite that moves nulls out of lists.
pub(crate) fn with_null_lists(mut analyzer: Analyzer) -> Analyzer {
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
