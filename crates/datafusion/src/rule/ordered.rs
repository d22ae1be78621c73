//! Replaces aggregations, joins and window functions by nodes that compute them chunk by chunk, if footers
//! prove at execution that chunks are clustered.
//!
//! Conditions are in [`eligibility::aggregation_by_chunks`], [`eligibility::join_by_chunks`] and
//! [`eligibility::window_by_chunks`], execution is in [`crate::ordered`]. Such a node keeps neither the order
//! nor the partitioning of the node that it replaces. So the rewrite depends on the properties that the plan
//! above uses.

use std::sync::Arc;

use coscan_upstream::one_input::with_children;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::CatalogOptions;
use datafusion::common::tree_node::{TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
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

use super::deferred::DeferredExec;
use super::with_narrow_arithmetic;
use crate::clustered::{ClusteredWith, matches_declared};
use crate::eligibility;
use crate::eligibility::steps::Step;
use crate::key_filter::KeyFiltersExec;
use crate::options::OrderAware;
use crate::ordered::{
    AggregateSpec, Candidate, ChunkAggregation, ChunkInput, ChunkJoin, ChunkWindow, JoinTree,
    OrderedAggregateExec, OrderedJoinExec, OrderedWindowExec, sort_chunks,
};
use crate::scan::CScan;

/// Nodes of one input each, from the top down.
type Nodes = Vec<Arc<dyn ExecutionPlan>>;

/// The properties of a node's output on which the plan above may rely.
#[derive(Clone, Copy, Debug)]
struct ReliedOn {
    order: bool,
    partitioning: bool,
}

/// The parameters of the rewrite.
#[derive(Clone, Copy)]
struct How<'a> {
    /// Whether to rewrite in every correct case, worthwhile or not.
    always: bool,
    /// The completion of table names.
    catalog: &'a CatalogOptions,
    finish: &'a dyn Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
}

/// Rewrites aggregations and joins of `plan` by chunks. `finish` applies the remaining rewrites to the plans
/// that the new nodes keep as a fallback.
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
    // The caller may have asked for an order, which DataFusion then provides in one partition.
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
    if !partitioned && let Some(join) = joins(&node, relied_on, how) {
        // A subset of the tables may be clustered where not all are.
        let otherwise =
            if join.inputs.len() > 2 { with_inputs_rewritten(node, relied_on, how)? } else { node };
        return Ok(Arc::new(OrderedJoinExec::new(join, (how.finish)(otherwise)?)));
    }
    if !partitioned && let Some(window) = window(&node, relied_on, how)? {
        return Ok(Arc::new(OrderedWindowExec::new(window, (how.finish)(node)?)));
    }
    with_inputs_rewritten(node, relied_on, how)
}

fn with_inputs_rewritten(
    node: Arc<dyn ExecutionPlan>,
    relied_on: ReliedOn,
    how: How<'_>,
) -> Result<Arc<dyn ExecutionPlan>> {
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

/// Returns the properties of an input on which `node` and the plan above rely.
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

/// Returns the aggregation by chunks that replaces the nodes down from `node`; `None` if there is none.
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

/// Returns whether the plan above relies only on one order of the node's rows, which a sort can restore.
fn has_one_order(node: &Arc<dyn ExecutionPlan>, relied_on: ReliedOn) -> bool {
    let partitioned = relied_on.partitioning && node.output_partitioning().partition_count() > 1;
    !partitioned && node.equivalence_properties().oeq_class().len() == 1
}

/// Returns the joins by chunks that replace the nodes down from `node`; `None` if there are none.
fn joins(node: &Arc<dyn ExecutionPlan>, relied_on: ReliedOn, how: How<'_>) -> Option<ChunkJoin> {
    let planned = node.downcast_ref::<HashJoinExec>()?;
    if relied_on.order && node.output_ordering().is_some() {
        return None;
    }
    let partitions = node.output_partitioning().partition_count();
    let (tree, mut inputs) = planned.on().iter().find_map(|(left, right)| {
        let mut inputs = Vec::new();
        let keys = [column(left)?, column(right)?];
        let tree = join_tree(node, keys, Vec::new(), node.schema(), partitions, how, &mut inputs)?;
        inputs.iter().all(|input| input.data_type == inputs[0].data_type).then_some((tree, inputs))
    })?;
    let by_another = |at: usize| {
        let of = |at: usize| (inputs[at].scan.config(), inputs[at].column.as_str());
        (0..inputs.len()).any(|other| other != at && matches_declared(of(at), of(other), how.catalog))
    };
    let declared: Vec<bool> = (0..inputs.len()).map(by_another).collect();
    inputs.iter_mut().zip(declared).for_each(|(input, declared)| input.declared |= declared);
    let join = ChunkJoin { inputs, tree, always: how.always };
    (!join.tree.outer().is_empty()).then_some(join)
}

fn column(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    Some(expr.downcast_ref::<Column>()?.index())
}

/// Returns the join `node` on these columns of its sides, both of which are the keys by which their tables
/// are clustered; `None` if it cannot be computed by chunks. `steps` are applied to its rows, which then have
/// this schema.
fn join_tree(
    node: &Arc<dyn ExecutionPlan>,
    keys: [usize; 2],
    steps: Vec<Step>,
    schema: SchemaRef,
    partitions: usize,
    how: How<'_>,
    inputs: &mut Vec<ChunkInput>,
) -> Option<JoinTree> {
    let planned = node.downcast_ref::<HashJoinExec>()?;
    // Every partition collects the side that DataFusion takes to be small. Little is to be gained.
    if !how.always && *planned.partition_mode() != PartitionMode::Partitioned {
        return None;
    }
    if let Err(reason) = eligibility::join_by_chunks(planned, &steps) {
        tracing::debug!(%reason, "join is not done by chunks");
        return None;
    }
    let mut side = |input, key| join_side(input, key, partitions, how, inputs);
    let sides = Box::new([side(planned.left(), keys[0])?, side(planned.right(), keys[1])?]);
    Some(JoinTree::Join { planned: Arc::clone(node), sides, steps: steps.into(), schema })
}

/// Returns a side of a join with this key column: a scan, or a join on the same key.
fn join_side(
    input: &Arc<dyn ExecutionPlan>,
    key: usize,
    partitions: usize,
    how: How<'_>,
    inputs: &mut Vec<ChunkInput>,
) -> Option<JoinTree> {
    let (steps, bottom) = down_to_source(input);
    // A filter may leave so few rows that a hash table over them is small, and filters the other scan.
    let filters = |step: &Step| matches!(step, Step::Filter(..));
    if !how.always && steps.iter().any(filters) {
        return None;
    }
    let key_below = steps.iter().rev().try_fold(key, |column, step| step.source(column))?;
    let Some(scan) = scan_of(bottom) else {
        let keys = keys_of(bottom.downcast_ref::<HashJoinExec>()?, key_below)?;
        return join_tree(bottom, keys, steps, input.schema(), partitions, how, inputs);
    };
    if !how.always && scan.has_filter() {
        return None;
    }
    if let Err(reason) = eligibility::join_input_by_chunks(&steps, scan.config(), partitions) {
        tracing::debug!(%reason, "join is not done by chunks");
        return None;
    }
    inputs.push(clustered_by(input, &steps, scan, key)?);
    Some(JoinTree::Input(inputs.len() - 1))
}

/// Returns the columns of the sides that a join compares, if one of them is this column of its output. A
/// value of that column in a row is the value on both sides.
fn keys_of(join: &HashJoinExec, column_above: usize) -> Option<[usize; 2]> {
    let column_above = match &join.projection {
        Some(projection) => *projection.get(column_above)?,
        None => column_above,
    };
    let left = join.left().schema().fields().len();
    let (side, at) = match join.join_type() {
        // All columns are of one side, except the mark.
        JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (0, column_above),
        JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (1, column_above),
        _ if column_above < left => (0, column_above),
        _ => (1, column_above - left),
    };
    let mut pairs = join.on().iter().filter_map(|(left, right)| Some([column(left)?, column(right)?]));
    pairs.find(|pair| pair[side] == at)
}

/// Returns the window functions by chunks that replace the nodes down from `node`; `None` if there are none.
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

/// Returns the nodes from window functions down to the first sort, and the input of that sort. Each window
/// function has a sort below it, so results do not depend on the order of the scan's rows.
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

/// Returns the window functions that the node computes, if any.
fn window_functions(node: &Arc<dyn ExecutionPlan>) -> Option<&[Arc<dyn WindowExpr>]> {
    let bounded = node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
    bounded.or_else(|| node.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr))
}

/// Returns a column of the last node's input by which all window functions are partitioned.
fn partitioned_by(nodes: &[Arc<dyn ExecutionPlan>]) -> Option<usize> {
    let mut common: Option<Vec<usize>> = None;
    for (at, node) in nodes.iter().enumerate() {
        for function in window_functions(node).unwrap_or_default() {
            let columns = function.partition_by().iter();
            let columns = columns.filter_map(column);
            let columns = columns.filter_map(|column| traced(column, &nodes[at + 1..]));
            common = Some(match common {
                None => columns.collect(),
                Some(known) => columns.filter(|column| known.contains(column)).collect(),
            });
        }
    }
    common?.first().copied()
}

/// Traces a column of the first node's output to its position in the input of the last node.
fn traced(column: usize, nodes: &[Arc<dyn ExecutionPlan>]) -> Option<usize> {
    nodes.iter().try_fold(column, |column, node| match Step::of(node) {
        Some((step, _)) => step.source(column),
        // Sorts pass on all columns. Window functions do so too, in front of their own.
        None => (column < node.children()[0].schema().fields().len()).then_some(column),
    })
}

/// Returns the table that `input` reads, with column `key` as the key, if that is a column of the files.
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

/// Returns the node that aggregates rows: `last` itself, or the partial aggregation below it.
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

/// Returns whether the node only moves rows to other partitions.
pub(super) fn exchanges(node: &Arc<dyn ExecutionPlan>) -> bool {
    let merges = node.downcast_ref::<CoalescePartitionsExec>().is_some_and(|node| node.fetch().is_none());
    let merges_sorted =
        node.downcast_ref::<SortPreservingMergeExec>().is_some_and(|node| node.fetch().is_none());
    let passes = node.is::<RepartitionExec>()
        || node.is::<CooperativeExec>()
        || node.is::<KeyFiltersExec>()
        || node.is::<DeferredExec>();
    merges || merges_sorted || passes
}

/// Returns the cooperative scan at the bottom, and the steps applied to its rows, beginning at the scan.
fn down_to_scan(top: &Arc<dyn ExecutionPlan>) -> Option<(Vec<Step>, &CScan)> {
    let (steps, bottom) = down_to_source(top);
    Some((steps, scan_of(bottom)?))
}

/// Returns the source of these rows, and the steps applied to them, beginning at the source.
fn down_to_source(top: &Arc<dyn ExecutionPlan>) -> (Vec<Step>, &Arc<dyn ExecutionPlan>) {
    let (mut node, mut steps) = (top, Vec::new());
    loop {
        if let Some((step, input)) = Step::of(node) {
            steps.push(step);
            node = input;
            continue;
        }
        match node.children()[..] {
            [input] if exchanges(node) => node = input,
            _ => break,
        }
    }
    steps.reverse();
    (steps, node)
}

fn scan_of(node: &Arc<dyn ExecutionPlan>) -> Option<&CScan> {
    node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<CScan>()
}

/// Returns the groups that are unchanged columns of the files.
fn candidates(first: &AggregateExec, steps: &[Step], scan: &CScan) -> Vec<Candidate> {
    let groups = first.group_expr().expr().iter().enumerate();
    let candidate = |(group, (expr, _)): (usize, &(Arc<dyn PhysicalExpr>, String))| {
        let column = steps.iter().rev().try_fold(column(expr)?, |column, step| step.source(column))?;
        let (column, data_type) = eligibility::clustering_column(scan.config(), column)?;
        let declared = ClusteredWith::has_key(scan.config(), &column);
        Some(Candidate { group, column, data_type, declared })
    };
    groups.filter_map(candidate).collect()
}
