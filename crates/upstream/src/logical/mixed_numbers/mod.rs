//! Decimals in operations with floating-point numbers.
//!
//! DataFusion 55 converts both to decimals with fifteen places where it compares them or selects one of them.
//! This concerns comparisons, BETWEEN, lists, subqueries, join keys, CASE, `coalesce`, `greatest`, `least`
//! and unions. Further digits of a floating-point number are lost, and a number with more than fifteen digits
//! before the point is an error. DataFusion also reads `16.74` as a floating-point number. So a product such
//! as `price * 0.1` has noise in its last digits in a comparison.
//!
//! As in PostgreSQL, this rule applies two conversions:
//!
//! - A floating-point literal beside a decimal becomes the decimal as written, also within sums, differences
//!   and products that are compared ([`written`]).
//! - Decimals beside another floating-point number become doubles ([`siblings`], [`plans`]).
//!
//! Subqueries may refer to columns that become doubles, and are then changed again ([`outer_types`]).
//!
//! Arithmetic is DataFusion's: a decimal and a floating-point number are computed as doubles.

mod outer_types;
mod plans;
mod siblings;
mod written;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::optimizer::{Analyzer, AnalyzerRule};

pub use outer_types::with_current_types;
use plans::{of_join, of_union};
use siblings::of_one_kind;

/// Puts this rule before the one that casts operands to one type.
pub(crate) fn with_mixed_numbers(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.insert(0, Arc::new(MixedNumbers));
    analyzer
}

/// Limit of the changes of subqueries within subqueries. Each pass settles the references of one level at least.
const PASSES_MAX: usize = 16;

#[derive(Debug)]
struct MixedNumbers;

impl AnalyzerRule for MixedNumbers {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut plan = plan;
        for _ in 0..PASSES_MAX {
            let changed = pass(plan)?;
            if !changed.transformed {
                return Ok(changed.data);
            }
            let current = with_current_types(changed.data)?;
            plan = current.data;
            if !current.transformed {
                break;
            }
        }
        Ok(plan)
    }

    fn name(&self) -> &str {
        crate::statement::MIXED_NUMBERS
    }
}

fn pass(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut has_changed = false;
    plan.transform_up_with_subqueries(|plan| {
        let mut node = of_node(plan)?;
        has_changed |= node.transformed;
        if has_changed {
            node.data = node.data.recompute_schema()?;
        }
        Ok(node)
    })
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Union(union) => return of_union(union),
        LogicalPlan::Join(join) => of_join(join),
        plan => Transformed::no(plan),
    };
    plan.transform_data(|plan| {
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            schema
                .merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
        }
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.transform_up(|expr| of_one_kind(expr, &schema))?;
            Ok(changed.update_data(|expr| name.restore(expr)))
        })
    })
}
