//! Types of the columns of WITH RECURSIVE.
//!
//! DataFusion 55 casts the columns of the recursive term to the types of the first term, and rounds numbers that have more
//! digits: `1000::numeric`, then `b * 1.05`. Here such a column of the first term gets [`SCALE`] digits behind the point. A
//! column that is an integer and then has a fraction is refused, as in PostgreSQL.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err};
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CastKind, Cte, DataType as SqlType, ExactNumberInfo, Expr, Ident, Query, Select, SelectItem, SetExpr,
    SetOperator, Statement as Ast, Visitor, VisitorMut, With,
};

use crate::statement::known::{Known, options};
use crate::statement::using::{Read, read};
use crate::walk::{Tree, visit, visit_mut};

/// The digits behind the point of a column whose recursive term has more than the first one.
const SCALE: i64 = 20;
/// The most digits of a number.
const PRECISION: u64 = 38;

/// Widens the columns of first terms.
///
/// # Errors
/// If a column cannot keep the numbers of the recursive term.
pub(crate) async fn widen(
    state: &SessionState,
    statement: &mut Statement,
    types: Option<Arc<dyn TypePlanner>>,
) -> Result<()> {
    let is_recursive = match read(statement) {
        Some(Read::Statement(ast)) => is_recursive(ast),
        Some(Read::Query(query)) => is_recursive(query),
        None => false,
    };
    if !is_recursive {
        return Ok(());
    }
    let types = types.or_else(|| SessionStateBuilder::new_from_existing(state.clone()).type_planner().take());
    let known = Known::of(state, statement, types).await?;
    let mut terms = Terms { known: &known, tables: Vec::new(), around: Vec::new() };
    let visited = match read(statement) {
        Some(Read::Statement(ast)) => visit_mut(ast, &mut terms),
        Some(Read::Query(query)) => visit_mut(query, &mut terms),
        None => ControlFlow::Continue(()),
    };
    match visited {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

fn is_recursive<T: Tree>(of: &T) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            match query.with.as_ref().is_some_and(|with| with.recursive) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    visit(of, &mut Search).is_break()
}

/// The visitor that widens columns.
struct Terms<'a> {
    known: &'a Known<'a>,
    /// The tables of WITH of the enclosing queries, recursive ones with their first term only.
    tables: Vec<Cte>,
    /// The number of tables around each enclosing query.
    around: Vec<usize>,
}

impl VisitorMut for Terms<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        self.around.push(self.tables.len());
        if let Some(with) = &mut query.with {
            for table in &mut with.cte_tables {
                let first = if with.recursive { self.table(table) } else { Ok(table.clone()) };
                match first {
                    Ok(first) => self.tables.push(first),
                    Err(error) => return ControlFlow::Break(error),
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<DataFusionError> {
        self.tables.truncate(self.around.pop().unwrap_or_default());
        ControlFlow::Continue(())
    }
}

impl Terms<'_> {
    /// Widens the columns of a table. Returns it with its first term only.
    fn table(&self, table: &mut Cte) -> Result<Cte> {
        let mut first = table.clone();
        let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = table.query.body.as_mut()
        else {
            return Ok(first);
        };
        first.query.body = left.clone();
        first.query.order_by = None;
        first.query.limit_clause = None;
        // A term that cannot be planned by itself keeps its types.
        let (Some(types), Some(others)) = (self.types(&first, left), self.types(&first, right)) else {
            return Ok(first);
        };
        for (at, (of, other)) in types.iter().zip(&others).enumerate() {
            let scale = match (scale_of(of), other) {
                (None, _) => continue,
                (Some(scale), other) if scale_of(other).is_some_and(|other| other <= scale) => continue,
                (Some(_), other) if of.is_decimal() && other.is_decimal() => {
                    scale_of(other).unwrap_or_default().max(SCALE)
                }
                (Some(_), other) if other.is_decimal() || other.is_floating() => {
                    return Err(refused(&first, at, of, other));
                }
                _ => continue,
            };
            let widened = match left.as_mut() {
                SetExpr::Select(select) => with_scale(select, at, scale),
                _ => None,
            };
            if widened.is_none() {
                return Err(refused(&first, at, of, other));
            }
        }
        first.query.body = left.clone();
        Ok(first)
    }

    /// Returns the types of the columns of a term. The table itself has its first term only.
    fn types(&self, table: &Cte, term: &SetExpr) -> Option<Vec<DataType>> {
        let mut query = table.query.as_ref().clone();
        *query.body = term.clone();
        let tables: Vec<&Cte> = self.tables.iter().chain([table]).collect();
        let is_hidden = |at: usize| {
            let name = &tables[at].alias.name;
            tables[at + 1..].iter().any(|other| other.alias.name.value.eq_ignore_ascii_case(&name.value))
        };
        let visible = (0..tables.len()).filter(|&at| !is_hidden(at)).map(|at| tables[at].clone());
        let own = query.with.take().map(|with| with.cte_tables).unwrap_or_default();
        let cte_tables = visible.chain(own).collect();
        query.with = Some(With { with_token: AttachedToken::empty(), recursive: false, cte_tables });
        let plan = SqlToRel::new_with_options(self.known, options(self.known.state()))
            .sql_statement_to_plan(Ast::Query(Box::new(query)))
            .ok()?;
        Some(plan.schema().fields().iter().map(|field| field.data_type().clone()).collect())
    }
}

/// Returns the digits behind the point of an exact number.
fn scale_of(of: &DataType) -> Option<i64> {
    match of {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(i64::from(*scale)),
        of if of.is_integer() => Some(0),
        _ => None,
    }
}

/// Casts a column to a number with these digits.
fn with_scale(select: &mut Select, at: usize, scale: i64) -> Option<()> {
    let before = select.projection.get(..=at)?;
    let is_one =
        |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
    if !before.iter().all(is_one) {
        return None;
    }
    let item = select.projection.get_mut(at)?;
    let (expr, alias) = match item {
        SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), alias.clone()),
        SelectItem::UnnamedExpr(expr) => {
            let alias = match &*expr {
                Expr::Identifier(name) => name.clone(),
                Expr::CompoundIdentifier(names) => names.last()?.clone(),
                other => Ident::with_quote('"', other.to_string()),
            };
            (expr.clone(), alias)
        }
        _ => return None,
    };
    let data_type = SqlType::Numeric(ExactNumberInfo::PrecisionAndScale(PRECISION, scale));
    let expr =
        Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None };
    *item = SelectItem::ExprWithAlias { expr, alias };
    Some(())
}

fn refused(table: &Cte, at: usize, of: &DataType, other: &DataType) -> DataFusionError {
    let name = &table.alias.name.value;
    plan_datafusion_err!(
        "recursive query \"{name}\" column {} has type {} in non-recursive term but type {} overall: cast the output of the \
         non-recursive term to the correct type",
        at + 1,
        named(of),
        named(other)
    )
}

fn named(of: &DataType) -> &'static str {
    match of {
        DataType::Int8 | DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        of if of.is_integer() => "bigint",
        DataType::Float32 => "real",
        of if of.is_floating() => "double precision",
        _ => "numeric",
    }
}
