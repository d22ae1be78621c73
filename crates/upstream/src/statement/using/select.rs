//! Queries: their SELECTs, in which `*` becomes a list if columns are merged, and ORDER BY.

use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    Cte, ExcludeSelectItem, Expr, Ident, ObjectName, OrderBy, OrderByKind, Query, RenameSelectItem, Select,
    SelectItem, SetExpr, Value, WildcardAdditionalOptions,
};

use super::columns::{Named, Scope};
use super::merged::MERGED;
use super::{Mender, names_keys};

impl Mender<'_> {
    /// Rewrites a query as a whole.
    ///
    /// # Errors
    /// If a join by names cannot be rewritten.
    pub(super) fn query(&mut self, query: &mut Query) -> Result<()> {
        let around = self.tables.len();
        if let Some(with) = &mut query.with {
            for table in &mut with.cte_tables {
                self.table_of_with(table, with.recursive)?;
            }
        }
        let (order_by, limit) = (&mut query.order_by, &mut query.limit_clause);
        match query.body.as_mut() {
            SetExpr::Select(select) => self.select(select, order_by.as_mut())?,
            body => {
                self.body(body)?;
                order_by.as_mut().map_or(Ok(()), |order| self.names(order))?;
            }
        }
        limit.as_mut().map_or(Ok(()), |limit| self.names(limit))?;
        self.tables.truncate(around);
        Ok(())
    }

    fn table_of_with(&mut self, table: &mut Cte, recursive: bool) -> Result<()> {
        let mut first = table.clone();
        if recursive && let SetExpr::SetOperation { left, right, .. } = table.query.body.as_mut() {
            self.body(left)?;
            // The other side, and the query, read the columns of the first side.
            first.query.body = left.clone();
            self.tables.push(first);
            self.body(right)
        } else {
            self.query(&mut table.query)?;
            self.tables.push(table.clone());
            Ok(())
        }
    }

    fn body(&mut self, body: &mut SetExpr) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.select(select, None),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left)?;
                self.body(right)
            }
            other => self.names(other),
        }
    }

    fn select(&mut self, select: &mut Select, order_by: Option<&mut OrderBy>) -> Result<()> {
        let strict = names_keys(&select.from);
        let wanted = strict || self.scopes.iter().any(Scope::has_merged);
        let mut from = std::mem::take(&mut select.from);
        let listed = self.listed_beside(&select.projection);
        let beside = |key: &str| listed.contains(key);
        let mut columns: Vec<Named> = Vec::new();
        for table in &mut from {
            let around = std::mem::replace(&mut self.strict, strict);
            let more = self.joined(table, &columns, wanted, &beside)?;
            self.strict = around;
            columns.extend(more);
        }
        let scope = Scope(columns);
        if scope.has_merged() {
            select.projection = self.without_wildcards(std::mem::take(&mut select.projection), &scope);
        }
        self.scopes.push(scope);
        let mut order_by = order_by;
        if let Some(order) = order_by.as_deref_mut() {
            self.order_of_columns(order, &select.projection);
        }
        let texts: Vec<Option<String>> = select.projection.iter().map(text).collect();
        self.names(select)?;
        for (item, text) in select.projection.iter_mut().zip(texts) {
            named_as_written(item, text);
        }
        if let Some(order) = order_by {
            self.names(order)?;
        }
        self.scopes.pop();
        select.from = from;
        Ok(())
    }

    /// Returns the column names that are listed with and without a table.
    fn listed_beside(&self, projection: &[SelectItem]) -> Beside {
        let mut beside = Beside::default();
        for item in projection {
            match item {
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => beside.bare.push(self.folded(name)),
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                    beside.qualified.extend(names.last().map(|name| self.folded(name)));
                }
                SelectItem::Wildcard(_) => beside.all = true,
                SelectItem::QualifiedWildcard(..) => beside.all_of_a_table = true,
                _ => {}
            }
        }
        beside
    }

    /// Replaces `*` in the list by columns, merged ones once and first.
    fn without_wildcards(&self, projection: Vec<SelectItem>, scope: &Scope) -> Vec<SelectItem> {
        let listed = |item| match item {
            SelectItem::Wildcard(options) => self.all(&options, scope),
            item => vec![item],
        };
        projection.into_iter().flat_map(listed).collect()
    }

    fn all(&self, options: &WildcardAdditionalOptions, scope: &Scope) -> Vec<SelectItem> {
        let of_name =
            |name: &ObjectName| name.0.last().and_then(|part| part.as_ident()).map(|name| self.folded(name));
        let mut left_out: Vec<String> = match &options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => of_name(name).into_iter().collect(),
            Some(ExcludeSelectItem::Multiple(names)) => names.iter().filter_map(of_name).collect(),
            None => Vec::new(),
        };
        if let Some(except) = &options.opt_except {
            let names = std::iter::once(&except.first_element).chain(&except.additional_elements);
            left_out.extend(names.map(|name| self.folded(name)));
        }
        let renamed = match &options.opt_rename {
            Some(RenameSelectItem::Single(one)) => std::slice::from_ref(one),
            Some(RenameSelectItem::Multiple(several)) => several.as_slice(),
            None => &[],
        };
        let replaced = options.opt_replace.as_ref().map_or(&[][..], |replace| replace.items.as_slice());
        let shown = scope.0.iter().filter(|column| !left_out.contains(&column.name));
        let item = |column: &Named| {
            if let Some(other) = replaced.iter().find(|other| self.folded(&other.column_name) == column.name)
            {
                return SelectItem::ExprWithAlias {
                    expr: other.expr.clone(),
                    alias: other.column_name.clone(),
                };
            }
            match renamed.iter().find(|other| self.folded(&other.ident) == column.name) {
                Some(other) => {
                    SelectItem::ExprWithAlias { expr: column.value.clone(), alias: other.alias.clone() }
                }
                None => SelectItem::UnnamedExpr(column.value.clone()),
            }
        };
        shown.map(item).collect()
    }

    /// Resolves ORDER BY by a simple name, which refers to a listed column if there is one.
    fn order_of_columns(&self, order: &mut OrderBy, projection: &[SelectItem]) {
        let (OrderByKind::Expressions(by), Some(scope)) = (&mut order.kind, self.scopes.last()) else {
            return;
        };
        for by in by {
            let Expr::Identifier(name) = &by.expr else { continue };
            let name = self.folded(name);
            if scope.merged(&name).is_none() {
                continue;
            }
            let of_table = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                    let last = names.last().map(|last| self.folded(last));
                    (last.as_ref() == Some(&name)).then(|| Expr::CompoundIdentifier(names.clone()))
                }
                _ => None,
            };
            let is_alias = |item: &SelectItem| match item {
                SelectItem::ExprWithAlias { alias, .. } => self.folded(alias) == name,
                _ => false,
            };
            if let Some(at) = projection.iter().position(is_alias) {
                by.expr = position(at + 1);
            } else if let Some(other) = projection.iter().find_map(of_table) {
                let is_bare = |item: &SelectItem| match item {
                    SelectItem::UnnamedExpr(Expr::Identifier(bare)) => self.folded(bare) == name,
                    _ => false,
                };
                if !projection.iter().any(is_bare) {
                    by.expr = other;
                }
            }
        }
    }
}

fn position(at: usize) -> Expr {
    Expr::value(Value::Number(at.to_string(), false))
}

/// Names of listed columns.
#[derive(Default)]
struct Beside {
    bare: Vec<String>,
    qualified: Vec<String>,
    all: bool,
    all_of_a_table: bool,
}

impl Beside {
    fn contains(&self, key: &str) -> bool {
        let is_among = |names: &[String]| names.iter().any(|name| name == key);
        let merged = self.all || is_among(&self.bare);
        merged && (self.all_of_a_table || is_among(&self.qualified))
    }
}

/// Returns the text of an expression without a name.
fn text(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => None,
        SelectItem::UnnamedExpr(expr) => Some(expr.to_string()),
        _ => None,
    }
}

/// Keeps names of relations with merged columns out of column names.
fn named_as_written(item: &mut SelectItem, text: Option<String>) {
    if let (SelectItem::UnnamedExpr(expr), Some(text)) = (&*item, text)
        && expr.to_string().contains(MERGED)
    {
        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::with_quote('"', text) };
    }
}
