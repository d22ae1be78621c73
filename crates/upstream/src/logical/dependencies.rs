//! Removal of functional dependencies that DataFusion 55 infers wrongly.
//!
//! DataFusion infers that the key of an aggregation determines its other columns, and keeps this above a
//! join. Then an aggregation over the join, by this key and others, declares that this key alone determines
//! all columns. So the second order of `GROUP BY a.k, s.v ORDER BY a.k, s.v` is left out, and so is a
//! DISTINCT above. Above an unnested list, keys are declared to determine all columns as well.
//!
//! During optimization, a node without dependencies separates such rows from the orders, DISTINCT and joins
//! above them. The planner removes the node. Aggregations get no such node. They were given additional keys
//! by these dependencies when SQL was read, and the optimizer removes those keys by the same dependencies.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result, internal_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::physical_plan::ExecutionPlan;

use crate::boxed;

/// Adds a rule that inserts such nodes. [`IndependentPlanner`] removes them.
pub(crate) fn with_independent_columns(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(IndependentColumns));
    analyzer
}

#[derive(Debug)]
struct IndependentColumns;

impl AnalyzerRule for IndependentColumns {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(over_independent)?;
        if !plan.transformed {
            return Ok(plan.data);
        }
        let recomputed = |node: LogicalPlan| node.recompute_schema().map(Transformed::yes);
        Ok(plan.data.transform_up_with_subqueries(recomputed)?.data)
    }

    fn name(&self) -> &str {
        "independent_columns"
    }
}

/// Puts such nodes between the node and its inputs, if the node uses dependencies that may be wrong.
fn over_independent(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let relies = match &plan {
        LogicalPlan::Sort(sort) => sort.expr.len() > 1,
        LogicalPlan::Distinct(_) | LogicalPlan::Join(_) => true,
        _ => false,
    };
    if !relies {
        return Ok(Transformed::no(plan));
    }
    plan.map_children(|input| match concludes_wrongly(&input)? {
        true => Independent::plan(input).map(Transformed::yes),
        false => Ok(Transformed::no(input)),
    })
}

/// Returns whether the declared dependencies of the rows may be wrong. Returns false for a join, whose own
/// inputs are checked separately, and for a correlated subquery.
fn concludes_wrongly(plan: &LogicalPlan) -> Result<bool> {
    let wrong = |node: &LogicalPlan| match node {
        LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => node
            .inputs()
            .into_iter()
            .try_fold(false, |repeats, input| Ok(repeats || input.exists(repeats_keys)?)),
        LogicalPlan::Unnest(_) => has_keys(node),
        _ => Ok(false),
    };
    Ok(!matches!(plan, LogicalPlan::Join(_)) && plan.exists(wrong)? && plan.all_out_ref_exprs().is_empty())
}

/// Returns whether rows of the node may repeat a key that determines their columns.
fn repeats_keys(node: &LogicalPlan) -> Result<bool> {
    match node {
        LogicalPlan::Join(_) | LogicalPlan::Unnest(_) => has_keys(node),
        _ => Ok(false),
    }
}

fn has_keys(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        Ok(match node {
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_) => true,
            LogicalPlan::TableScan(_) => !node.schema().functional_dependencies().is_empty(),
            _ => false,
        })
    })
}

/// The name of the node that emits the rows of its input without dependencies between columns.
pub const INDEPENDENT_NODE: &str = "Independent";

/// Emits the rows of its input, without dependencies between columns.
#[derive(Debug)]
struct Independent {
    input: LogicalPlan,
    schema: DFSchemaRef,
}

impl Independent {
    fn plan(input: LogicalPlan) -> Result<LogicalPlan> {
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(Self::over(input)?) }))
    }

    fn over(input: LogicalPlan) -> Result<Self> {
        let schema = input.schema().as_ref().clone();
        let schema = schema.with_functional_dependencies(FunctionalDependencies::empty())?;
        Ok(Independent { input, schema: Arc::new(schema) })
    }
}

impl PartialEq for Independent {
    fn eq(&self, other: &Self) -> bool {
        self.input == other.input
    }
}

impl Eq for Independent {}

impl PartialOrd for Independent {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl Hash for Independent {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.input.hash(hasher);
    }
}

impl UserDefinedLogicalNodeCore for Independent {
    fn name(&self) -> &str {
        INDEPENDENT_NODE
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn necessary_children_exprs(&self, columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![columns.to_vec()])
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Independent")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        match <[LogicalPlan; 1]>::try_from(inputs) {
            Ok([input]) => Self::over(input),
            Err(inputs) => internal_err!("Independent has one input, not {}", inputs.len()),
        }
    }
}

/// Returns the node as an [`Independent`], if it is one.
fn independent(plan: &LogicalPlan) -> Option<&Independent> {
    match plan {
        LogicalPlan::Extension(Extension { node }) => node.as_any().downcast_ref(),
        _ => None,
    }
}

fn has_independent(plan: &LogicalPlan) -> Result<bool> {
    let mut has = false;
    plan.apply_with_subqueries(|node| {
        has = has || independent(node).is_some();
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has)
}

/// Replaces an [`Independent`] node by its input.
fn input_of_independent(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let input = independent(&plan).map(|node| node.input.clone());
    Ok(input.map_or(Transformed::no(plan), Transformed::yes))
}

/// A planner that removes such nodes and calls the inner planner.
#[derive(Debug)]
pub(crate) struct IndependentPlanner {
    pub(crate) inner: Arc<dyn QueryPlanner + Send + Sync>,
}

impl QueryPlanner for IndependentPlanner {
    boxed!(IndependentPlanner::plan as create_physical_plan);
}

impl IndependentPlanner {
    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_independent(logical)? {
            return self.inner.create_physical_plan(logical, session).await;
        }
        let logical = logical.clone().transform_up_with_subqueries(input_of_independent)?.data;
        self.inner.create_physical_plan(&logical, session).await
    }
}
