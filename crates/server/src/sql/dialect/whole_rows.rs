//! Whole rows as JSON: `row_to_json(t)`, `json_agg(t)`.
//!
//! A name means a column first, and a table of FROM if there is no such column. Whether there is one is known when a
//! statement was planned without success. Then the name becomes `t.*` in the functions that make JSON, which the planner
//! keeps as it is, and `t.*` becomes a record of its columns in the plan.

use std::ops::ControlFlow;

use coscan_upstream::walk::visit_mut;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, DataFusionError, Result, SchemaError, TableReference};
use datafusion::functions::core::named_struct;
use datafusion::logical_expr::{Expr as PlannedExpr, LogicalPlan, lit};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select, TableAlias,
    TableFactor, TableWithJoins, VisitorMut,
};

use super::each::with_each;
use super::ordered_lists::HIDDEN;
use crate::sql::QueryError;
use crate::sql::ast::{folded, is_outer};
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
    let mut statement = statement.clone();
    let Statement::Statement(ast) = &mut statement else { return Ok(None) };
    let mut rows = Rows { name, tables: Vec::new(), any: false };
    match visit_mut(ast.as_mut(), &mut rows) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(rows.any.then_some(statement)),
    }
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
enum Table {
    Whole,
    /// Its rows may be missing.
    OfOuterJoin,
}

/// The visitor that replaces the name.
struct Rows {
    name: String,
    /// For each query around the visited expression, the table that has the name.
    tables: Vec<Option<Table>>,
    any: bool,
}

impl VisitorMut for Rows {
    type Break = QueryError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        self.tables.push(table(&select.from, &self.name));
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<QueryError> {
        self.tables.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        if let Expr::Function(function) = expr
            && let Some(Some(table)) = self.tables.last()
        {
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
        factors.any(|factor| name_of(factor).is_some_and(|found| folded(found) == name)).then_some(
            match is_outer {
                true => Table::OfOuterJoin,
                false => Table::Whole,
            },
        )
    })
}

fn name_of(factor: &TableFactor) -> Option<&Ident> {
    match factor {
        TableFactor::Table { alias: Some(TableAlias { name, .. }), .. }
        | TableFactor::Derived { alias: Some(TableAlias { name, .. }), .. } => Some(name),
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
