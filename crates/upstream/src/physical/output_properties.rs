//! Removes plan properties that DataFusion 55 overstates.
//!
//! Some nodes declare an order or constants that do not hold. DataFusion then leaves out a sort, or an
//! aggregation outputs a group as soon as the key changes, so groups come more than once.
//!
//! - An aggregation over grouping sets declares the order and the constant keys of its input. But a key is
//!   null in a set that leaves it out.
//! - An outer join declares constants for a side that it fills with nulls: after
//!   `LEFT JOIN t ON .. AND t.x = 5`, that x is 5 in all rows.
//! - A filter solves its condition for columns, but takes all operations to be reversible: after
//!   `WHERE i / 7 = 11`, i is 77, and after `WHERE CAST(f AS INT) = 4`, f is 4.0.
//! - An outer sort-merge join with a condition declares the order of one side, but returns rows without a
//!   match late. It also takes the columns of its condition to be free of nulls if those of its inputs are,
//!   and fails.
//!
//! This rule runs first, so no plan is based on such properties. A scan declares constants when DataFusion has
//! pushed a condition down to it, so outer joins are looked at again after that.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::equivalence::EquivalenceClass;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column};
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

use crate::one_input::{OneInput, OneInputExec};

use super::node_rule::NodeRule;

/// Puts the rule that removes wrong properties before all others, and its part for outer joins after the
/// pushdown of conditions to scans.
pub(crate) fn with_true_claims(mut optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    optimizer.rules.insert(0, Arc::new(NodeRule { name: NAMES[0], change: without_wrong_claims }));
    let pushed = optimizer.rules.iter().position(|rule| rule.name() == PUSHES_CONDITIONS);
    if let Some(pushed) = pushed {
        optimizer.rules.insert(pushed + 1, Arc::new(NodeRule { name: NAMES[1], change: of_filled_sides }));
    }
    optimizer
}

pub(crate) const NAMES: &[&str] = &["true_claims", "true_claims_of_outer_joins"];

/// DataFusion's rule that pushes conditions down to scans.
const PUSHES_CONDITIONS: &str = "FilterPushdown";

/// Removes wrong properties of the node's rows.
fn without_wrong_claims(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut node = of_filled_sides(node)?;
    if let Some(join) = outer_with_condition(&node.data) {
        node = Transformed::yes(Unclaimed::exec(with_nulls(join)?));
    } else if leaves_keys_out(&node.data) || solves_wrongly(&node.data)? {
        node = Transformed::yes(Unclaimed::exec(node.data));
    }
    Ok(node)
}

/// Removes values that are declared of rows which the node fills with nulls.
fn of_filled_sides(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut filled = filled_with_nulls(&node).into_iter();
    node.map_children(|input| {
        let is_wrong = filled.next() == Some(true) && claims_values(&input);
        Ok(if is_wrong { Transformed::yes(Unclaimed::exec(input)) } else { Transformed::no(input) })
    })
}

/// Returns whether the node is a filter that solves its condition, by an operation that has one result for several
/// operands.
fn solves_wrongly(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(false) };
    let schema = filter.input().schema();
    if !check_support(filter.predicate(), &schema) {
        return Ok(false);
    }
    filter.predicate().exists(|expr| {
        if let Some(operation) = expr.downcast_ref::<BinaryExpr>() {
            return Ok(*operation.op() == Operator::Divide && operation.data_type(&schema)?.is_integer());
        }
        let Some(cast) = expr.downcast_ref::<CastExpr>() else { return Ok(false) };
        Ok(!keeps_values(&cast.expr().data_type(&schema)?, cast.cast_type()))
    })
}

/// Returns whether a cast of numbers keeps different values different, or fails.
fn keeps_values(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (from, to) if from == to || from.is_integer() && to.is_integer() => true,
        (DataType::Float16, DataType::Float32 | DataType::Float64) => true,
        (DataType::Float32, DataType::Float64) => true,
        (from, DataType::Float64) => from.is_integer() && from.primitive_width() <= Some(4),
        (from, DataType::Float32) => from.is_integer() && from.primitive_width() <= Some(2),
        _ => false,
    }
}

/// Returns whether a grouping set leaves out a key of the aggregation, so that it is null.
fn leaves_keys_out(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        let makes_groups = aggregate.mode().input_mode() == AggregateInputMode::Raw;
        makes_groups && aggregate.group_expr().groups().iter().flatten().any(|is_null| *is_null)
    })
}

/// Returns the node if it is an outer sort-merge join with a condition.
fn outer_with_condition(node: &Arc<dyn ExecutionPlan>) -> Option<&SortMergeJoinExec> {
    let outer = [JoinType::Left, JoinType::Right, JoinType::Full];
    let join = node.downcast_ref::<SortMergeJoinExec>()?;
    (join.filter().is_some() && outer.contains(&join.join_type())).then_some(join)
}

/// Declares the columns of the join's condition nullable.
fn with_nulls(join: &SortMergeJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
    let condition = join.filter().as_ref().map(|condition| {
        let fields =
            condition.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let columns = condition.column_indices().to_vec();
        JoinFilter::new(Arc::clone(condition.expression()), columns, Arc::new(schema))
    });
    Ok(Arc::new(SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        condition,
        join.join_type(),
        join.sort_options().to_vec(),
        join.null_equality(),
    )?))
}

/// Returns which sides a join fills with nulls; none if the node is no join.
fn filled_with_nulls(node: &Arc<dyn ExecutionPlan>) -> [bool; 2] {
    let hash = node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let kind = hash
        .or_else(|| node.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type()))
        .or_else(|| node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()))
        .or_else(|| node.downcast_ref::<PiecewiseMergeJoinExec>().map(|join| join.join_type()));
    match kind {
        Some(JoinType::Left) => [false, true],
        Some(JoinType::Right) => [true, false],
        Some(JoinType::Full) => [true, true],
        _ => [false, false],
    }
}

/// Returns whether the node declares constants, or equalities beyond those of columns. Equalities of columns
/// also hold for rows of nulls.
fn claims_values(node: &Arc<dyn ExecutionPlan>) -> bool {
    let is_of_columns = |class: &EquivalenceClass| class.iter().all(|expr| expr.is::<Column>());
    let properties = node.properties().equivalence_properties();
    !properties.constants().is_empty() || !properties.eq_group().iter().all(is_of_columns)
}

/// A node that passes rows on, without the plan properties that DataFusion overstates.
pub type UnclaimedExec = OneInputExec<Unclaimed>;

/// Emits the rows of its input and declares no properties of them.
pub struct Unclaimed {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

/// Returns the node over an input.
pub fn unclaimed(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Unclaimed::exec(input)
}

impl Unclaimed {
    fn exec(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let nothing = EquivalenceProperties::new(input.schema());
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(nothing);
        Arc::new(OneInputExec(Unclaimed { input, properties: Arc::new(properties) }))
    }
}

impl OneInput for Unclaimed {
    const NAME: &'static str = "UnclaimedExec";
    const KEEPS_ORDER: bool = false;
    const PASSES_FILTERS: bool = true;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn over(_: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        Unclaimed::exec(input)
    }
}
