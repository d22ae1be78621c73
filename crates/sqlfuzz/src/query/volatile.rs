//! Queries with volatile functions whose answer is still known: properties that every draw has, and counts
//! within bounds that chance does not exceed.

use super::draw::Drawer;
use super::relation::Drawn;
use super::{Expr, Item, Order, Query, Relation, Select};
use crate::data::kind::Class;

/// Fewer rows than this are too few for statistical bounds.
const ROWS_FOR_STATISTICS: usize = 400;

impl Drawer<'_> {
    /// Draws a query with one row that is the same in every run.
    pub(crate) fn volatile(&mut self) -> Query {
        if self.dice.one_in(2)
            && let Some(table) = self.database.tables.iter().find(|table| table.rows() >= ROWS_FOR_STATISTICS)
        {
            return counted(&table.name);
        }
        let Drawn { relation, scope, .. } = self.table();
        let filter = self.filter(&scope, 0);
        let choices: [(&str, &[&str], &str); 10] = [
            ("random()", &["s.r < 0.3"], "coalesce(max(s.r) < 0.3, true)"),
            ("random()", &["s.r >= 0.5"], "coalesce(min(s.r) >= 0.5, true)"),
            ("random()", &["s.r = s.r"], "count(*)"),
            ("random()", &["s.r < 0.6", "s.r > 0.2"], "coalesce(min(s.r) > 0.2 AND max(s.r) < 0.6, true)"),
            ("random()", &[], "coalesce(max(s.r - s.r) = 0, true)"),
            ("CAST(random() * 4 AS INT)", &["s.r IN (1, 3)"], "coalesce(min(s.r % 2) = 1, true)"),
            ("uuid()", &["s.r <> 'a'"], "count(DISTINCT s.r)"),
            ("now()", &["s.r = now()"], "count(*)"),
            ("volatile_random()", &["s.r < 0.3"], "coalesce(max(s.r) < 0.3, true)"),
            ("volatile_random()", &["s.r = s.r", "s.r >= 0.2"], "coalesce(min(s.r) >= 0.2, true)"),
        ];
        let (inner, conditions, outer) = *self.dice.pick(&choices);
        let inner = vec![Item::new(Expr::text(Class::Float, inner), "r")];
        let inner = Query::select(Select { filter, ..Select::of(inner, relation) });
        let items = vec![Item::new(Expr::text(Class::Bool, outer), "x0")];
        let filter = conditions.iter().map(|condition| Expr::text(Class::Bool, *condition)).collect();
        let from = Relation::Sub(Box::new(inner), "s".to_owned());
        Query { order: Order::None, ..Query::select(Select { filter, ..Select::of(items, from) }) }
    }
}

/// Returns a query with two textually equal conjuncts, each of which keeps half of the rows. Its bounds follow from
/// the rows that the table is seen to have: providers may leave out some of the files' rows.
fn counted(table: &str) -> Query {
    // Users' functions may have the names of `count` and `abs`.
    let rows = format!("(SELECT regr_count(1, 1) FROM {table})");
    // Ten standard deviations.
    let most = format!("10 * sqrt(0.1875 * {rows})");
    let near = format!("regr_count(1, 1) - 0.25 * {rows} BETWEEN -{most} AND {most}");
    let items = vec![Item::new(Expr::text(Class::Bool, near), "x0")];
    let half = || Expr::text(Class::Bool, "random() < 0.5");
    let from = Relation::Named(table.to_owned(), "a".to_owned());
    Query::select(Select { filter: vec![half(), half()], ..Select::of(items, from) })
}
