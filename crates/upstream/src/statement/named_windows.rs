//! Windows that begin with the name of another: `OVER (w RANGE BETWEEN ..)` with `WINDOW w AS (ORDER BY x)`.
//!
//! DataFusion 55 ignores the name, and with it the partition and the order of that window.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Select, SelectItem, VisitorMut, WindowSpec,
    WindowType,
};

use crate::walk::{Tree, visit_expressions_mut, visit_mut};

/// Completes such windows.
pub(crate) fn complete<T: Tree>(statement: &mut T) {
    let ControlFlow::Continue(()) = visit_mut(statement, &mut NamedWindows);
}

struct NamedWindows;

impl VisitorMut for NamedWindows {
    type Break = Infallible;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Infallible> {
        let mut named: BTreeMap<String, WindowSpec> = BTreeMap::new();
        for NamedWindowDefinition(name, definition) in &mut select.named_window {
            match definition {
                NamedWindowExpr::WindowSpec(spec) => {
                    extend(spec, &named);
                    named.insert(key(name), spec.clone());
                }
                NamedWindowExpr::NamedWindow(other) => {
                    if let Some(spec) = named.get(&key(other)) {
                        let spec = spec.clone();
                        named.insert(key(name), spec);
                    }
                }
            }
        }
        if named.is_empty() {
            return ControlFlow::Continue(());
        }
        let items = select.projection.iter_mut().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        });
        for expr in items.chain(select.qualify.as_mut()) {
            let _: ControlFlow<Infallible> = visit_expressions_mut(expr, |expr| {
                if let Expr::Function(function) = expr
                    && let Some(WindowType::WindowSpec(spec)) = &mut function.over
                {
                    extend(spec, &named);
                }
                ControlFlow::Continue(())
            });
        }
        ControlFlow::Continue(())
    }
}

fn key(name: &Ident) -> String {
    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() }
}

/// Adds the parts of the window that a specification names. An unknown name stays, and is an error of DataFusion.
fn extend(spec: &mut WindowSpec, named: &BTreeMap<String, WindowSpec>) {
    let Some(base) = spec.window_name.as_ref().and_then(|name| named.get(&key(name))) else { return };
    if spec.partition_by.is_empty() {
        spec.partition_by.clone_from(&base.partition_by);
    }
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    if spec.window_frame.is_none() {
        spec.window_frame.clone_from(&base.window_frame);
    }
    spec.window_name = None;
}
