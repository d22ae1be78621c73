//! Connects a session to its tiers: registers their stores, the rule that rewrites plans, and a table factory.

use std::sync::Arc;

use coscan_datafusion::declare_node;
use coscan_engine::Engine;
use datafusion::catalog::TableProviderFactory;
use datafusion::common::Result;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use url::Url;

use crate::error::TierError;
use crate::plan::combine::CombineExec;
use crate::plan::find::Reorder;
use crate::plan::merge::MergeCombineExec;
use crate::plan::resolve::ResolveExec;
use crate::plan::schedule::{PassesExec, ScheduleExec};
use crate::reads::Reads;
use crate::table::TierTables;
use crate::tiers::{Tiers, address};

/// The rule that must run after the rule of tiers.
const COOPERATIVE_SCANS: &str = "cooperative_scans";

impl Tiers {
    /// Makes a session use the tiers. `CREATE EXTERNAL TABLE` finds them, and plans over them are reordered.
    /// `engine` is the engine that runs the session's scans, if there is one.
    ///
    /// # Errors
    ///
    /// If the session's state cannot be changed.
    pub fn attach(&self, ctx: &SessionContext, engine: Option<Engine>) -> Result<()> {
        for store in self.0.values() {
            let config = store.tier().config();
            let root = address(config, config.root.as_str())?;
            let url = Url::parse(&root).map_err(|error| TierError::Config {
                tier: config.name.clone(),
                setting: "'root'".to_owned(),
                problem: error.to_string(),
            })?;
            ctx.runtime_env().register_object_store(&url, Arc::clone(store) as _);
        }
        if let Some(engine) = &engine {
            // Merging relies on the order that its inputs declare. The other nodes rely on no order.
            declare_node::<CombineExec>(engine);
            declare_node::<MergeCombineExec>(engine);
            declare_node::<PassesExec>(engine);
            declare_node::<ResolveExec>(engine);
            declare_node::<ScheduleExec>(engine);
        }
        let state = ctx.state();
        let mut rules = state.physical_optimizers().to_vec();
        let before = rules.iter().position(|rule| rule.name() == COOPERATIVE_SCANS).unwrap_or(rules.len());
        rules.insert(before, Arc::new(Reorder { tiers: self.clone(), reads: Reads(engine) }));
        let mut builder =
            SessionStateBuilder::new_from_existing(state.clone()).with_physical_optimizer_rules(rules);
        let format = "PARQUET".to_owned();
        let plain = state.table_factories().get(&format).cloned();
        let tables: Arc<dyn TableProviderFactory> = Arc::new(TierTables::new(self.clone(), plain));
        builder = builder.with_table_factory(format, tables);
        *ctx.state_ref().write() = builder.build();
        Ok(())
    }
}
