//! Subqueries that DataFusion cannot tell apart.
//!
//! DataFusion 55 names EXISTS, IN and ANY of any subquery alike, and a scalar subquery by its first column, or like all others
//! within FILTER. Two aggregates or keys that differ only in such subqueries have the same name, and the query is refused. Here
//! each further subquery of one name is combined with `true`, or wrapped in `coalesce`, which returns its single argument.
//! Equal subqueries stay equal.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, Query, SetExpr, Value, VisitorMut,
};

use crate::walk::{Tree, visit_mut};

/// Gives such subqueries of a statement distinct names.
pub(crate) fn tell_apart<T: Tree>(statement: &mut T) {
    let ControlFlow::<()>::Continue(()) = visit_mut(statement, &mut Queries) else { return };
}

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        let mut known = Known::default();
        known.rename(&mut select.projection)?;
        known.rename(&mut select.group_by)?;
        known.rename(&mut select.having)?;
        known.rename(&mut select.named_window)?;
        known.rename(&mut query.order_by)
    }
}

/// The texts of subqueries by their name in DataFusion.
#[derive(Default)]
struct Known(HashMap<String, Vec<String>>);

impl Known {
    fn rename<T: Tree>(&mut self, part: &mut T) -> ControlFlow<()> {
        visit_mut(part, &mut Renaming { known: self, compared: Vec::new(), filtering: Vec::new() })
    }

    fn told_apart(&mut self, expr: &mut Expr, name: Option<String>) {
        if let Some(name) = name {
            let (texts, text) = (self.0.entry(name).or_default(), expr.to_string());
            let at = texts.iter().position(|known| *known == text).unwrap_or_else(|| {
                texts.push(text);
                texts.len() - 1
            });
            (0..at).for_each(|_| *expr = renamed(expr.clone()));
        }
    }
}

struct Renaming<'a> {
    known: &'a mut Known,
    /// The places of subqueries that are compared by ANY or ALL. Wrapped, such a subquery would be an array.
    compared: Vec<*const Expr>,
    /// The places of scalar subqueries within FILTER.
    filtering: Vec<*const Expr>,
}

impl VisitorMut for Renaming<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                self.compared.push(std::ptr::from_ref(right.as_ref()));
            }
            Expr::Function(Function { filter: Some(filter), .. }) => {
                visit_mut(filter.as_mut(), &mut Scalars(&mut self.filtering))?;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let place = std::ptr::from_ref(expr);
        if !self.compared.contains(&place) {
            let name = if self.filtering.contains(&place) { Some(String::new()) } else { name(expr) };
            self.known.told_apart(expr, name);
        }
        ControlFlow::Continue(())
    }
}

/// Collects the places of scalar subqueries.
struct Scalars<'a>(&'a mut Vec<*const Expr>);

impl VisitorMut for Scalars<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Subquery(_)) {
            self.0.push(std::ptr::from_ref(expr));
        }
        ControlFlow::Continue(())
    }
}

/// The name of a subquery in DataFusion, in the form that has the least in it. `None` for other expressions.
fn name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Exists { .. } => Some("EXISTS".to_owned()),
        Expr::InSubquery { .. } => Some("IN".to_owned()),
        Expr::AnyOp { right, .. } | Expr::AllOp { right, .. }
            if matches!(right.as_ref(), Expr::Subquery(_)) =>
        {
            Some("ANY".to_owned())
        }
        Expr::Subquery(of) => match of.body.as_ref() {
            SetExpr::Select(select) => select.projection.first().map(ToString::to_string),
            _ => None,
        },
        _ => None,
    }
}

fn renamed(of: Expr) -> Expr {
    if !matches!(of, Expr::Subquery(_) | Expr::Function(_)) {
        let right = Box::new(Expr::value(Value::Boolean(true)));
        let both = Expr::BinaryOp { left: Box::new(of), op: BinaryOperator::And, right };
        return Expr::Nested(Box::new(both));
    }
    let args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(of))];
    Expr::Function(Function {
        name: Ident::new("coalesce").into(),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}
