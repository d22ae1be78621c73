//! EXCEPT ALL and INTERSECT ALL, which count equal rows.
//!
//! DataFusion 55 plans them as joins that keep or drop all equal rows alike. This rule numbers equal rows on
//! both sides and adds the number to the keys of the join. So the third of three equal rows has no match if
//! the other side has two.
//!
//! The plan does not distinguish these joins from others. So the parser marks them by a name
//! ([`COUNTED_ROWS`]).

use std::sync::Arc;

use crate::canonical_floats::canonical;
use crate::statement::COUNTED_ROWS;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

/// The number of a row among equal ones, left and right.
const NUMBERS: [&str; 2] = ["coscan row", "coscan row of the right side"];

/// Adds a rule that counts rows where a statement asks for it.
pub(crate) fn with_counted_sets(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.insert(0, Arc::new(CountedSets));
    analyzer
}

#[derive(Debug)]
struct CountedSets;

impl AnalyzerRule for CountedSets {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(counted)?.data)
    }

    fn name(&self) -> &str {
        "counted_sets"
    }
}

fn counted(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if counts(&join) => by_number(join).map(Transformed::yes),
        plan => Ok(Transformed::no(plan)),
    }
}

fn counts(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && is_marked(&join.right)
}

fn is_marked(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => alias.alias.table() == COUNTED_ROWS || is_marked(&alias.input),
        LogicalPlan::Projection(projection) => is_marked(&projection.input),
        _ => false,
    }
}

fn by_number(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let mut on = join.on;
    on.push(NUMBERS.map(|number| Expr::Column(Column::from_name(number))).into());
    let [left, right] = [(join.left, NUMBERS[0]), (join.right, NUMBERS[1])];
    let join = Join::try_new(
        numbered(left)?,
        numbered(right)?,
        on,
        None,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        false,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns.into_iter().map(Expr::Column))?.build()
}

/// Adds to each row its number among equal ones.
fn numbered((plan, name): (Arc<LogicalPlan>, &str)) -> Result<Arc<LogicalPlan>> {
    let columns = plan.schema().columns();
    let fields = plan.schema().fields().iter();
    let keys = fields.zip(&columns).map(|(field, column)| {
        let column = Expr::Column(column.clone());
        // Another provider's zeros of both signs are equal in joins, but not in partitions.
        if field.data_type().is_floating() { canonical(column) } else { column }
    });
    let number = row_number().partition_by(keys.collect()).build()?;
    let shown = Expr::Column(Column::from_name(number.schema_name().to_string())).alias(name);
    let columns = columns.into_iter().map(Expr::Column).chain([shown]);
    LogicalPlanBuilder::from(plan).window([number])?.project(columns)?.build().map(Arc::new)
}
