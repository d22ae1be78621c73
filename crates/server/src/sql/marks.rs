//! EXISTS and IN with a subquery where they are values: in the list of columns, in GROUP BY, as an argument of an aggregate.
//!
//! The query engine plans them in WHERE only. Here each becomes a column of a join that marks rows which have a partner. A mark
//! is true or false; `x IN (SELECT y ...)` may be NULL, too, and gets a mark for each reason: a row where y is NULL, or any row
//! where x is.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchemaRef, ExprSchema, Result, ScalarValue, not_impl_err, plan_err};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery, lit, when,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::decorrelate::PullUpCorrelatedExpr;

/// The column of a join that marks rows.
const MARK: &str = "mark";
/// The name of a subquery that is joined, before its number.
const NAME: &str = "__marks_";

/// Joins them.
#[derive(Debug)]
pub(crate) struct Marks;

impl AnalyzerRule for Marks {
    fn name(&self) -> &str {
        "marks_of_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut count = 0;
        Ok(plan.transform_up_with_subqueries(|node| joined(node, &mut count))?.data)
    }
}

/// The node with marks as columns of what it reads.
fn joined(node: LogicalPlan, count: &mut usize) -> Result<Transformed<LogicalPlan>> {
    let reads = match &node {
        LogicalPlan::Projection(of) => of.input.clone(),
        LogicalPlan::Aggregate(of) => of.input.clone(),
        LogicalPlan::Window(of) => of.input.clone(),
        _ => return Ok(Transformed::no(node)),
    };
    if !node.expressions().iter().any(has_subquery) {
        return Ok(Transformed::no(node));
    }
    let mut marks = Marked { plan: reads, count };
    let names = NamePreserver::new(&node);
    let with_marks = |expr: Expr| {
        let name = names.save(&expr);
        let changed = expr.transform_up(|expr| marks.replaced(expr))?;
        Ok(if changed.transformed { name.restore(changed.data) } else { changed.data })
    };
    let exprs = node.expressions().into_iter().map(with_marks).collect::<Result<Vec<_>>>()?;
    let plan = Arc::unwrap_or_clone(marks.plan);
    node.with_new_exprs(exprs, vec![plan]).map(Transformed::yes)
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::Exists(_) | Expr::InSubquery(_)))).unwrap_or_default()
}

/// A plan with marks.
struct Marked<'a> {
    plan: Arc<LogicalPlan>,
    count: &'a mut usize,
}

impl Marked<'_> {
    fn replaced(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        let (value, negated) = match expr {
            Expr::Exists(Exists { subquery, negated }) => (self.mark(&subquery.subquery)?, negated),
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                (self.is_in(*expr, &subquery)?, negated)
            }
            expr => return Ok(Transformed::no(expr)),
        };
        Ok(Transformed::yes(if negated { !value } else { value }))
    }

    /// `x IN (SELECT y ...)`.
    fn is_in(&mut self, x: Expr, subquery: &Subquery) -> Result<Expr> {
        *self.count += 1;
        let name = format!("{NAME}{}", self.count);
        let of = LogicalPlanBuilder::from(subquery.subquery.clone()).alias(name.as_str())?.build()?;
        let [field] = &of.schema().fields()[..] else {
            return plan_err!("subquery has too many columns");
        };
        let y = Expr::Column(Column::new(Some(name), field.name()));
        let nullable = (x.nullable(self.plan.schema())?, field.is_nullable());
        let having = |condition: Expr| LogicalPlanBuilder::from(of.clone()).filter(condition)?.build();
        let outside = outer(x.clone(), self.plan.schema())?;
        let found = self.mark(&having(y.clone().eq(outside))?)?;
        let mut is_in = when(found, lit(true));
        let unknown = lit(ScalarValue::Boolean(None));
        if nullable.1 {
            is_in = is_in.when(self.mark(&having(y.is_null())?)?, unknown.clone());
        }
        if nullable.0 {
            is_in = is_in.when(x.is_null().and(self.mark(&of)?), unknown);
        }
        is_in.otherwise(lit(false))
    }

    /// Whether the subquery has a row.
    fn mark(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        *self.count += 1;
        let name = format!("{NAME}{}", self.count);
        let mut pull_up = PullUpCorrelatedExpr::new().with_exists_sub_query(true);
        let plan = subquery.clone().rewrite(&mut pull_up)?.data;
        if !pull_up.can_pull_up || pull_up.pulled_up_scalar_agg {
            return not_impl_err!(
                "this subquery of EXISTS or IN outside of WHERE is not supported: compare columns around it in its WHERE only"
            );
        }
        let inner = plan.schema().clone();
        let filter = match conjunction(pull_up.join_filters) {
            Some(filter) => requalified(filter, &inner, self.plan.schema(), &name)?,
            None => lit(true),
        };
        let mut right = LogicalPlanBuilder::from(plan).alias(name.as_str())?;
        if filter == lit(true) {
            // One row tells as much as all of them.
            right = right.limit(0, Some(1))?;
        }
        let join = LogicalPlanBuilder::from(self.plan.clone()).join_on(
            right.build()?,
            JoinType::LeftMark,
            Some(filter),
        )?;
        self.plan = Arc::new(join.build()?);
        Ok(Expr::Column(Column::new(Some(name), MARK)))
    }
}

/// The expression, as a subquery sees it.
fn outer(expr: Expr, schema: &DFSchemaRef) -> Result<Expr> {
    let of = |expr: Expr| match expr {
        Expr::Column(column) => {
            let field = schema.field_from_column(&column)?.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        expr => Ok(Transformed::no(expr)),
    };
    Ok(expr.transform(of)?.data)
}

/// The condition, with columns of the subquery by the name that it is joined under.
fn requalified(filter: Expr, inner: &DFSchemaRef, around: &DFSchemaRef, name: &str) -> Result<Expr> {
    let of = |expr: Expr| match &expr {
        Expr::Column(column) if inner.has_column(column) && !around.has_column(column) => {
            Ok(Transformed::yes(Expr::Column(Column::new(Some(name.to_owned()), column.name.clone()))))
        }
        Expr::Column(column) if inner.has_column(column) => not_impl_err!(
            "the subquery of EXISTS or IN outside of WHERE reads {column} under the name that it has around it: give the table of the \
             subquery an alias"
        ),
        _ => Ok(Transformed::no(expr)),
    };
    Ok(filter.transform(of)?.data)
}
