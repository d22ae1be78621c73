//! Separation of join keys with equal nulls from equalities, in which nulls never match.
//!
//! A join has one flag for all of its keys that says whether nulls are equal. DataFusion 55 turns conditions
//! with IS NOT DISTINCT FROM into keys and sets the flag. Two of its rules then add equalities from WHERE, or
//! keys of an adjacent join, and so join rows by null keys. This wrapper gives a join keys of one kind before
//! these rules see it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::expr::Expr;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Join, LogicalPlan, Operator, Projection, binary_expr};
use datafusion::optimizer::{ApplyOrder, Optimizer, OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Wraps these rules so that they do not mix keys.
pub(crate) fn with_keys_of_one_kind(mut optimizer: Optimizer) -> Optimizer {
    for rule in &mut optimizer.rules {
        let separate = match rule.name() {
            "extract_equijoin_predicate" => as_condition,
            "eliminate_cross_join" => all_apart,
            _ => continue,
        };
        *rule = Arc::new(Separate { rule: Arc::clone(rule), separate });
    }
    optimizer
}

#[derive(Debug)]
struct Separate {
    rule: Rule,
    /// Prepares a plan for the rule.
    separate: fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
}

impl OptimizerRule for Separate {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        (self.separate)(plan)?.transform_data(|plan| self.rule.rewrite(plan, config))
    }
}

/// Moves keys with equal nulls into the condition of a join, if the condition contains an equality.
fn as_condition(mut plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(join) = &mut plan else { return Ok(Transformed::no(plan)) };
    if !join.filter.as_ref().is_some_and(has_equality) || !joins_nulls(join) || join.null_aware {
        return Ok(Transformed::no(plan));
    }
    let keys = join.on.drain(..);
    let keys = keys.map(|(left, right)| binary_expr(left, Operator::IsNotDistinctFrom, right));
    join.filter = conjunction(keys.chain(join.filter.take()).collect::<Vec<_>>());
    join.null_equality = NullEquality::NullEqualsNothing;
    Ok(Transformed::yes(plan))
}

/// Separates nested joins by a projection if nulls are equal in one and not in the other. The projection is
/// removed later.
fn all_apart(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut is_needed = false;
    plan.apply_with_subqueries(|node| {
        is_needed |= matches!(node, LogicalPlan::Join(join) if joins_nulls(join));
        Ok(if is_needed { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match is_needed {
        true => plan.transform_down_with_subqueries(apart),
        false => Ok(Transformed::no(plan)),
    }
}

fn apart(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let nulls_meet = match &plan {
        LogicalPlan::Filter(filter) if has_equality(&filter.predicate) => false,
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => joins_nulls(join),
        _ => return Ok(Transformed::no(plan)),
    };
    plan.map_children(|input| match &input {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && joins_nulls(join) != nulls_meet => {
            let schema = Arc::clone(input.schema());
            let projection = Projection::new_from_schema(Arc::new(input), schema);
            Ok(Transformed::yes(LogicalPlan::Projection(projection)))
        }
        _ => Ok(Transformed::no(input)),
    })
}

fn joins_nulls(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

fn has_equality(condition: &Expr) -> bool {
    let is_equality = |expr: &&Expr| matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }));
    split_conjunction(condition).iter().any(is_equality)
}
