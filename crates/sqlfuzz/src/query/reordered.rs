//! The same query with its conditions in other orders. SQL leaves the order of evaluation of a condition's
//! parts open. So a part that fails for some rows may or may not be evaluated on them.

use super::{Body, Expr, Group, Item, Join, Part, Query, Relation, Select};

/// Limit of the orders that are tried per query.
const ORDERS_MAX: usize = 6;

/// Returns the query with the conjuncts of each condition rotated, by one place, by two, and so on, until
/// every conjunct was the last.
pub(crate) fn reordered(query: &Query) -> Vec<Query> {
    let mut rotation = Rotation { by: 0, longest: 0 };
    rotation.query(query);
    (1..rotation.longest.min(ORDERS_MAX)).map(|by| Rotation { by, longest: 0 }.query(query)).collect()
}

struct Rotation {
    by: usize,
    /// The largest number of conjuncts of a condition.
    longest: usize,
}

impl Rotation {
    fn query(&mut self, query: &Query) -> Query {
        let ctes = query.ctes.iter().map(|(name, query)| (name.clone(), self.query(query))).collect();
        let body = match &query.body {
            Body::Select(select) => Body::Select(Box::new(self.select(select))),
            Body::Set(op, left, right) => {
                Body::Set(op, Box::new(self.query(left)), Box::new(self.query(right)))
            }
        };
        Query { ctes, body, ..query.clone() }
    }

    fn select(&mut self, select: &Select) -> Select {
        let items = select.items.iter().map(|item| Item { expr: self.expr(&item.expr), ..item.clone() });
        // Group keys are also columns of the result and must have the same text there.
        let items = if matches!(select.group, Group::None) { items.collect() } else { select.items.clone() };
        Select {
            items,
            from: self.relation(&select.from),
            filter: self.conjuncts(&select.filter),
            having: self.conjuncts(&select.having),
            ..select.clone()
        }
    }

    fn relation(&mut self, relation: &Relation) -> Relation {
        match relation {
            Relation::Named(..) => relation.clone(),
            Relation::Sub(query, alias) => Relation::Sub(Box::new(self.query(query)), alias.clone()),
            Relation::Join(join) => Relation::Join(Box::new(Join {
                left: self.relation(&join.left),
                right: self.relation(&join.right),
                on: self.conjuncts(&join.on),
                ..join.as_ref().clone()
            })),
        }
    }

    fn conjuncts(&mut self, of: &[Expr]) -> Vec<Expr> {
        let mut all = Vec::new();
        of.iter().for_each(|expr| flatten(expr, &mut all));
        let mut all: Vec<Expr> = all.into_iter().map(|expr| self.inner(expr)).collect();
        self.longest = self.longest.max(all.len());
        if !all.is_empty() {
            let by = self.by % all.len();
            all.rotate_left(by);
        }
        all
    }

    fn expr(&mut self, expr: &Expr) -> Expr {
        if conjunction(expr).is_none() {
            return self.inner(expr);
        }
        let conjuncts = self.conjuncts(std::slice::from_ref(expr)).into_iter();
        let together = conjuncts.reduce(|left, right| Expr::of(expr.class, "({} AND {})", [left, right]));
        together.expect("a conjunction has conjuncts")
    }

    /// Returns the expression with its inner expressions rotated.
    fn inner(&mut self, expr: &Expr) -> Expr {
        let parts = expr.parts.iter().map(|part| match part {
            Part::Text(_) => part.clone(),
            Part::Expr(expr) => Part::Expr(self.expr(expr)),
            Part::Query(query) => Part::Query(Box::new(self.query(query))),
        });
        Expr { parts: parts.collect(), ..expr.clone() }
    }
}

/// Returns both sides of an AND that is no guard. A guard is one template.
fn conjunction(expr: &Expr) -> Option<[&Expr; 2]> {
    match &expr.parts[..] {
        [Part::Text(open), Part::Expr(left), Part::Text(and), Part::Expr(right), Part::Text(close)]
            if open == "(" && and == " AND " && close == ")" =>
        {
            Some([left, right])
        }
        _ => None,
    }
}

fn flatten<'a>(expr: &'a Expr, into: &mut Vec<&'a Expr>) {
    match conjunction(expr) {
        Some(sides) => sides.into_iter().for_each(|side| flatten(side, into)),
        None => into.push(expr),
    }
}
