//! The domain of a subquery: the distinct combinations of outer values on which it depends.
//!
//! It is computed apart from the outer rows with which it is joined again, so it must contain all of their
//! values. More values are harmless, so limits and window functions above the tables are left out. Rows that
//! may differ at each computation are refused.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, Result, ScalarValue, not_impl_err};
use datafusion::functions::expr_fn::coalesce;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    binary_expr, lit,
};

use super::outer::Numbers;
use crate::canonical_floats::canonical;

/// The outer values of a subquery.
pub(crate) struct Domain {
    rows: LogicalPlan,
    /// The outer columns.
    pub(crate) columns: Vec<Column>,
    kinds: Vec<Kind>,
}

impl Domain {
    /// Creates the domain of columns of `rows`.
    ///
    /// # Errors
    /// If the rows may differ each time that they are computed.
    pub(crate) fn of(rows: &LogicalPlan, columns: Vec<Column>) -> Result<Self> {
        let kinds = columns.iter().map(|column| Kind::of(column, rows)).collect::<Result<_>>()?;
        let rows = side_with(rows, &columns);
        let mut plan = rows.clone();
        if !columns.is_empty() {
            let least = at_least(rows)?;
            if columns.iter().all(|column| least.schema().has_column(column)) {
                plan = least;
            }
        }
        if !columns.is_empty()
            && let Some(reason) = may_differ(&plan)?
        {
            let names: Vec<String> = columns.iter().map(Column::flat_name).collect();
            return not_impl_err!(
                "a subquery refers to {}, whose rows may differ each time they are computed, because of {reason}: write them to \
                 a table first, or refer to them in WHERE of the subquery only",
                names.join(", ")
            );
        }
        Ok(Domain { rows: plan, columns, kinds })
    }

    /// Returns a plan of the values with new column names.
    pub(crate) fn instance(&self, numbers: &mut Numbers) -> Result<(LogicalPlan, Vec<Column>)> {
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        for column in &self.columns {
            let name = numbers.name("around");
            columns.push(Column::new_unqualified(name.as_str()));
            let value = Expr::Column(column.clone());
            let of = value.get_type(self.rows.schema())?;
            // Another provider's zeros of both signs are equal in joins, but two values here.
            let value = if of.is_floating() { canonical(value) } else { value };
            exprs.push(value.alias(name));
        }
        let plan = LogicalPlanBuilder::from(self.rows.clone()).project(exprs)?.distinct()?.build()?;
        Ok((plan, columns))
    }

    /// Returns conditions that two lists of values are equal.
    pub(crate) fn same(&self, left: &[Expr], right: &[Expr]) -> Vec<Expr> {
        let pairs = left.iter().zip(right).zip(&self.kinds);
        pairs.flat_map(|((left, right), kind)| kind.same(left, right)).collect()
    }
}

/// The comparison of a column's values, in which NULL equals NULL.
enum Kind {
    NeverNull,
    /// Compares with this value in place of NULL. A join by `IS NOT DISTINCT FROM` would take NULL for equal
    /// in its other keys, too.
    Nullable(ScalarValue),
    Other,
}

impl Kind {
    fn of(column: &Column, rows: &LogicalPlan) -> Result<Self> {
        let column = Expr::Column(column.clone());
        Ok(if column.nullable(rows.schema())? {
            match ScalarValue::new_default(&column.get_type(rows.schema())?) {
                Ok(value) if !value.is_null() => Kind::Nullable(value),
                _ => Kind::Other,
            }
        } else {
            Kind::NeverNull
        })
    }

    fn same(&self, left: &Expr, right: &Expr) -> Vec<Expr> {
        match self {
            Kind::NeverNull => vec![left.clone().eq(right.clone())],
            Kind::Nullable(value) => {
                let filled = |expr: &Expr| coalesce(vec![expr.clone(), lit(value.clone())]);
                let nulls = left.clone().is_null().eq(right.clone().is_null());
                vec![filled(left).eq(filled(right)), nulls]
            }
            Kind::Other => vec![binary_expr(left.clone(), Operator::IsNotDistinctFrom, right.clone())],
        }
    }
}

/// Returns the side of joins that has all of these columns. It has all of their values, and perhaps more.
fn side_with<'a>(rows: &'a LogicalPlan, columns: &[Column]) -> &'a LogicalPlan {
    let has_all = |plan: &LogicalPlan| columns.iter().all(|column| plan.schema().has_column(column));
    match rows {
        LogicalPlan::Join(of)
            if matches!(of.join_type, JoinType::Inner | JoinType::Left) && has_all(&of.left) =>
        {
            side_with(&of.left, columns)
        }
        // A lateral subquery is nothing without the rows beside it.
        LogicalPlan::Join(of)
            if matches!(of.join_type, JoinType::Inner | JoinType::Right)
                && has_all(&of.right)
                && !is_lateral(&of.right) =>
        {
            side_with(&of.right, columns)
        }
        LogicalPlan::Projection(of) if of.expr.iter().all(|expr| matches!(expr, Expr::Column(_))) => {
            side_with(&of.input, columns)
        }
        rows => rows,
    }
}

fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(of) => is_lateral(&of.input),
        _ => false,
    }
}

/// Returns the rows, and perhaps more, with those of their columns that are the same at each computation.
fn at_least(rows: &LogicalPlan) -> Result<LogicalPlan> {
    Ok(match rows {
        LogicalPlan::Limit(of) => at_least(&of.input)?,
        LogicalPlan::Sort(of) => at_least(&of.input)?,
        LogicalPlan::Window(of) => at_least(&of.input)?,
        LogicalPlan::Filter(of) => {
            let input = at_least(&of.input)?;
            if is_known(&of.predicate, &input) {
                LogicalPlan::Filter(Filter::try_new(of.predicate.clone(), Arc::new(input))?)
            } else {
                input
            }
        }
        LogicalPlan::Projection(of) => {
            let input = at_least(&of.input)?;
            let exprs = of.expr.iter().filter(|expr| is_known(expr, &input)).cloned().collect();
            LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?)
        }
        LogicalPlan::SubqueryAlias(of) => {
            let input = at_least(&of.input)?;
            let named = of.input.schema().columns().into_iter().zip(of.schema.columns());
            let named = named.filter(|(column, _)| input.schema().has_column(column));
            let named =
                named.map(|(column, shown)| Expr::Column(column).alias_qualified(shown.relation, shown.name));
            let named: Vec<Expr> = named.collect();
            LogicalPlanBuilder::from(input).project(named)?.build()?
        }
        LogicalPlan::Join(of)
            if matches!(
                of.join_type,
                JoinType::Left | JoinType::LeftMark | JoinType::LeftSemi | JoinType::LeftAnti
            ) =>
        {
            let left = at_least(&of.left)?;
            if left.schema().fields().len() < of.left.schema().fields().len() {
                rows.clone()
            } else {
                rows.with_new_exprs(rows.expressions(), vec![left, of.right.as_ref().clone()])?
            }
        }
        other => other.clone(),
    })
}

/// Returns whether an expression is the same at each computation over these rows.
fn is_known(expr: &Expr, rows: &LogicalPlan) -> bool {
    !expr.is_volatile() && expr.column_refs().into_iter().all(|column| rows.schema().has_column(column))
}

/// Returns the reason why rows may differ at each computation.
fn may_differ(rows: &LogicalPlan) -> Result<Option<&'static str>> {
    let mut reason = None;
    rows.apply_with_subqueries(|node| {
        let volatile = node.expressions().iter().any(Expr::is_volatile);
        reason = reason.or(match node {
            _ if volatile => Some("a function that is not the same each time"),
            LogicalPlan::Limit(_) => Some("LIMIT"),
            LogicalPlan::Sort(of) if of.fetch.is_some() => Some("LIMIT"),
            LogicalPlan::Window(_) => Some("a window function"),
            LogicalPlan::Aggregate(of) if !of.aggr_expr.iter().all(|expr| is_exact(expr, &of.input)) => {
                Some("an aggregate that depends on the order of rows")
            }
            LogicalPlan::Distinct(Distinct::On(_)) => Some("DISTINCT ON"),
            LogicalPlan::Extension(_) | LogicalPlan::RecursiveQuery(_) => {
                Some("a recursive or other special query")
            }
            _ => None,
        });
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reason)
}

/// Returns whether an aggregate does not depend on the order of rows.
fn is_exact(aggregate: &Expr, rows: &LogicalPlan) -> bool {
    let aggregate = aggregate.clone().unalias();
    let Expr::AggregateFunction(of) = &aggregate else { return false };
    let floats =
        of.params.args.iter().any(|arg| arg.get_type(rows.schema()).is_ok_and(|of| of.is_floating()));
    match of.func.name() {
        "count" | "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or" | "bit_xor" => true,
        "sum" | "avg" => !floats,
        _ => false,
    }
}
