//! Joins of tables by keys by which both may be clustered, with conditions over both sides. Such joins may be
//! computed by chunks.

use super::Expr;
use super::draw::Drawer;
use super::relation::{Drawn, MOST_ROWS, Named, joined};
use crate::data::Table;
use crate::data::kind::Class;
use crate::data::spread::Spread;

/// Two tables and a column of each, all by position.
type Keys = [(usize, usize); 2];

impl Drawer<'_> {
    /// Draws a join of two tables by such a key. Returns a table if there is none, or if the join may have
    /// too many rows.
    pub(super) fn by_keys(&mut self) -> Drawn {
        let known = keys(&self.database.tables);
        if known.is_empty() {
            return self.table();
        }
        let [(left, own), (right, other)] = *self.dice.pick(&known);
        let (left, right) = (self.table_at(left), self.table_at(right));
        let (own, other) = (left.scope[own].clone(), right.scope[other].clone());
        let unique = own.unique || other.unique;
        let rows = if unique { left.rows + right.rows } else { left.rows.saturating_mul(right.rows) };
        if rows / 3 > MOST_ROWS {
            return left;
        }
        let mut on = vec![Expr::of(Class::Bool, "{} = {}", [own.expr(), other.expr()])];
        if self.dice.below(4) > 0 {
            on.extend(self.compared(&left.scope, &right.scope));
        }
        let scope: Vec<Named> = left.scope.iter().chain(&right.scope).cloned().collect();
        if self.dice.one_in(4) {
            on.push(self.condition(&scope, 1));
        }
        let kind = *self.dice.pick(&[
            "INNER",
            "INNER",
            "INNER",
            "LEFT",
            "RIGHT",
            "FULL",
            "LEFT SEMI",
            "LEFT ANTI",
            "RIGHT SEMI",
            "RIGHT ANTI",
        ]);
        joined(kind, left, right, on, rows)
    }

    /// Compares a column of each side, if there are two comparable ones of one class.
    fn compared(&mut self, left: &[Named], right: &[Named]) -> Option<Expr> {
        let compares = |of: &Named| of.sorts && !matches!(of.class, Class::List | Class::Struct);
        let op = *self.dice.pick(&["<", "<=", ">", ">=", "<>", "IS DISTINCT FROM"]);
        for _ in 0..8 {
            let (a, b) = (self.dice.pick(left), self.dice.pick(right));
            if compares(a) && a.class == b.class {
                return Some(Expr::of(Class::Bool, &format!("({{}} {op} {{}})"), [a.expr(), b.expr()]));
            }
        }
        None
    }
}

/// Returns keys that are declared to match, and the numbers of rows.
fn keys(tables: &[Table]) -> Vec<Keys> {
    let mut keys = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        if let Some(declared) = &table.clustered_with
            && let Some(to) = tables.iter().position(|other| other.name == declared.table)
            && let Some(own) = column(table, &declared.own)
            && let Some(other) = column(&tables[to], &declared.other)
        {
            keys.push([(at, own), (to, other)]);
        }
        let numbered = |(at, table): (usize, &Table)| Some((at, row_number(table)?));
        let others = tables.iter().enumerate().filter_map(numbered);
        keys.extend(
            row_number(table).into_iter().flat_map(|own| others.clone().map(move |to| [(at, own), to])),
        );
    }
    keys
}

fn column(table: &Table, name: &str) -> Option<usize> {
    table.columns.iter().position(|column| column.name == name)
}

fn row_number(table: &Table) -> Option<usize> {
    table.columns.iter().position(|column| column.spread == Spread::RowNumber)
}
