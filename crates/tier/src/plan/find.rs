//! FindSubQuery: finds the lists that a plan needs, from its leaves to its root.
//!
//! Each node passes up the list that is still to be scheduled above it:
//!
//! | node | its list |
//! |---|---|
//! | scan of a tier | its fragments; a combine node takes its place, below a resolve node if it has a predicate |
//! | scan in order, or of another format | none: a merge-combine node with all fragments, under a schedule node |
//! | filter, projection, union, repartitioning and other nodes that pass rows on | those of its inputs |
//! | hash join | that of the probe side; a schedule node goes below the build side |
//! | join without a hash table, inner, of two scans | the cross product: a schedule node that runs it in passes |
//! | the same with a hash table, if the build side is too large | the same |
//! | node that reads all of its input first: aggregation, sort, window | none; schedule nodes go below it |
//!
//! A rewrite applies only where its conditions are proven for the node. The conditions stand in this file, beside
//! the rewrite. All other nodes get schedule nodes below them. This is correct for any node, because a combine node
//! is a scan that only answers more slowly.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::logical_expr::JoinType;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, InputOrderMode};

use crate::plan::bill::Bill;
use crate::plan::combine::CombineExec;
use crate::plan::merge::MergeCombineExec;
use crate::plan::resolve::{ResolveExec, needed_fragments};
use crate::plan::scan::TierScan;
use crate::plan::schedule::{PassesExec, ScheduleExec, for_each_combine};
use crate::plan::together::{built_first, together};
use crate::reads::Reads;
use crate::tiers::Tiers;

/// Maximum number of combinations of fragments for a join in passes. With more, the build side is built.
const COMBINATIONS_MAX: usize = 10_000;

/// The rule that makes plans over tiers reorderable. It must run before the rule that makes scans cooperative.
#[derive(Debug)]
pub(crate) struct Reorder {
    pub(crate) tiers: Tiers,
    pub(crate) reads: Reads,
}

impl PhysicalOptimizerRule for Reorder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        self.find(plan, &Arc::default())?.scheduled()
    }

    fn name(&self) -> &str {
        "reorder_over_tiers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A plan and the list that is still to be scheduled above it.
struct Found {
    plan: Arc<dyn ExecutionPlan>,
    /// Number of subqueries of its list. 0: the list is empty.
    list: usize,
}

impl Found {
    fn closed(plan: Arc<dyn ExecutionPlan>) -> Self {
        Found { plan, list: 0 }
    }

    /// The plan with a schedule node on top, if there is a list.
    fn scheduled(self) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(if self.list == 0 { self.plan } else { Arc::new(ScheduleExec::new(self.plan, self.list)) })
    }
}

impl Reorder {
    fn find(&self, plan: Arc<dyn ExecutionPlan>, bill: &Arc<Bill>) -> Result<Found> {
        if let Some(scan) = TierScan::of(&plan, &self.tiers, bill) {
            return Ok(self.scan(plan, scan));
        }
        let mut inputs = Vec::new();
        for child in plan.children() {
            inputs.push(self.find(Arc::clone(child), bill)?);
        }
        if let Some(absorbed) = absorbed(&plan, &inputs)? {
            return Ok(absorbed);
        }
        if let Some(passes) = self.in_passes(&plan, &inputs)? {
            return Ok(passes);
        }
        let built_first = built_first(&plan);
        let mut list = 0;
        let mut children = Vec::new();
        for (at, input) in inputs.into_iter().enumerate() {
            if built_first(at) {
                children.push(input.scheduled()?);
            } else {
                list += input.list;
                children.push(input.plan);
            }
        }
        Ok(Found { plan: together(replace_children_if_necessary(plan, children)?)?, list })
    }

    fn scan(&self, plan: Arc<dyn ExecutionPlan>, scan: TierScan) -> Found {
        scan.bill.enter(&scan.tier, needed_fragments(&scan));
        if scan.is_tied(&plan) || !scan.is_parquet() {
            let merge = Arc::new(MergeCombineExec::new(Arc::new(scan), plan));
            return Found::closed(Arc::new(ScheduleExec::new(merge, 1)));
        }
        let list = scan.fragments.len();
        let combine = CombineExec::new(Arc::new(scan), plan, self.reads.clone());
        Found { plan: resolved(combine), list }
    }

    /// A join of two scans over a cross product of their fragments.
    fn in_passes(&self, plan: &Arc<dyn ExecutionPlan>, inputs: &[Found]) -> Result<Option<Found>> {
        let [left, right] = inputs else { return Ok(None) };
        if left.list == 0 || right.list == 0 || !self.distributes_over_pairs(plan, left) {
            return Ok(None);
        }
        if plan.output_ordering().is_some()
            || !is_simple(&left.plan)
            || !is_simple(&right.plan)
            || !one_tier(inputs)
        {
            return Ok(None);
        }
        let children = inputs.iter().map(|input| without_resolve(&input.plan)).collect::<Result<_>>()?;
        let passes = PassesExec::new(replace_children_if_necessary(Arc::clone(plan), children)?);
        if passes.subqueries() > COMBINATIONS_MAX {
            return Ok(None);
        }
        Ok(Some(Found::closed(with_partitioning(Arc::new(passes), plan.output_partitioning())?)))
    }

    /// Returns true if the join of unions is the union of joins, and if passes are better than a hash table. A hash
    /// table that fits is built once.
    fn distributes_over_pairs(&self, plan: &Arc<dyn ExecutionPlan>, left: &Found) -> bool {
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let steady = join.filter().is_none_or(|filter| !is_volatile(filter.expression()));
            return *join.join_type() == JoinType::Inner && steady;
        }
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let steady = join.filter().is_none_or(|filter| !is_volatile(filter.expression()))
                && !join.on().iter().any(|(left, right)| is_volatile(left) || is_volatile(right));
            let (mut bytes, mut most) = (0, u64::MAX);
            for_each_combine(&left.plan, &mut |combine| {
                bytes += combine.scan().bytes();
                most = most.min(combine.scan().tier.config().build_bytes);
            });
            return *join.join_type() == JoinType::Inner && steady && join.fetch().is_none() && bytes > most;
        }
        plan.is::<CrossJoinExec>()
    }
}

/// The combine node, below a resolve node if it has a predicate.
fn resolved(combine: CombineExec) -> Arc<dyn ExecutionPlan> {
    let resolver = combine.resolver().cloned();
    let combine: Arc<dyn ExecutionPlan> = Arc::new(combine);
    match resolver {
        Some(resolver) => Arc::new(ResolveExec::new(combine, resolver)),
        None => combine,
    }
}

/// Moves the node into the combine node below it, if it can run fragment by fragment.
fn absorbed(plan: &Arc<dyn ExecutionPlan>, inputs: &[Found]) -> Result<Option<Found>> {
    let [input] = inputs else { return Ok(None) };
    let below = match input.plan.downcast_ref::<ResolveExec>() {
        Some(resolve) => resolve.children()[0],
        None => &input.plan,
    };
    let Some(combine) = below.downcast_ref::<CombineExec>() else { return Ok(None) };
    // The limit of a scan applies before the absorbed node. Counted after it, other rows would pass.
    if combine.scan().config.limit.is_some() || !is_by_row(plan) && !is_partial_aggregation(plan) {
        return Ok(None);
    }
    let list = input.list;
    Ok(Some(Found { plan: resolved(combine.with(plan)?), list }))
}

/// Returns true for filters and projections that handle one row at a time: they have no volatile expression and do
/// not count rows.
fn is_by_row(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        return filter.fetch().is_none() && !is_volatile(filter.predicate());
    }
    let projection = plan.downcast_ref::<ProjectionExec>();
    projection.is_some_and(|projection| !projection.expr().iter().any(|column| is_volatile(&column.expr)))
}

/// Returns true for partial aggregation. Its groups may come in several rows of states; the final aggregation merges
/// them like those of partitions.
fn is_partial_aggregation(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return false };
    let steady = |expr: &Arc<dyn PhysicalExpr>| !is_volatile(expr);
    *aggregate.mode() == AggregateMode::Partial
        && aggregate.limit_options().is_none()
        && aggregate.dynamic_expressions_produced().is_empty()
        && *aggregate.input_order_mode() == InputOrderMode::Linear
        && plan.output_ordering().is_none()
        && !aggregate.group_expr().has_grouping_set()
        && aggregate.group_expr().expr().iter().all(|(expr, _)| steady(expr))
        && aggregate.filter_expr().iter().flatten().all(steady)
        && aggregate
            .aggr_expr()
            .iter()
            .all(|function| function.order_bys().is_empty() && function.expressions().iter().all(steady))
}

/// Returns true if the plan consists of combine nodes and of nodes that return each of their rows once, in any
/// order.
fn is_simple(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(combine) = plan.downcast_ref::<CombineExec>() {
        return combine.scan().config.limit.is_none();
    }
    let passes_on = plan.is::<ResolveExec>()
        || plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || is_by_row(plan);
    passes_on && plan.fetch().is_none() && plan.children().into_iter().all(is_simple)
}

/// Returns true if all inputs read one tier. One scheduler has to know all fragments of a subquery.
fn one_tier(inputs: &[Found]) -> bool {
    let mut tiers = Vec::new();
    for input in inputs {
        for_each_combine(&input.plan, &mut |combine| tiers.push(combine.scan().tier.config().name.clone()));
    }
    tiers.windows(2).all(|pair| pair[0] == pair[1])
}

/// Removes resolve nodes. The schedule node above resolves its scans itself.
fn without_resolve(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<ResolveExec>() {
        return Ok(Arc::clone(plan.children()[0]));
    }
    let children = plan.children().into_iter().map(without_resolve).collect::<Result<Vec<_>>>()?;
    if children.is_empty() {
        Ok(Arc::clone(plan))
    } else {
        replace_children_if_necessary(Arc::clone(plan), children)
    }
}

/// The plan with its rows distributed as in `wanted`.
fn with_partitioning(plan: Arc<dyn ExecutionPlan>, wanted: &Partitioning) -> Result<Arc<dyn ExecutionPlan>> {
    let wanted = match wanted {
        Partitioning::UnknownPartitioning(partitions) => Partitioning::RoundRobinBatch(*partitions),
        other => other.clone(),
    };
    if wanted.partition_count() == 1 {
        return Ok(plan);
    }
    Ok(Arc::new(RepartitionExec::try_new(plan, wanted)?))
}
