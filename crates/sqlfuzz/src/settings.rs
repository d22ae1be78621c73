//! The settings of a seed's queries: DataFusion's, for both sides, and coscan's.

use std::sync::Arc;

use coscan_datafusion::{CoscanOptions, install, with_mended_planning};
use coscan_engine::{Engine, EngineError, PolicyName, registry};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::dice::Dice;
use crate::functions;
use crate::odd::Odd;
use crate::refusals::{Refusals, RefusingPool};
use crate::reversed::Reversed;
use crate::shapes::Shapes;

/// A buffer that holds everything.
const LARGE_BUFFER: u64 = 64 << 20;

/// A buffer that holds nothing. It is raised to the size that the engine requires for a query.
const SMALL_BUFFER: u64 = 4 << 10;

/// Workers that may hold a chunk at the same time without waiting for memory.
const PROCESSORS: usize = 2;

/// The settings of one seed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Settings {
    /// Settings `datafusion.*` of both sides, without that prefix.
    pub(crate) datafusion: Vec<(&'static str, String)>,
    /// Settings `coscan.*` without that prefix, except policy and buffer.
    pub(crate) coscan: Vec<(&'static str, String)>,
    /// The engine's policies. Each query has the next one. Concurrent queries have them one after the other.
    pub(crate) policies: Vec<PolicyName>,
    /// Whether the buffer is as small as queries allow.
    pub(crate) small_buffer: bool,
    /// Whether files are read from disk instead of an object store.
    pub(crate) local: bool,
    /// Whether all queries also run concurrently.
    pub(crate) together: bool,
    /// Whether functions with the names of built-in ones are registered.
    pub(crate) shadowing: bool,
    /// The refusals of memory to cooperative sessions.
    pub(crate) refusals: Option<Refusals>,
    /// The foreign provider of the tables.
    pub(crate) odd: Option<Odd>,
}

/// Settings of DataFusion that change the execution of a query and keep its result.
const DATAFUSION: [(&str, &[&str]); 35] = [
    ("execution.batch_size", &["7", "100", "1000"]),
    ("execution.coalesce_batches", &["false"]),
    ("execution.collect_statistics", &["false"]),
    ("execution.enable_file_stream_work_stealing", &["false"]),
    ("execution.keep_partition_by_columns", &["true"]),
    ("execution.parquet.binary_as_string", &["true"]),
    ("execution.parquet.bloom_filter_on_read", &["false"]),
    ("execution.parquet.coerce_int96", &["us", "ms"]),
    ("execution.parquet.enable_page_index", &["false"]),
    ("execution.parquet.force_filter_selections", &["true"]),
    ("execution.parquet.max_predicate_cache_size", &["0"]),
    ("execution.parquet.metadata_size_hint", &["16"]),
    ("execution.parquet.pruning", &["false"]),
    ("execution.parquet.pushdown_filters", &["true"]),
    ("execution.parquet.reorder_filters", &["true"]),
    ("execution.parquet.schema_force_view_types", &["false"]),
    ("execution.parquet.skip_metadata", &["false"]),
    ("execution.skip_partial_aggregation_probe_rows_threshold", &["10"]),
    ("execution.split_file_groups_by_statistics", &["true"]),
    ("execution.time_zone", &["+02:00"]),
    ("optimizer.enable_dynamic_filter_pushdown", &["false"]),
    ("optimizer.enable_sort_pushdown", &["false"]),
    ("optimizer.enable_topk_aggregation", &["false"]),
    ("optimizer.enable_leaf_expression_pushdown", &["false"]),
    ("optimizer.filter_null_join_keys", &["true"]),
    ("optimizer.hash_join_single_partition_threshold", &["0"]),
    ("optimizer.hash_join_single_partition_threshold_rows", &["0"]),
    ("optimizer.prefer_existing_sort", &["true"]),
    ("optimizer.prefer_hash_join", &["false"]),
    ("optimizer.preserve_file_partitions", &["1"]),
    ("optimizer.repartition_aggregations", &["false"]),
    ("optimizer.repartition_file_min_size", &["0", "500"]),
    ("optimizer.repartition_file_scans", &["false"]),
    ("optimizer.repartition_joins", &["false"]),
    ("sql_parser.parse_float_as_decimal", &["true"]),
];

/// Settings of coscan, except policy and buffer.
const COSCAN: &[(&str, &[&str])] = &[
    ("point_threshold", &["0", "1", "2", "1000"]),
    ("point_share", &["0", "50"]),
    ("point_latency_ms", &["0", "1"]),
    ("decoded_share", &["0", "1", "90"]),
    ("buffer_start", &["1", "30000", "300000"]),
    ("chunk_size", &["0", "100", "300", "1000", "4000", "30000"]),
    ("slice_rows", &["1", "16", "100", "1000"]),
    ("loads_in_flight", &["1", "2"]),
    ("io_threads", &["1", "2"]),
    ("direct_io", &["false"]),
    ("page_cache", &["0", "1", "1", "1"]),
    ("order_aware", &["always", "always", "never"]),
    ("load_control", &["true", "true", "false"]),
    ("share_results", &["false"]),
    ("share_aggregates", &["false"]),
    ("share_filters", &["false"]),
];

impl Settings {
    pub(crate) fn draw(dice: &mut Dice, shapes: &Shapes) -> Self {
        let mut datafusion =
            vec![("execution.target_partitions", dice.pick(&["1", "1", "2", "3", "8"]).to_string())];
        // Most seeds change a few settings, some none.
        let changes = if dice.one_in(3) { 40 } else { 8 };
        for (name, values) in DATAFUSION {
            if dice.one_in(changes) {
                datafusion.push((name, dice.pick(values).to_string()));
            }
        }
        let mut coscan = vec![("small_table_bytes", "0".to_owned()), ("stall_ms", "5".to_owned())];
        for (name, values) in COSCAN {
            if dice.one_in(3) {
                coscan.push((name, dice.pick(values).to_string()));
            }
        }
        let refusals = (dice.one_in(4) && shapes.refusals).then(|| Refusals::draw(dice));
        if refusals.is_some() {
            coscan.push(("load_control", "true".to_owned()));
        }
        let known: Vec<PolicyName> = registry::sharing().collect();
        let policies = *dice.pick(&[1, 1, 2, 4]);
        let policies = (0..policies).map(|_| *dice.pick(&known)).collect();
        Settings {
            datafusion,
            coscan,
            policies,
            small_buffer: dice.one_in(2) && shapes.small_buffers,
            local: dice.one_in(4),
            together: dice.one_in(2),
            shadowing: dice.one_in(10) && shapes.shadowing,
            refusals,
            odd: None,
        }
    }

    /// Returns the policy of the query at this position.
    pub(crate) fn policy(&self, query: usize) -> PolicyName {
        self.policies[query % self.policies.len()]
    }

    /// Returns a session of plain DataFusion, without optimizations that have known faults.
    pub(crate) fn plain(&self) -> Result<SessionContext> {
        self.with_config(self.config()?)
    }

    fn with_config(&self, mut config: SessionConfig) -> Result<SessionContext> {
        // Statistics do not count NaN, and DataFusion draws wrong conclusions from some. So it reads all
        // rows.
        config = config.with_collect_statistics(false);
        let parquet = &mut config.options_mut().execution.parquet;
        (parquet.pruning, parquet.enable_page_index, parquet.bloom_filter_on_read) = (false, false, false);
        // If columns have equal names, the filter of a join may reach another column than its key.
        config.options_mut().set("datafusion.optimizer.enable_join_dynamic_filter_pushdown", "false")?;
        let state = with_mended_planning(self.state(config, None)?);
        Ok(self.with_functions(SessionContext::new_with_state(state.build())))
    }

    /// Returns a session of plain DataFusion with default settings: another path to the same result.
    pub(crate) fn plain_usual(&self) -> Result<SessionContext> {
        let usual = self.usual();
        usual.with_config(usual.config()?)
    }

    /// Returns a session of plain DataFusion with batches of one row and filters in scans, so that guards of
    /// failing conditions are effective.
    pub(crate) fn plain_by_row(&self) -> Result<SessionContext> {
        let mut by_row = self.usual();
        by_row.datafusion.push(("execution.parquet.pushdown_filters", "true".to_owned()));
        by_row.datafusion.push(("execution.batch_size", "1".to_owned()));
        by_row.with_config(by_row.config()?)
    }

    /// Returns the same with reversed conditions, like scans that begin with the cheapest conjunct.
    pub(crate) fn plain_reversed(&self) -> Result<SessionContext> {
        // Conditions that the scan has applied are in no filter.
        self.reversed("false")
    }

    /// Returns the same with filters in scans, which compute a conjunct only for the rows that others left.
    pub(crate) fn plain_reversed_in_scans(&self) -> Result<SessionContext> {
        self.reversed("true")
    }

    fn reversed(&self, in_scans: &str) -> Result<SessionContext> {
        let mut by_row = self.usual();
        by_row.datafusion.push(("execution.parquet.pushdown_filters", in_scans.to_owned()));
        by_row.datafusion.push(("execution.batch_size", "1".to_owned()));
        let state = SessionStateBuilder::from(by_row.with_config(by_row.config()?)?.state());
        let reversed = state.with_physical_optimizer_rule(Arc::new(Reversed)).build();
        Ok(SessionContext::new_with_state(reversed))
    }

    /// Returns a session of plain DataFusion with sort-merge joins, which fill no filters, as under load
    /// control after refusals.
    pub(crate) fn plain_sorting(&self) -> Result<SessionContext> {
        let mut sorting = self.usual();
        sorting.datafusion.push(("optimizer.prefer_hash_join", "false".to_owned()));
        sorting.datafusion.push(("optimizer.enable_dynamic_filter_pushdown", "false".to_owned()));
        sorting.with_config(sorting.config()?)
    }

    /// Returns a session of plain DataFusion with small batches.
    pub(crate) fn plain_small_batches(&self) -> Result<SessionContext> {
        let mut few = self.usual();
        few.datafusion.push(("execution.batch_size", "7".to_owned()));
        few.with_config(few.config()?)
    }

    fn usual(&self) -> Settings {
        Settings {
            datafusion: self.datafusion.iter().filter(|(name, _)| keeps_meaning(name)).cloned().collect(),
            ..self.clone()
        }
    }

    /// Returns a session with cooperative scans, under load control with this pool if it is given.
    pub(crate) fn cooperative(
        &self,
        engine: &Engine,
        pool: Option<&Arc<RefusingPool>>,
    ) -> Result<SessionContext> {
        let mut config = self.config()?;
        config.options_mut().extensions.insert(self.options()?);
        let builder = install(self.state(config, pool)?, engine.clone());
        Ok(self.with_functions(SessionContext::new_with_state(builder.build())))
    }

    /// Returns the engine with these settings.
    pub(crate) fn engine(&self) -> Result<Engine> {
        let buffer = if self.small_buffer { SMALL_BUFFER } else { LARGE_BUFFER };
        let mut options = self.options()?;
        options.set_value("policy", self.policy(0).as_str())?;
        options.set_value("buffer", &buffer.to_string())?;
        let config = options.engine_settings.resolve(buffer, PROCESSORS);
        let config = config.map_err(|error| DataFusionError::Configuration(error.to_string()))?;
        Engine::new(config).map_err(coscan_datafusion::from_engine)
    }

    fn options(&self) -> Result<CoscanOptions> {
        let mut options = CoscanOptions::default();
        for (name, value) in &self.coscan {
            options.set_value(name, value)?;
        }
        Ok(options)
    }

    fn config(&self) -> Result<SessionConfig> {
        let mut config = SessionConfig::new().with_target_partitions(2);
        for (name, value) in &self.datafusion {
            config.options_mut().set(&format!("datafusion.{name}"), value)?;
        }
        Ok(config)
    }

    fn state(&self, config: SessionConfig, pool: Option<&Arc<RefusingPool>>) -> Result<SessionStateBuilder> {
        let mut runtime = RuntimeEnvBuilder::new().with_object_list_cache_limit(0);
        if let Some(pool) = pool {
            runtime = runtime.with_memory_pool(Arc::clone(pool) as _);
        }
        let runtime = runtime.build_arc()?;
        Ok(SessionStateBuilder::new().with_config(config).with_runtime_env(runtime).with_default_features())
    }

    fn with_functions(&self, ctx: SessionContext) -> SessionContext {
        functions::add_volatile(&ctx);
        if self.shadowing {
            functions::shadow(&ctx);
        }
        ctx
    }
}

/// Returns whether the setting changes neither types nor values of results.
fn keeps_meaning(name: &str) -> bool {
    [
        "time_zone",
        "binary_as_string",
        "coerce_int96",
        "force_view_types",
        "skip_metadata",
        "parse_float_as_decimal",
        "enable_topk_dynamic_filter_pushdown",
    ]
    .iter()
    .any(|part| name.ends_with(part))
}

/// Returns the buffer that the engine requires, if the error states it.
pub(crate) fn needed_buffer(error: &DataFusionError) -> Option<u64> {
    match coscan_datafusion::engine_error(error) {
        Some(EngineError::BufferTooSmall { needed, .. }) => Some(*needed),
        _ => None,
    }
}
