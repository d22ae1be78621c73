//! Integer arithmetic and sums that fail on overflow, where DataFusion 55 wraps around.
//!
//! DataFusion computes `+`, `-`, `*` and the unary minus of integers modulo the size of their type, also when
//! it folds constants. It adds up integers, decimals and intervals in the same way. This rule of the analyzer
//! makes these replacements:
//!
//! - Each such operation whose result may leave the type becomes a function that computes the same and fails
//!   on overflow ([`arithmetic`]). Operations that cannot overflow stay as they are, such as a sum of two
//!   `INT` columns that is computed in 64 bits ([`ranges`]). A tree of many such operations becomes one
//!   function ([`together`]).
//! - `sum` becomes a function of the same name with a state of 128 bits for integers, so that only the final
//!   value may be out of range ([`sum`]).
//! - Casts of decimals to text become a function that shows all of their digits ([`digits`]).
//!
//! The functions are part of the logical plan, because DataFusion folds constants there by computing them. A
//! checked physical expression would come too late.
//!
//! Comparisons, division, casts, `abs`, `avg` and arithmetic of decimals and times are left to DataFusion,
//! which checks them or computes them in a wider type.

mod accumulators;
mod arithmetic;
mod constants;
mod digits;
mod error;
mod groups;
mod kernels;
mod ranges;
mod series;
mod sum;
mod together;
mod trees;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

pub(crate) use arithmetic::named as checked;
use constants::CheckedConstants;
use digits::checked_cast;
pub(crate) use digits::named as text;
pub use digits::with_all_digits;
pub(crate) use series::with_computed_series;
pub use sum::CheckedSum;
use trees::{is_tree, with_checks};

/// Checks constants that are computed before a plan is analyzed.
pub(crate) fn with_checked_constants(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(CheckedConstants));
    builder
}

/// Adds a rule that replaces operations where the types of operands are known.
pub(crate) fn with_checked_arithmetic(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(CheckedArithmetic));
    analyzer
}

#[derive(Debug)]
struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "checked_arithmetic"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    // Names of aggregate and window functions with conditions and orders would show the replaced functions.
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(of_expr(expr, &schema)?.update_data(|expr| name.restore(expr)))
    })
}

fn of_expr(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| match expr {
        expr if is_tree(&expr) => {
            let tree = with_checks(expr, schema, &|leaf| of_expr(leaf, schema))?;
            Ok(Transformed::new(tree.data, tree.transformed, TreeNodeRecursion::Jump))
        }
        Expr::Cast(_) => checked_cast(expr, schema),
        expr => with_checked_sum(expr),
    })
}

fn with_checked_sum(mut expr: Expr) -> Result<Transformed<Expr>> {
    let function = match &mut expr {
        Expr::AggregateFunction(AggregateFunction { func, .. }) => Some(func),
        Expr::WindowFunction(window) => match &mut window.fun {
            WindowFunctionDefinition::AggregateUDF(func) => Some(func),
            WindowFunctionDefinition::WindowUDF(_) => None,
        },
        _ => None,
    };
    let checked = function.and_then(|function| Some((CheckedSum::instead_of(function)?, function)));
    let Some((checked, function)) = checked else { return Ok(Transformed::no(expr)) };
    *function = checked;
    Ok(Transformed::yes(expr))
}
