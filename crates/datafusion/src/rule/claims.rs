//! Rows of which nodes claim nothing that is not so.
//!
//! In DataFusion 55 some nodes claim too much. A sort is then left out, and an aggregation outputs a group as soon as the
//! key changes, so groups come more than once.
//!
//! - An aggregation over grouping sets claims the order of its input, and that keys are equal in all rows which are so in its
//!   input. Where a set leaves a key out it is null.
//! - An outer join claims for a side that it fills with nulls what filters below say: after `LEFT JOIN t ON .. AND t.x = 5`, that x
//!   is 5 in all rows.
//! - An outer join by sorting with a condition claims the order of a side, and returns rows that meet none late. Of the columns in
//!   its condition it claims that they have no nulls if those of its inputs have none, and fails.
//!
//! So no such thing is claimed, before anything is planned by it.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::equivalence::EquivalenceClass;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

use crate::one_input::{OneInput, OneInputExec};

/// The rules, with one before all others that takes wrong claims away.
pub(crate) fn with_true_claims(mut optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    optimizer.rules.insert(0, Arc::new(TrueClaims));
    optimizer
}

#[derive(Debug)]
pub(crate) struct TrueClaims;

impl TrueClaims {
    pub(crate) const NAME: &'static str = "true_claims";
}

impl PhysicalOptimizerRule for TrueClaims {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(without_wrong_claims).data()
    }

    fn name(&self) -> &str {
        Self::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The node without what it wrongly claims of its rows.
fn without_wrong_claims(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut filled = filled_with_nulls(&node).into_iter();
    let mut node = node.map_children(|input| {
        let is_wrong = filled.next() == Some(true) && claims_values(&input);
        Ok(if is_wrong { Transformed::yes(Unclaimed::exec(input)) } else { Transformed::no(input) })
    })?;
    if let Some(join) = outer_with_condition(&node.data) {
        node = Transformed::yes(Unclaimed::exec(with_nulls(join)?));
    } else if leaves_keys_out(&node.data) {
        node = Transformed::yes(Unclaimed::exec(node.data));
    }
    Ok(node)
}

/// Whether a key of the aggregation is null in a set for all rows.
fn leaves_keys_out(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.downcast_ref::<AggregateExec>().is_some_and(|aggregate| {
        let makes_groups = aggregate.mode().input_mode() == AggregateInputMode::Raw;
        makes_groups && aggregate.group_expr().groups().iter().flatten().any(|is_null| *is_null)
    })
}

/// The node, if it is an outer join by sorting with a condition.
fn outer_with_condition(node: &Arc<dyn ExecutionPlan>) -> Option<&SortMergeJoinExec> {
    let outer = [JoinType::Left, JoinType::Right, JoinType::Full];
    let join = node.downcast_ref::<SortMergeJoinExec>()?;
    (join.filter().is_some() && outer.contains(&join.join_type())).then_some(join)
}

/// The join with a condition whose columns may have nulls.
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

/// Which sides a join fills with nulls; none if the node is no join.
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

/// Whether more is claimed of the values in a row than that columns are equal, which columns of nulls are.
fn claims_values(node: &Arc<dyn ExecutionPlan>) -> bool {
    let is_of_columns = |class: &EquivalenceClass| class.iter().all(|expr| expr.is::<Column>());
    let properties = node.properties().equivalence_properties();
    !properties.constants().is_empty() || !properties.eq_group().iter().all(is_of_columns)
}

pub(super) type UnclaimedExec = OneInputExec<Unclaimed>;

/// Gives the rows of its input, of which nothing is known.
pub(super) struct Unclaimed {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Unclaimed {
    pub(super) fn exec(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
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
