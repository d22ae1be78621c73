//! Whole rows: `row_to_json(t)`, `json_agg(t)`, and `e` in `SELECT e FROM json_array_elements(..) e`.
//!
//! A name means a column first, and a table of FROM if there is no such column. Whether there is one is known when a
//! statement was planned without success.
//! - The name of a function that returns values means its value. It becomes `e.value` in the query that has the function,
//!   and in queries within that.
//! - The name of another table becomes `t.*` in the functions that make JSON, which the planner keeps as it is, and `t.*`
//!   becomes a record of its columns in the plan.

use std::ops::ControlFlow;

use coscan_upstream::walk::visit_mut;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, DataFusionError, Result, SchemaError, TableReference};
use datafusion::functions::core::named_struct;
use datafusion::logical_expr::{Expr as PlannedExpr, LogicalPlan, lit};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, OrderBy, OrderByKind,
    Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitorMut,
};

use super::each::with_each;
use super::ordered_lists::HIDDEN;
use super::rows::{is_of_elements, value_of};
use crate::sql::QueryError;
use crate::sql::ast::{folded, is_all, is_outer, number};
use crate::sql::functions::{AS_JSON, as_json};
use crate::sql::shown::shown;

/// The statement with whole rows in place of the name that a planner did not find. `None` if it takes none.
///
/// # Errors
///
/// If a row may be missing, because it comes from an outer join.
pub(crate) fn with_rows_for(
    statement: &Statement,
    not_planned: &DataFusionError,
) -> Result<Option<Statement>, QueryError> {
    let (Some(name), Statement::Statement(_)) = (unknown(not_planned), statement) else { return Ok(None) };
    // A query within the one of a function may have a column of the name, and is read last.
    for within in [false, true] {
        let mut statement = statement.clone();
        let Statement::Statement(ast) = &mut statement else { return Ok(None) };
        let mut rows = Rows { name: name.clone(), within, tables: Vec::new(), any: false };
        if let ControlFlow::Break(error) = visit_mut(ast.as_mut(), &mut rows) {
            return Err(error);
        }
        if rows.any {
            return Ok(Some(statement));
        }
    }
    Ok(None)
}

/// The name without a qualifier that was not found.
fn unknown(error: &DataFusionError) -> Option<String> {
    let DataFusionError::SchemaError(error, _) = error.find_root() else { return None };
    match error.as_ref() {
        SchemaError::FieldNotFound { field, .. } if field.relation.is_none() => Some(field.name.clone()),
        _ => None,
    }
}

/// A table of FROM that has the name.
#[derive(Clone)]
enum Table {
    Whole,
    /// Its rows may be missing.
    OfOuterJoin,
    /// A function that returns values. The names are its own and that of its column.
    Value([Ident; 2]),
}

/// The visitor that replaces the name.
struct Rows {
    name: String,
    /// Set if queries within the one of a function take its value.
    within: bool,
    /// For each query around the visited expression, the table that has the name.
    tables: Vec<Option<Table>>,
    any: bool,
}

impl VisitorMut for Rows {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        // ORDER BY is no part of the SELECT before it.
        let table = match query.body.as_ref() {
            SetExpr::Select(select) => self.table(select),
            _ => None,
        };
        if matches!(table, Some(Table::Value(_))) {
            order_by_place(query, &self.name);
        }
        self.tables.push(table);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<QueryError> {
        self.tables.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        let table = self.table(select);
        if matches!(table, Some(Table::Value(_))) {
            // The column keeps its name.
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) = item
                    && let Some(alias) = named(expr, &self.name)
                {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: alias.clone() };
                }
            }
        }
        self.tables.push(table);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<QueryError> {
        self.tables.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        let Some(Some(table)) = self.tables.last() else { return ControlFlow::Continue(()) };
        if let Table::Value(path) = table {
            if matches!(expr, Expr::Identifier(found) if folded(found) == self.name) {
                *expr = Expr::CompoundIdentifier(path.to_vec());
                self.any = true;
            }
        } else if let Expr::Function(function) = expr {
            // It is called for each argument of the functions that make JSON.
            let changed = function.name.to_string() == AS_JSON && in_argument(function, &self.name);
            if changed && matches!(table, Table::OfOuterJoin) {
                return ControlFlow::Break(QueryError::unsupported(format!(
                    "a whole row of \"{}\" beside an outer join is not supported: name its columns",
                    self.name
                )));
            }
            self.any |= changed;
        }
        ControlFlow::Continue(())
    }
}

impl Rows {
    /// The table of a query that has the name. A function in FROM takes the value of a function before it.
    fn table(&self, select: &Select) -> Option<Table> {
        let found = table(&select.from, &self.name);
        let without_tables = || {
            let mut from = select.from.iter();
            from.all(|from| from.joins.is_empty() && is_of_elements(&from.relation))
        };
        match self.tables.last() {
            Some(Some(around @ Table::Value(_))) if found.is_none() && (self.within || without_tables()) => {
                Some(around.clone())
            }
            _ => found,
        }
    }
}

/// The name of an expression that is only this name.
fn named<'a>(expr: &'a Expr, name: &str) -> Option<&'a Ident> {
    match expr {
        Expr::Identifier(found) if folded(found) == name => Some(found),
        Expr::Nested(expr) => named(expr, name),
        _ => None,
    }
}

/// Replaces the name in ORDER BY by the place of the result column that has it.
fn order_by_place(query: &mut Query, name: &str) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let place = select.projection.iter().position(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => folded(alias) == name,
        SelectItem::UnnamedExpr(expr) => named(expr, name).is_some(),
        _ => false,
    });
    let place = place.filter(|_| !select.projection.iter().any(is_all));
    if let (Some(place), Some(OrderBy { kind: OrderByKind::Expressions(by), .. })) =
        (place, &mut query.order_by)
    {
        by.iter_mut().filter(|by| named(&by.expr, name).is_some()).for_each(|by| by.expr = number(place + 1));
    }
}

/// Replaces the name as the argument of a function. Returns whether it was there.
fn in_argument(function: &mut Function, name: &str) -> bool {
    let FunctionArguments::List(list) = &mut function.args else { return false };
    let [FunctionArg::Unnamed(arg)] = &mut list.args[..] else { return false };
    match arg {
        FunctionArgExpr::Expr(Expr::Identifier(found)) if folded(found) == name => {
            *arg = FunctionArgExpr::QualifiedWildcard(ObjectName::from(vec![found.clone()]));
            true
        }
        _ => false,
    }
}

/// The table of FROM that has a name.
fn table(from: &[TableWithJoins], name: &str) -> Option<Table> {
    from.iter().find_map(|from| {
        let mut factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
        let is_outer = from.joins.iter().any(is_outer);
        let factor = factors.find(|factor| name_of(factor).is_some_and(|found| folded(found) == name))?;
        Some(match value_of(factor) {
            Some(path) => Table::Value(path.map(Ident::clone)),
            None if is_outer => Table::OfOuterJoin,
            None => Table::Whole,
        })
    })
}

fn name_of(factor: &TableFactor) -> Option<&Ident> {
    match factor {
        TableFactor::Table { alias: Some(TableAlias { name, .. }), .. }
        | TableFactor::Derived { alias: Some(TableAlias { name, .. }), .. }
        | TableFactor::UNNEST { alias: Some(TableAlias { name, .. }), .. } => Some(name),
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()),
        _ => None,
    }
}

/// The plan with records in place of `t.*` among the arguments of functions.
pub(crate) fn with_records(plan: LogicalPlan) -> Result<LogicalPlan> {
    with_each(plan, record_for)
}

fn record_for(expr: PlannedExpr, schema: &DFSchema) -> Result<Transformed<PlannedExpr>> {
    #[expect(deprecated, reason = "the planner makes it of `t.*`")]
    let PlannedExpr::Wildcard { qualifier: Some(table), .. } = &expr else {
        return Ok(Transformed::no(expr));
    };
    Ok(Transformed::yes(record(table, schema)))
}

fn record(table: &TableReference, schema: &DFSchema) -> PlannedExpr {
    let of_table = schema
        .iter()
        .filter(|(qualifier, field)| *qualifier == Some(table) && !field.name().starts_with(HIDDEN));
    let values = of_table.flat_map(|(qualifier, field)| {
        let column = PlannedExpr::Column(Column::new(qualifier.cloned(), field.name()));
        [lit(shown(field.name())), as_json().call(vec![column])]
    });
    named_struct().call(values.collect())
}
