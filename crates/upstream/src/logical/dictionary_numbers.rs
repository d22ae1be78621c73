//! Numbers that functions compute of dictionaries.
//!
//! In DataFusion 55 `length` and other functions of a column of dictionaries return a dictionary of numbers, which `abs` and
//! other functions of numbers refuse. This rule casts it to numbers.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::optimizer::Analyzer;

/// Adds the rewrite.
pub(crate) fn with_dictionary_numbers(mut analyzer: Analyzer) -> Analyzer {
    analyzer.add_function_rewrite(Arc::new(DictionaryNumbers));
    analyzer
}

#[derive(Debug)]
struct DictionaryNumbers;

impl FunctionRewrite for DictionaryNumbers {
    fn name(&self) -> &str {
        "dictionary_numbers"
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        if !matches!(expr, Expr::ScalarFunction(_)) {
            return Ok(Transformed::no(expr));
        }
        // Without a type yet, arguments are still to be coerced, and are no dictionaries then.
        match expr.get_type(schema) {
            Ok(DataType::Dictionary(_, of)) if of.is_numeric() => Ok(Transformed::yes(cast(expr, *of))),
            _ => Ok(Transformed::no(expr)),
        }
    }
}
