//! Walks over syntax trees, compiled once.
//!
//! sqlparser compiles the walk over all nodes of SQL again for each type of visitor: some ten seconds
//! each. Here all visitors share one walk, which calls them by a table of functions.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, LimitClause, NamedWindowDefinition, ObjectName, OrderBy, Query, Select, SelectItem,
    SetExpr, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};

/// A part of a syntax tree over which visitors walk.
pub trait Tree {
    /// Calls hooks on all nodes.
    #[doc(hidden)]
    fn walk(&self, hooks: &mut dyn Hooks) -> ControlFlow<()>;

    /// Calls hooks that change nodes on all nodes.
    #[doc(hidden)]
    fn walk_mut(&mut self, hooks: &mut dyn HooksMut) -> ControlFlow<()>;
}

/// Walks over a tree with a visitor.
pub fn visit<T: Tree + ?Sized, V: Visitor>(of: &T, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = Kept { visitor, end: None };
    let _ = of.walk(&mut kept);
    kept.end.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Walks over a tree with a visitor that changes it.
pub fn visit_mut<T: Tree + ?Sized, V: VisitorMut>(of: &mut T, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = Kept { visitor, end: None };
    let _ = of.walk_mut(&mut kept);
    kept.end.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Calls a function on all expressions of a tree, outer ones first.
pub fn visit_expressions<T: Tree + ?Sized, E>(
    of: &T,
    call: impl FnMut(&Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    struct Expressions<F>(F);
    impl<E, F: FnMut(&Expr) -> ControlFlow<E>> Visitor for Expressions<F> {
        type Break = E;
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<E> {
            (self.0)(expr)
        }
    }
    visit(of, &mut Expressions(call))
}

/// Calls a function on all expressions of a tree, inner ones first.
pub fn visit_expressions_mut<T: Tree + ?Sized, E>(
    of: &mut T,
    call: impl FnMut(&mut Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    struct Expressions<F>(F);
    impl<E, F: FnMut(&mut Expr) -> ControlFlow<E>> VisitorMut for Expressions<F> {
        type Break = E;
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<E> {
            (self.0)(expr)
        }
    }
    visit_mut(of, &mut Expressions(call))
}

/// Calls a function on all names of tables in a tree.
pub fn visit_relations<T: Tree + ?Sized, E>(
    of: &T,
    call: impl FnMut(&ObjectName) -> ControlFlow<E>,
) -> ControlFlow<E> {
    struct Relations<F>(F);
    impl<E, F: FnMut(&ObjectName) -> ControlFlow<E>> Visitor for Relations<F> {
        type Break = E;
        fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<E> {
            (self.0)(relation)
        }
    }
    visit(of, &mut Relations(call))
}

/// A visitor, and the value with which it ended the walk.
struct Kept<'a, V, B> {
    visitor: &'a mut V,
    end: Option<B>,
}

impl<V, B> Kept<'_, V, B> {
    fn keep(&mut self, found: ControlFlow<B>) -> ControlFlow<()> {
        match found {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(end) => {
                self.end = Some(end);
                ControlFlow::Break(())
            }
        }
    }
}

/// The one visitor for which the walk is compiled.
struct Walk<'a>(&'a mut dyn Hooks);
struct WalkMut<'a>(&'a mut dyn HooksMut);

macro_rules! hooks {
    ($($hook:ident: $node:ty),* $(,)?) => {
        /// What a visitor does on nodes.
        #[doc(hidden)]
        pub trait Hooks {
            $(fn $hook(&mut self, node: &$node) -> ControlFlow<()>;)*
        }

        /// What a visitor does on nodes that it may change.
        #[doc(hidden)]
        pub trait HooksMut {
            $(fn $hook(&mut self, node: &mut $node) -> ControlFlow<()>;)*
        }

        impl<V: Visitor> Hooks for Kept<'_, V, V::Break> {
            $(fn $hook(&mut self, node: &$node) -> ControlFlow<()> {
                let found = self.visitor.$hook(node);
                self.keep(found)
            })*
        }

        impl<V: VisitorMut> HooksMut for Kept<'_, V, V::Break> {
            $(fn $hook(&mut self, node: &mut $node) -> ControlFlow<()> {
                let found = self.visitor.$hook(node);
                self.keep(found)
            })*
        }

        impl Visitor for Walk<'_> {
            type Break = ();
            $(fn $hook(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$hook(node)
            })*
        }

        impl VisitorMut for WalkMut<'_> {
            type Break = ();
            $(fn $hook(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$hook(node)
            })*
        }
    };
}

hooks! {
    pre_visit_query: Query,
    post_visit_query: Query,
    pre_visit_select: Select,
    post_visit_select: Select,
    pre_visit_relation: ObjectName,
    post_visit_relation: ObjectName,
    pre_visit_table_factor: TableFactor,
    post_visit_table_factor: TableFactor,
    pre_visit_expr: Expr,
    post_visit_expr: Expr,
    pre_visit_statement: Statement,
    post_visit_statement: Statement,
    pre_visit_value: ValueWithSpan,
    post_visit_value: ValueWithSpan,
}

macro_rules! trees {
    ($($node:ty),*) => {$(
        impl Tree for $node {
            fn walk(&self, hooks: &mut dyn Hooks) -> ControlFlow<()> {
                self.visit(&mut Walk(hooks))
            }

            fn walk_mut(&mut self, hooks: &mut dyn HooksMut) -> ControlFlow<()> {
                VisitMut::visit(self, &mut WalkMut(hooks))
            }
        }
    )*};
}

trees!(
    Expr,
    GroupByExpr,
    LimitClause,
    NamedWindowDefinition,
    OrderBy,
    Query,
    Select,
    SelectItem,
    SetExpr,
    Statement,
    TableFactor
);

impl<T: Tree> Tree for Option<T> {
    fn walk(&self, hooks: &mut dyn Hooks) -> ControlFlow<()> {
        self.iter().try_for_each(|part| part.walk(hooks))
    }

    fn walk_mut(&mut self, hooks: &mut dyn HooksMut) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|part| part.walk_mut(hooks))
    }
}

impl<T: Tree> Tree for Vec<T> {
    fn walk(&self, hooks: &mut dyn Hooks) -> ControlFlow<()> {
        self.iter().try_for_each(|part| part.walk(hooks))
    }

    fn walk_mut(&mut self, hooks: &mut dyn HooksMut) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|part| part.walk_mut(hooks))
    }
}

impl<T: Tree + ?Sized> Tree for Box<T> {
    fn walk(&self, hooks: &mut dyn Hooks) -> ControlFlow<()> {
        (**self).walk(hooks)
    }

    fn walk_mut(&mut self, hooks: &mut dyn HooksMut) -> ControlFlow<()> {
        (**self).walk_mut(hooks)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    /// Names the nodes on which it is called, and ends the walk at a number.
    struct Named {
        calls: Vec<String>,
        last: Option<&'static str>,
    }

    impl VisitorMut for Named {
        type Break = usize;

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<usize> {
            self.calls.push(format!("query {query}"));
            ControlFlow::Continue(())
        }

        fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<usize> {
            self.calls.push(format!("table {table}"));
            ControlFlow::Continue(())
        }

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<usize> {
            self.calls.push(format!("expr {expr}"));
            match self.last == Some(expr.to_string().as_str()) {
                true => ControlFlow::Break(self.calls.len()),
                false => ControlFlow::Continue(()),
            }
        }
    }

    #[test]
    fn a_visitor_is_called_as_by_sqlparser() {
        let sql = "WITH c AS (SELECT a + 1 AS b FROM t) SELECT * FROM c JOIN d USING (b) WHERE b IN (SELECT x FROM e) ORDER BY -b";
        let parsed = Parser::parse_sql(&GenericDialect {}, sql).expect("SQL");
        for last in [None, Some("1"), Some("b IN (SELECT x FROM e)")] {
            let (mut ours, mut theirs) =
                (Named { calls: Vec::new(), last }, Named { calls: Vec::new(), last });
            let ended = visit_mut(&mut parsed.clone(), &mut ours);
            assert_eq!(ended, VisitMut::visit(&mut parsed.clone(), &mut theirs));
            assert_eq!((ours.calls, ended.is_break()), (theirs.calls, last.is_some()));
        }
        let mut seen = Vec::new();
        let _ = visit_relations(&parsed, |name| -> ControlFlow<()> {
            seen.push(name.to_string());
            ControlFlow::Continue(())
        });
        assert_eq!(seen, ["t", "c", "d", "e"]);
    }
}
