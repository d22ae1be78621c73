//! The optimizer rule that makes every scan of Parquet files cooperative.
//!
//! It must run last, because later rules look for DataFusion's own scan. It consists of these rewrites:
//!
//! - Filters that are filled during execution are placed in the scans to which they belong
//!   (`placed_filters`).
//! - Joins filter by single keys (`key_filters`).
//! - Scans take in the filter right above them (`filter_pushdown`).
//! - Partial aggregations right above scans read their arrays (`aggregation`).
//! - Aggregations, joins and window functions of clustered tables are computed chunk by chunk (`ordered`).
//! - A limit over an order begins with the chunks that it wants (`limits`).
//! - Build sides are read when the filters of joins above are filled (`deferred`).
//! - Decimal arithmetic is narrowed.
//! - Aggregations lose limits with which they would fail (`limited`).
//!
//! Other joins, orderings and partitions stay as they are. `eligibility` has the conditions. A node that does
//! not meet them is left alone, and the log has the reason.
//!
//! Nodes of types that neither DataFusion nor coscan defines are `foreign`: below them rows keep their order
//! (`aside`).
//!
//! `claims`, `sorted_inputs` and `stops` are separate rules among DataFusion's. They correct its plans.

mod aggregation;
mod aside;
mod deferred;
mod filter_pushdown;
pub(crate) mod foreign;
mod join_condition;
mod key_filters;
mod limited;
mod limits;
mod ordered;
mod placed_filters;
mod read_once;

use std::fmt;
use std::sync::Arc;

use coscan_engine::Engine;
use coscan_operators::narrowed;
use coscan_upstream::sorted_inputs;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use self::aside::{put_back, set_aside};
use self::deferred::deferred;
use self::foreign::Declared;
use self::join_condition::with_interruptible_condition;
use self::read_once::read_once;
use crate::eligibility;
use crate::options::{CoscanOptions, OrderAware};
use crate::ordered::{OrderedAggregateExec, OrderedJoinExec, OrderedWindowExec};
use crate::scan::CScan;

/// Makes every eligible scan of Parquet files in `plan` cooperative, reading through `engine`.
///
/// If `coscan.enabled` is false, only filters that are filled during execution are put where they belong.
///
/// # Errors
/// If an expression of the plan has no type, or a node refuses its new children.
pub fn rewrite_plan(
    plan: Arc<dyn ExecutionPlan>,
    engine: &Engine,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let defaults = CoscanOptions::default();
    let options = config.extensions.get::<CoscanOptions>().unwrap_or(&defaults);
    let declared = Declared::of(engine);
    if !options.enabled {
        return with_placed_filters(plan, &declared);
    }
    let aside = set_aside(plan, &declared, &|input| in_order(input, &declared, engine, options))?;
    let plan = rewritten(aside.data, engine, options, config)?;
    if aside.transformed { put_back(plan) } else { Ok(plan) }
}

fn with_placed_filters(plan: Arc<dyn ExecutionPlan>, declared: &Declared) -> Result<Arc<dyn ExecutionPlan>> {
    let aside = set_aside(plan, declared, &|input| with_placed_filters(input, declared))?;
    let plan = aside.data.transform_up(placed_filters::by_position)?.data;
    if aside.transformed { put_back(plan) } else { Ok(plan) }
}

/// Rewrites `plan`, which is below a foreign node. Every partition keeps its rows and their order.
fn in_order(
    plan: Arc<dyn ExecutionPlan>,
    declared: &Declared,
    engine: &Engine,
    options: &CoscanOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let aside = set_aside(plan, declared, &|input| in_order(input, declared, engine, options))?;
    let plan = aside.data.transform_up(placed_filters::by_position)?.data;
    let plan = with_cooperative_scans(plan, engine, options, true)?.transform_up(yielding)?.data;
    let plan = sorted_inputs(plan)?;
    if aside.transformed { put_back(plan) } else { Ok(plan) }
}

/// Makes eligible scans of `plan` cooperative and applies the corrections. With `in_order` the scans keep the
/// order of rows.
fn with_cooperative_scans(
    plan: Arc<dyn ExecutionPlan>,
    engine: &Engine,
    options: &CoscanOptions,
    in_order: bool,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_down(|node| {
        Ok(match cooperative(&node, engine, options, in_order)? {
            Some(scan) => Transformed::yes(scan),
            None => Transformed::no(node),
        })
    });
    let mended = |node| read_once(node)?.transform_data(deferred)?.transform_data(limited::limited_above);
    plan?.data.transform_up(mended).data()
}

/// Rewrites `plan`, which contains no foreign node with inputs.
fn rewritten(
    plan: Arc<dyn ExecutionPlan>,
    engine: &Engine,
    options: &CoscanOptions,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    // A distributed engine runs the partitions of one plan in different processes, and switches work stealing
    // off. Then chunks would not reach all processes, and no process knows all keys.
    let shares = config.execution.enable_file_stream_work_stealing;
    let plan = plan.transform_up(placed_filters::by_position)?.data;
    let plan = if shares { plan.transform_up(key_filters::by_key)?.data } else { plan };
    let plan = with_cooperative_scans(plan, engine, options, false)?;
    let order_aware = if shares { options.order_aware } else { OrderAware::Never };
    let plan = if options.order_aware == OrderAware::Never { plan } else { limits::wanted_first(plan)? };
    let finished = |plan| finished(plan, options.share_aggregates);
    let plan = finished(ordered::by_chunks(plan, order_aware, &config.catalog, &finished)?)?;
    // A rewrite may replace columns by other expressions. Then filters imply less about them, and an order
    // may be lost.
    sorted_inputs(plan)
}

/// Rewrites aggregations at scans, narrows arithmetic and makes joins yield. Skips the inputs of aggregations
/// by chunks, which are finished already. With `shared`, aggregations at scans share equal work with other
/// queries.
fn finished(plan: Arc<dyn ExecutionPlan>, shared: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_down(|node| {
        if is_finished(&node) {
            return Ok(Transformed::new(node, false, TreeNodeRecursion::Jump));
        }
        let original = || Arc::clone(&node).transform_up(with_narrow_arithmetic).data();
        Ok(match aggregation::at_scan(&node, shared, original)? {
            Some(aggregation) => Transformed::new(aggregation, true, TreeNodeRecursion::Jump),
            None => Transformed::no(node),
        })
    });
    let skip_finished = |node: Arc<dyn ExecutionPlan>| {
        let go_on = if is_finished(&node) { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue };
        Ok(Transformed::new(node, false, go_on))
    };
    let last = |node| with_narrow_arithmetic(node)?.transform_data(yielding);
    plan?.data.transform_down_up(skip_finished, last).data()
}

/// A join may make any number of rows of a few without asking its inputs for more. An operator that reads all
/// of them, such as an aggregation, would keep a thread to the end and could not be cancelled.
fn yielding(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let multiplies = node.is::<CrossJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<HashJoinExec>()
        || node.is::<SortMergeJoinExec>();
    if !multiplies {
        return Ok(Transformed::no(node));
    }
    let join = with_interruptible_condition(&node)?.unwrap_or(node);
    Ok(Transformed::yes(Arc::new(CooperativeExec::new(join))))
}

fn is_finished(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<OrderedAggregateExec>() || node.is::<OrderedJoinExec>() || node.is::<OrderedWindowExec>()
}

/// Returns a cooperative scan in place of the node, which is a scan or a filter over one. With `in_order` it
/// keeps the order of rows.
fn cooperative(
    node: &Arc<dyn ExecutionPlan>,
    engine: &Engine,
    options: &CoscanOptions,
    in_order: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let config = |config: &FileScanConfig| {
        let mut config = config.clone();
        config.preserve_order |= in_order;
        config
    };
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return match shareable(filter.input(), options).map(config) {
            Some(config) => filter_pushdown::push_down(filter, &config, engine, options.share_filters),
            None => Ok(None),
        };
    }
    let config = shareable(node, options).map(config);
    Ok(config.map(|config| DataSourceExec::from_data_source(CScan::new(config, engine.clone())) as _))
}

/// Returns the scan of Parquet files that the node is, if it can be made cooperative.
fn shareable<'a>(node: &'a Arc<dyn ExecutionPlan>, options: &CoscanOptions) -> Option<&'a FileScanConfig> {
    let exec = node.downcast_ref::<DataSourceExec>()?;
    let (config, _) = exec.downcast_to_file_source::<ParquetSource>()?;
    if let Err(reason) = eligibility::scan(config, Some(options.small_table_bytes)) {
        let file = config.file_groups.iter().flat_map(|group| group.iter()).next();
        let file = file.map_or("nothing", |file| file.object_meta.location.as_ref());
        tracing::debug!(file, %reason, "scan left to DataFusion");
        return None;
    }
    Some(config)
}

/// Narrows decimal arithmetic of the node's projection, or of its aggregate arguments, to 64 bits where
/// values allow it.
fn with_narrow_arithmetic(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let schema = projection.input().schema();
        let mut changed = false;
        let columns = projection.expr().iter().map(|column| {
            let expr = narrow(Arc::clone(&column.expr), &schema)?;
            changed |= expr.transformed;
            Ok(ProjectionExpr { expr: expr.data, alias: column.alias.clone() })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        if changed {
            let projection = ProjectionExec::try_new(columns, Arc::clone(projection.input()))?;
            return Ok(Transformed::yes(Arc::new(projection)));
        }
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>()
        && aggregate.mode().input_mode() == AggregateInputMode::Raw
    {
        let schema = aggregate.input_schema();
        let mut changed = false;
        let functions = aggregate.aggr_expr().iter().map(|function| {
            let narrow = narrow_arguments(function, &schema)?;
            changed |= narrow.is_some();
            Ok(narrow.unwrap_or_else(|| Arc::clone(function)))
        });
        let functions = functions.collect::<Result<Vec<_>>>()?;
        if changed {
            return Ok(Transformed::yes(Arc::new(aggregate.with_new_aggr_exprs(functions))));
        }
    }
    Ok(Transformed::no(node))
}

/// Returns the function over narrowed arguments; `None` if there is nothing to narrow.
fn narrow_arguments(
    function: &AggregateFunctionExpr,
    schema: &Schema,
) -> Result<Option<Arc<AggregateFunctionExpr>>> {
    if !eligibility::narrow_arguments(function) {
        return Ok(None);
    }
    let mut changed = false;
    let arguments = function.expressions().into_iter().map(|argument| {
        let argument = narrow(argument, schema)?;
        changed |= argument.transformed;
        Ok(argument.data)
    });
    let arguments = arguments.collect::<Result<Vec<_>>>()?;
    Ok(if changed { function.with_new_expressions(arguments, Vec::new()).map(Arc::new) } else { None })
}

fn narrow(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    if eligibility::narrow_arithmetic(&expr) { narrowed(expr, schema) } else { Ok(Transformed::no(expr)) }
}

/// [`rewrite_plan`] as a rule of a session. It must be the last rule.
pub struct CooperativeScans {
    engine: Engine,
}

impl CooperativeScans {
    /// Its name among the rules of a session.
    pub(crate) const NAME: &str = "cooperative_scans";

    /// Creates the rule for scans through `engine`.
    pub fn new(engine: Engine) -> Self {
        CooperativeScans { engine }
    }
}

impl fmt::Debug for CooperativeScans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CooperativeScans")
    }
}

impl PhysicalOptimizerRule for CooperativeScans {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        rewrite_plan(plan, &self.engine, config)
    }

    fn name(&self) -> &str {
        CooperativeScans::NAME
    }

    fn schema_check(&self) -> bool {
        true
    }
}
