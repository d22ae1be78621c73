//! Rules of the planner that end when their statement was stopped, or when the plan is too large.
//!
//! Planning never yields, so it cannot be cancelled as a task. Each rule therefore checks for an interrupt before it is
//! applied to a node. The first rules are applied while a statement is planned. They check its size, too.

use std::sync::Arc;

use coscan_datafusion::check_interrupt;
use coscan_upstream::MIXED_NUMBERS;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use super::expanded::check_plan;
use crate::access::Limits;

/// Wraps all rules of a session.
pub(crate) fn watched(mut builder: SessionStateBuilder, limits: &Limits) -> SessionStateBuilder {
    if let Some(analyzer) = builder.analyzer() {
        for rule in &mut analyzer.rules {
            *rule = Arc::new(Measured { rule: Arc::clone(rule), limits: limits.clone() });
        }
    }
    if let Some(optimizer) = builder.optimizer() {
        for rule in &mut optimizer.rules {
            *rule = Arc::new(Watched(Arc::clone(rule)));
        }
    }
    if let Some(optimizer) = builder.physical_optimizers() {
        for rule in &mut optimizer.rules {
            *rule = Arc::new(Watched(Arc::clone(rule)));
        }
    }
    builder
}

/// A rule that checks for an interrupt first.
#[derive(Debug)]
struct Watched<T>(T);

/// A rule of the analyzer that checks for an interrupt, and the size of the plan.
#[derive(Debug)]
struct Measured {
    rule: Arc<dyn AnalyzerRule + Send + Sync>,
    limits: Limits,
}

impl AnalyzerRule for Measured {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check_interrupt()?;
        // The analyzer's other rules get a plan that this one has seen.
        if self.rule.name() == MIXED_NUMBERS {
            check_plan(&plan, &self.limits).map_err(|error| DataFusionError::External(Box::new(error)))?;
        }
        self.rule.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }
}

impl OptimizerRule for Watched<Arc<dyn OptimizerRule + Send + Sync>> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check_interrupt()?;
        self.0.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for Watched<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_interrupt()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        check_interrupt()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
