//! Panels of a dashboard: aggregations of one table that differ only in their filters.

use super::draw::Drawer;
use super::relation::Named;
use super::{Body, Expr, Form, Test};
use crate::data::Database;
use crate::data::kind::Class;
use crate::dice::Dice;
use crate::shapes::Shapes;

/// Draws `count` panels over a table.
pub(crate) fn draw_panels(dice: &mut Dice, database: &Database, shapes: &Shapes, count: usize) -> Vec<Test> {
    let mut drawer = Drawer::new(dice, database, shapes);
    let table = drawer.table();
    let scope = table.scope.clone();
    let (query, _) = drawer.aggregation_of(table, 0, true);
    let filters = (0..count).map(|_| drawer.wide_filter(&scope));
    let panel = |filter| {
        let mut query = query.clone();
        if let Body::Select(select) = &mut query.body {
            select.filter = filter;
        }
        Test { query, form: Form::Plain }
    };
    filters.map(panel).collect()
}

impl Drawer<'_> {
    /// Draws a filter that most rows mostly pass.
    fn wide_filter(&mut self, scope: &[Named]) -> Vec<Expr> {
        match self.dice.below(5) {
            0 => Vec::new(),
            1 => self.filter(scope, 0),
            2 => {
                let conditions = [(); 3].map(|()| self.condition(scope, 0));
                vec![Expr::of(Class::Bool, "({} OR {} OR {})", conditions)]
            }
            _ => {
                let (column, class) = self.comparable(scope);
                let value = self.value(class, column.origin);
                let op = *self.dice.pick(&["<>", "<>", "IS DISTINCT FROM", "<=", ">="]);
                vec![Expr::of(Class::Bool, &format!("({{}} {op} {{}})"), [column.expr(), value])]
            }
        }
    }
}
