//! Projects the column of a subquery that has no expression for it.
//!
//! DataFusion 55 plans `x IN (subquery)` by the subquery's first expression, and fails with "single expression required" if
//! its plan begins with VALUES, UNNEST or a node of another crate.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

/// Adds the rule.
pub(crate) fn with_subquery_columns(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(SubqueryColumns));
    analyzer
}

#[derive(Debug)]
struct SubqueryColumns;

impl AnalyzerRule for SubqueryColumns {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let of_node = |node: LogicalPlan| node.map_expressions(|expr| expr.transform_up(projected));
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "subquery_columns"
    }
}

fn projected(expr: Expr) -> Result<Transformed<Expr>> {
    let has_none = |of: &Subquery| {
        Ok::<_, datafusion::error::DataFusionError>(of.subquery.head_output_expr()?.is_none())
    };
    Ok(match expr {
        Expr::ScalarSubquery(of) if has_none(&of)? => {
            Transformed::yes(Expr::ScalarSubquery(with_projection(of)?))
        }
        Expr::InSubquery(of) if has_none(&of.subquery)? => {
            let subquery = with_projection(of.subquery)?;
            Transformed::yes(Expr::InSubquery(InSubquery { subquery, ..of }))
        }
        Expr::SetComparison(of) if has_none(&of.subquery)? => {
            let subquery = with_projection(of.subquery)?;
            Transformed::yes(Expr::SetComparison(SetComparison { subquery, ..of }))
        }
        other => Transformed::no(other),
    })
}

fn with_projection(of: Subquery) -> Result<Subquery> {
    let columns = of.subquery.schema().iter().map(|field| Expr::Column(Column::from(field)));
    let columns = columns.collect::<Vec<_>>();
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(of.subquery)).project(columns)?.build()?;
    Ok(Subquery { subquery: Arc::new(plan), ..of })
}
