//! Limits on the size of a statement after its references are expanded.
//!
//! A statement of a kilobyte can stand for a plan of a gigabyte. A view or a WITH query is planned once per reference, a
//! condition is pushed through the columns that it refers to, and CUBE makes 2^n grouping sets. `nesting` limits the
//! text. This module computes the size of the expanded plan without expanding it: each shared part is visited once.
//!
//! Grouping sets and references are counted in the parsed statement, because the planner makes all grouping sets at once,
//! and walks a WITH query whenever it plans a reference to it.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;

use coscan_upstream::grouping_set_count;
use coscan_upstream::walk::visit;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{GroupByExpr, GroupByWithModifier, ObjectName, Query, Select, Visitor};

use super::QueryError;
use super::ast::folded;
use crate::access::{Limits, where_set};

/// Approximate bytes of a plan's node and of a part of an expression, while the planner works on copies of them.
const NODE_BYTES: u64 = 4096;
const PART_BYTES: u64 = 1024;
/// Nodes of a query and of a relation in it: projection and alias, relation and join.
const QUERY_NODES: u64 = 3;
const RELATION_NODES: u64 = 2;
/// The description of too many nodes.
const EXPANDED: &str = "parts after its views and WITH queries are expanded";

/// The size of an expanded plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    /// Nodes: tables, joins, filters.
    pub(crate) nodes: u64,
    /// Parts of expressions besides constants. A column counts as the expression that it stands for.
    pub(crate) parts: u64,
}

impl Size {
    /// Approximate bytes that planning takes.
    pub(crate) fn bytes(self) -> usize {
        let bytes =
            self.nodes.saturating_mul(NODE_BYTES).saturating_add(self.parts.saturating_mul(PART_BYTES));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

/// Checks the grouping sets and the references of a parsed statement. `view` returns the plan of a view.
///
/// # Errors
///
/// If a query has more grouping sets than the limit, or the plan would have more nodes.
pub(crate) fn check_statement(
    statement: &Statement,
    limits: &Limits,
    view: &dyn Fn(&str) -> Option<LogicalPlan>,
) -> Result<(), QueryError> {
    let ast = match statement {
        Statement::Statement(ast) => ast,
        Statement::Explain(explain) => return check_statement(&explain.statement, limits, view),
        _ => return Ok(()),
    };
    let most = limits.grouping_sets as u64;
    if let ControlFlow::Break(sets) = visit(ast, &mut Sets { most })
        && most > 0
    {
        return Err(too_large("grouping sets in one GROUP BY", sets, most, "grouping-sets"));
    }
    let most = limits.plan_nodes as u64;
    let mut references = References { view, frames: Vec::new(), nodes: 0 };
    let _ = visit(ast, &mut references);
    if most > 0 && references.nodes > most {
        return Err(too_large(EXPANDED, references.nodes, most, "plan-nodes"));
    }
    Ok(())
}

/// Measures an expanded plan.
///
/// # Errors
///
/// If it is larger than the limits.
pub(crate) fn check_plan(plan: &LogicalPlan, limits: &Limits) -> Result<Size, QueryError> {
    let measured = Measure::default().plan(plan);
    let size = Size { nodes: measured.nodes, parts: measured.parts };
    let (nodes, parts) = (limits.plan_nodes as u64, limits.plan_expressions as u64);
    if nodes > 0 && size.nodes > nodes {
        return Err(too_large(EXPANDED, size.nodes, nodes, "plan-nodes"));
    }
    if parts > 0 && size.parts > parts {
        let what = "operators after its columns are replaced by their expressions";
        return Err(too_large(what, size.parts, parts, "plan-expressions"));
    }
    Ok(size)
}

fn too_large(what: &str, count: u64, most: u64, limit: &str) -> QueryError {
    let count = if count == u64::MAX { "too many".to_owned() } else { count.to_string() };
    let text = format!(
        "the statement has {count} {what}; {most} are allowed: split it, or raise {}",
        where_set(limit)
    );
    QueryError::other("54001", text)
}

/// Counts the nodes of a statement's plan by its references.
struct References<'a> {
    view: &'a dyn Fn(&str) -> Option<LogicalPlan>,
    /// The queries around the current place.
    frames: Vec<Frame>,
    /// Nodes of the complete queries outside of all others.
    nodes: u64,
}

/// A query whose parts are being visited. Its WITH queries come first.
struct Frame {
    nodes: u64,
    /// Names of its WITH queries that were not visited yet, the next one last.
    names: Vec<String>,
    /// Nodes of its other WITH queries.
    with: HashMap<String, u64>,
}

impl References<'_> {
    fn add(&mut self, nodes: u64) {
        let sum = self.frames.last_mut().map_or(&mut self.nodes, |frame| &mut frame.nodes);
        *sum = sum.saturating_add(nodes);
    }
}

impl Visitor for References<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let mut names: Vec<String> = tables.map(|table| folded(&table.alias.name)).collect();
        names.reverse();
        self.frames.push(Frame { nodes: QUERY_NODES, names, with: HashMap::new() });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        let Some(ended) = self.frames.pop() else { return ControlFlow::Continue(()) };
        match self.frames.last_mut().and_then(|around| Some((around.names.pop()?, around))) {
            Some((name, around)) => drop(around.with.insert(name, ended.nodes)),
            None => self.add(ended.nodes),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let parts: Vec<String> = relation.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
        let with = match &parts[..] {
            [name] => self.frames.iter().rev().find_map(|frame| frame.with.get(name).copied()),
            _ => None,
        };
        let of_view = || {
            parts.last().and_then(|name| (self.view)(name)).map(|plan| Measure::default().plan(&plan).nodes)
        };
        let nodes = with.or_else(of_view).unwrap_or(0);
        self.add(nodes.saturating_add(RELATION_NODES));
        ControlFlow::Continue(())
    }
}

/// Stops at the first GROUP BY with too many grouping sets, and returns their number.
struct Sets {
    most: u64,
}

impl Visitor for Sets {
    type Break = u64;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<u64> {
        let (keys, modifiers) = match &select.group_by {
            GroupByExpr::Expressions(keys, modifiers) => (keys.as_slice(), modifiers),
            GroupByExpr::All(modifiers) => (&[][..], modifiers),
        };
        let columns = keys.len().max(select.projection.len()) as u64;
        let by_modifier = modifiers.iter().map(|modifier| match modifier {
            GroupByWithModifier::Cube => power(columns),
            GroupByWithModifier::Rollup => columns + 1,
            _ => 1,
        });
        match keys.iter().map(grouping_set_count).chain(by_modifier).fold(1, u64::saturating_mul) {
            sets if sets > self.most => ControlFlow::Break(sets),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn power(columns: u64) -> u64 {
    u32::try_from(columns).ok().and_then(|columns| 1u64.checked_shl(columns)).unwrap_or(u64::MAX)
}

/// The sizes of a plan's columns: the parts of the expressions that they stand for.
type Columns = Rc<[u64]>;

/// The size of a part of a plan, and of its columns.
#[derive(Clone)]
struct Measured {
    nodes: u64,
    parts: u64,
    columns: Columns,
}

/// Measures plans. A part that several others share is measured once.
#[derive(Default)]
struct Measure {
    known: HashMap<*const LogicalPlan, Measured>,
}

impl Measure {
    fn plan(&mut self, plan: &LogicalPlan) -> Measured {
        if let Some(known) = self.known.get(&std::ptr::from_ref(plan)) {
            return known.clone();
        }
        let inputs: Vec<Measured> = plan.inputs().into_iter().map(|input| self.plan(input)).collect();
        let mut measured = Measured {
            nodes: inputs.iter().map(|input| input.nodes).fold(1, u64::saturating_add),
            parts: inputs.iter().map(|input| input.parts).fold(0, u64::saturating_add),
            columns: Rc::default(),
        };
        let input = Input::of(plan, &inputs);
        let mut sizes = Vec::new();
        let measured_all = plan.apply_expressions(|expr| {
            let size = self.expression(expr, &input, &mut measured);
            sizes.push(size);
            measured.parts = measured.parts.saturating_add(size);
            Ok(TreeNodeRecursion::Continue)
        });
        if measured_all.is_err() {
            measured.parts = u64::MAX;
        }
        measured.columns = columns(plan, &inputs, &sizes);
        self.known.insert(std::ptr::from_ref(plan), measured.clone());
        measured
    }

    /// The size of an expression over this input. Subqueries count for the plan.
    fn expression(&mut self, expr: &Expr, input: &Input<'_>, plan: &mut Measured) -> u64 {
        let mut size = 0u64;
        let counted = expr.apply(|part| {
            let subquery = match part {
                Expr::ScalarSubquery(of) => Some(of),
                Expr::InSubquery(of) => Some(&of.subquery),
                Expr::Exists(of) => Some(&of.subquery),
                Expr::SetComparison(of) => Some(&of.subquery),
                _ => None,
            };
            if let Some(subquery) = subquery {
                let of = self.plan(&subquery.subquery);
                plan.nodes = plan.nodes.saturating_add(of.nodes);
                plan.parts = plan.parts.saturating_add(of.parts);
            }
            size = size.saturating_add(match part {
                Expr::Literal(..) | Expr::Alias(_) => 0,
                Expr::Column(column) => input.size(column),
                _ => 1,
            });
            Ok(TreeNodeRecursion::Continue)
        });
        if counted.is_err() { u64::MAX } else { size.max(1) }
    }
}

/// The columns that a node's expressions refer to.
struct Input<'a> {
    inputs: Vec<(&'a DFSchema, Columns)>,
    /// The size of every column, if all have the same.
    all: Option<u64>,
}

impl<'a> Input<'a> {
    fn of(plan: &'a LogicalPlan, inputs: &[Measured]) -> Self {
        let schemas = plan.inputs().into_iter().map(|input| input.schema().as_ref());
        let inputs: Vec<_> = schemas.zip(inputs.iter().map(|input| input.columns.clone())).collect();
        let mut sizes = inputs.iter().flat_map(|(_, columns)| columns.iter().copied());
        let first = sizes.next().unwrap_or(1);
        let all = sizes.all(|size| size == first).then_some(first);
        Input { inputs, all }
    }

    fn size(&self, column: &Column) -> u64 {
        if let Some(all) = self.all {
            return all;
        }
        let found = |(schema, columns): &(&DFSchema, Columns)| {
            schema.maybe_index_of_column(column).and_then(|at| columns.get(at).copied())
        };
        // A column of an outer query stands for itself.
        self.inputs.iter().find_map(found).unwrap_or(1)
    }
}

/// The sizes of a node's columns. `sizes` are those of its expressions.
fn columns(plan: &LogicalPlan, inputs: &[Measured], sizes: &[u64]) -> Columns {
    let count = plan.schema().fields().len();
    let largest = || inputs.iter().flat_map(|input| input.columns.iter().copied()).max().unwrap_or(1);
    let sizes: Vec<u64> = match (plan, inputs) {
        (LogicalPlan::Projection(_), _) => sizes.to_vec(),
        (LogicalPlan::Aggregate(of), _) if of.group_expr.len() + of.aggr_expr.len() == count => {
            let groups = sizes.iter().take(of.group_expr.len()).copied();
            groups.chain(std::iter::repeat_n(1, of.aggr_expr.len())).collect()
        }
        (LogicalPlan::Aggregate(_), _) => vec![sizes.iter().copied().max().unwrap_or(1); count],
        (LogicalPlan::Window(of), [input]) => {
            input.columns.iter().copied().chain(std::iter::repeat_n(1, of.window_expr.len())).collect()
        }
        (LogicalPlan::Join(of), [_, right])
            if matches!(of.join_type, JoinType::RightSemi | JoinType::RightAnti) =>
        {
            right.columns.to_vec()
        }
        (LogicalPlan::Join(_), [left, right]) => {
            let both: Vec<u64> = left.columns.iter().chain(right.columns.iter()).copied().collect();
            // A semijoin has the columns of its left side, and a mark join one more.
            match count {
                count if count == both.len() => both,
                count => left.columns.iter().copied().chain(std::iter::repeat(1)).take(count).collect(),
            }
        }
        (LogicalPlan::Union(_), _) => {
            let largest_at = |at| inputs.iter().filter_map(|input| input.columns.get(at)).max().copied();
            (0..count).map(|at| largest_at(at).unwrap_or(1)).collect()
        }
        (
            LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::Distinct(Distinct::All(_)),
            [input],
        ) => input.columns.to_vec(),
        _ => vec![largest(); count],
    };
    if sizes.len() == count { sizes.into() } else { vec![largest(); count].into() }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn sets(sql: &str, most: usize) -> Result<(), QueryError> {
        let ast = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
        let limits = Limits { grouping_sets: most, ..Limits::default() };
        check_statement(&Statement::Statement(Box::new(ast)), &limits, &|_| None)
    }

    #[test]
    fn references_are_counted_before_they_are_planned() {
        let nodes = |sql: &str, most: usize| {
            let ast = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
            let limits = Limits { plan_nodes: most, ..Limits::default() };
            check_statement(&Statement::Statement(Box::new(ast)), &limits, &|_| None).is_ok()
        };
        let chain = |levels: usize, step: &str| {
            let mut sql = "WITH a0 AS (SELECT 1 AS k)".to_owned();
            for n in 1..=levels {
                sql += &format!(", a{n} AS ({})", step.replace("below", &format!("a{}", n - 1)));
            }
            format!("{sql} SELECT * FROM a{levels}")
        };
        for step in [
            "SELECT x.k FROM below x, below y",
            "SELECT k FROM below UNION ALL SELECT k FROM below",
            "SELECT k + (SELECT count(*) FROM below) AS k FROM below",
            "WITH same AS (SELECT k FROM below) SELECT a.k FROM same a JOIN same b ON a.k = b.k",
        ] {
            assert!(nodes(&chain(5, step), 1000) && !nodes(&chain(60, step), 1_000_000), "{step}");
        }
        assert!(nodes(&chain(900, "SELECT k FROM below"), 10_000), "references that do not multiply");
        assert!(nodes(
            "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT n FROM r",
            30
        ));
    }

    #[test]
    fn grouping_sets_are_counted_before_they_are_made() {
        for (by, count) in [
            ("a", 1),
            ("CUBE(a, b, c)", 8),
            ("ROLLUP(a, b, c)", 4),
            ("a, GROUPING SETS((a), (a, b), ())", 3),
            ("CUBE(a, b), CUBE(a, b), ROLLUP(a)", 32),
        ] {
            let sql = format!("SELECT 1 FROM (SELECT 1 FROM t GROUP BY {by}) x");
            assert!(sets(&sql, count).is_ok(), "{by}");
            if count > 1 {
                assert_eq!(sets(&sql, count - 1).unwrap_err().sqlstate(), "54001", "{by}");
            }
        }
        let columns = (0..80).map(|n| format!("a + {n}")).collect::<Vec<_>>().join(", ");
        assert!(sets(&format!("SELECT 1 FROM t GROUP BY CUBE({columns})"), 4096).is_err());
        assert!(sets(&format!("SELECT 1 FROM t GROUP BY CUBE({columns})"), 0).is_ok(), "no limit");
    }

    async fn size(sql: &str) -> Size {
        let context = SessionContext::new();
        let state = context.state();
        #[expect(clippy::disallowed_methods, reason = "a plan as DataFusion makes it")]
        let plan = state.create_logical_plan(sql).await.unwrap();
        let limits = Limits { plan_nodes: 0, plan_expressions: 0, ..Limits::default() };
        check_plan(&plan, &limits).unwrap()
    }

    #[tokio::test]
    async fn references_multiply() {
        let with = |levels: usize| {
            let mut sql = "WITH a0 AS (SELECT 1 AS k)".to_owned();
            for n in 1..=levels {
                let below = n - 1;
                sql += &format!(", a{n} AS (SELECT x.k FROM a{below} x JOIN a{below} y ON x.k = y.k)");
            }
            format!("{sql} SELECT count(*) FROM a{levels}")
        };
        let (few, many) = (size(&with(4)).await, size(&with(12)).await);
        assert!(many.nodes / few.nodes > 200, "{few:?} {many:?}");
        let sums = |levels: usize| {
            let mut from = "(SELECT 1 AS x) q".to_owned();
            (0..levels).for_each(|_| from = format!("(SELECT x + x AS x FROM {from}) q"));
            format!("SELECT count(*) FROM {from} WHERE x > 0")
        };
        let (few, many) = (size(&sums(4)).await, size(&sums(12)).await);
        assert!(many.parts / few.parts > 100, "{few:?} {many:?}");
        assert!(size("SELECT 1, 2, 3").await.parts <= 3);
    }
}
