//! `SELECT *` of wide tables in time linear in the number of columns.
//!
//! DataFusion 55 compares the name of each selected column with those of all earlier ones, and builds both
//! names for each comparison. So 8000 columns take six seconds. Here `SELECT * FROM t` is planned with a
//! constant in place of the columns, which then replace the constant in the plan. This is done for a
//! statement over one table or subquery, with conditions and limits. Subqueries, other lists of columns,
//! `ORDER BY`, groups and `DISTINCT` stay as they are.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::select_expr::SelectExpr;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, GroupByExpr, Select, SelectItem, SetExpr, TableFactor};

/// Replaces all columns by a constant. Returns false if the statement has another form.
pub(crate) fn without_columns(statement: &mut Statement) -> bool {
    let Statement::Statement(statement) = statement else { return false };
    let ast::Statement::Query(query) = statement.as_mut() else { return false };
    let plain = query.order_by.is_none() && query.fetch.is_none() && query.pipe_operators.is_empty();
    match query.body.as_mut() {
        SetExpr::Select(select) if plain && selects_all_columns(select) => {
            select.projection = vec![SelectItem::UnnamedExpr(ast::Expr::value(ast::Value::Null))];
            true
        }
        _ => false,
    }
}

fn selects_all_columns(select: &Select) -> bool {
    let [SelectItem::Wildcard(options)] = select.projection.as_slice() else { return false };
    let [from] = select.from.as_slice() else { return false };
    let is_one_table = matches!(
        from.relation,
        TableFactor::Table { args: None, .. } | TableFactor::Derived { lateral: false, .. }
    );
    let has_no_groups = matches!(&select.group_by, GroupByExpr::Expressions(keys, sets) if keys.is_empty() && sets.is_empty());
    let has_no_options = options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
        && options.opt_alias.is_none();
    is_one_table
        && from.joins.is_empty()
        && has_no_groups
        && has_no_options
        && select.distinct.is_none()
        && select.exclude.is_none()
        && select.into.is_none()
        && select.having.is_none()
        && select.qualify.is_none()
        && select.named_window.is_empty()
}

/// Replaces the constant in the plan by all columns.
pub(crate) fn with_columns(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Limit(mut limit) => {
            limit.input = Arc::new(with_columns(Arc::unwrap_or_clone(limit.input))?);
            Ok(LogicalPlan::Limit(limit))
        }
        LogicalPlan::Projection(projection) => {
            LogicalPlanBuilder::from(Arc::unwrap_or_clone(projection.input))
                .project(vec![SelectExpr::Wildcard(Default::default())])?
                .build()
        }
        other => internal_err!("a constant is selected by {}", other.display()),
    }
}
