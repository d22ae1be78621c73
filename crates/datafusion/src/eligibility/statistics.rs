//! Conditions of decisions by a file's statistics. Unreliable statistics are already removed
//! ([`coscan_parquet::believed`]).

use std::sync::Arc;

use coscan_upstream::cannot_fail;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{IsNotNullExpr, LikeExpr, Literal};

/// A conjunct can be decided by the statistics of its columns, which have these types, if
///
/// - it cannot fail, so that an evaluation has no other effect;
/// - it has no LIKE, about which bounds say little;
/// - it compares with no null, and its columns have one value a row;
/// - its columns are no floating-point numbers, because NaN may have either sign. A test for null may have
///   such columns.
pub(crate) fn decided_by_statistics<'a>(
    conjunct: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    mut columns: impl Iterator<Item = &'a DataType>,
) -> bool {
    let asks_for_null_only = conjunct.is::<IsNotNullExpr>();
    cannot_fail(conjunct, schema)
        && !compares_with_null_or_pattern(conjunct)
        && columns.all(|of| !of.is_nested() && (asks_for_null_only || !of.is_floating()))
}

fn compares_with_null_or_pattern(conjunct: &Arc<dyn PhysicalExpr>) -> bool {
    let is_one = |expr: &Arc<dyn PhysicalExpr>| {
        let is_null = expr.downcast_ref::<Literal>().is_some_and(|literal| literal.value().is_null());
        Ok(is_null || expr.is::<LikeExpr>())
    };
    conjunct.exists(is_one).unwrap_or(true)
}
