//! Tables in FROM and their joins.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
    Ident, Join, JoinConstraint, JoinOperator, ObjectName, SelectItem, SetExpr, TableAlias, TableFactor,
    TableWithJoins, Value,
};

use super::Mender;
use super::columns::{Named, Scope, select_all};
use super::merged::MERGED;

/// The unmatched rows that a join keeps, and the columns that it has.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Inner,
    Left,
    Right,
    Full,
    /// The columns of the left side only.
    OfLeft,
    /// The columns of the right side only.
    OfRight,
}

/// Returns whether the join has USING or NATURAL.
pub(super) fn is_by_name(join: &JoinOperator) -> bool {
    let constraint = match join {
        JoinOperator::Join(of)
        | JoinOperator::Inner(of)
        | JoinOperator::Left(of)
        | JoinOperator::LeftOuter(of)
        | JoinOperator::Right(of)
        | JoinOperator::RightOuter(of)
        | JoinOperator::FullOuter(of)
        | JoinOperator::LeftSemi(of)
        | JoinOperator::LeftAnti(of)
        | JoinOperator::RightSemi(of)
        | JoinOperator::RightAnti(of) => of,
        _ => return false,
    };
    matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
}

fn parts(join: &mut JoinOperator) -> (Kind, Option<&mut JoinConstraint>) {
    match join {
        JoinOperator::Join(of) | JoinOperator::Inner(of) => (Kind::Inner, Some(of)),
        JoinOperator::Left(of) | JoinOperator::LeftOuter(of) => (Kind::Left, Some(of)),
        JoinOperator::Right(of) | JoinOperator::RightOuter(of) => (Kind::Right, Some(of)),
        JoinOperator::FullOuter(of) => (Kind::Full, Some(of)),
        JoinOperator::LeftSemi(of) | JoinOperator::LeftAnti(of) => (Kind::OfLeft, Some(of)),
        JoinOperator::RightSemi(of) | JoinOperator::RightAnti(of) => (Kind::OfRight, Some(of)),
        _ => (Kind::Inner, None),
    }
}

impl Mender<'_> {
    /// Rewrites the joins of tables. Returns the columns of all, if `wanted`.
    ///
    /// `before` has the columns to which LATERAL tables may refer. `beside` says for which keys a table's own
    /// column is listed beside the merged one.
    pub(super) fn joined(
        &mut self,
        table: &mut TableWithJoins,
        before: &[Named],
        wanted: bool,
        beside: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Named>> {
        let mut columns = self.factor(&mut table.relation, before, wanted, beside)?;
        for mut join in std::mem::take(&mut table.joins) {
            let seen = [before, &columns].concat();
            let right = self.factor(&mut join.relation, &seen, wanted, beside)?;
            let (kind, constraint) = parts(&mut join.join_operator);
            let keys = match constraint {
                Some(JoinConstraint::On(on)) => {
                    self.scopes.push(Scope([columns.as_slice(), &right].concat()));
                    self.names(on)?;
                    self.scopes.pop();
                    None
                }
                Some(JoinConstraint::Using(names)) => Some(self.keys(names)?),
                Some(JoinConstraint::Natural) => Some(common(&columns, &right)),
                _ => None,
            };
            let (Some(keys), Some(constraint)) = (keys, constraint) else {
                columns = both(kind, columns, right);
                table.joins.push(join);
                continue;
            };
            let keys = keys.iter().map(|name| pair(name, &columns, &right)).collect::<Result<Vec<_>>>()?;
            let equal =
                keys.iter().map(|(left, right)| binary(&left.value, BinaryOperator::Eq, &right.value));
            let on = equal.reduce(|all, one| binary(&all, BinaryOperator::And, &one));
            match on {
                Some(on) => *constraint = JoinConstraint::On(on),
                None if kind == Kind::Inner => {
                    join.join_operator = JoinOperator::CrossJoin(JoinConstraint::None)
                }
                None => *constraint = JoinConstraint::On(Expr::value(Value::Boolean(true))),
            }
            table.joins.push(join);
            columns = self.merge(table, kind, keys, columns, right, beside)?;
        }
        Ok(columns)
    }

    fn factor(
        &mut self,
        factor: &mut TableFactor,
        before: &[Named],
        wanted: bool,
        beside: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Named>> {
        if let TableFactor::NestedJoin { table_with_joins, alias } = factor {
            let Some(alias) = alias.take() else {
                return self.joined(table_with_joins, before, wanted, beside);
            };
            // The alias hides the names of the tables, and the merged columns are its own.
            let table = std::mem::replace(table_with_joins.as_mut(), placeholder());
            *factor = derived(table, Vec::new(), alias)?;
        }
        match factor {
            TableFactor::Derived { lateral, subquery, .. } => {
                let scope = if *lateral { before.to_vec() } else { Vec::new() };
                self.scopes.push(Scope(scope));
                self.query(subquery)?;
                self.scopes.pop();
            }
            TableFactor::Table { args: None, .. } => {}
            _ => {
                self.scopes.push(Scope(before.to_vec()));
                self.names(factor)?;
                self.scopes.pop();
            }
        }
        if !wanted {
            return Ok(Vec::new());
        }
        match self.columns_of(factor) {
            Err(_) if !self.strict => Ok(Vec::new()),
            columns => columns,
        }
    }

    fn keys(&self, names: &[ObjectName]) -> Result<Vec<String>> {
        let name = |name: &ObjectName| match name.0.as_slice() {
            [part] if part.as_ident().is_some() => {
                Ok(part.as_ident().map(|name| self.folded(name)).unwrap_or_default())
            }
            _ => plan_err!("USING takes names of columns without a table, not {name}"),
        };
        let mut keys = Vec::new();
        for key in names.iter().map(name) {
            let key = key?;
            if keys.contains(&key) {
                return plan_err!("column name \"{key}\" appears more than once in USING clause");
            }
            keys.push(key);
        }
        Ok(keys)
    }

    /// Returns the columns of the last join: merged ones, then those of each side.
    fn merge(
        &mut self,
        table: &mut TableWithJoins,
        kind: Kind,
        keys: Vec<(Named, Named)>,
        left: Vec<Named>,
        right: Vec<Named>,
        beside: &dyn Fn(&str) -> bool,
    ) -> Result<Vec<Named>> {
        let relation = format!("{MERGED}{}", self.merged + 1);
        let mut computed = Vec::new();
        let mut columns = Vec::new();
        for (of_left, of_right) in keys {
            let name = of_left.name.clone();
            let same_type = are_alike(of_left.of.as_ref(), of_right.of.as_ref());
            let value = match kind {
                Kind::Inner | Kind::Left if same_type => of_left.value.clone(),
                Kind::Right if same_type => of_right.value.clone(),
                Kind::OfLeft => of_left.value.clone(),
                Kind::OfRight => of_right.value.clone(),
                _ => coalesce(&of_left.value, &of_right.value),
            };
            let is_side = matches!(kind, Kind::OfLeft | Kind::OfRight);
            let of = match (of_left.of, of_right.of) {
                (Some(left), Some(right)) if !same_type => type_union_coercion(&left, &right),
                (left, right) => {
                    if kind == Kind::Right {
                        right
                    } else {
                        left
                    }
                }
            };
            let is_computed = !is_side && (matches!(value, Expr::Function(_)) || beside(&name));
            let value = if is_computed {
                let alias = Ident::with_quote('"', format!("{MERGED}{name}"));
                computed.push(SelectItem::ExprWithAlias { expr: value, alias });
                Expr::CompoundIdentifier(vec![
                    Ident::with_quote('"', relation.as_str()),
                    Ident::with_quote('"', name.as_str()),
                ])
            } else {
                value
            };
            columns.push(Named { name, value, of, merged: true });
        }
        if !computed.is_empty() {
            self.merged += 1;
            let joined = std::mem::replace(table, placeholder());
            let alias = TableAlias {
                explicit: true,
                name: Ident::with_quote('"', relation),
                columns: Vec::new(),
                at: None,
            };
            *table = TableWithJoins { relation: derived(joined, computed, alias)?, joins: Vec::new() };
        }
        let is_key = |column: &Named| columns.iter().any(|key: &Named| key.name == column.name);
        let others: Vec<Named> =
            both(kind, left, right).into_iter().filter(|column| !is_key(column)).collect();
        columns.extend(others);
        Ok(columns)
    }
}

fn both(kind: Kind, left: Vec<Named>, right: Vec<Named>) -> Vec<Named> {
    match kind {
        Kind::OfLeft => left,
        Kind::OfRight => right,
        _ => left.into_iter().chain(right).collect(),
    }
}

/// Returns the names that both sides have, in the order of the left side.
fn common(left: &[Named], right: &[Named]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for column in left {
        if right.iter().any(|other| other.name == column.name) && !names.contains(&column.name) {
            names.push(column.name.clone());
        }
    }
    names
}

/// Returns the column of both sides.
fn pair(name: &str, left: &[Named], right: &[Named]) -> Result<(Named, Named)> {
    let only = |side: &str, columns: &[Named]| {
        let mut found = columns.iter().filter(|column| column.name == name);
        match (found.next(), found.next()) {
            (Some(column), None) => Ok(column.clone()),
            (None, _) => {
                plan_err!("column \"{name}\" specified in USING clause does not exist in {side} table")
            }
            (Some(_), Some(_)) => {
                plan_err!("common column name \"{name}\" appears more than once in {side} table")
            }
        }
    };
    Ok((only("left", left)?, only("right", right)?))
}

/// Returns whether a column of the one type may replace one of the other.
fn are_alike(left: Option<&DataType>, right: Option<&DataType>) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return true };
    let is_time = |of: &DataType| of.is_temporal();
    left == right || !((left.is_numeric() && right.is_numeric()) || (is_time(left) && is_time(right)))
}

fn binary(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left.clone()), op, right: Box::new(right.clone()) }
}

fn coalesce(left: &Expr, right: &Expr) -> Expr {
    let arg = |expr: &Expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr.clone()));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("coalesce")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![arg(left), arg(right)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Returns `(SELECT *, more FROM table) AS alias`.
fn derived(table: TableWithJoins, more: Vec<SelectItem>, alias: TableAlias) -> Result<TableFactor> {
    let mut subquery = select_all()?;
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        select.projection.extend(more);
        select.from = vec![table];
    }
    Ok(TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None })
}

fn placeholder() -> TableWithJoins {
    let nothing = TableFactor::UNNEST {
        alias: None,
        array_exprs: Vec::new(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
    TableWithJoins { relation: nothing, joins: Vec::<Join>::new() }
}
