//! Queries as trees: drawn from a seed, shrunk, and rendered as SQL.
//!
//! The tree keeps the properties that matter to the comparison beside the text: the requested order, limits
//! over determined rows, and sums that depend on the order of addition. A tree knows no types beyond their
//! [`Class`]. If DataFusion refuses a query, it must be refused with coscan, too, and this is compared like
//! any answer.

mod aggregate;
mod by_keys;
mod draw;
mod expr;
mod panels;
mod relation;
mod render;
mod reordered;
mod simpler;
mod volatile;

pub(crate) use draw::draw;
pub(crate) use panels::draw_panels;
pub(crate) use render::Statement;
pub(crate) use reordered::reordered;
pub(crate) use simpler::simpler;

use crate::data::kind::Class;

/// A statement and the way to compare its result.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) query: Query,
    pub(crate) form: Form,
}

/// The form of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// Literals become parameters of a prepared statement.
    Prepared,
    /// The limit at the top takes any rows. Compared are their number and that they are rows of the query
    /// without limit.
    Sample,
    /// EXPLAIN by this keyword. Compared is whether there is a plan.
    Explained(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// Common table expressions.
    pub(crate) ctes: Vec<(String, Query)>,
    pub(crate) body: Body,
    pub(crate) order: Order,
    pub(crate) limit: Option<Limit>,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    /// `left op right`.
    Set(&'static str, Box<Query>, Box<Query>),
}

#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub(crate) distinct: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) from: Relation,
    /// Conjuncts.
    pub(crate) filter: Vec<Expr>,
    pub(crate) group: Group,
    pub(crate) having: Vec<Expr>,
}

/// A column of the result.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) expr: Expr,
    pub(crate) name: String,
    /// Whether it determines an order on which a limit depends, and must stay as it is.
    pub(crate) fixed: bool,
    /// Whether it depends on the order of addition.
    pub(crate) approximate: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Group {
    None,
    By(Vec<Expr>),
    /// `ROLLUP`, `CUBE` or `GROUPING SETS` over these.
    Sets(&'static str, Vec<Expr>),
}

#[derive(Clone, Debug)]
pub(crate) enum Relation {
    /// A table or common table expression under another name.
    Named(String, String),
    Sub(Box<Query>, String),
    Join(Box<Join>),
}

#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) kind: &'static str,
    pub(crate) left: Relation,
    pub(crate) right: Relation,
    /// Conjuncts; none with a cross join.
    pub(crate) on: Vec<Expr>,
}

/// The order of a query's result.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    None,
    By(Vec<Key>),
    /// By all columns of the result, so that only equal rows are ties.
    All(&'static str),
}

/// A column of the result to order by, counted from zero, and the text after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) item: usize,
    pub(crate) direction: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) rows: Option<usize>,
    pub(crate) offset: usize,
}

/// An expression: text with other expressions in it.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) class: Class,
    pub(crate) parts: Vec<Part>,
    /// Whether it is a literal, which may become a parameter.
    pub(crate) literal: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(String),
    Expr(Expr),
    Query(Box<Query>),
}

impl Expr {
    /// Returns a fixed text.
    pub(crate) fn text(class: Class, text: impl Into<String>) -> Self {
        Expr { class, parts: vec![Part::Text(text.into())], literal: false }
    }

    pub(crate) fn literal(class: Class, text: impl Into<String>) -> Self {
        Expr { literal: true, ..Expr::text(class, text) }
    }

    /// Returns `template` with the expressions in place of each `{}`.
    pub(crate) fn of(class: Class, template: &str, exprs: impl IntoIterator<Item = Expr>) -> Self {
        let mut parts = Vec::new();
        let mut exprs = exprs.into_iter();
        for (at, text) in template.split("{}").enumerate() {
            if at > 0 {
                parts.extend(exprs.next().map(Part::Expr));
            }
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
        }
        Expr { class, parts, literal: false }
    }

    /// Returns whether it contains these words, outside of its subqueries.
    pub(crate) fn mentions(&self, words: &str) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Text(text) => text.contains(words),
            Part::Expr(expr) => expr.mentions(words),
            Part::Query(_) => false,
        })
    }

    /// Returns `template` with an expression and then a query in place of its `{}`. The expression may be
    /// absent.
    pub(crate) fn with_query(class: Class, template: &str, expr: Option<Expr>, query: Query) -> Self {
        let mut texts = template.split("{}").map(str::to_owned);
        let mut parts = vec![Part::Text(texts.next().unwrap_or_default())];
        let inner = expr.map(Part::Expr).into_iter().chain([Part::Query(Box::new(query))]);
        for (part, text) in inner.zip(texts) {
            parts.extend([part, Part::Text(text)]);
        }
        Expr { class, parts, literal: false }
    }

    /// Returns expressions separated by commas, between `open` and `close`.
    pub(crate) fn list(class: Class, open: &str, exprs: Vec<Expr>, close: &str) -> Self {
        let mut parts = vec![Part::Text(open.to_owned())];
        for (at, expr) in exprs.into_iter().enumerate() {
            if at > 0 {
                parts.push(Part::Text(", ".to_owned()));
            }
            parts.push(Part::Expr(expr));
        }
        parts.push(Part::Text(close.to_owned()));
        Expr { class, parts, literal: false }
    }
}

impl Test {
    pub(crate) fn is_sample(&self) -> bool {
        self.form == Form::Sample
    }

    /// Returns whether it may be a top-k, by its text.
    pub(crate) fn may_be_top_k(&self) -> bool {
        self.contains("ORDER BY") && self.contains("LIMIT")
    }

    /// Returns whether it skips rows and takes all others, by its text.
    pub(crate) fn only_skips(&self) -> bool {
        let sql = self.query.to_sql();
        let mut parts = sql.split("OFFSET").peekable();
        std::iter::from_fn(|| parts.next().filter(|_| parts.peek().is_some()))
            .any(|before| before.split_whitespace().rev().nth(1) != Some("LIMIT"))
    }

    /// Returns whether it groups by sets, by its text.
    pub(crate) fn has_grouping_sets(&self) -> bool {
        ["ROLLUP", "CUBE", "GROUPING SETS"].iter().any(|words| self.contains(words))
    }

    /// Returns whether a subquery begins with the largest or smallest value of a column, by its text.
    pub(crate) fn has_extreme(&self) -> bool {
        ["(SELECT max(", "(SELECT min("].iter().any(|words| self.contains(words))
    }

    /// Returns whether the query contains these words, at any depth.
    pub(crate) fn contains(&self, words: &str) -> bool {
        self.query.to_sql().contains(words)
    }
}

impl Query {
    pub(crate) fn select(select: Select) -> Self {
        Query { ctes: Vec::new(), body: Body::Select(Box::new(select)), order: Order::None, limit: None }
    }

    /// The columns of the result.
    pub(crate) fn items(&self) -> &[Item] {
        match &self.body {
            Body::Select(select) => &select.items,
            Body::Set(_, left, _) => left.items(),
        }
    }

    /// The columns by which the result is ordered.
    pub(crate) fn ordered_by(&self) -> Vec<usize> {
        match &self.order {
            Order::None => Vec::new(),
            Order::By(keys) => keys.iter().map(|key| key.item).collect(),
            Order::All(_) => (0..self.items().len()).collect(),
        }
    }

    /// The columns that may differ in their last digits.
    pub(crate) fn approximate(&self) -> Vec<usize> {
        let items = self.items().iter().enumerate();
        items.filter(|(_, item)| item.approximate).map(|(at, _)| at).collect()
    }
}
