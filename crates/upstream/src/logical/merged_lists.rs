//! Lists of IN for one value that are merged to nothing.
//!
//! DataFusion 55 merges lists for one value: `x NOT IN (1, 2) OR x NOT IN (3)` becomes true, because no item is in both. But it is
//! NULL where x is NULL. In the same way `x IN (1) AND x IN (3)` and `x IN (1) AND x NOT IN (1, 3)` become false. That is as
//! good as NULL in WHERE, but not below NOT, nor as a value.
//!
//! This rule marks the value of each further such list as one that may be NULL. Marked values differ, so their lists are not
//! merged. Other lists stay as they are, because a mark hides the value from statistics.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::{Analyzer, AnalyzerRule};

use super::missing_rows;

/// Adds the rule.
pub(crate) fn with_merged_lists(mut analyzer: Analyzer) -> Analyzer {
    analyzer.rules.push(Arc::new(MergedLists));
    analyzer
}

#[derive(Debug)]
struct MergedLists;

impl AnalyzerRule for MergedLists {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }

    fn name(&self) -> &str {
        "merged_lists"
    }
}

fn of_node(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_condition = matches!(plan, LogicalPlan::Filter(_));
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let place = Place { is_condition, is_negated: false, is_alternative: false };
        let marked = Known::default().marked(expr, place)?;
        Ok(marked.update_data(|expr| name.restore(expr)))
    })
}

/// The place of an expression in a condition.
#[derive(Clone, Copy)]
struct Place {
    /// Whether only AND, OR and NOT are above it, in a condition for which NULL is as good as false.
    is_condition: bool,
    /// Whether an odd number of NOT is above it.
    is_negated: bool,
    /// Whether an OR is above it, or an AND below NOT.
    is_alternative: bool,
}

/// The values of lists that may be merged to nothing.
#[derive(Default)]
struct Known(Vec<Seen>);

/// The lists for a value so far.
struct Seen {
    value: Expr,
    lists: usize,
    /// Lists that are true for most values.
    true_for_most: usize,
    marked: usize,
}

impl Known {
    fn marked(&mut self, expr: Expr, place: Place) -> Result<Transformed<Expr>> {
        let below = match &expr {
            Expr::InList(InList { negated, .. }) => {
                // As a value, false is not as good as NULL either.
                let is_true_for_most = !place.is_condition || *negated != place.is_negated;
                let may_be_merged = !place.is_condition || place.is_alternative;
                return Ok(match may_be_merged {
                    true => self.told_apart(expr, is_true_for_most),
                    false => Transformed::no(expr),
                });
            }
            Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
                let is_or = (*op == Operator::Or) != place.is_negated;
                Place { is_alternative: place.is_alternative || is_or, ..place }
            }
            Expr::Not(_) => Place { is_negated: !place.is_negated, ..place },
            _ => Place { is_condition: false, ..place },
        };
        expr.map_children(|child| self.marked(child, below))
    }

    /// Marks the value if there was a list for it before with which this one may be merged to nothing. Two lists that
    /// are false for most values are merged to one that has the items of both.
    fn told_apart(&mut self, expr: Expr, is_true_for_most: bool) -> Transformed<Expr> {
        let Expr::InList(InList { expr: value, list, negated }) = expr else { return Transformed::no(expr) };
        let at = self.0.iter().position(|seen| seen.value == *value).unwrap_or_else(|| {
            self.0.push(Seen { value: Expr::clone(&value), lists: 0, true_for_most: 0, marked: 0 });
            self.0.len() - 1
        });
        let seen = &mut self.0[at];
        let is_marked = if is_true_for_most { seen.lists > 0 } else { seen.true_for_most > 0 };
        seen.lists += 1;
        seen.true_for_most += usize::from(is_true_for_most);
        seen.marked += usize::from(is_marked);
        let marks = if is_marked { seen.marked } else { 0 };
        let marked = (0..marks).fold(*value, |value, _| missing_rows::optional(value));
        let expr = Expr::InList(InList { expr: Box::new(marked), list, negated });
        Transformed::new_transformed(expr, is_marked)
    }
}
