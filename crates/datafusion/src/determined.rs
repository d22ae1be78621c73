//! Plans that contain everything that their result depends on. Equal plans of this kind have equal results.

use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::listing::ListingTable;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility, WindowFunctionDefinition};

use crate::clustered::ClusteredTable;
use crate::table::files::FilesTable;

/// Returns whether the result depends only on the plan and on its tables, and these are plain files.
pub(crate) fn is_determined(logical: &LogicalPlan) -> Result<bool> {
    let mut determined = true;
    logical.apply_with_subqueries(|node| {
        determined = match node {
            LogicalPlan::TableScan(scan) => {
                source_as_provider(&scan.source).is_ok_and(|provider| is_listing(provider.as_ref()))
            }
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Unnest(_) => true,
            _ => false,
        };
        determined = determined && all_expressions(node, is_immutable)?;
        Ok(if determined { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(determined)
}

/// Returns whether `is_so` holds for all expressions of a node and for all their subexpressions.
pub(crate) fn all_expressions(node: &LogicalPlan, is_so: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut all = true;
    node.apply_expressions(|expr| {
        expr.apply(|expr| {
            all &= is_so(expr);
            Ok(if all { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })
    })?;
    Ok(all)
}

/// Returns whether a table consists of files alone. A declared order does not matter.
fn is_listing(table: &dyn TableProvider) -> bool {
    table.is::<FilesTable>() || table.is::<ListingTable>() || table.is::<ClusteredTable>()
}

/// Returns whether an expression has the same value at any time and in any session.
fn is_immutable(expr: &Expr) -> bool {
    let volatility = match expr {
        Expr::ScalarFunction(function) => function.func.signature().volatility,
        Expr::HigherOrderFunction(function) => function.func.signature().volatility,
        Expr::AggregateFunction(function) => function.func.signature().volatility,
        Expr::WindowFunction(function) => match &function.fun {
            WindowFunctionDefinition::AggregateUDF(function) => function.signature().volatility,
            WindowFunctionDefinition::WindowUDF(function) => function.signature().volatility,
        },
        Expr::Placeholder(_) | Expr::ScalarVariable(..) => return false,
        _ => return true,
    };
    volatility == Volatility::Immutable
}
