//! What statistics of a file decide.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::TreeNode;
use datafusion::parquet::basic::{SortOrder, Type as PhysicalType};
use datafusion::parquet::file::metadata::RowGroupMetaData;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{IsNotNullExpr, LikeExpr, Literal};

use super::conjuncts::cannot_fail;

/// A conjunct can be decided by the statistics of its columns, all of these types, if
///
/// - it cannot fail, so that it need not be evaluated to find out;
/// - it has no LIKE, of which bounds say little;
/// - it compares with no null, and its columns have one value a row;
/// - its columns are no floating-point numbers: statistics leave NaN out. That does not matter if it asks for null only.
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

/// Whether the bounds of a leaf column are there and in the order in which its values compare. Bounds in another order
/// are not trusted: INT96, and the deprecated fields of old writers for all but signed integers. Bounds that are
/// truncated are bounds all the same.
pub(crate) fn bounds_in_order(row_group: &RowGroupMetaData, leaf: usize) -> bool {
    let column = row_group.column(leaf);
    let Some(statistics) = column.statistics() else { return false };
    let integer = matches!(column.column_type(), PhysicalType::INT32 | PhysicalType::INT64);
    match column.column_descr().sort_order() {
        SortOrder::UNDEFINED => false,
        _ if column.column_type() == PhysicalType::INT96 => false,
        SortOrder::SIGNED if integer => true,
        _ => !statistics.is_min_max_deprecated(),
    }
}
