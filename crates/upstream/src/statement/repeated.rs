//! Subqueries in FROM with several columns of one name.
//!
//! DataFusion 55 renames the second such column and takes the first for both, although by SQL the name is
//! ambiguous. Here all of them get distinct names, which end with [`REPEATED`] and a number. `*` lists them
//! in their order, and their original name is that of no column. [`with_error`] then reports that it is
//! ambiguous. [`shown`] gives the columns of a result their original names.
//!
//! DataFusion also refuses a list of column names after an alias that has fewer names than the table has columns. By SQL the
//! other columns keep their names.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::ControlFlow;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DataFusionError, Result, SchemaError, TableReference, plan_err};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Cte, Expr as SqlExpr, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::COUNTED_ROWS;
use crate::statement::using::MERGED;
use crate::walk::{Tree, visit_mut};

/// An invisible character that users do not write. It and the text after it in a column name are not shown.
pub const REPEATED: char = '\u{2063}';

fn shown_name(name: &str) -> &str {
    match name.split_once(REPEATED) {
        Some((shown, _)) if !shown.is_empty() => shown,
        _ => name,
    }
}

/// Turns tables of WITH that may have several columns of one name into subqueries in FROM. Returns whether
/// the statement has any subqueries.
pub(crate) fn find<T: Tree>(statement: &mut T) -> bool {
    let mut found = Subqueries { any: false };
    let ControlFlow::<()>::Continue(()) = visit_mut(statement, &mut found) else { return found.any };
    found.any
}

struct Subqueries {
    any: bool,
}

impl VisitorMut for Subqueries {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &mut query.with
            && !with.recursive
        {
            for table in &mut with.cte_tables {
                let names = table.alias.columns.len();
                let is_short = names > 0 && listed(&table.query.body) != Some(names);
                if is_short || names == 0 && may_repeat(&table.query.body) {
                    into_subquery(table);
                    self.any = true;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        self.any |= match factor {
            TableFactor::Derived { .. } => true,
            TableFactor::Table { alias, .. } => alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()),
            _ => false,
        };
        ControlFlow::Continue(())
    }
}

/// Returns the number of columns that a query lists.
fn listed(body: &SetExpr) -> Option<usize> {
    let is_all =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
    match body {
        SetExpr::Select(select) if !select.projection.iter().any(is_all) => Some(select.projection.len()),
        SetExpr::Query(query) => listed(&query.body),
        SetExpr::SetOperation { left, .. } => listed(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        _ => None,
    }
}

fn may_repeat(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => may_select_repeated(select),
        SetExpr::Query(query) => may_repeat(&query.body),
        SetExpr::SetOperation { left, .. } => may_repeat(left),
        _ => false,
    }
}

fn may_select_repeated(select: &Select) -> bool {
    let mut names = HashSet::new();
    let tables: usize = select.from.iter().map(|from| 1 + from.joins.len()).sum();
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(SqlExpr::Identifier(name)) => !names.insert(name.value.to_lowercase()),
        SelectItem::UnnamedExpr(SqlExpr::CompoundIdentifier(path)) => {
            path.last().is_some_and(|name| !names.insert(name.value.to_lowercase()))
        }
        SelectItem::ExprWithAlias { alias, .. } => !names.insert(shown_name(&alias.value).to_lowercase()),
        SelectItem::UnnamedExpr(_) => false,
        _ => tables > 1 || select.projection.len() > 1,
    })
}

/// Rewrites `x AS (query)` to `x AS (SELECT * FROM (query) AS x)`, and `x (a) AS (query)` to
/// `x AS (SELECT * FROM (query) AS x (a))`.
fn into_subquery(table: &mut Cte) {
    let template = Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM (SELECT 1) AS name");
    let Ok(mut query) = template.and_then(|mut parser| parser.parse_query()) else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(from) = select.from.first_mut() else { return };
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = &mut from.relation else { return };
    alias.name = table.alias.name.clone();
    alias.columns = mem::take(&mut table.alias.columns);
    mem::swap(subquery, &mut table.query);
    table.query = query;
}

/// Plans subqueries in FROM with distinct column names.
#[derive(Debug)]
pub(crate) struct OwnNames;

impl RelationPlanner for OwnNames {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let alias = match &mut relation {
            TableFactor::Derived { alias, .. } | TableFactor::Table { alias, args: None, .. } => alias,
            _ => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        if let Some(alias) = alias.take_if(|alias| !alias.columns.is_empty()) {
            return with_alias(context.plan(relation)?, alias, context);
        }
        let TableFactor::Derived { alias, .. } = &mut relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let is_named = |name: &str| !name.starts_with(MERGED) && name != COUNTED_ROWS;
        let Some(alias) = alias.take_if(|alias| alias.columns.is_empty() && is_named(&alias.name.value))
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let plan = with_own_names(context.plan(relation)?)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
    }
}

/// Gives the table an alias with names of its columns, of which the last ones may keep theirs.
fn with_alias(
    plan: LogicalPlan,
    mut alias: TableAlias,
    context: &dyn RelationPlannerContext,
) -> Result<RelationPlanning> {
    let columns = plan.schema().columns();
    let (named, all) = (alias.columns.len(), columns.len());
    if named > all {
        let name = context.normalize_ident(alias.name);
        return plan_err!("table \"{name}\" has {all} columns available but {named} columns specified");
    }
    if named == all {
        return Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))));
    }
    let names = mem::take(&mut alias.columns).into_iter().map(|of| context.normalize_ident(of.name));
    let kept = columns.iter().skip(named).map(|column| shown_name(&column.name).to_owned());
    let names: Vec<String> = names.chain(kept).collect();
    let is_only = |name: &String| names.iter().filter(|other| *other == name).count() == 1;
    let column = |(at, (column, name)): (usize, (Column, &String))| match is_only(name) {
        true => Expr::Column(column).alias(name),
        false => Expr::Column(column).alias(format!("{name}{REPEATED}{}", at + 1)),
    };
    let columns: Vec<Expr> = columns.into_iter().zip(&names).enumerate().map(column).collect();
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, Some(alias)))))
}

fn with_own_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let times = times(&plan);
    if times.values().all(|times| *times == 1)
        && plan.schema().fields().iter().all(|field| times.contains_key(field.name()))
    {
        return Ok(plan);
    }
    let own_name = |(at, column): (usize, Column)| {
        let name = shown_name(&column.name);
        match times.get(name) {
            Some(2..) => {
                let name = format!("{name}{REPEATED}{}", at + 1);
                Expr::Column(column).alias(name)
            }
            _ if name == column.name => Expr::Column(column),
            _ => {
                let name = name.to_owned();
                Expr::Column(column).alias(name)
            }
        }
    };
    let columns: Vec<Expr> = plan.schema().columns().into_iter().enumerate().map(own_name).collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Turns an unknown column into an ambiguous one if several columns have its name.
pub(crate) fn with_error(error: DataFusionError) -> DataFusionError {
    let ambiguous = match error.find_root() {
        DataFusionError::SchemaError(of, _) => match of.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                let is_it = |name: &str| name != field.name && shown_name(name) == field.name;
                valid_fields
                    .iter()
                    .any(|other| is_it(&other.name))
                    .then(|| Box::new(Column::new_unqualified(&field.name)))
            }
            _ => None,
        },
        _ => None,
    };
    match ambiguous {
        Some(field) => {
            DataFusionError::SchemaError(Box::new(SchemaError::AmbiguousReference { field }), Box::new(None))
        }
        None => error,
    }
}

/// Gives the result of the plan the original column names.
pub(crate) fn shown(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Statement(_) => Ok(plan),
        LogicalPlan::Ddl(_) => {
            for input in plan.inputs() {
                if let Some((name, _)) = times(input).iter().find(|(_, times)| **times > 1) {
                    return plan_err!("column \"{name}\" specified more than once");
                }
            }
            Ok(plan.map_children(|input| shown(input).map(Transformed::yes))?.data)
        }
        LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => {
            Ok(plan.map_children(|input| shown(input).map(Transformed::yes))?.data)
        }
        plan if plan.schema().fields().iter().all(|field| !field.name().contains(REPEATED)) => Ok(plan),
        plan => {
            let times = times(&plan);
            let columns = plan.schema().columns().into_iter().enumerate();
            let columns: Vec<Expr> = columns
                .map(|(at, column)| {
                    let name = shown_name(&column.name).to_owned();
                    match times.get(&name) {
                        // Columns of a projection may have one name in different tables.
                        Some(2..) => {
                            let table = TableReference::bare(format!("coscan column {}", at + 1));
                            Expr::Column(column).alias_qualified(Some(table), name)
                        }
                        _ if name == column.name => Expr::Column(column),
                        _ => Expr::Column(column).alias(name),
                    }
                })
                .collect();
            LogicalPlanBuilder::from(plan).project(columns)?.build()
        }
    }
}

/// Counts the names of a plan's columns.
fn times(plan: &LogicalPlan) -> HashMap<String, usize> {
    let mut times = HashMap::new();
    for field in plan.schema().fields() {
        *times.entry(shown_name(field.name()).to_owned()).or_default() += 1;
    }
    times
}
