//! The installation of coscan in a DataFusion session: one rule, the settings, a table option, and planners
//! around DataFusion's own.

use std::sync::Arc;

use coscan_engine::Engine;
use coscan_upstream::{with_mended_planner, with_mended_rules};
use datafusion::execution::session_state::SessionStateBuilder;

use crate::clustered::ClusteredTables;
use crate::options::CoscanOptions;
use crate::rule::CooperativeScans;
use crate::session::admission::with_admission;
use crate::session::layer::with_layer;
use crate::shared_result;
use crate::shared_subplan::SubplanPlanner;
use crate::table::factory::{FilesTables, PARQUET, with_mended_tables};

/// Adds to a session under construction the rule for cooperative scans and the settings under `coscan.*`.
///
/// Rules that are added later do not see cooperative scans as DataFusion's own; add them before. Options in
/// the builder's configuration are kept, but those of the engine have no effect on an existing engine. Faults
/// of DataFusion 55 are [corrected](crate::with_mended_planning).
pub fn install(builder: SessionStateBuilder, engine: Engine) -> SessionStateBuilder {
    let mut builder = with_mended_tables(builder);
    let mut config = builder.config().take().unwrap_or_default();
    let mut options = config.options().extensions.get::<CoscanOptions>().cloned().unwrap_or_default();
    options.attach(engine.clone());
    config.options_mut().extensions.insert(options);
    let factories = builder.table_factories().get_or_insert_default();
    let plain = factories.get(PARQUET).cloned().unwrap_or_else(|| Arc::new(FilesTables));
    factories.insert(PARQUET.to_owned(), Arc::new(ClusteredTables::new(plain)));
    let rule = Arc::new(CooperativeScans::new(engine.clone()));
    let builder = builder.with_config(config).with_physical_optimizer_rule(rule);
    let mut builder = with_mended_rules(builder);
    let own_planner = builder.query_planner().take();
    let is_own = own_planner.is_some();
    let planner = own_planner.unwrap_or_else(|| Arc::new(SubplanPlanner));
    let builder = with_admission(builder, engine.clone(), planner);
    with_layer(with_mended_planner(shared_result::install(builder, &engine, is_own)))
}

/// Mends what DataFusion 55 gives wrong rows for, whether scans are cooperative or not. [`install`] does it.
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
/// EXCEPT ALL and INTERSECT ALL count rows in statements that are [marked](coscan_upstream::mend_statement). Four settings are changed:
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
