//! Faults of DataFusion 55 that are mended in every session.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use super::constant_keys::without_constant_keys;
use super::counted_sets::with_counted_sets;
use super::dependencies::{IndependentPlanner, with_independent_columns};

use super::float_extrema::with_float_extrema;
use super::join_settings::JoinSettings;
use super::lasting_casts::with_lasting_casts;
use super::mixed_numbers::with_mixed_numbers;
use super::null_keys::with_keys_of_one_kind;
use super::null_lists::with_null_lists;
use super::rounded::with_lasting_round;
use super::subqueries::with_subqueries;
use crate::one_nan::{OneNanScans, with_one_nan_computed};
use crate::overflow::{with_checked_arithmetic, with_checked_constants};
use crate::rule::build_sides::with_build_sides;
use crate::rule::claims::with_true_claims;
use crate::rule::sorted_inputs::with_sorted_inputs;
use crate::rule::stops::with_stops;
use crate::table::factory::with_mended_tables;

/// Mends what DataFusion 55 gives wrong rows for, whether scans are cooperative or not. [`install`](crate::install) does it.
///
/// Planned otherwise are
///
/// - integer arithmetic and sums, which fail on overflow,
/// - rounded decimals as keys of joins and set operations,
/// - decimals beside floating-point numbers, comparisons with lists that have a null, and those of casts with constants,
/// - joins by keys whose nulls are equal and by others,
/// - joins and set operations over files in folders of a key, with `datafusion.optimizer.preserve_file_partitions`, and joins by
///   keys that cannot be sorted by, without `datafusion.optimizer.prefer_hash_join`,
/// - orders and groups by keys that some grouping sets leave out or that an outer join fills with nulls,
/// - subqueries of EXISTS and IN outside of WHERE, or with nulls, aggregates and limits that depend on the row around, and scalar
///   ones that do,
/// - groups over joins with other groups, and min and max of floating-point numbers, of which all NaNs are one,
/// - filters above outer joins whose sides have columns of the same name or above volatile columns, and conditions of joins by
///   sorting,
/// - min and max in one list without groups, whose filters skip rows that others of the list need.
///
/// A join above a semi or anti join keeps the side with fewer rows, where DataFusion may keep a whole table.
///
/// `CREATE EXTERNAL TABLE .. STORED AS PARQUET` makes other tables (`docs/tables.md`): of other files, with keys that have types, and
/// of files whose schemas differ.
///
/// EXCEPT ALL and INTERSECT ALL count rows in statements that are [marked](coscan_sql::mend_statement). Four settings are changed:
///
/// - `datafusion.optimizer.enable_sort_pushdown` is off: it reorders the files of a scan whose limit takes the first rows of
///   another order. Limits over an order in cooperative scans begin with the chunks that they want without it.
/// - `datafusion.optimizer.enable_topk_repartition` is off: with it a limit above window functions leaves out rows before an
///   exchange that belong to their frames.
/// - `datafusion.execution.skip_physical_aggregate_schema_check` is on: the check refuses groups by an expression whose null the
///   optimizer has ruled out.
/// - `datafusion.execution.parquet.coerce_int96` is `us` unless it is set: nanoseconds wrap around for INT96 times outside of the
///   years 1677 to 2262, such as the 9999-12-31 that stands for "never" in tables of Spark and Hive.
pub fn with_mended_planning(builder: SessionStateBuilder) -> SessionStateBuilder {
    with_mended_planner(with_mended_rules(with_mended_tables(builder)))
}

/// Planners around the session's own, or DataFusion's.
pub(super) fn with_mended_planner(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let inner = builder.query_planner().take().unwrap_or_else(|| Arc::new(Plain));
    let inner = Arc::new(IndependentPlanner { inner });
    builder.with_query_planner(Arc::new(JoinSettings { inner }))
}

/// The rules and settings of that. They need [`with_mended_planner`].
pub(super) fn with_mended_rules(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut builder = with_checked_constants(builder);
    let analyzer = with_lasting_round(builder.analyzer().take().unwrap_or_default());
    let analyzer = with_null_lists(with_mixed_numbers(with_lasting_casts(analyzer)));
    let analyzer = with_one_nan_computed(with_float_extrema(analyzer));
    let analyzer = with_subqueries(with_counted_sets(analyzer));
    *builder.analyzer() = Some(with_checked_arithmetic(with_independent_columns(analyzer)));
    let optimizer = builder.optimizer().take().unwrap_or_default();
    *builder.optimizer() = Some(without_constant_keys(with_keys_of_one_kind(optimizer)));
    let optimizer = builder.physical_optimizers().take().unwrap_or_default();
    let optimizer = with_build_sides(with_true_claims(with_stops(optimizer)));
    *builder.physical_optimizers() = Some(with_sorted_inputs(optimizer));
    let mut config = builder.config().take().unwrap_or_default();
    let options = config.options_mut();
    options.optimizer.enable_sort_pushdown = false;
    options.optimizer.enable_topk_repartition = false;
    options.execution.skip_physical_aggregate_schema_check = true;
    options.execution.parquet.coerce_int96.get_or_insert_with(|| "us".to_owned());
    builder.with_config(config).with_physical_optimizer_rule(Arc::new(OneNanScans))
}

/// DataFusion's own planner.
#[derive(Debug)]
struct Plain;

#[async_trait]
impl QueryPlanner for Plain {
    async fn create_physical_plan(
        &self,
        logical: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::default().create_physical_plan(logical, session).await
    }
}
