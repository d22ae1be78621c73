//! Whole rows: `SELECT t FROM t`, `count(t)`, `row_to_json(t)`, and `e` in `SELECT e FROM json_array_elements(..) e`.
//!
//! A name means a column first, and a table of FROM if there is no such column. Whether there is one is known when a
//! statement was planned without success.
//! - The name of a function that returns values means its value. It becomes `e.value` in the query that has the function,
//!   and in queries within that.
//! - The name of another table becomes `t.*` in the functions that make JSON, and a function of `t.*` elsewhere. The
//!   planner keeps these, and they become a record of the table's columns in the plan.
//! - Beside an outer join, a column of the table that is never NULL tells whether there is a row.

use std::ops::ControlFlow;

use coscan_upstream::walk::visit_mut;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, DataFusionError, Result, SchemaError, TableReference};
use datafusion::functions::core::named_struct;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr as PlannedExpr, LogicalPlan, lit, when};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, OrderBy, OrderByKind,
    Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitorMut,
};

use super::each::with_each;
use super::ordered_lists::HIDDEN;
use super::rows::{derived, is_of_elements, value_of};
use crate::sql::QueryError;
use crate::sql::ast::{folded, function as function_of, is_all, is_outer, number};
use crate::sql::functions::{AS_JSON, ROW_IS_NOT_NULL, ROW_IS_NULL, WHOLE_ROW, as_json};
use crate::sql::shown::shown;

/// The statement with whole rows in place of the name that a planner did not find. `None` if it takes none.
///
/// # Errors
///
/// If a row of an outer join may be missing, beside `*`.
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
    /// Its rows may be missing, and no column tells it.
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
        let table = match query.body.as_mut() {
            SetExpr::Select(select) => {
                tell_missing(select, &self.name);
                self.table(select)
            }
            _ => None,
        };
        if table.is_some() {
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
        tell_missing(select, &self.name);
        let table = self.table(select);
        if table.is_some() {
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
            return ControlFlow::Continue(());
        }
        let changed = match expr {
            // It is called for each argument of the functions that make JSON.
            Expr::Function(function) if function.name.to_string() == AS_JSON => {
                in_argument(function, &self.name)
            }
            expr => match record_of(expr, &self.name) {
                Some(record) => {
                    *expr = record;
                    true
                }
                None => false,
            },
        };
        if changed && matches!(table, Table::OfOuterJoin) {
            return ControlFlow::Break(QueryError::unsupported(format!(
                "a whole row of \"{}\" beside an outer join and * is not supported: name the columns instead of *",
                self.name
            )));
        }
        self.any |= changed;
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

/// The name as a record, or the test whether its values are NULL. `None` for other expressions.
fn record_of(expr: &Expr, name: &str) -> Option<Expr> {
    let (function, table) = match expr {
        Expr::IsNull(of) => (ROW_IS_NULL, named(of, name)?),
        Expr::IsNotNull(of) => (ROW_IS_NOT_NULL, named(of, name)?),
        Expr::Identifier(_) => (WHOLE_ROW, named(expr, name)?),
        _ => return None,
    };
    let mut call = function_of(function, Vec::new());
    if let FunctionArguments::List(list) = &mut call.args {
        let all = FunctionArgExpr::QualifiedWildcard(ObjectName::from(vec![table.clone()]));
        list.args.push(FunctionArg::Unnamed(all));
    }
    Some(Expr::Function(call))
}

/// The column that is never NULL in a row that an outer join has found.
fn present() -> String {
    format!("{HIDDEN}present")
}

/// Adds that column to the table of the name beside outer joins, unless `*` would list it.
fn tell_missing(select: &mut Select, name: &str) {
    if select.projection.iter().any(is_all) {
        return;
    }
    for from in select.from.iter_mut().filter(|from| from.joins.iter().any(is_outer)) {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut from.relation).chain(joined) {
            let table = name_of(factor).filter(|found| folded(found) == name).cloned();
            if let Some(table) = table.filter(|_| value_of(factor).is_none() && !tells_missing(factor)) {
                with_present(factor, table);
            }
        }
    }
}

fn with_present(factor: &mut TableFactor, name: Ident) {
    let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    let sql = format!("SELECT *, true AS \"{}\" FROM whole", present());
    let Ok(mut marked) = derived(&sql, alias) else { return };
    if let TableFactor::Derived { lateral, subquery, .. } = &mut marked
        && let SetExpr::Select(select) = subquery.body.as_mut()
        && let Some(from) = select.from.first_mut()
    {
        *lateral = matches!(factor, TableFactor::Derived { lateral: true, .. });
        std::mem::swap(&mut from.relation, factor);
        *factor = marked;
    }
}

/// Returns whether a table has the column that tells whether there is a row.
fn tells_missing(factor: &TableFactor) -> bool {
    let TableFactor::Derived { subquery, .. } = factor else { return false };
    let SetExpr::Select(select) = subquery.body.as_ref() else { return false };
    match select.projection.last() {
        Some(SelectItem::ExprWithAlias { alias, .. }) => alias.value == present(),
        _ => false,
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
            None if is_outer && !tells_missing(factor) => Table::OfOuterJoin,
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
    if let PlannedExpr::ScalarFunction(call) = &expr
        && let Some(other) = plain_record(call)
    {
        return Ok(Transformed::yes(other));
    }
    #[expect(deprecated, reason = "the planner makes it of `t.*`")]
    let PlannedExpr::Wildcard { qualifier: Some(table), .. } = &expr else {
        return Ok(Transformed::no(expr));
    };
    record(table, schema).map(Transformed::yes)
}

/// The columns of a table as they are in JSON.
fn record(table: &TableReference, schema: &DFSchema) -> Result<PlannedExpr> {
    let of_table = || schema.iter().filter(|(qualifier, _)| *qualifier == Some(table));
    let column = |name: &str| PlannedExpr::Column(Column::new(Some(table.clone()), name));
    let values = of_table()
        .filter(|(_, field)| !field.name().starts_with(HIDDEN))
        .flat_map(|(_, field)| [lit(shown(field.name())), as_json().call(vec![column(field.name())])]);
    let record = named_struct().call(values.collect());
    let present = present();
    match of_table().any(|(_, field)| *field.name() == present) {
        true => when(column(&present).is_not_null(), record).end(),
        false => Ok(record),
    }
}

/// The record with its values as they are, or whether they are NULL, in place of a function of a record for JSON.
fn plain_record(call: &ScalarFunction) -> Option<PlannedExpr> {
    let name = call.func.name();
    if ![WHOLE_ROW, ROW_IS_NULL, ROW_IS_NOT_NULL].contains(&name) {
        return None;
    }
    let (present, record) = match call.args.first()? {
        PlannedExpr::Case(case) => {
            let (present, record) = case.when_then_expr.first()?;
            (Some(present), record.as_ref())
        }
        record => (None, record),
    };
    let PlannedExpr::ScalarFunction(record) = record else { return None };
    let plain = |value: &PlannedExpr| match value {
        PlannedExpr::ScalarFunction(of) if of.func.name() == AS_JSON => of.args.first().cloned(),
        value => Some(value.clone()),
    };
    let args: Vec<PlannedExpr> = record.args.iter().filter_map(plain).collect();
    if name == WHOLE_ROW {
        let record = named_struct().call(args);
        return match present {
            Some(present) => when(present.as_ref().clone(), record).end().ok(),
            None => Some(record),
        };
    }
    let test = if name == ROW_IS_NULL { PlannedExpr::is_null } else { PlannedExpr::is_not_null };
    let values = args.into_iter().skip(1).step_by(2);
    Some(values.map(test).reduce(PlannedExpr::and).unwrap_or_else(|| lit(true)))
}
