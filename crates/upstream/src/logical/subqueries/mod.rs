//! Subqueries in expressions: EXISTS, IN, comparisons with ANY and ALL, and correlated scalar subqueries.
//!
//! DataFusion 55 returns wrong rows for many of them, or refuses them. It takes a NULL of IN for false below
//! NOT, OR and IS NULL, and ignores NULL in correlated NOT IN. In EXISTS and IN it misses the row of an
//! aggregate without groups. See <https://github.com/apache/datafusion/issues/25480>, 25347, 24960, 25391,
//! 21309, 24854. This rule of the analyzer turns subqueries into joins. Where DataFusion's own joins are
//! right ([`keep`]), it keeps them, because they cost less.
//!
//! | module | purpose |
//! |---|---|
//! | [`keep`] | finds the subqueries that DataFusion plans right |
//! | [`values`] | turns other subqueries into expressions over columns of joins |
//! | [`pull_up`] | splits a subquery into rows and the conditions that tie them to the outer row |
//! | [`dependent`] | replaces `pull_up` where that is impossible: computes the subquery for all outer rows at once |
//! | [`domain`] | the outer values on which a subquery depends |
//! | [`lateral`] | lateral subqueries in FROM |
//! | [`single_row`] | the error if a scalar subquery has several rows |
//!
//! Refused are subqueries in the condition of an outer join that depend on both sides, and the cases that
//! [`dependent`] lists.

mod dependent;
mod domain;
pub(super) mod keep;
mod lateral;
mod outer;
mod pull_up;
pub(crate) mod single_row;
mod values;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Distinct, Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, Sort, Subquery,
};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use self::keep::{has_other_value, is_kept};
use self::outer::Numbers;
use self::values::Joined;

/// Adds a rule that plans such subqueries. It must run after type coercion.
pub(crate) fn with_subqueries(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(Subqueries));
    analyzer
}

#[derive(Debug)]
struct Subqueries;

impl AnalyzerRule for Subqueries {
    fn name(&self) -> &str {
        "subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut numbers = Numbers::default();
        Ok(plan.transform_up_with_subqueries(|node| joined(node, &mut numbers))?.data)
    }
}

/// Plans the node over joins with its subqueries.
fn joined(node: LogicalPlan, numbers: &mut Numbers) -> Result<Transformed<LogicalPlan>> {
    if let Some(plan) = lateral::joined(&node, numbers)? {
        return Ok(Transformed::yes(plan));
    }
    if !node.expressions().iter().any(keep::has_subquery) {
        return Ok(Transformed::no(node));
    }
    let node = node.map_expressions(|expr| expr.transform_up(with_references))?.data;
    match node {
        LogicalPlan::Filter(of) => filter(of, numbers),
        LogicalPlan::Join(of) => join(of, numbers),
        LogicalPlan::Projection(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(Distinct::On(_)) => over_joins(node, numbers),
        LogicalPlan::Sort(of) => sort(of, numbers),
        other => Ok(Transformed::yes(other)),
    }
}

/// Updates the subquery's list of outer references, which may have changed with the subqueries inside it.
fn with_references(expr: Expr) -> Result<Transformed<Expr>> {
    let listed = |of: Subquery| Subquery { outer_ref_columns: of.subquery.all_out_ref_exprs(), ..of };
    Ok(match expr {
        Expr::ScalarSubquery(of) => Transformed::yes(Expr::ScalarSubquery(listed(of))),
        Expr::Exists(of) => {
            Transformed::yes(Expr::Exists(Exists { subquery: listed(of.subquery), negated: of.negated }))
        }
        Expr::InSubquery(of) => {
            let InSubquery { expr, subquery, negated } = of;
            Transformed::yes(Expr::InSubquery(InSubquery { expr, subquery: listed(subquery), negated }))
        }
        other => Transformed::no(other),
    })
}

fn filter(of: Filter, numbers: &mut Numbers) -> Result<Transformed<LogicalPlan>> {
    let mut rows = Joined::new(of.input, numbers);
    let columns = rows.plan.schema().columns();
    let conditions = split_conjunction_owned(of.predicate).into_iter();
    let replaced = |condition: Expr| {
        if is_kept(&condition, rows.plan.schema()) { Ok(condition) } else { rows.condition(condition) }
    };
    let conditions = conditions.map(replaced).collect::<Result<Vec<_>>>()?;
    let more = rows.plan.schema().fields().len() > columns.len();
    let mut plan = LogicalPlanBuilder::from(rows.plan);
    if let Some(condition) = conjunction(conditions) {
        plan = plan.filter(condition)?;
    }
    if more {
        plan = plan.project(columns.into_iter().map(Expr::Column))?;
    }
    plan.build().map(Transformed::yes)
}

fn over_joins(node: LogicalPlan, numbers: &mut Numbers) -> Result<Transformed<LogicalPlan>> {
    let is_projection = matches!(node, LogicalPlan::Projection(_));
    let Some(input) = node.inputs().first().copied().cloned() else { return Ok(Transformed::no(node)) };
    if !node.expressions().iter().any(|expr| has_other_value(expr, input.schema(), is_projection)) {
        return Ok(Transformed::yes(node));
    }
    let mut rows = Joined::new(Arc::new(input), numbers);
    let columns = node.schema().columns();
    let names = NamePreserver::new(&node);
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        let name = names.save(&expr);
        exprs.push(name.restore(rows.replaced(expr, is_projection)?));
    }
    let is_window = matches!(node, LogicalPlan::Window(_));
    let plan = node.with_new_exprs(exprs, vec![Arc::unwrap_or_clone(rows.plan)])?;
    if !is_window {
        return Ok(Transformed::yes(plan));
    }
    let columns = columns.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(plan).project(columns)?.build().map(Transformed::yes)
}

/// Plans a sort. A subquery in ORDER BY may refer to columns that are not listed.
fn sort(of: Sort, numbers: &mut Numbers) -> Result<Transformed<LogicalPlan>> {
    let columns = of.input.schema().columns();
    let mut input = of.input;
    if let LogicalPlan::Projection(listed) = input.as_ref() {
        let inner = listed.input.schema();
        let mut exprs = listed.expr.clone();
        for column in of.expr.iter().flat_map(|one| outer::referred(&one.expr)) {
            let is_other = !input.schema().has_column(&column) && inner.has_column(&column);
            let column = Expr::Column(column);
            if is_other && !exprs.contains(&column) {
                exprs.push(column);
            }
        }
        if exprs.len() > listed.expr.len() {
            input = Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&listed.input))?));
        }
    }
    let mut rows = Joined::new(input, numbers);
    let mut listed: Vec<Expr> = rows.plan.schema().columns().into_iter().map(Expr::Column).collect();
    let mut by = Vec::new();
    for one in of.expr {
        let name = rows.numbers.name("order");
        listed.push(rows.replaced(one.expr.clone(), false)?.alias(name.as_str()));
        by.push(one.with_expr(Expr::Column(Column::new_unqualified(name))));
    }
    // Sorts by columns: an order by an expression over columns of joins may get lost.
    let input = LogicalPlanBuilder::from(rows.plan.as_ref().clone()).project(listed)?.build()?;
    let plan = LogicalPlan::Sort(Sort { expr: by, input: Arc::new(input), fetch: of.fetch });
    let columns = columns.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(plan).project(columns)?.build().map(Transformed::yes)
}

/// Plans a join. A subquery condition of an inner join moves above it. That of an outer join is computed on
/// the side to which it refers.
fn join(of: Join, numbers: &mut Numbers) -> Result<Transformed<LogicalPlan>> {
    let conditions = of.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    let (with, without): (Vec<_>, Vec<_>) = conditions.into_iter().partition(keep::has_subquery);
    if of.on.iter().any(|(left, right)| keep::has_subquery(left) || keep::has_subquery(right)) {
        return not_impl_err!(
            "a subquery in a key of a join is not supported: compute it in a subquery of FROM"
        );
    }
    if of.join_type == JoinType::Inner {
        let above = conjunction(with);
        let of = Join { filter: conjunction(without), ..of };
        let plan = LogicalPlan::Join(of);
        return match above {
            Some(condition) => filter(Filter::try_new(condition, Arc::new(plan))?, numbers),
            None => Ok(Transformed::yes(plan)),
        };
    }
    let columns = of.schema.columns();
    let mut left = Joined::new(of.left, numbers);
    let (on_left, others): (Vec<_>, Vec<_>) =
        with.into_iter().partition(|condition| outer::is_about(condition, left.plan.schema()));
    let mut conditions = without;
    for condition in on_left {
        conditions.push(left.replaced(condition, false)?);
    }
    let left = left.plan;
    let mut right = Joined::new(of.right, numbers);
    for condition in others {
        if !outer::is_about(&condition, right.plan.schema()) {
            return not_impl_err!(
                "a subquery in ON of an outer join that depends on both sides is not supported: {condition}"
            );
        }
        conditions.push(right.replaced(condition, false)?);
    }
    let plan = Join::try_new(
        left,
        right.plan,
        of.on,
        conjunction(conditions),
        of.join_type,
        of.join_constraint,
        of.null_equality,
        of.null_aware,
    )?;
    let columns = columns.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(LogicalPlan::Join(plan)).project(columns)?.build().map(Transformed::yes)
}
