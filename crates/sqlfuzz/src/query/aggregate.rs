//! Aggregations and window functions with determined results. A function that depends on the order of rows
//! has an order by a column without duplicates. Sums of floating-point values use values that no addition
//! rounds.

use super::draw::Drawer;
use super::relation::{Drawn, Named};
use super::{Expr, Group, Item, Query, Select};
use crate::data::kind::Class;

impl Drawer<'_> {
    /// Draws a query with aggregates. Returns its maximum number of rows, too.
    pub(crate) fn aggregation(&mut self, depth: usize) -> (Query, usize) {
        // Scans may compute sums and counts right above a table.
        let plain = self.dice.one_in(3);
        let drawn = if plain { self.table() } else { self.relation(depth) };
        self.aggregation_of(drawn, depth, plain)
    }

    /// Draws the same over a given relation. With `plain`, only aggregates that scans may compute.
    pub(crate) fn aggregation_of(&mut self, drawn: Drawn, depth: usize, plain: bool) -> (Query, usize) {
        let Drawn { relation, scope, rows } = drawn;
        let filter = self.filter(&scope, if plain { 0 } else { depth });
        let group = self.group(&scope, plain);
        let keys = match &group {
            Group::None => Vec::new(),
            Group::By(keys) | Group::Sets(_, keys) => keys.clone(),
        };
        let mut items: Vec<Item> =
            keys.iter().enumerate().map(|(at, key)| Item::new(key.clone(), &format!("x{at}"))).collect();
        if matches!(group, Group::Sets(..)) && self.dice.one_in(2) {
            let grouping = Expr::of(Class::Int, "grouping({})", [keys[0].clone()]);
            items.push(Item::new(grouping, &format!("x{}", items.len())));
        }
        let least = usize::from(keys.is_empty());
        for _ in 0..self.dice.between(least, 4) {
            let name = format!("x{}", items.len());
            let item = if plain {
                Item::new(self.sum_or_count(&scope), &name)
            } else {
                self.aggregate_item(&scope, &name, depth == 2, !keys.is_empty())
            };
            items.push(item);
        }
        let mut having = Vec::new();
        if self.dice.one_in(5) {
            let count = self.count(&scope);
            let op = *self.dice.pick(&[">", "<", ">=", "="]);
            let bound = Expr::literal(Class::Int, self.dice.below(6).to_string());
            having.push(Expr::of(Class::Bool, &format!("({{}} {op} {{}})"), [count, bound]));
        }
        let select = Select { filter, group, having, ..Select::of(items, relation) };
        (Query::select(select), if keys.is_empty() { 1 } else { rows })
    }

    /// Draws a sum, an average or a count.
    fn sum_or_count(&mut self, scope: &[Named]) -> Expr {
        let class = *self.dice.pick(&[Class::Decimal, Class::Decimal, Class::Int]);
        let depth = self.dice.below(3);
        match self.column_of(class, scope) {
            Some(column) if self.dice.one_in(2) => {
                let argument = match depth {
                    0 => column,
                    1 => Expr::of(class, "{} * (1 - {})", [column.clone(), column]),
                    _ => self.expr(class, scope, depth),
                };
                let averages = class == Class::Decimal && self.shapes.averages;
                let function = if averages { self.dice.word(&["sum", "avg"]) } else { "sum" };
                Expr::of(class, &format!("{function}({{}})"), [argument])
            }
            _ => self.count(scope),
        }
    }

    fn group(&mut self, scope: &[Named], plain: bool) -> Group {
        let count = self.dice.weighted(&[(4, 0), (5, 1), (3, 2), (1, 3)]);
        let mut keys = Vec::new();
        for _ in 0..count {
            let column = self.dice.pick(scope).clone();
            // The sign of a zero key would vary.
            if column.sorts && !matches!(column.class, Class::Float | Class::Null) {
                keys.push(column.expr());
            } else if !plain {
                let class = *self.dice.pick(&[Class::Int, Class::Text, Class::Bool]);
                let key = self.expr(class, scope, 1);
                keys.push(key);
            }
        }
        let mentions = |key: &Expr| scope.iter().any(|column| key.mentions(&column.sql));
        match keys.len() {
            0 => Group::None,
            // If a query groups by a column that is null outside its set, DataFusion takes it for a constant
            // and leaves out an order by it.
            _ if self.dice.one_in(6) && keys.iter().all(mentions) => {
                Group::Sets(self.dice.word(&["ROLLUP", "CUBE", "GROUPING SETS"]), keys)
            }
            _ => Group::By(keys),
        }
    }

    fn count(&mut self, scope: &[Named]) -> Expr {
        match self.dice.below(5) {
            0..=1 => Expr::text(Class::Int, "count(*)"),
            2 => Expr::text(Class::Int, "count(1)"),
            _ => {
                let nulls: Vec<&Named> = scope.iter().filter(|column| column.class == Class::Null).collect();
                let column = match nulls[..] {
                    // A function that takes all rows for values counts wrong only here.
                    [column, ..] if self.dice.one_in(2) => column.clone(),
                    _ => self.dice.pick(scope).clone(),
                };
                let distinct = if column.sorts && self.dice.one_in(4) { "DISTINCT " } else { "" };
                Expr::of(Class::Int, &format!("count({distinct}{{}})"), [column.expr()])
            }
        }
    }

    fn aggregate_item(&mut self, scope: &[Named], name: &str, top: bool, grouped: bool) -> Item {
        let unique = scope.iter().find(|column| column.unique).cloned();
        let exact: Vec<Named> = scope
            .iter()
            .filter(|c| c.exact && matches!(c.class, Class::Int | Class::Float | Class::Decimal))
            .cloned()
            .collect();
        let mut approximate = false;
        let expr = match self.dice.below(20) {
            0..=4 => self.count(scope),
            5..=8 => {
                let class = *self.dice.pick(&[Class::Int, Class::Decimal, Class::Decimal]);
                let depth = self.dice.below(3);
                let argument = self.expr(class, scope, depth);
                let distinct = if self.dice.one_in(8) { "DISTINCT " } else { "" };
                Expr::of(class, &format!("sum({distinct}{{}})"), [argument])
            }
            9 if self.shapes.averages => {
                let argument = self.expr(Class::Decimal, scope, 1);
                Expr::of(Class::Decimal, "avg({})", [argument])
            }
            10..=11 if !exact.is_empty() => {
                let column = self.dice.pick(&exact).clone();
                let averages = column.class != Class::Decimal || self.shapes.averages;
                let function = if averages { self.dice.word(&["sum", "avg"]) } else { "sum" };
                Expr::of(column.class, &format!("{function}({{}})"), [column.expr()])
            }
            12 if !exact.is_empty() && top => {
                approximate = true;
                let column = self.dice.pick(&exact).clone();
                let function = *self.dice.pick(&["stddev", "var_pop", "var_samp"]);
                Expr::of(Class::Float, &format!("{function}({{}})"), [column.expr()])
            }
            13..=14 if unique.is_some() => {
                let key = unique.map(|key| key.sql).unwrap_or_default();
                let argument = self.expr(Class::Text, scope, 1);
                let template = *self.dice.pick(&[
                    "array_agg({} ORDER BY @)",
                    "string_agg({}, ',' ORDER BY @)",
                    "first_value({} ORDER BY @)",
                    "last_value({} ORDER BY @ DESC)",
                    "nth_value({}, 2 ORDER BY @)",
                ]);
                let class = if template.starts_with("array") { Class::List } else { Class::Text };
                Expr::of(class, &template.replace('@', &key), [argument])
            }
            15 => {
                let argument = self.expr(Class::Bool, scope, 1);
                let function = *self.dice.pick(&["bool_and", "bool_or"]);
                Expr::of(Class::Bool, &format!("{function}({{}})"), [argument])
            }
            16 => {
                let argument = self.expr(Class::Int, scope, 1);
                let function = *self.dice.pick(&["bit_and", "bit_or", "bit_xor", "median"]);
                Expr::of(Class::Int, &format!("{function}({{}})"), [argument])
            }
            _ => {
                let mut column = self.dice.pick(scope).clone();
                if !column.sorts || matches!(column.class, Class::List | Class::Struct) {
                    column = scope[0].clone();
                }
                let by_chance = grouped && column.extremes_depend_on_order();
                let function = if by_chance { "count" } else { self.dice.word(&["min", "max"]) };
                Expr::of(column.class, &format!("{function}({{}})"), [column.expr()])
            }
        };
        let expr = if self.dice.one_in(6) {
            let condition = self.condition(scope, 1);
            let class = expr.class;
            Expr::of(class, "{} FILTER (WHERE {})", [expr, condition])
        } else {
            expr
        };
        Item { approximate, ..Item::new(expr, name) }
    }

    /// Draws a window function over this scope, if there is a column to order by.
    pub(crate) fn window(&mut self, scope: &[Named]) -> Option<Expr> {
        let key = scope.iter().find(|column| column.unique)?.sql.clone();
        let partition = self.dice.pick(scope).clone();
        let partition = if partition.sorts && partition.class != Class::Float && self.dice.one_in(2) {
            format!("PARTITION BY {} ", partition.sql)
        } else {
            String::new()
        };
        let direction = *self.dice.pick(&["", " DESC"]);
        let over = format!("OVER ({partition}ORDER BY {key}{direction})");
        let frame = *self.dice.pick(&[
            "",
            " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
            " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
        ]);
        let framed = format!("OVER ({partition}ORDER BY {key}{direction}{frame})");
        let class = *self.dice.pick(&[Class::Int, Class::Text, Class::Decimal]);
        let argument = self.expr(class, scope, 0);
        Some(match self.dice.below(8) {
            0 => Expr::text(Class::Int, format!("row_number() {over}")),
            1 => {
                let function = *self.dice.pick(&["rank()", "dense_rank()", "ntile(3)"]);
                Expr::text(Class::Int, format!("{function} {over}"))
            }
            2 => Expr::of(class, &format!("lag({{}}) {over}"), [argument]),
            6 => Expr::of(class, &format!("lead({{}}, 2) {over}"), [argument]),
            3 => Expr::of(class, &format!("first_value({{}}) {framed}"), [argument]),
            4 => Expr::of(Class::Int, &format!("count({{}}) {framed}"), [argument]),
            5 => Expr::of(class, &format!("max({{}}) {framed}"), [argument]),
            _ => {
                let argument = self.expr(Class::Decimal, scope, 0);
                Expr::of(Class::Decimal, &format!("sum({{}}) {framed}"), [argument])
            }
        })
    }
}
