//! All queries that are one step simpler than a given one.
//!
//! A step may produce an invalid query. DataFusion refuses it on both sides, which is no difference. But the
//! result must stay determined, so an order below a limit is not changed.

use super::{Body, Expr, Form, Group, Item, Join, Order, Part, Query, Relation, Select, Test};
use crate::data::kind::Class;

/// Returns the tests that are one step simpler.
pub(crate) fn simpler(test: &Test) -> Vec<Test> {
    let mut all: Vec<Test> =
        queries(&test.query).into_iter().map(|query| Test { query, ..test.clone() }).collect();
    if matches!(test.form, Form::Prepared | Form::Explained(_)) {
        all.push(Test { form: Form::Plain, ..test.clone() });
    }
    // A sample requires a limit.
    all.retain(|smaller| !test.is_sample() || smaller.query.limit.is_some());
    all
}

fn queries(query: &Query) -> Vec<Query> {
    let mut all = Vec::new();
    for (at, (name, cte)) in query.ctes.iter().enumerate() {
        all.push(Query { ctes: without(&query.ctes, at), ..query.clone() });
        for simpler in queries(cte) {
            let mut ctes = query.ctes.clone();
            ctes[at] = (name.clone(), simpler);
            all.push(Query { ctes, ..query.clone() });
        }
    }
    if query.limit.is_some() {
        all.push(Query { limit: None, ..query.clone() });
    } else if !matches!(query.order, Order::None) {
        all.push(Query { order: Order::None, ..query.clone() });
    }
    match &query.body {
        Body::Set(op, left, right) => {
            for side in [left, right] {
                all.push(Query { body: side.body.clone(), ..query.clone() });
            }
            for simpler in queries(left) {
                all.push(Query { body: Body::Set(op, Box::new(simpler), right.clone()), ..query.clone() });
            }
            for simpler in queries(right) {
                all.push(Query { body: Body::Set(op, left.clone(), Box::new(simpler)), ..query.clone() });
            }
        }
        Body::Select(select) => {
            all.extend((0..select.items.len()).filter_map(|at| without_item(query, select, at)));
            let simpler = selects(select).into_iter();
            all.extend(simpler.map(|select| Query { body: Body::Select(Box::new(select)), ..query.clone() }));
        }
    }
    all
}

/// Removes a column from the query's result.
fn without_item(query: &Query, select: &Select, at: usize) -> Option<Query> {
    let fixed = select.items[at].fixed && query.limit.is_some();
    if fixed || select.items.len() == 1 {
        return None;
    }
    let mut simpler = query.clone();
    simpler.body = Body::Select(Box::new(Select { items: without(&select.items, at), ..select.clone() }));
    if let Order::By(keys) = &mut simpler.order {
        keys.retain(|key| key.item != at);
        keys.iter_mut().filter(|key| key.item > at).for_each(|key| key.item -= 1);
        if keys.is_empty() {
            simpler.order = Order::None;
        }
    }
    Some(simpler)
}

fn selects(select: &Select) -> Vec<Select> {
    let mut all = Vec::new();
    if select.distinct {
        all.push(Select { distinct: false, ..select.clone() });
    }
    for relation in relations(&select.from) {
        all.push(Select { from: relation, ..select.clone() });
    }
    for filter in conjuncts(&select.filter) {
        all.push(Select { filter, ..select.clone() });
    }
    for having in conjuncts(&select.having) {
        all.push(Select { having, ..select.clone() });
    }
    match &select.group {
        Group::None => {}
        Group::By(keys) | Group::Sets(_, keys) => {
            for (at, key) in keys.iter().enumerate() {
                let keys = without(keys, at);
                // The text of the removed key must not stay in the result.
                let same = key_text(key);
                let mut items = select.items.clone();
                items.retain(|item| key_text(&item.expr) != same);
                if items.is_empty() {
                    continue;
                }
                let group = match &select.group {
                    _ if keys.is_empty() => Group::None,
                    Group::Sets(kind, _) => Group::Sets(kind, keys),
                    _ => Group::By(keys),
                };
                all.push(Select { group, items, ..select.clone() });
            }
        }
    }
    if let Group::Sets(_, keys) = &select.group {
        all.push(Select { group: Group::By(keys.clone()), ..select.clone() });
    }
    for (at, item) in select.items.iter().enumerate().filter(|(_, item)| !item.fixed) {
        for expr in exprs(&item.expr) {
            let mut items = select.items.clone();
            items[at] = Item { expr, ..item.clone() };
            all.push(Select { items, ..select.clone() });
        }
    }
    all
}

fn key_text(expr: &Expr) -> String {
    let mut text = String::new();
    for part in &expr.parts {
        match part {
            Part::Text(part) => text.push_str(part),
            Part::Expr(expr) => text.push_str(&key_text(expr)),
            Part::Query(query) => text.push_str(&query.to_sql()),
        }
    }
    text
}

fn relations(relation: &Relation) -> Vec<Relation> {
    match relation {
        Relation::Named(..) => Vec::new(),
        Relation::Sub(query, alias) => {
            queries(query).into_iter().map(|query| Relation::Sub(Box::new(query), alias.clone())).collect()
        }
        Relation::Join(join) => {
            let mut all = vec![join.left.clone(), join.right.clone()];
            let with = |join: Join| Relation::Join(Box::new(join));
            all.extend(
                relations(&join.left).into_iter().map(|left| with(Join { left, ..join.as_ref().clone() })),
            );
            all.extend(
                relations(&join.right).into_iter().map(|right| with(Join { right, ..join.as_ref().clone() })),
            );
            let on = conjuncts(&join.on).into_iter().filter(|on| !on.is_empty());
            all.extend(on.map(|on| with(Join { on, ..join.as_ref().clone() })));
            all
        }
    }
}

fn conjuncts(all: &[Expr]) -> Vec<Vec<Expr>> {
    let mut simpler: Vec<Vec<Expr>> = (0..all.len()).map(|at| without(all, at)).collect();
    for (at, conjunct) in all.iter().enumerate() {
        for expr in exprs(conjunct) {
            let mut next = all.to_vec();
            next[at] = expr;
            simpler.push(next);
        }
    }
    simpler
}

/// Returns a literal, an expression within this one, or this one with a simpler part.
fn exprs(expr: &Expr) -> Vec<Expr> {
    let mut all: Vec<Expr> = Vec::new();
    if expr.parts.len() > 1 {
        let literals: &[&str] = match expr.class {
            Class::Bool => &["true", "false"],
            Class::Int | Class::Float | Class::Decimal => &["1"],
            Class::Text => &["'a'"],
            _ => &[],
        };
        all.extend(literals.iter().map(|text| Expr::text(expr.class, *text)));
    }
    for part in &expr.parts {
        if let Part::Expr(inner) = part {
            all.push(inner.clone());
        }
    }
    if expr.parts.len() > 12 {
        // Removes half of a long list.
        let half = expr.parts.len() / 4 * 2;
        for range in [1..half + 1, half + 1..expr.parts.len() - 2] {
            let mut shorter = expr.clone();
            shorter.parts.drain(range);
            all.push(shorter);
        }
    }
    for (at, part) in expr.parts.iter().enumerate() {
        let simpler: Vec<Part> = match part {
            Part::Text(_) => continue,
            Part::Expr(inner) => exprs(inner).into_iter().map(Part::Expr).collect(),
            Part::Query(query) => {
                queries(query).into_iter().map(|query| Part::Query(Box::new(query))).collect()
            }
        };
        for part in simpler {
            let mut next = expr.clone();
            next.parts[at] = part;
            all.push(next);
        }
    }
    all
}

fn without<T: Clone>(all: &[T], at: usize) -> Vec<T> {
    all.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, one)| one.clone()).collect()
}
