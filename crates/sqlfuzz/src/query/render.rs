//! Trees as SQL text.

use std::fmt::Write;

use super::{Body, Expr, Form, Group, Item, Join, Limit, Order, Part, Query, Relation, Select, Test};

/// SQL to run, and the statements to run before in the same session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) prepare: Option<String>,
    pub(crate) sql: String,
}

impl Test {
    /// Returns the statement. Prepared ones get this name.
    pub(crate) fn statement(&self, name: &str) -> Statement {
        match self.form {
            Form::Plain | Form::Sample => return Statement { prepare: None, sql: self.query.to_sql() },
            Form::Explained(keyword) => {
                return Statement { prepare: None, sql: format!("{keyword} {}", self.query.to_sql()) };
            }
            Form::Prepared => {}
        }
        let mut text = Text { sql: String::new(), parameters: Some(Vec::new()) };
        text.query(&self.query);
        match text.parameters {
            Some(values) if !values.is_empty() => Statement {
                prepare: Some(format!("PREPARE {name} AS {}", text.sql)),
                sql: format!("EXECUTE {name}({})", values.join(", ")),
            },
            _ => Statement { prepare: None, sql: self.query.to_sql() },
        }
    }
}

impl Query {
    /// Returns the query with its literals in place.
    pub(crate) fn to_sql(&self) -> String {
        let mut text = Text { sql: String::new(), parameters: None };
        text.query(self);
        text.sql
    }
}

struct Text {
    sql: String,
    /// The values of the parameters so far, if literals become parameters.
    parameters: Option<Vec<String>>,
}

impl Text {
    fn push(&mut self, text: &str) {
        self.sql.push_str(text);
    }

    fn between<T>(&mut self, separator: &str, of: &[T], mut each: impl FnMut(&mut Self, &T)) {
        for (at, one) in of.iter().enumerate() {
            if at > 0 {
                self.push(separator);
            }
            each(self, one);
        }
    }

    fn query(&mut self, query: &Query) {
        if !query.ctes.is_empty() {
            self.push("WITH ");
            self.between(", ", &query.ctes, |text, (name, query)| {
                let _ = write!(text.sql, "{name} AS (");
                text.query(query);
                text.push(")");
            });
            self.push(" ");
        }
        match &query.body {
            Body::Select(select) => self.select(select),
            Body::Set(op, left, right) => {
                self.push("(");
                self.query(left);
                let _ = write!(self.sql, ") {op} (");
                self.query(right);
                self.push(")");
            }
        }
        match &query.order {
            Order::None => {}
            Order::By(keys) => {
                let keys: Vec<String> =
                    keys.iter().map(|key| format!("{}{}", key.item + 1, key.direction)).collect();
                if !keys.is_empty() {
                    let _ = write!(self.sql, " ORDER BY {}", keys.join(", "));
                }
            }
            Order::All(direction) => {
                let keys: Vec<String> =
                    (1..=query.items().len()).map(|at| format!("{at}{direction}")).collect();
                let _ = write!(self.sql, " ORDER BY {}", keys.join(", "));
            }
        }
        if let Some(Limit { rows, offset }) = query.limit {
            if let Some(rows) = rows {
                let _ = write!(self.sql, " LIMIT {rows}");
            }
            if offset > 0 {
                let _ = write!(self.sql, " OFFSET {offset}");
            }
        }
    }

    fn select(&mut self, select: &Select) {
        self.push(if select.distinct { "SELECT DISTINCT " } else { "SELECT " });
        self.between(", ", &select.items, |text, Item { expr, name, .. }| {
            text.expr(expr);
            let _ = write!(text.sql, " AS {name}");
        });
        self.push(" FROM ");
        self.relation(&select.from);
        self.conjuncts(" WHERE ", &select.filter);
        match &select.group {
            Group::None => {}
            Group::By(keys) => {
                self.push(" GROUP BY ");
                self.between(", ", keys, Self::expr);
            }
            Group::Sets(kind, keys) => {
                let _ = write!(self.sql, " GROUP BY {kind} (");
                self.between(", ", keys, |text, key| {
                    if *kind == "GROUPING SETS" {
                        text.push("(");
                    }
                    text.expr(key);
                    if *kind == "GROUPING SETS" {
                        text.push(")");
                    }
                });
                self.push(")");
            }
        }
        self.conjuncts(" HAVING ", &select.having);
    }

    fn conjuncts(&mut self, keyword: &str, conjuncts: &[Expr]) {
        if !conjuncts.is_empty() {
            self.push(keyword);
            self.between(" AND ", conjuncts, Self::expr);
        }
    }

    fn relation(&mut self, relation: &Relation) {
        match relation {
            Relation::Named(name, alias) => {
                let _ = write!(self.sql, "{name} AS {alias}");
            }
            Relation::Sub(query, alias) => {
                self.push("(");
                self.query(query);
                let _ = write!(self.sql, ") AS {alias}");
            }
            Relation::Join(join) => {
                let Join { kind, left, right, on } = join.as_ref();
                self.relation(left);
                let _ = write!(self.sql, " {kind} JOIN ");
                self.relation(right);
                self.conjuncts(" ON ", on);
            }
        }
    }

    fn expr(&mut self, expr: &Expr) {
        if expr.literal && self.parameters.is_some() {
            let inner = std::mem::take(&mut self.parameters);
            let from = self.sql.len();
            self.parts(expr);
            let value = self.sql.split_off(from);
            let mut values = inner.unwrap_or_default();
            values.push(value);
            let _ = write!(self.sql, "${}", values.len());
            self.parameters = Some(values);
        } else {
            self.parts(expr);
        }
    }

    fn parts(&mut self, expr: &Expr) {
        for part in &expr.parts {
            match part {
                Part::Text(text) => self.push(text),
                Part::Expr(expr) => self.expr(expr),
                Part::Query(query) => self.query(query),
            }
        }
    }
}
