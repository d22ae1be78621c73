//! The installation of coscan in a DataFusion session: one rule, the settings, a table option, and planners
//! around DataFusion's own.

use std::sync::Arc;

use coscan_engine::Engine;
use datafusion::execution::session_state::SessionStateBuilder;

use crate::clustered::ClusteredTables;
use crate::load_control;
use crate::options::CoscanOptions;
use crate::rule::CooperativeScans;
use crate::session::mended::{with_mended_planner, with_mended_rules};
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
    let builder = load_control::install(builder, engine.clone(), planner);
    with_mended_planner(shared_result::install(builder, &engine, is_own))
}
