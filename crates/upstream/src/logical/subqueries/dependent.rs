//! Correlated subqueries for all outer rows at once. Each operator of the subquery works on the rows of every
//! combination of outer values, the keys, and keeps them apart.
//!
//! The method is that of Neumann and Kemper for arbitrary queries (BTW 2015), without their shortcuts.
//! Filters get the keys from a cross join with the [`Domain`]. Aggregates, DISTINCT, limits and window
//! functions group by the keys. Joins compare them.
//!
//! Correlated grouping sets, recursive queries and limits that are not numbers are refused.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result, not_impl_err};
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprFunctionExt, ExprSchemable, FetchType, Filter, Join, Limit,
    LogicalPlan, LogicalPlanBuilder, Projection, SkipType, SortExpr, SubqueryAlias, Union, Unnest, Values,
    Window, lit,
};

use super::domain::Domain;
use super::outer::{Numbers, bound, references, refers};

/// A plan, and its key columns.
type Keyed = (LogicalPlan, Vec<Column>);

/// A subquery that is computed for all keys.
pub(crate) struct Dependent<'a> {
    domain: &'a Domain,
    around: &'a DFSchema,
    numbers: &'a mut Numbers,
}

impl<'a> Dependent<'a> {
    pub(crate) fn new(domain: &'a Domain, around: &'a DFSchema, numbers: &'a mut Numbers) -> Self {
        Dependent { domain, around, numbers }
    }

    /// Returns a plan's rows for all keys: its columns and the keys.
    ///
    /// # Errors
    /// If it contains an operator that is refused.
    pub(crate) fn rows(&mut self, plan: &LogicalPlan) -> Result<Keyed> {
        if self.domain.columns.is_empty() {
            return Ok((plan.clone(), Vec::new()));
        }
        if references(plan, self.around).is_empty() {
            return self.with_all_keys(plan);
        }
        match plan {
            LogicalPlan::Projection(of) => self.projection(of),
            LogicalPlan::Filter(of) => {
                let (input, keys) = self.rows(&of.input)?;
                let predicate = self.bound(of.predicate.clone(), &keys)?;
                Ok((LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?), keys))
            }
            LogicalPlan::SubqueryAlias(of) => self.alias(of),
            LogicalPlan::Aggregate(of) => self.aggregate(of),
            LogicalPlan::Distinct(Distinct::All(of)) => {
                let (input, keys) = self.tidy_rows(of)?;
                Ok((LogicalPlan::Distinct(Distinct::All(Arc::new(input))), keys))
            }
            LogicalPlan::Distinct(Distinct::On(of)) => self.distinct_on(of),
            LogicalPlan::Sort(of) => match of.fetch {
                // A total order of the rows of all keys has no meaning.
                None => self.rows(&of.input),
                Some(fetch) => self.limited(plan, 0, Some(fetch)),
            },
            LogicalPlan::Limit(of) => self.limit(of),
            LogicalPlan::Window(of) => self.window(of),
            LogicalPlan::Union(of) => self.union(of),
            LogicalPlan::Join(of) => self.join(of),
            LogicalPlan::Unnest(of) => {
                let (input, keys) = self.rows(&of.input)?;
                let plan = Unnest::try_new(Arc::new(input), of.exec_columns.clone(), of.options.clone())?;
                Ok((LogicalPlan::Unnest(plan), keys))
            }
            LogicalPlan::Values(of) => self.values(of),
            other => not_impl_err!(
                "a subquery that refers to the row around it in {} is not supported: refer to it in WHERE or in its list of columns",
                other.display()
            ),
        }
    }

    /// Returns the same with only the plan's columns, in their order.
    fn tidy_rows(&mut self, plan: &LogicalPlan) -> Result<Keyed> {
        let (rows, keys) = self.rows(plan)?;
        let columns = plan.schema().columns().into_iter().chain(keys.iter().cloned()).map(Expr::Column);
        Ok((LogicalPlanBuilder::from(rows).project(columns)?.build()?, keys))
    }

    fn with_all_keys(&mut self, plan: &LogicalPlan) -> Result<Keyed> {
        let (domain, keys) = self.domain.instance(self.numbers)?;
        let plan = LogicalPlanBuilder::from(plan.clone()).cross_join(domain)?.build()?;
        Ok((plan, keys))
    }

    /// Replaces outer references in the expression by keys.
    fn bound(&self, expr: Expr, keys: &[Column]) -> Result<Expr> {
        let keys = keys.iter().cloned().map(Expr::Column);
        let by: HashMap<Column, Expr> = self.domain.columns.iter().cloned().zip(keys).collect();
        bound(expr, &by)
    }

    /// Does the same and keeps the expression's name.
    fn bound_column(&self, expr: Expr, keys: &[Column]) -> Result<Expr> {
        let name = NamePreserver::new_for_projection().save(&expr);
        self.bound(expr, keys).map(|expr| name.restore(expr))
    }

    fn projection(&mut self, of: &Projection) -> Result<Keyed> {
        let (input, keys) = self.rows(&of.input)?;
        let mut exprs = Vec::new();
        for expr in &of.expr {
            exprs.push(self.bound_column(expr.clone(), &keys)?);
        }
        exprs.extend(keys.iter().cloned().map(Expr::Column));
        Ok((LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?), keys))
    }

    fn alias(&mut self, of: &SubqueryAlias) -> Result<Keyed> {
        let (input, keys) = self.rows(&of.input)?;
        let inner = of.input.schema().columns();
        named(input, &inner, of.schema.columns(), &keys)
    }

    /// Plans an aggregation. Without groups there is one group per key, also for keys without rows.
    fn aggregate(&mut self, of: &Aggregate) -> Result<Keyed> {
        if of.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_))) {
            return not_impl_err!(
                "grouping sets in a subquery that refers to the row around it are not supported"
            );
        }
        let (mut input, mut keys) = self.rows(&of.input)?;
        let mut is_row = None;
        if of.group_expr.is_empty() {
            let name = self.numbers.name("row");
            let columns = input.schema().columns().into_iter().map(Expr::Column);
            let rows =
                LogicalPlanBuilder::from(input).project(columns.chain([lit(true).alias(name.as_str())]))?;
            let (domain, all) = self.domain.instance(self.numbers)?;
            let same = conjunction(self.same(&all, &keys));
            input = LogicalPlanBuilder::from(domain).join_on(rows.build()?, JoinType::Left, same)?.build()?;
            keys = all;
            is_row = Some(Expr::Column(Column::new_unqualified(name)).is_not_null());
        }
        let mut groups: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
        for group in &of.group_expr {
            groups.push(self.bound_column(group.clone(), &keys)?);
        }
        let mut aggregates = Vec::new();
        for aggregate in &of.aggr_expr {
            let aggregate = self.bound_column(aggregate.clone(), &keys)?;
            aggregates.push(match &is_row {
                Some(is_row) => of_rows(aggregate, is_row)?,
                None => aggregate,
            });
        }
        let plan = Aggregate::try_new(Arc::new(input), groups, aggregates)?;
        let found = plan.schema.columns().split_off(keys.len());
        named(LogicalPlan::Aggregate(plan), &found, of.schema.columns(), &keys)
    }

    fn distinct_on(&mut self, of: &DistinctOn) -> Result<Keyed> {
        let (input, keys) = self.rows(&of.input)?;
        let as_columns = || keys.iter().cloned().map(Expr::Column);
        let mut on = as_columns().collect::<Vec<_>>();
        for expr in &of.on_expr {
            on.push(self.bound(expr.clone(), &keys)?);
        }
        let mut select = Vec::new();
        for expr in &of.select_expr {
            select.push(self.bound_column(expr.clone(), &keys)?);
        }
        select.extend(as_columns());
        let sort = match &of.sort_expr {
            Some(sort) => {
                let mut by: Vec<SortExpr> = as_columns().map(|key| key.sort(true, false)).collect();
                for one in sort {
                    by.push(one.with_expr(self.bound(one.expr.clone(), &keys)?));
                }
                Some(by)
            }
            None => None,
        };
        let plan = DistinctOn::try_new(on, select, sort, Arc::new(input))?;
        let found = plan.schema.columns();
        let found = &found[..of.schema.fields().len()];
        let plan = LogicalPlan::Distinct(Distinct::On(plan));
        named(plan, found, of.schema.columns(), &keys)
    }

    fn limit(&mut self, of: &Limit) -> Result<Keyed> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (of.get_skip_type()?, of.get_fetch_type()?)
        else {
            return not_impl_err!("a limit that is no number in a subquery that refers to the row around it");
        };
        self.limited(&of.input, skip, fetch)
    }

    /// Returns the first rows of each key. Operators that keep the number of rows are moved above the limit.
    fn limited(&mut self, plan: &LogicalPlan, skip: usize, fetch: Option<usize>) -> Result<Keyed> {
        let limit = |input: &Arc<LogicalPlan>| {
            let plan = LogicalPlanBuilder::from(input.as_ref().clone()).limit(skip, fetch)?.build()?;
            Ok::<_, datafusion::common::DataFusionError>(Arc::new(plan))
        };
        let (plan, order) = match plan {
            LogicalPlan::Projection(of) => {
                return self.projection(&Projection::try_new(of.expr.clone(), limit(&of.input)?)?);
            }
            LogicalPlan::SubqueryAlias(of) => {
                return self.alias(&SubqueryAlias::try_new(limit(&of.input)?, of.alias.clone())?);
            }
            LogicalPlan::Sort(of) => match of.fetch {
                Some(first) if first < fetch.map_or(usize::MAX, |fetch| fetch.saturating_add(skip)) => {
                    let left = first.saturating_sub(skip);
                    (of.input.as_ref(), Some((of.expr.clone(), Some(left))))
                }
                _ => (of.input.as_ref(), Some((of.expr.clone(), fetch))),
            },
            other => (other, None),
        };
        let (order, fetch) = order.unwrap_or((Vec::new(), fetch));
        let (input, keys) = self.rows(plan)?;
        let mut by = Vec::new();
        for one in order {
            by.push(one.with_expr(self.bound(one.expr.clone(), &keys)?));
        }
        let partition = keys.iter().cloned().map(Expr::Column).collect();
        let number = row_number().partition_by(partition).order_by(by).build()?;
        let column = Expr::Column(Column::from_name(number.schema_name().to_string()));
        let skip = u64::try_from(skip).unwrap_or(u64::MAX);
        let after = column.clone().gt(lit(skip));
        let condition = match fetch {
            Some(fetch) => {
                let last = skip.saturating_add(u64::try_from(fetch).unwrap_or(u64::MAX));
                after.and(column.lt_eq(lit(last)))
            }
            None => after,
        };
        let columns = plan.schema().columns().into_iter().chain(keys.iter().cloned()).map(Expr::Column);
        let plan =
            LogicalPlanBuilder::from(input).window([number])?.filter(condition)?.project(columns)?.build()?;
        Ok((plan, keys))
    }

    fn window(&mut self, of: &Window) -> Result<Keyed> {
        let (input, keys) = self.rows(&of.input)?;
        let before = input.schema().fields().len();
        let mut exprs = Vec::new();
        for expr in &of.window_expr {
            let expr = self.bound(expr.clone(), &keys)?.transform(|expr| match expr {
                Expr::WindowFunction(mut of) => {
                    of.params.partition_by.extend(keys.iter().cloned().map(Expr::Column));
                    Ok(Transformed::yes(Expr::WindowFunction(of)))
                }
                other => Ok(Transformed::no(other)),
            })?;
            exprs.push(expr.data);
        }
        let plan = Window::try_new(exprs, Arc::new(input))?;
        let computed = plan.schema.columns().split_off(before);
        let found: Vec<Column> = of.input.schema().columns().into_iter().chain(computed).collect();
        named(LogicalPlan::Window(plan), &found, of.schema.columns(), &keys)
    }

    fn union(&mut self, of: &Union) -> Result<Keyed> {
        let mut inputs = Vec::new();
        let names: Vec<String> = self.domain.columns.iter().map(|_| self.numbers.name("around")).collect();
        for input in &of.inputs {
            let (plan, keys) = self.rows(input)?;
            let columns = input.schema().columns().into_iter().zip(of.schema.columns());
            let columns = columns.map(|(column, shown)| column_as(column, shown));
            let keys = keys.into_iter().zip(&names).map(|(key, name)| Expr::Column(key).alias(name.as_str()));
            let columns: Vec<Expr> = columns.chain(keys).collect();
            inputs.push(Arc::new(LogicalPlanBuilder::from(plan).project(columns)?.build()?));
        }
        let plan = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let found = plan.schema().columns();
        let (shown, keys) = found.split_at(of.schema.fields().len());
        let plan = named(plan.clone(), shown, of.schema.columns(), keys)?.0;
        Ok((plan, keys.to_vec()))
    }

    /// Plans a list of rows: each becomes a projection of the keys.
    fn values(&mut self, of: &Values) -> Result<Keyed> {
        let mut inputs = Vec::new();
        let names: Vec<String> = self.domain.columns.iter().map(|_| self.numbers.name("around")).collect();
        for row in &of.values {
            let (plan, keys) = self.domain.instance(self.numbers)?;
            let mut exprs = Vec::new();
            for (value, field) in row.iter().zip(of.schema.fields()) {
                let value = self.bound(value.clone(), &keys)?.cast_to(field.data_type(), plan.schema())?;
                exprs.push(value.alias(field.name()));
            }
            exprs.extend(
                keys.into_iter().zip(&names).map(|(key, name)| Expr::Column(key).alias(name.as_str())),
            );
            inputs.push(Arc::new(LogicalPlanBuilder::from(plan).project(exprs)?.build()?));
        }
        let plan = match &inputs[..] {
            [only] => only.as_ref().clone(),
            _ => LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?),
        };
        let keys = names.into_iter().map(Column::new_unqualified).collect();
        Ok((plan, keys))
    }

    fn join(&mut self, of: &Join) -> Result<Keyed> {
        let depends = |plan: &LogicalPlan| !references(plan, self.around).is_empty();
        let (left, right) = (depends(&of.left), depends(&of.right));
        let (left, right) = match of.join_type {
            JoinType::Inner => (left || !right, right),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, right),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (left, true),
            JoinType::Full => (true, true),
        };
        let mut side = |plan: &Arc<LogicalPlan>, keyed: bool| {
            if keyed {
                self.rows(plan).map(|(plan, keys)| (Arc::new(plan), keys))
            } else {
                Ok((Arc::clone(plan), Vec::new()))
            }
        };
        let (left_rows, left_keys) = side(&of.left, left)?;
        let (mut right_rows, mut right_keys) = side(&of.right, right)?;
        if right && of.join_type == JoinType::LeftMark {
            (right_rows, right_keys) = under_one_name(right_rows, right_keys, of)?;
        }
        let of_any = if left { &left_keys } else { &right_keys };
        let mut on = Vec::new();
        for (one, other) in &of.on {
            if (!left && refers(one, self.around)) || (!right && refers(other, self.around)) {
                return not_impl_err!(
                    "a key of a join in a subquery that refers to the row around it: {one} = {other}"
                );
            }
            on.push((self.bound(one.clone(), &left_keys)?, self.bound(other.clone(), &right_keys)?));
        }
        let mut conditions = Vec::new();
        if let Some(filter) = &of.filter {
            conditions.push(self.bound(filter.clone(), of_any)?);
        }
        if left && right {
            if of.null_equality == NullEquality::NullEqualsNull {
                on.extend(
                    left_keys
                        .iter()
                        .zip(&right_keys)
                        .map(|(one, other)| (Expr::Column(one.clone()), Expr::Column(other.clone()))),
                );
            } else {
                conditions.extend(self.same(&left_keys, &right_keys));
            }
        }
        let plan = LogicalPlan::Join(Join::try_new(
            left_rows,
            right_rows,
            on,
            conjunction(conditions),
            of.join_type,
            of.join_constraint,
            of.null_equality,
            of.null_aware,
        )?);
        match of.join_type {
            JoinType::Full => self.either(plan, of.schema.columns(), left_keys.iter().zip(&right_keys)),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                Ok((plan, right_keys))
            }
            _ if left => Ok((plan, left_keys)),
            _ => Ok((plan, right_keys)),
        }
    }

    /// Returns the keys of the left side or, where it has no row, of the right side.
    fn either<'k>(
        &mut self,
        plan: LogicalPlan,
        columns: Vec<Column>,
        keys: impl Iterator<Item = (&'k Column, &'k Column)>,
    ) -> Result<Keyed> {
        let mut exprs: Vec<Expr> = columns.into_iter().map(Expr::Column).collect();
        let mut named = Vec::new();
        for (left, right) in keys {
            let name = self.numbers.name("around");
            named.push(Column::new_unqualified(name.as_str()));
            exprs.push(coalesce(vec![Expr::Column(left.clone()), Expr::Column(right.clone())]).alias(name));
        }
        Ok((LogicalPlanBuilder::from(plan).project(exprs)?.build()?, named))
    }

    fn same(&self, left: &[Column], right: &[Column]) -> Vec<Expr> {
        let as_exprs = |keys: &[Column]| keys.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        self.domain.same(&as_exprs(left), &as_exprs(right))
    }
}

/// Renames the right side of a mark join: the name that all its columns have is also that of the mark.
fn under_one_name(
    rows: Arc<LogicalPlan>,
    keys: Vec<Column>,
    of: &Join,
) -> Result<(Arc<LogicalPlan>, Vec<Column>)> {
    let Some((Some(name), _)) = of.schema.iter().last() else { return Ok((rows, keys)) };
    let columns = of.right.schema().columns().into_iter().chain(keys.iter().cloned()).map(Expr::Column);
    let rows =
        LogicalPlanBuilder::from(rows.as_ref().clone()).project(columns)?.alias(name.clone())?.build()?;
    let keys = keys.into_iter().map(|key| Column::new(Some(name.clone()), key.name)).collect();
    Ok((Arc::new(rows), keys))
}

/// Renames the columns and adds the keys.
fn named(plan: LogicalPlan, found: &[Column], shown: Vec<Column>, keys: &[Column]) -> Result<Keyed> {
    let columns = found.iter().cloned().zip(shown).map(|(column, shown)| column_as(column, shown));
    let columns = columns.chain(keys.iter().cloned().map(Expr::Column));
    Ok((LogicalPlanBuilder::from(plan).project(columns)?.build()?, keys.to_vec()))
}

fn column_as(column: Column, shown: Column) -> Expr {
    if column == shown {
        Expr::Column(column)
    } else {
        Expr::Column(column).alias_qualified(shown.relation, shown.name)
    }
}

/// Restricts the aggregate to real rows, without those that the join adds for keys without rows.
fn of_rows(aggregate: Expr, is_row: &Expr) -> Result<Expr> {
    let with_filter = |expr: Expr| match expr {
        Expr::AggregateFunction(mut of) => {
            let filter = of.params.filter.take().map_or(is_row.clone(), |filter| is_row.clone().and(*filter));
            of.params.filter = Some(Box::new(filter));
            Ok(Transformed::yes(Expr::AggregateFunction(of)))
        }
        other => Ok(Transformed::no(other)),
    };
    Ok(aggregate.transform(with_filter)?.data)
}
