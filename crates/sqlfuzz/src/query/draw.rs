//! Draws queries. A limit is drawn only where its rows are determined, below a total order, or at the top of
//! a sample.

use super::relation::{Drawn, Named};
use super::{Body, Expr, Form, Group, Item, Key, Limit, Order, Query, Relation, Select, Test};
use crate::data::Database;
use crate::data::kind::Class;
use crate::dice::Dice;
use crate::shapes::Shapes;

const DIRECTIONS: [&str; 5] = ["", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"];
const EXPLAIN: [&str; 5] =
    ["EXPLAIN", "EXPLAIN VERBOSE", "EXPLAIN ANALYZE", "EXPLAIN ANALYZE VERBOSE", "EXPLAIN FORMAT TREE"];

/// Draws over the tables of a database.
pub(crate) struct Drawer<'a> {
    pub(crate) dice: &'a mut Dice,
    pub(crate) database: &'a Database,
    pub(crate) shapes: &'a Shapes,
    /// Visible common table expressions: name, columns, rows.
    pub(crate) ctes: Vec<(String, Vec<Named>, usize)>,
    names: usize,
}

/// Draws a query, and the way to compare its result.
pub(crate) fn draw(dice: &mut Dice, database: &Database, shapes: &Shapes) -> Test {
    Drawer::new(dice, database, shapes).test()
}

impl<'a> Drawer<'a> {
    pub(crate) fn new(dice: &'a mut Dice, database: &'a Database, shapes: &'a Shapes) -> Self {
        Drawer { dice, database, shapes, ctes: Vec::new(), names: 0 }
    }

    pub(crate) fn alias(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn test(&mut self) -> Test {
        if self.shapes.volatile && self.dice.one_in(12) {
            return Test { query: self.volatile(), form: Form::Plain };
        }
        let ctes = if self.dice.one_in(8) { self.common_tables() } else { Vec::new() };
        let mut query = match self.dice.below(10) {
            0 => self.set_operation(2),
            1..=4 => self.aggregation(2).0,
            _ => Query::select(self.projection(2).0),
        };
        query.ctes = ctes;
        let form = match self.finish(&mut query) {
            true => Form::Sample,
            false if self.dice.one_in(8) => Form::Prepared,
            false if self.dice.one_in(20) => Form::Explained(self.dice.word(&EXPLAIN)),
            false => Form::Plain,
        };
        Test { query, form }
    }

    fn common_tables(&mut self) -> Vec<(String, Query)> {
        let count = self.dice.between(1, 2);
        let mut ctes = Vec::new();
        for _ in 0..count {
            let (query, columns, rows) = self.nested(1);
            let name = self.alias("cte");
            self.ctes.push((name.clone(), columns, rows));
            ctes.push((name, query));
        }
        ctes
    }

    /// Draws order and limit at the top. Returns whether the limit takes any rows.
    fn finish(&mut self, query: &mut Query) -> bool {
        let sorts = query.items().iter().all(|item| item_sorts(item) && !item.approximate);
        if !sorts {
            return false;
        }
        match self.dice.below(10) {
            0..=1 => query.order = Order::All(self.dice.word(&DIRECTIONS)),
            2..=3 => {
                let item = self.dice.below(query.items().len());
                query.order = Order::By(vec![Key { item, direction: self.dice.word(&DIRECTIONS) }]);
            }
            4..=5 => {
                query.order = Order::All(self.dice.word(&DIRECTIONS));
                query.limit = Some(self.limit());
            }
            6 if matches!(query.body, Body::Select(_)) => {
                query.limit = Some(Limit { rows: Some(self.dice.between(1, 40)), offset: 0 });
                return true;
            }
            _ => {}
        }
        false
    }

    fn limit(&mut self) -> Limit {
        let rows = *self.dice.pick(&[0, 1, 2, 10, 10, 50, 1000]);
        match self.dice.below(5) {
            0 => Limit { rows: Some(rows), offset: *self.dice.pick(&[1, 5, 100]) },
            1 => Limit { rows: None, offset: *self.dice.pick(&[1, 7, 300]) },
            _ => Limit { rows: Some(rows), offset: 0 },
        }
    }

    /// Draws a subquery. Returns its columns by name and its maximum number of rows.
    pub(crate) fn nested(&mut self, depth: usize) -> (Query, Vec<Named>, usize) {
        match self.dice.below(12) {
            0 => {
                let query = self.set_operation(depth);
                let columns = query.items().iter().map(|item| column(item, false)).collect();
                (query, columns, 2000)
            }
            1..=2 => {
                let (query, rows) = self.aggregation(depth);
                let columns = query.items().iter().map(|item| column(item, false)).collect();
                (query, columns, rows)
            }
            3..=6 if self.shapes.limits => self.limited(depth),
            _ => {
                let (select, columns, rows) = self.projection(depth);
                (Query::select(select), columns, rows)
            }
        }
    }

    /// Draws a query with a limit over a total order.
    fn limited(&mut self, depth: usize) -> (Query, Vec<Named>, usize) {
        let Drawn { relation, scope, rows } =
            if self.dice.one_in(3) { self.relation(depth) } else { self.table() };
        let mut items = Vec::new();
        let mut columns: Vec<Named> = Vec::new();
        let unique = scope.iter().position(|column| column.unique);
        let key = unique.filter(|_| self.dice.below(4) > 0);
        let chosen: Vec<usize> = (0..self.dice.between(1, 4)).map(|_| self.dice.below(scope.len())).collect();
        for at in key.into_iter().chain(chosen) {
            let from = &scope[at];
            if from.sorts || key.is_some() {
                let name = format!("x{}", items.len());
                items.push(Item {
                    expr: from.expr(),
                    name: name.clone(),
                    fixed: key == Some(at),
                    approximate: false,
                });
                columns.push(Named { sql: name, ..from.clone() });
            }
        }
        if items.is_empty() {
            items.push(Item::new(Expr::text(Class::Int, "1"), "x0"));
            columns.push(column(&items[0], false));
        }
        let filter = if self.dice.one_in(3) { vec![self.condition(&scope, 1)] } else { Vec::new() };
        let mut query = Query::select(Select { filter, ..Select::of(items, relation) });
        let direction = *self.dice.pick(&DIRECTIONS);
        query.order = match key {
            Some(_) => Order::By(vec![Key { item: 0, direction }]),
            None => Order::All(direction),
        };
        query.limit = Some(self.limit());
        (query, columns, rows.min(1000))
    }

    /// Draws a select without aggregates: columns, expressions and window functions.
    pub(crate) fn projection(&mut self, depth: usize) -> (Select, Vec<Named>, usize) {
        let Drawn { relation, scope, rows } = self.relation(depth);
        let filter = self.filter(&scope, depth);
        let count = self.dice.between(1, 6);
        let mut items = Vec::new();
        let mut columns: Vec<Named> = Vec::new();
        for _ in 0..count {
            let name = format!("x{}", items.len());
            if self.dice.one_in(2) {
                let from = self.dice.pick(&scope).clone();
                items.push(Item::new(from.expr(), &name));
                columns.push(Named { sql: name, ..from });
            } else {
                let expr = match self.window(&scope) {
                    Some(window) if self.dice.one_in(5) => window,
                    _ => self.any_expr(&scope, 2),
                };
                items.push(Item::new(expr, &name));
                columns.push(column(&items[items.len() - 1], false));
            }
        }
        let distinct = self.dice.one_in(10) && columns.iter().all(|column| column.sorts);
        if self.dice.one_in(40) && depth == 2 {
            // No column at all is read.
            items = vec![Item::new(Expr::text(Class::Int, "1"), "x0")];
            columns = vec![column(&items[0], false)];
        }
        if distinct {
            columns.iter_mut().for_each(|column| column.unique = false);
        }
        (Select { distinct, filter, ..Select::of(items, relation) }, columns, rows)
    }

    pub(crate) fn filter(&mut self, scope: &[Named], depth: usize) -> Vec<Expr> {
        let conjuncts = self.dice.weighted(&[(3, 0), (4, 1), (2, 2), (1, 3)]);
        (0..conjuncts).map(|_| self.condition(scope, depth.max(1))).collect()
    }

    fn set_operation(&mut self, depth: usize) -> Query {
        let op = *self.dice.pick(&[
            "UNION ALL",
            "UNION ALL",
            "UNION",
            "INTERSECT",
            "EXCEPT",
            "INTERSECT ALL",
            "EXCEPT ALL",
        ]);
        let count = self.dice.between(1, 3);
        let classes: Vec<Class> = (0..count)
            .map(|_| {
                *self.dice.pick(&[
                    Class::Int,
                    Class::Text,
                    Class::Decimal,
                    Class::Date,
                    Class::Bool,
                    Class::Float,
                ])
            })
            .collect();
        let [left, right] = [(); 2].map(|()| {
            let Drawn { relation, scope, .. } = if depth > 1 { self.relation(1) } else { self.table() };
            let filter = self.filter(&scope, 1);
            let items = classes
                .iter()
                .enumerate()
                .map(|(at, class)| Item::new(self.expr(*class, &scope, 1), &format!("x{at}")));
            let items = items.collect();
            Query::select(Select { filter, ..Select::of(items, relation) })
        });
        Query {
            ctes: Vec::new(),
            body: Body::Set(op, Box::new(left), Box::new(right)),
            order: Order::None,
            limit: None,
        }
    }
}

impl Item {
    pub(crate) fn new(expr: Expr, name: &str) -> Self {
        Item { expr, name: name.to_owned(), fixed: false, approximate: false }
    }
}

impl Select {
    pub(crate) fn of(items: Vec<Item>, from: Relation) -> Self {
        Select { distinct: false, items, from, filter: Vec::new(), group: Group::None, having: Vec::new() }
    }
}

/// Returns the column of an item.
pub(crate) fn column(item: &Item, exact: bool) -> Named {
    Named {
        sql: item.name.clone(),
        class: item.expr.class,
        origin: None,
        unique: false,
        sorts: item_sorts(item),
        exact,
    }
}

fn item_sorts(item: &Item) -> bool {
    !matches!(item.expr.class, Class::Map | Class::Interval | Class::Null)
}
