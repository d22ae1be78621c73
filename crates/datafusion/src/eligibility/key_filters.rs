//! Conditions of joins that filter their probe side by single keys.

use datafusion::common::NullEquality;
use datafusion::common::tree_node::TreeNode;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

use super::reason::{Reason, not_volatile};
use crate::eligibility::expressions::any_expression;

/// A join filters its probe side by single keys if
///
/// - DataFusion lets it fill a filter under some setting: it does not output rows of the probe side without a
///   match;
/// - nulls match nothing;
/// - its build side is the same each time it is read.
pub(crate) fn filter_by_keys(join: &HashJoinExec) -> Result<(), Reason> {
    let plain = !join.null_aware && join.null_equality() == NullEquality::NullEqualsNothing;
    if !plain || join.dynamic_expressions_produced().is_empty() {
        return Err(Reason::SpecialJoin);
    }
    join.on().iter().try_for_each(|(build, _)| not_volatile(build))?;
    match join.left().exists(|node| any_expression(node, is_volatile)) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Reason::Volatile("the build side".to_owned())),
        Err(_) => Err(Reason::SpecialJoin),
    }
}
