//! The corrections that every session has, in their order.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::logical::constant_keys::without_constant_keys;
use crate::logical::counted_sets::with_counted_sets;
use crate::logical::dependencies::{IndependentPlanner, with_independent_columns};
use crate::logical::float_extrema::with_float_extrema;
use crate::logical::float_frames::with_float_frames;
use crate::logical::guarded_arguments::with_guarded_arguments;
use crate::logical::join_settings::JoinSettings;
use crate::logical::lasting_casts::with_lasting_casts;
use crate::logical::mixed_numbers::with_mixed_numbers;
use crate::logical::null_keys::with_keys_of_one_kind;
use crate::logical::null_lists::with_null_lists;
use crate::logical::rounded::with_lasting_round;
use crate::logical::subqueries::with_subqueries;
use crate::one_nan::{OneNanScans, with_one_nan_computed};
use crate::overflow::{with_checked_arithmetic, with_checked_constants};
use crate::physical::build_sides::{BuildSides, with_build_sides};
use crate::physical::output_properties::{TrueClaims, with_true_claims};
use crate::physical::pushdown_barriers::with_stops;
use crate::physical::sorted_inputs::{SortedInputs, with_sorted_inputs};

/// The names of the rules that sessions have for the physical optimizer. None of them changes a result.
pub const PHYSICAL_RULES: [&str; 4] =
    [BuildSides::NAME, TrueClaims::NAME, SortedInputs::NAME, OneNanScans::NAME];

/// Adds planners around the session's own, or around DataFusion's.
pub fn with_mended_planner(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let inner = builder.query_planner().take().unwrap_or_else(|| Arc::new(Plain));
    let inner = Arc::new(IndependentPlanner { inner });
    builder.with_query_planner(Arc::new(JoinSettings { inner }))
}

/// Adds the rules and changes the settings. They need [`with_mended_planner`].
pub fn with_mended_rules(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut builder = with_checked_constants(builder);
    let analyzer = with_lasting_round(builder.analyzer().take().unwrap_or_default());
    let analyzer = with_null_lists(with_mixed_numbers(with_lasting_casts(analyzer)));
    let analyzer = with_one_nan_computed(with_float_frames(with_float_extrema(analyzer)));
    let analyzer = with_subqueries(with_counted_sets(analyzer));
    *builder.analyzer() =
        Some(with_guarded_arguments(with_checked_arithmetic(with_independent_columns(analyzer))));
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
