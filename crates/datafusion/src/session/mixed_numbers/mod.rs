//! Decimals beside floating-point numbers.
//!
//! DataFusion 55 computes both as decimals of fifteen places where it compares them or takes one of them: in comparisons, BETWEEN,
//! lists, subqueries, keys of joins, CASE, `coalesce`, `greatest`, `least` and unions. Those of a floating-point number beyond
//! fifteen places are lost, and a number of more than fifteen digits before the point is an error. It also reads `16.74` as a
//! floating-point number, so that a product such as `price * 0.1` has noise in its last digits when it is compared.
//!
//! Here, as in PostgreSQL,
//!
//! - a floating-point literal beside a decimal is the decimal that it was written as, also within sums, differences and products
//!   that are compared ([`written`]);
//! - other floating-point numbers make doubles of the decimals beside them ([`siblings`], [`plans`]).
//!
//! Arithmetic is DataFusion's: of a decimal and a floating-point number it is in doubles.

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

use plans::{of_join, of_union};
use siblings::of_one_kind;

/// The analyzer with a rule before that which casts operands to one type.
pub(super) fn with_mixed_numbers(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.insert(0, Arc::new(MixedNumbers));
    analyzer
}

#[derive(Debug)]
struct MixedNumbers;

impl AnalyzerRule for MixedNumbers {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut has_changed = false;
        let plan = plan.transform_up_with_subqueries(|plan| {
            let mut node = of_node(plan)?;
            has_changed |= node.transformed;
            if has_changed {
                node.data = node.data.recompute_schema()?;
            }
            Ok(node)
        });
        Ok(plan?.data)
    }

    fn name(&self) -> &str {
        coscan_sql::MIXED_NUMBERS
    }
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
