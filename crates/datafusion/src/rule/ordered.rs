//! Aggregations, joins and window functions that can be done chunk by chunk get a node that does so once footers prove that
//! chunks are clustered.
//!
//! Conditions are in [`eligibility::aggregation_by_chunks`], [`eligibility::join_by_chunks`] and
//! [`eligibility::window_by_chunks`], execution is in [`crate::ordered`]. Such a node keeps neither the order nor the
//! partitioning of the node it replaces, so it matters what the plan above relies on.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::CatalogOptions;
use datafusion::common::tree_node::{TransformedResult, TreeNode};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, AggregateOutputMode,
};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::InterleaveExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{Distribution, ExecutionPlan, ExecutionPlanProperties};

use super::{eligibility, with_narrow_arithmetic};
use crate::clustered::{ClusteredWith, matches_declared};
use crate::key_filter::KeyFiltersExec;
use crate::one_input::with_children;
use crate::ordered::{
    AggregateSpec, Candidate, ChunkAggregation, ChunkInput, ChunkJoin, ChunkWindow, OrderedAggregateExec,
    OrderedJoinExec, OrderedWindowExec, OuterSide, Step, sort_chunks,
};
use crate::scan::CScan;
use crate::session::options::OrderAware;

/// Nodes of one input each, from the top down.
type Nodes = Vec<Arc<dyn ExecutionPlan>>;

/// What the plan above a node may rely on.
#[derive(Clone, Copy, Debug)]
struct ReliedOn {
    order: bool,
    partitioning: bool,
}

/// How a plan is rewritten.
#[derive(Clone, Copy)]
struct How<'a> {
    /// Wherever it is right, worthwhile or not.
    always: bool,
    /// How the names of tables are completed.
    catalog: &'a CatalogOptions,
    finish: &'a dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
}

/// `plan` with aggregations and joins by chunks. `finish` does to what stands by what is done to the rest of the plan.
pub(super) fn by_chunks(
    plan: Arc<dyn ExecutionPlan>,
    when: OrderAware,
    catalog: &CatalogOptions,
    finish: &dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    if when == OrderAware::Never {
        return Ok(plan);
    }
    let how = How { always: when == OrderAware::Always, catalog, finish };
    // Whoever asked for the result may have asked for its order, which DataFusion then gives in one partition.
    let order = plan.output_partitioning().partition_count() == 1;
    rewritten(plan, ReliedOn { order, partitioning: false }, how)
}

fn rewritten(
    node: Arc<dyn ExecutionPlan>,
    relied_on: ReliedOn,
    how: How<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let partitioning = node.output_partitioning().clone();
    let partitioned = relied_on.partitioning && partitioning.partition_count() > 1;
    let by_hash = matches!(partitioning, Partitioning::Hash(..));
    if (by_hash || !partitioned)
        && let Some(aggregation) = aggregation(&node, relied_on, how)?
    {
        let order = node.output_ordering().cloned().filter(|_| aggregation.in_order);
        let exec = OrderedAggregateExec::in_order(aggregation, (how.finish)(node)?, order);
        let exec: Arc<dyn ExecutionPlan> = Arc::new(exec);
        if partitioned {
            return Ok(Arc::new(RepartitionExec::try_new(exec, partitioning)?));
        }
        return Ok(exec);
    }
    if !partitioned && let Some(join) = join(&node, relied_on, how)? {
        return Ok(Arc::new(OrderedJoinExec::new(join, (how.finish)(node)?)));
    }
    if !partitioned && let Some(window) = window(&node, relied_on, how)? {
        return Ok(Arc::new(OrderedWindowExec::new(window, (how.finish)(node)?)));
    }
    let children = node.children();
    let mut changed = false;
    let mut replaced = Vec::with_capacity(children.len());
    for (at, child) in children.into_iter().enumerate() {
        let new = rewritten(Arc::clone(child), of_input(&node, at, relied_on), how)?;
        changed |= !Arc::ptr_eq(&new, child);
        replaced.push(new);
    }
    if !changed {
        return Ok(node);
    }
    with_children(node, replaced)
}

/// What is relied on of an input of `node`.
fn of_input(node: &Arc<dyn ExecutionPlan>, at: usize, relied_on: ReliedOn) -> ReliedOn {
    let needs_order = node.required_input_ordering()[at].is_some() || node.is::<PartialSortExec>();
    let requirements = node.input_distribution_requirements();
    let needs_partitioning = node.is::<InterleaveExec>()
        || !matches!(
            requirements.child_distribution(at),
            None | Some(Distribution::UnspecifiedDistribution | Distribution::SinglePartition)
        );
    let partitions_anew = node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<SortPreservingMergeExec>();
    ReliedOn {
        order: needs_order || (relied_on.order && node.maintains_input_order()[at]),
        partitioning: needs_partitioning || (relied_on.partitioning && !partitions_anew),
    }
}

/// How the aggregation that ends in `node` is done by chunks; `None` if it cannot be.
fn aggregation(
    node: &Arc<dyn ExecutionPlan>,
    relied_on: ReliedOn,
    how: How<'_>,
) -> Result<Option<ChunkAggregation>> {
    let Some(last) = node.downcast_ref::<AggregateExec>() else { return Ok(None) };
    if last.mode().output_mode() != AggregateOutputMode::Final {
        return Ok(None);
    }
    let in_order = relied_on.order && node.output_ordering().is_some();
    if in_order && !has_one_order(node, relied_on) {
        return Ok(None);
    }
    let narrow = Arc::clone(first_of(node)).transform_up(with_narrow_arithmetic).data()?;
    let Some(first) = narrow.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let Some((steps, scan)) = down_to_scan(first.input()) else { return Ok(None) };
    if let Err(reason) = eligibility::aggregation_by_chunks(last, first, &steps, scan.config()) {
        tracing::debug!(%reason, "aggregation is not done by chunks");
        return Ok(None);
    }
    let candidates = candidates(first, &steps, scan);
    if candidates.is_empty() {
        return Ok(None);
    }
    let spec = Arc::new(AggregateSpec::new(first, last.schema())?);
    Ok(Some(ChunkAggregation {
        spec,
        scan: scan.clone(),
        steps: steps.into(),
        candidates,
        in_order,
        always: how.always,
    }))
}

/// Whether the plan above relies on nothing of the node but one order of its rows, which a sort can make again.
fn has_one_order(node: &Arc<dyn ExecutionPlan>, relied_on: ReliedOn) -> bool {
    let partitioned = relied_on.partitioning && node.output_partitioning().partition_count() > 1;
    !partitioned && node.equivalence_properties().oeq_class().len() == 1
}

/// How the join that the node is is done by chunks; `None` if it cannot be.
fn join(node: &Arc<dyn ExecutionPlan>, relied_on: ReliedOn, how: How<'_>) -> Result<Option<ChunkJoin>> {
    let Some(planned) = node.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    if relied_on.order && node.output_ordering().is_some() {
        return Ok(None);
    }
    let Some(outer) = OuterSide::of(*planned.join_type()) else { return Ok(None) };
    // The side that DataFusion takes to be small is collected by everybody: little is to be gained.
    if !how.always && *planned.partition_mode() != PartitionMode::Partitioned {
        return Ok(None);
    }
    let partitions = node.output_partitioning().partition_count();
    let sides = [planned.left(), planned.right()].map(|input| down_to_scan(input));
    let [Some((left_steps, left)), Some((right_steps, right))] = sides else { return Ok(None) };
    // What a filter leaves may be so little that a hash table over it is small, and filters the other scan.
    let filtered = |steps: &[Step], scan: &CScan| {
        scan.has_filter() || steps.iter().any(|step| matches!(step, Step::Filter(..)))
    };
    if !how.always && (filtered(&left_steps, left) || filtered(&right_steps, right)) {
        return Ok(None);
    }
    for (steps, scan) in [(&left_steps, left), (&right_steps, right)] {
        if let Err(reason) = eligibility::join_by_chunks(planned, steps, scan.config(), partitions) {
            tracing::debug!(%reason, "join is not done by chunks");
            return Ok(None);
        }
    }
    for (on_left, on_right) in planned.on() {
        let key = |on: &Arc<dyn PhysicalExpr>| Some(on.downcast_ref::<Column>()?.index());
        let (Some(left_key), Some(right_key)) = (key(on_left), key(on_right)) else { continue };
        let left = clustered_by(planned.left(), &left_steps, left, left_key);
        let right = clustered_by(planned.right(), &right_steps, right, right_key);
        if let (Some(left), Some(right)) = (left, right)
            && left.data_type == right.data_type
        {
            let declared = matches_declared(
                (left.scan.config(), &left.column),
                (right.scan.config(), &right.column),
                how.catalog,
            );
            let [left, right] =
                [left, right].map(|side| ChunkInput { declared: side.declared || declared, ..side });
            return Ok(Some(ChunkJoin { left, right, outer, join: Arc::clone(node), always: how.always }));
        }
    }
    Ok(None)
}

/// How the window functions that end in `node` are computed by chunks; `None` if they cannot be.
fn window(node: &Arc<dyn ExecutionPlan>, relied_on: ReliedOn, how: How<'_>) -> Result<Option<ChunkWindow>> {
    if window_functions(node).is_none() || (relied_on.order && node.output_ordering().is_some()) {
        return Ok(None);
    }
    let Some((nodes, input)) = down_to_sort(node) else { return Ok(None) };
    let Some((steps, scan)) = down_to_scan(input) else { return Ok(None) };
    let partitions = node.output_partitioning().partition_count();
    if let Err(reason) = eligibility::window_by_chunks(&nodes, &steps, scan.config(), partitions) {
        tracing::debug!(%reason, "window functions are not computed by chunks");
        return Ok(None);
    }
    let Some(key) = partitioned_by(&nodes) else { return Ok(None) };
    let Some(input) = clustered_by(input, &steps, scan, key) else { return Ok(None) };
    let narrow = |node: Arc<dyn ExecutionPlan>| with_narrow_arithmetic(node).data();
    let nodes = nodes.into_iter().map(narrow).collect::<Result<Nodes>>()?;
    if !sort_chunks(&nodes, &input.schema)? {
        tracing::debug!("window functions rely on what is constant in each partition");
        return Ok(None);
    }
    Ok(Some(ChunkWindow { input, nodes, always: how.always }))
}

/// The nodes from window functions down to the first sort, and what that sorts. Each window function has a sort below it,
/// so that nothing depends on the order of rows.
fn down_to_sort(top: &Arc<dyn ExecutionPlan>) -> Option<(Nodes, &Arc<dyn ExecutionPlan>)> {
    let (mut node, mut nodes, mut sorted) = (top, Vec::new(), false);
    loop {
        if sorted && down_to_scan(node).is_some() {
            return Some((nodes, node));
        }
        let [input] = node.children()[..] else { return None };
        if !exchanges(node) {
            let sorts = node.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_none());
            match window_functions(node) {
                Some(_) => sorted = false,
                None if sorts => sorted = true,
                None if Step::of(node).is_some() => {}
                None => return None,
            }
            nodes.push(Arc::clone(node));
        }
        node = input;
    }
}

/// The window functions that the node computes, if it does.
fn window_functions(node: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn WindowExpr>]> {
    let bounded = node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
    bounded.or_else(|| node.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr))
}

/// A column of what the last of these nodes reads by which all window functions are partitioned.
fn partitioned_by(nodes: &[Arc<dyn ExecutionPlan>]) -> Option<usize> {
    let mut common: Option<Vec<usize>> = None;
    for (at, node) in nodes.iter().enumerate() {
        for function in window_functions(node).unwrap_or_default() {
            let columns = function.partition_by().iter();
            let columns = columns.filter_map(|expr| Some(expr.downcast_ref::<Column>()?.index()));
            let columns = columns.filter_map(|column| traced(column, &nodes[at + 1..]));
            common = Some(match common {
                None => columns.collect(),
                Some(known) => columns.filter(|column| known.contains(column)).collect(),
            });
        }
    }
    common?.first().copied()
}

/// The position in the input of the last of these nodes of a column of the output of the first one.
fn traced(column: usize, nodes: &[Arc<dyn ExecutionPlan>]) -> Option<usize> {
    nodes.iter().try_fold(column, |column, node| match Step::of(node) {
        Some((step, _)) => step.source(column),
        // Sorts pass on all columns, window functions too, in front of their own.
        None => (column < node.children()[0].schema().fields().len()).then_some(column),
    })
}

/// What `input` reads, with column `key` of it as the key, if that is a column of the files.
fn clustered_by(
    input: &Arc<dyn ExecutionPlan>,
    steps: &[Step],
    scan: &CScan,
    key: usize,
) -> Option<ChunkInput> {
    let column = steps.iter().rev().try_fold(key, |column, step| step.source(column))?;
    let (column, data_type) = eligibility::clustering_column(scan.config(), column)?;
    let (scan, steps, schema) = (scan.clone(), steps.to_vec().into(), input.schema());
    let declared = ClusteredWith::has_key(scan.config(), &column);
    Some(ChunkInput { scan, steps, schema, key, column, data_type, declared })
}

/// The node that aggregates rows: `last` itself, or the partial aggregation below it.
fn first_of(last: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    let mode = |node: &Arc<dyn ExecutionPlan>| node.downcast_ref::<AggregateExec>().map(|node| *node.mode());
    if mode(last).is_none_or(|mode| mode.input_mode() == AggregateInputMode::Raw) {
        return last;
    }
    let mut node = last;
    while let [input] = node.children()[..] {
        node = input;
        if mode(node) == Some(AggregateMode::Partial) {
            return node;
        }
        if !exchanges(node) {
            break;
        }
    }
    last
}

/// Whether the node does nothing but bring rows to other partitions.
pub(super) fn exchanges(node: &Arc<dyn ExecutionPlan>) -> bool {
    let merges = node.downcast_ref::<CoalescePartitionsExec>().is_some_and(|node| node.fetch().is_none());
    let merges_sorted =
        node.downcast_ref::<SortPreservingMergeExec>().is_some_and(|node| node.fetch().is_none());
    let passes = node.is::<RepartitionExec>() || node.is::<CooperativeExec>() || node.is::<KeyFiltersExec>();
    merges || merges_sorted || passes
}

/// The cooperative scan at the bottom and what is done to its rows, beginning at the scan.
fn down_to_scan(top: &Arc<dyn ExecutionPlan>) -> Option<(Vec<Step>, &CScan)> {
    let (mut node, mut steps) = (top, Vec::new());
    loop {
        if let Some(leaf) = node.downcast_ref::<DataSourceExec>() {
            steps.reverse();
            return Some((steps, leaf.data_source().downcast_ref::<CScan>()?));
        }
        if let Some((step, input)) = Step::of(node) {
            steps.push(step);
            node = input;
            continue;
        }
        match node.children()[..] {
            [input] if exchanges(node) => node = input,
            _ => return None,
        }
    }
}

/// The groups that are columns of the files, as they are.
fn candidates(first: &AggregateExec, steps: &[Step], scan: &CScan) -> Vec<Candidate> {
    let groups = first.group_expr().expr().iter().enumerate();
    let candidate = |(group, (expr, _)): (usize, &(Arc<dyn PhysicalExpr>, String))| {
        let column = expr.downcast_ref::<Column>()?.index();
        let column = steps.iter().rev().try_fold(column, |column, step| step.source(column))?;
        let (column, data_type) = eligibility::clustering_column(scan.config(), column)?;
        let declared = ClusteredWith::has_key(scan.config(), &column);
        Some(Candidate { group, column, data_type, declared })
    };
    groups.filter_map(candidate).collect()
}
