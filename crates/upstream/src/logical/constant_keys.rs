//! Constants as keys of joins.
//!
//! DataFusion 55 folds keys to constants, such as `x IS NULL` where x is never null. It then projects both inputs to columns of the
//! same name, tells them apart by `left` and `right`, and fails if one input has columns of one name from several tables. Equal
//! constants beside other keys are left out.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

/// The optimizer with a rule that leaves them out, after all others.
pub(crate) fn without_constant_keys(mut optimizer: Optimizer) -> Optimizer {
    optimizer.rules.push(Arc::new(WithoutConstantKeys));
    optimizer
}

#[derive(Debug)]
struct WithoutConstantKeys;

impl OptimizerRule for WithoutConstantKeys {
    fn name(&self) -> &str {
        "without_constant_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, mut plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &mut plan else { return Ok(Transformed::no(plan)) };
        let keys = join.on.len();
        if join.on.iter().all(is_constant) {
            return Ok(Transformed::no(plan));
        }
        join.on.retain(|key| !is_constant(key));
        let changed = join.on.len() < keys;
        Ok(Transformed::new_transformed(plan, changed))
    }
}

/// Whether a key is the same constant on both sides, and not null, which may be equal to nothing.
fn is_constant(key: &(Expr, Expr)) -> bool {
    matches!(key, (Expr::Literal(left, _), Expr::Literal(right, _)) if left == right && !left.is_null())
}
