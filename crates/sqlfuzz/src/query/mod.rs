//! Queries as trees: drawn from a seed, made smaller by the shrinker, rendered as SQL.
//!
//! What matters to the comparison is kept beside the text: which order is asked for, whether a limit cuts rows that
//! are determined, which results are sums that depend on the order of addition. A tree knows nothing of types beyond
//! their [`Class`]: a query that DataFusion refuses is refused with coscan, too, and that is compared like the rest.

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

/// A statement and how its result is to be compared.
#[derive(Clone, Debug)]
pub(crate) struct Test {
    pub(crate) query: Query,
    pub(crate) form: Form,
}

/// In which form a query is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    /// Literals become parameters of a prepared statement.
    Prepared,
    /// The limit at the top takes any rows: compared are their number and that the query without limit has them.
    Sample,
    /// For its plan, by this keyword: compared is whether there is one.
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
    /// What determines the order that a limit depends on; must stay as it is.
    pub(crate) fixed: bool,
    /// Depends on the order of addition.
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
    /// By all columns of the result, so that equal rows are the only ties.
    All(&'static str),
}

/// A column of the result to order by, counted from zero, and what stands behind it.
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
    /// A literal, which may become a parameter.
    pub(crate) literal: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text(String),
    Expr(Expr),
    Query(Box<Query>),
}

impl Expr {
    /// Text that stays as it is.
    pub(crate) fn text(class: Class, text: impl Into<String>) -> Self {
        Expr { class, parts: vec![Part::Text(text.into())], literal: false }
    }

    pub(crate) fn literal(class: Class, text: impl Into<String>) -> Self {
        Expr { literal: true, ..Expr::text(class, text) }
    }

    /// `template` with the expressions in place of each `{}`.
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

    /// Whether these words are in it, but for the queries in it.
    pub(crate) fn mentions(&self, words: &str) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Text(text) => text.contains(words),
            Part::Expr(expr) => expr.mentions(words),
            Part::Query(_) => false,
        })
    }

    /// `template` with an expression and then a query in place of its `{}`; the expression may be absent.
    pub(crate) fn with_query(class: Class, template: &str, expr: Option<Expr>, query: Query) -> Self {
        let mut texts = template.split("{}").map(str::to_owned);
        let mut parts = vec![Part::Text(texts.next().unwrap_or_default())];
        let inner = expr.map(Part::Expr).into_iter().chain([Part::Query(Box::new(query))]);
        for (part, text) in inner.zip(texts) {
            parts.extend([part, Part::Text(text)]);
        }
        Expr { class, parts, literal: false }
    }

    /// Expressions between commas, between `open` and `close`.
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

    /// Whether it may be a top-k, by its text.
    pub(crate) fn may_be_top_k(&self) -> bool {
        self.contains("ORDER BY") && self.contains("LIMIT")
    }

    /// Whether it skips rows and takes all others, by its text.
    pub(crate) fn only_skips(&self) -> bool {
        let sql = self.query.to_sql();
        let mut parts = sql.split("OFFSET").peekable();
        std::iter::from_fn(|| parts.next().filter(|_| parts.peek().is_some()))
            .any(|before| before.split_whitespace().rev().nth(1) != Some("LIMIT"))
    }

    /// Whether it groups by sets, by its text.
    pub(crate) fn has_grouping_sets(&self) -> bool {
        ["ROLLUP", "CUBE", "GROUPING SETS"].iter().any(|words| self.contains(words))
    }

    /// Whether a subquery begins with the largest or smallest value of a column, by its text.
    pub(crate) fn has_extreme(&self) -> bool {
        ["(SELECT max(", "(SELECT min("].iter().any(|words| self.contains(words))
    }

    /// Whether these words are in the query, at whatever depth.
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

    /// The columns by which the result is in order.
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
