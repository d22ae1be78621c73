//! Subqueries as expressions over columns of joins.
//!
//! A mark join marks the rows that have a match, which answers EXISTS. A mark is true or false.
//! `x IN (SELECT y ...)` may also be NULL, and has a mark for each cause: a row with a NULL in y, or any row
//! if x is NULL. Scalar subqueries are columns of a left join.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    binary_expr, lit, when,
};

use super::dependent::Dependent;
use super::domain::Domain;
use super::keep::is_kept_scalar;
use super::outer::{Numbers, bound, references, refers, seen_inside};
use super::pull_up::{Rows, pulled_up};
use super::single_row::single_row;

/// The mark column of a join.
const MARK: &str = "mark";

/// Rows that are joined with subqueries.
pub(crate) struct Joined<'a> {
    /// The rows with the columns of the joins.
    pub(crate) plan: Arc<LogicalPlan>,
    /// The rows without them.
    rows: Arc<LogicalPlan>,
    pub(crate) numbers: &'a mut Numbers,
}

impl<'a> Joined<'a> {
    pub(crate) fn new(rows: Arc<LogicalPlan>, numbers: &'a mut Numbers) -> Self {
        Joined { plan: Arc::clone(&rows), rows, numbers }
    }

    /// Replaces subqueries by columns of joins. With `scalars_may_stay`, scalar subqueries that DataFusion
    /// plans right are kept.
    pub(crate) fn replaced(&mut self, expr: Expr, scalars_may_stay: bool) -> Result<Expr> {
        Ok(expr.transform_up(|expr| self.value(expr, scalars_may_stay))?.data)
    }

    /// Does the same for a condition of WHERE, in which NULL counts as false.
    pub(crate) fn condition(&mut self, expr: Expr) -> Result<Expr> {
        // With a value of a row further out, DataFusion moves the condition away from the rows that its subqueries need.
        let scalars_may_stay = !expr.contains_outer();
        self.part(expr, scalars_may_stay)
    }

    fn part(&mut self, of_condition: Expr, scalars_may_stay: bool) -> Result<Expr> {
        match of_condition {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let (left, right) =
                    (self.part(*left, scalars_may_stay)?, self.part(*right, scalars_may_stay)?);
                Ok(binary_expr(left, op, right))
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated: false }) => {
                let x = self.replaced(*expr, scalars_may_stay)?;
                only_field(&subquery.subquery)?;
                let rows = self.apart(&subquery.subquery, false)?;
                let seen = seen_inside(x, self.plan.schema())?;
                self.mark(&rows, Some(rows.value.clone().eq(seen)))
            }
            other => self.replaced(other, scalars_may_stay),
        }
    }

    fn value(&mut self, expr: Expr, scalars_may_stay: bool) -> Result<Transformed<Expr>> {
        let value = match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                let rows = self.apart(&subquery.subquery, true)?;
                let exists = self.mark(&rows, None)?;
                if negated { !exists } else { exists }
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let is_in = self.is_in(*expr, &subquery)?;
                if negated { !is_in } else { is_in }
            }
            Expr::SetComparison(of) => self.compared(of)?,
            Expr::ScalarSubquery(of) if !is_kept_scalar(&of, self.rows.schema(), scalars_may_stay) => {
                self.scalar(&of)?
            }
            expr => return Ok(Transformed::no(expr)),
        };
        Ok(Transformed::yes(value))
    }

    /// Plans `x IN (SELECT y ...)`.
    fn is_in(&mut self, x: Expr, subquery: &Subquery) -> Result<Expr> {
        let nullable = (x.nullable(self.plan.schema())?, only_field(&subquery.subquery)?);
        let rows = self.apart(&subquery.subquery, false)?;
        let seen = seen_inside(x.clone(), self.plan.schema())?;
        let found = self.mark(&rows, Some(rows.value.clone().eq(seen)))?;
        let mut is_in = when(found, lit(true));
        if nullable.1 {
            is_in = is_in.when(self.mark(&rows, Some(rows.value.clone().is_null()))?, unknown());
        }
        if nullable.0 {
            is_in = is_in.when(x.is_null().and(self.mark(&rows, None)?), unknown());
        }
        is_in.otherwise(lit(false))
    }

    /// Plans `x < ANY (SELECT y ...)` and `x < ALL (SELECT y ...)`.
    fn compared(&mut self, of: SetComparison) -> Result<Expr> {
        if (of.op, &of.quantifier) == (Operator::Eq, &SetQuantifier::Any) {
            return self.is_in(*of.expr, &of.subquery);
        }
        only_field(&of.subquery.subquery)?;
        let rows = self.apart(&of.subquery.subquery, false)?;
        let x = seen_inside(*of.expr, self.plan.schema())?;
        let compared = binary_expr(x, of.op, rows.value.clone());
        let (decides, value) = match of.quantifier {
            SetQuantifier::Any => (compared.clone(), true),
            SetQuantifier::All => (!compared.clone(), false),
        };
        let decided = self.mark(&rows, Some(decides))?;
        let is_unknown = self.mark(&rows, Some(compared.is_null()))?;
        when(decided, lit(value)).when(is_unknown, unknown()).otherwise(lit(!value))
    }

    /// Plans `(SELECT y ...)`.
    fn scalar(&mut self, subquery: &Subquery) -> Result<Expr> {
        let plan = &subquery.subquery;
        only_field(plan)?;
        let single = plan.max_rows().is_some_and(|rows| rows <= 1);
        let columns = references(plan, self.rows.schema());
        let around = columns.iter().cloned().map(Expr::Column).collect::<Vec<_>>();
        let domain = Domain::of(&self.rows, columns)?;
        let (plan, keys) = Dependent::new(&domain, self.rows.schema(), self.numbers).rows(plan)?;
        let name = self.numbers.name("of_row");
        let value = Expr::Column(first(&plan, &keys)?);
        let names: Vec<String> = keys.iter().map(|_| self.numbers.name("key")).collect();
        let named = keys.iter().zip(&names).map(|(key, name)| Expr::Column(key.clone()).alias(name));
        let builder = LogicalPlanBuilder::from(plan);
        let builder = if single {
            builder.project(named.chain([value.alias("value")]))?
        } else {
            let groups: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
            let aggregates = vec![first_value(value, Vec::new()).alias("value"), count_all().alias("rows")];
            let columns = ["value", "rows"].map(|name| Expr::Column(Column::from_name(name)));
            builder.aggregate(groups, aggregates)?.project(named.chain(columns))?
        };
        let right = builder.alias(name.as_str())?.build()?;
        let of_right = |column: &str| Expr::Column(Column::new(Some(name.as_str()), column));
        let keys: Vec<Expr> = names.iter().map(|key| of_right(key)).collect();
        let condition = conjunction(domain.same(&around, &keys)).unwrap_or_else(|| lit(true));
        let plan = LogicalPlanBuilder::from(self.plan.as_ref().clone());
        self.plan = Arc::new(plan.join_on(right, JoinType::Left, Some(condition))?.build()?);
        Ok(if single { of_right("value") } else { single_row(of_right("value"), of_right("rows")) })
    }

    /// Splits the subquery from its outer rows.
    fn apart(&mut self, plan: &LogicalPlan, of_exists: bool) -> Result<Rows> {
        let around = Arc::clone(self.rows.schema());
        if let Some(rows) = pulled_up(plan, &around, of_exists)? {
            return Ok(rows);
        }
        let columns = references(plan, &around);
        let domain = Domain::of(&self.rows, columns.clone())?;
        let (plan, keys) = Dependent::new(&domain, &around, self.numbers).rows(plan)?;
        let value = Expr::Column(first(&plan, &keys)?);
        let seen = columns.into_iter().map(|column| seen_inside(Expr::Column(column), &around));
        let seen = seen.collect::<Result<Vec<_>>>()?;
        let keys: Vec<Expr> = keys.into_iter().map(Expr::Column).collect();
        let conditions = domain.same(&seen, &keys);
        Ok(Rows { plan, value, conditions })
    }

    /// Adds a mark join: whether the subquery has a row for which the condition holds.
    fn mark(&mut self, rows: &Rows, condition: Option<Expr>) -> Result<Expr> {
        let name = self.numbers.name("mark");
        let conditions = rows.conditions.iter().cloned().chain(condition);
        let (tied, own): (Vec<_>, Vec<_>) = conditions.partition(|one| refers(one, self.plan.schema()));
        let mut right = LogicalPlanBuilder::from(rows.plan.clone());
        if let Some(own) = conjunction(own) {
            right = right.filter(own)?;
        }
        let mut listed: Vec<Expr> = Vec::new();
        let mut renamed: HashMap<Column, Column> = HashMap::new();
        let used: BTreeSet<&Column> = tied.iter().flat_map(|one| one.column_refs()).collect();
        for column in used {
            let of = format!("column_{}", renamed.len());
            listed.push(Expr::Column(column.clone()).alias(of.as_str()));
            renamed.insert(column.clone(), Column::new(Some(name.as_str()), of));
        }
        if listed.is_empty() {
            listed.push(lit(true).alias("any"));
        }
        right = right.project(listed)?;
        if tied.is_empty() {
            // One row is enough for an answer.
            right = right.limit(0, Some(1))?;
        }
        let around = self.plan.schema();
        let outside: HashMap<Column, Expr> =
            around.columns().into_iter().map(|column| (column.clone(), Expr::Column(column))).collect();
        let inside = |expr: Expr| match &expr {
            Expr::Column(column) => Ok(match renamed.get(column) {
                Some(column) => Transformed::yes(Expr::Column(column.clone())),
                None => Transformed::no(expr),
            }),
            _ => Ok(Transformed::no(expr)),
        };
        let mut conditions = Vec::new();
        for one in tied {
            conditions.push(bound(one.transform_up(inside)?.data, &outside)?);
        }
        let condition = conjunction(conditions).unwrap_or_else(|| lit(true));
        let right = right.alias(name.as_str())?.build()?;
        let plan = LogicalPlanBuilder::from(self.plan.as_ref().clone());
        self.plan = Arc::new(plan.join_on(right, JoinType::LeftMark, Some(condition))?.build()?);
        Ok(Expr::Column(Column::new(Some(name), MARK)))
    }
}

fn unknown() -> Expr {
    lit(ScalarValue::Boolean(None))
}

/// Returns whether the only column may be NULL.
fn only_field(plan: &LogicalPlan) -> Result<bool> {
    match &plan.schema().fields()[..] {
        [field] => Ok(field.is_nullable()),
        [] => plan_err!("subquery must return a column"),
        _ => plan_err!("subquery has too many columns"),
    }
}

/// Returns the first column that is not a key.
fn first(plan: &LogicalPlan, keys: &[Column]) -> Result<Column> {
    match plan.schema().columns().into_iter().find(|column| !keys.contains(column)) {
        Some(column) => Ok(column),
        None => plan_err!("subquery must return a column"),
    }
}
