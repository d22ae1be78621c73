//! Detection of subplans that occur several times in a plan.
//!
//! Two subplans are equal if the optimizer has produced the same plan for both. A filter or column that only
//! one of them has makes them different. Their results must depend on files only, because only one of them
//! runs.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::exec::Subplan;
use super::node::SharedSubplanNode;
use crate::determined::{all_expressions, is_determined};

/// A subplan, and its number of uses.
struct Candidate {
    plan: LogicalPlan,
    hash: u64,
    uses: usize,
}

impl Candidate {
    fn is(&self, plan: &LogicalPlan, hash: u64) -> bool {
        self.hash == hash && self.plan == *plan && same_tables(&self.plan, plan)
    }
}

/// Shares the repeated subplans of `plan`.
///
/// # Errors
/// If a table of the plan is no table of DataFusion's.
pub(super) fn with_shared_subplans(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
    let repeated = repeated(plan)?;
    if repeated.is_empty() {
        return Ok(Cow::Borrowed(plan));
    }
    let numbered = (1..).zip(repeated);
    let subplans: Vec<_> = numbered
        .map(|(number, candidate)| (Arc::new(Subplan::new(number, candidate.uses)), candidate))
        .collect();
    shared(plan.clone(), &subplans).data().map(Cow::Owned)
}

/// Returns the subplans that occur more than once. Those below another repeated one count once for all of its
/// uses.
fn repeated(plan: &LogicalPlan) -> Result<Vec<Candidate>> {
    let mut candidates: Vec<Candidate> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if !is_candidate(node) {
            return Ok(TreeNodeRecursion::Continue);
        }
        let hash = hash(node);
        if let Some(known) = candidates.iter_mut().find(|known| known.is(node, hash)) {
            known.uses += 1;
            return Ok(TreeNodeRecursion::Jump);
        }
        if is_determined(node)? && is_closed(node)? {
            candidates.push(Candidate { plan: node.clone(), hash, uses: 1 });
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    candidates.retain(|candidate| candidate.uses > 1);
    Ok(candidates)
}

fn shared(plan: LogicalPlan, subplans: &[(Arc<Subplan>, Candidate)]) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|node| {
        if !is_candidate(&node) {
            return Ok(Transformed::no(node));
        }
        let hash = hash(&node);
        let Some((subplan, _)) = subplans.iter().find(|(_, candidate)| candidate.is(&node, hash)) else {
            return Ok(Transformed::no(node));
        };
        let input = node.map_children(|child| shared(child, subplans))?.data;
        let node = SharedSubplanNode::plan(input, Arc::clone(subplan));
        Ok(Transformed::new(node, true, TreeNodeRecursion::Jump))
    })
}

/// Returns whether a node usually takes longer to compute than to read its result, and emits its first row at
/// the end.
fn is_candidate(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_))
}

fn hash(plan: &LogicalPlan) -> u64 {
    let mut hasher = DefaultHasher::new();
    plan.hash(&mut hasher);
    hasher.finish()
}

/// Returns whether the subplan contains no subqueries and no outer references, whose results are not in its
/// plan.
fn is_closed(plan: &LogicalPlan) -> Result<bool> {
    let own = |expr: &Expr| {
        !matches!(
            expr,
            Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        )
    };
    plan.exists(|node| Ok(!all_expressions(node, own)?)).map(|open| !open)
}

/// Returns whether two equal plans, which name the same tables, refer to the same ones.
fn same_tables(a: &LogicalPlan, b: &LogicalPlan) -> bool {
    let (a, b) = (tables(a), tables(b));
    a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| Arc::ptr_eq(a, b))
}

fn tables(plan: &LogicalPlan) -> Vec<Arc<dyn TableProvider>> {
    let mut tables = match plan {
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source).into_iter().collect(),
        _ => Vec::new(),
    };
    tables.extend(plan.inputs().into_iter().flat_map(self::tables));
    tables
}
