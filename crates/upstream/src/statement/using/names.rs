//! Names of merged columns in expressions.

use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, VisitorMut};

use super::Mender;

use crate::walk::{Tree, visit_mut};

/// Replaces names in expressions and rewrites the subqueries in them.
pub(super) struct Names<'m, 'a> {
    mender: &'m mut Mender<'a>,
    /// The number of enclosing subqueries. Subqueries are rewritten as a whole.
    depth: usize,
}

impl<'m, 'a> Names<'m, 'a> {
    pub(super) fn of(mender: &'m mut Mender<'a>) -> Self {
        Names { mender, depth: 0 }
    }
}

impl VisitorMut for Names<'_, '_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        if self.depth == 0
            && let Err(error) = self.mender.query(query)
        {
            return ControlFlow::Break(error);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<DataFusionError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<DataFusionError> {
        if self.depth == 0
            && let Expr::Identifier(name) = expr
            && let Some(value) = self.mender.merged(name)
        {
            *expr = value;
        }
        ControlFlow::Continue(())
    }
}

impl Mender<'_> {
    /// Replaces the names of merged columns.
    ///
    /// # Errors
    /// If a subquery has a join by names that cannot be rewritten.
    pub(super) fn names<T: Tree>(&mut self, of: &mut T) -> Result<()> {
        match visit_mut(of, &mut Names::of(self)) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// Returns the value of the name if it refers to a merged column.
    fn merged(&self, name: &Ident) -> Option<Expr> {
        let name = self.folded(name);
        let nearest = self.scopes.iter().rev().find(|scope| scope.has(&name))?;
        nearest.merged(&name).cloned()
    }
}
