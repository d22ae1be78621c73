//! The relations of a query: tables, subqueries and joins of them, with the names that they bring into scope.

use super::draw::{Drawer, column};
use super::{Expr, Join, Relation};
use crate::data::kind::Class;

/// Limit of the rows of joins, so that a query takes milliseconds.
pub(super) const MOST_ROWS: usize = 20_000;

/// A column that expressions may name.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    /// `alias.column`.
    pub(crate) sql: String,
    pub(crate) class: Class,
    /// The table and the column of its values, if they come from one.
    pub(crate) origin: Option<(usize, usize)>,
    /// Whether all rows have distinct values.
    pub(crate) unique: bool,
    /// Whether rows can be sorted and grouped by it.
    pub(crate) sorts: bool,
    /// Whether sums are exact in any order of addition.
    pub(crate) exact: bool,
}

impl Named {
    /// Returns whether the minimum and the maximum of a group depend on the order of its rows. If one of two
    /// floating-point values is NaN, DataFusion keeps the later one.
    pub(crate) fn extremes_depend_on_order(&self) -> bool {
        self.class == Class::Float && !self.exact
    }

    pub(crate) fn expr(&self) -> Expr {
        Expr::text(self.class, self.sql.clone())
    }
}

/// A relation that was drawn.
pub(crate) struct Drawn {
    pub(crate) relation: Relation,
    pub(crate) scope: Vec<Named>,
    /// A high estimate.
    pub(crate) rows: usize,
}

impl Drawer<'_> {
    pub(crate) fn relation(&mut self, depth: usize) -> Drawn {
        match self.dice.below(20) {
            0..=3 if depth > 0 => self.subquery(depth - 1),
            4..=7 if depth > 0 => self.join(depth - 1),
            9 if depth > 0 => self.twice(depth - 1),
            10 if depth > 0 => self.by_keys(),
            11 if depth > 0 => self.third(),
            8 if !self.ctes.is_empty() => {
                let at = self.dice.below(self.ctes.len());
                let (name, columns, rows) = self.ctes[at].clone();
                let alias = self.alias("w");
                Drawn {
                    relation: Relation::Named(name, alias.clone()),
                    scope: outputs(&columns, &alias),
                    rows,
                }
            }
            _ => self.table(),
        }
    }

    pub(crate) fn table(&mut self) -> Drawn {
        let at = self.dice.below(self.database.tables.len());
        self.table_at(at)
    }

    /// Returns the table at this position.
    pub(super) fn table_at(&mut self, at: usize) -> Drawn {
        let table = &self.database.tables[at];
        let alias = self.alias("a");
        let mut scope: Vec<Named> = Vec::new();
        for (number, column) in table.columns.iter().enumerate() {
            scope.push(Named {
                sql: format!("{alias}.{}", column.name),
                class: column.kind.class(),
                origin: Some((at, number)),
                unique: column.unique(),
                sorts: column.kind.sorts(),
                exact: column.spread.sums_exactly(),
            });
        }
        if table.hive {
            let sql = format!("{alias}.p");
            scope.push(Named {
                sql,
                class: Class::Int,
                origin: None,
                unique: false,
                sorts: true,
                exact: true,
            });
        }
        Drawn { relation: Relation::Named(table.name.clone(), alias), scope, rows: table.rows() }
    }

    fn subquery(&mut self, depth: usize) -> Drawn {
        let alias = self.alias("s");
        let (query, columns, rows) = self.nested(depth);
        Drawn { scope: outputs(&columns, &alias), relation: Relation::Sub(Box::new(query), alias), rows }
    }

    /// Draws an aggregation joined with itself, mostly on all of its columns, so that both sides remain
    /// equal.
    fn twice(&mut self, depth: usize) -> Drawn {
        let (query, rows) = self.aggregation(depth);
        let columns: Vec<Named> = query.items().iter().map(|item| column(item, false)).collect();
        let aliases = [self.alias("s"), self.alias("s")];
        let [left, right] = aliases.each_ref().map(|alias| outputs(&columns, alias));
        let [first, second] = aliases.map(|alias| Relation::Sub(Box::new(query.clone()), alias));
        let cross = rows.saturating_mul(rows);
        let pairs = left.iter().zip(&right).filter(|(left, _)| joins_exactly(left));
        let mut on: Vec<Expr> = pairs
            .map(|(a, b)| Expr::of(Class::Bool, "{} IS NOT DISTINCT FROM {}", [a.expr(), b.expr()]))
            .collect();
        if on.is_empty() || cross > MOST_ROWS {
            return Drawn { relation: first, scope: left, rows };
        }
        if self.dice.one_in(4) {
            on = vec![self.join_key(&left, &right)];
        }
        let kind = *self.dice.pick(&["INNER", "LEFT", "FULL", "LEFT SEMI", "LEFT ANTI"]);
        let join = Join { kind, left: first, right: second, on };
        let scope = if kind.starts_with("LEFT ") { left } else { left.into_iter().chain(right).collect() };
        Drawn { relation: Relation::Join(Box::new(join)), scope, rows: cross }
    }

    /// Draws two tables and a third that is joined with each of them, by a separate key. All have the same
    /// column names.
    fn third(&mut self) -> Drawn {
        let [first, second, third] = [self.table(), self.table(), self.table()];
        let cross = first.rows.saturating_mul(second.rows).saturating_mul(third.rows);
        if cross > MOST_ROWS * 50 {
            return first;
        }
        let on = vec![self.join_key(&first.scope, &second.scope)];
        let keys =
            vec![self.join_key(&first.scope, &third.scope), self.join_key(&second.scope, &third.scope)];
        let both = Join { kind: "INNER", left: first.relation, right: second.relation, on };
        let scope: Vec<Named> = first.scope.into_iter().chain(second.scope).collect();
        let both = Relation::Join(Box::new(both));
        let kind = *self.dice.pick(&["INNER", "INNER", "LEFT", "SEMI", "ANTI"]);
        let (kind, left, right) = match (kind, self.dice.one_in(2)) {
            ("SEMI", _) => ("LEFT SEMI", both, third.relation),
            ("ANTI", _) => ("LEFT ANTI", both, third.relation),
            (kind, true) => (kind, third.relation, both),
            (kind, false) => (kind, both, third.relation),
        };
        let mut scope = match kind {
            "LEFT SEMI" | "LEFT ANTI" => scope,
            _ => scope.into_iter().chain(third.scope).collect(),
        };
        scope.iter_mut().for_each(|column| column.unique = false);
        let join = Join { kind, left, right, on: keys };
        Drawn { relation: Relation::Join(Box::new(join)), scope, rows: cross }
    }

    fn join(&mut self, depth: usize) -> Drawn {
        let left = self.relation(depth);
        let right = self.relation(depth);
        let cross = left.rows.saturating_mul(right.rows);
        let kind = *self.dice.pick(&[
            "INNER",
            "INNER",
            "INNER",
            "LEFT",
            "LEFT",
            "RIGHT",
            "FULL",
            "LEFT SEMI",
            "LEFT ANTI",
            "RIGHT SEMI",
            "RIGHT ANTI",
            "CROSS",
        ]);
        if cross > MOST_ROWS && (kind == "CROSS" || cross / 3 > MOST_ROWS) {
            return left;
        }
        let mut on = Vec::new();
        if kind != "CROSS" {
            on.push(self.join_key(&left.scope, &right.scope));
            if self.dice.one_in(3) {
                on.push(self.join_key(&left.scope, &right.scope));
            }
            if self.dice.one_in(3) {
                let both: Vec<Named> = left.scope.iter().chain(&right.scope).cloned().collect();
                let condition = self.condition(&both, 1);
                on.push(condition);
            }
        }
        joined(kind, left, right, on, cross)
    }

    /// Draws an equality between comparable columns.
    fn join_key(&mut self, left: &[Named], right: &[Named]) -> Expr {
        for _ in 0..8 {
            let (a, b) = (self.dice.pick(left).clone(), self.dice.pick(right).clone());
            let numbers = |class| matches!(class, Class::Int | Class::Decimal | Class::Float);
            if a.sorts && (a.class == b.class || numbers(a.class) && numbers(b.class) && self.dice.one_in(4))
            {
                let op = if self.dice.one_in(10) { "IS NOT DISTINCT FROM" } else { "=" };
                return Expr::of(Class::Bool, &format!("{{}} {op} {{}}"), [a.expr(), b.expr()]);
            }
        }
        Expr::of(Class::Bool, "{} = {}", [left[0].expr(), right[0].expr()])
    }
}

/// Returns the join of two relations. `rows` is its number of rows if it outputs pairs of their rows.
pub(super) fn joined(kind: &'static str, left: Drawn, right: Drawn, on: Vec<Expr>, rows: usize) -> Drawn {
    let join = Join { kind, left: left.relation, right: right.relation, on };
    let relation = Relation::Join(Box::new(join));
    match kind {
        "LEFT SEMI" | "LEFT ANTI" => Drawn { relation, scope: left.scope, rows: left.rows },
        "RIGHT SEMI" | "RIGHT ANTI" => Drawn { relation, scope: right.scope, rows: right.rows },
        _ => {
            let scope = left.scope.into_iter().chain(right.scope);
            let scope = scope.map(|column| Named { unique: false, ..column }).collect();
            Drawn { relation, scope, rows }
        }
    }
}

/// Returns whether equal values of the column are identical.
fn joins_exactly(column: &Named) -> bool {
    column.sorts && !matches!(column.class, Class::Float | Class::List | Class::Struct)
}

/// Returns the columns of a subquery under its alias.
pub(crate) fn outputs(columns: &[Named], alias: &str) -> Vec<Named> {
    columns.iter().map(|column| Named { sql: format!("{alias}.{}", column.sql), ..column.clone() }).collect()
}
