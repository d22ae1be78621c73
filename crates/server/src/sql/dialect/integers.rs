//! PostgreSQL's types of whole numbers.
//!
//! The query engine makes each whole constant a bigint and each part of a time an integer. In PostgreSQL the constant is an
//! integer, whose sum is a bigint, and the part is a number with a fraction. The type of a column does not tell them from
//! others, so they are found by what the column comes from.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, JoinType, LogicalPlan, Operator, TableScan,
    WindowFunctionDefinition,
};

use crate::sql::functions::TOLD_APART;

/// The type of a whole number. That of an operation is the greatest of its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whole {
    /// `smallint` or `integer`.
    Integer,
    Bigint,
    /// Has fractions in PostgreSQL.
    Fraction,
}

/// Functions whose result is one of their arguments, or has the type of them.
const OF_ARGUMENTS: [&str; 8] =
    ["abs", "coalesce", "generate_series", "greatest", "least", "make_array", "nvl", "range"];
/// Functions with the type of their first argument, or of its elements.
const OF_FIRST: [&str; 3] = ["array_element", "nullif", TOLD_APART];
/// Functions that give numbers with fractions.
const OF_FRACTIONS: [&str; 3] = ["date_part", "factorial", "round"];
/// Aggregates and functions of windows with the type of their argument.
const OF_ROWS: [&str; 11] = [
    "any_value",
    "array_agg",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "max",
    "min",
    "mode",
    "nth_value",
    "percentile_disc",
];

/// Expressions that are visited for one answer. Beyond, a number is what its type says.
const VISITED_MAX: usize = 1000;

/// The type of a whole number over the rows of these inputs.
pub(super) fn whole(of: &Expr, inputs: &[&LogicalPlan]) -> Whole {
    Search { left: VISITED_MAX }.expr(of, inputs)
}

fn of_type(of: &DataType) -> Whole {
    match of {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
            Whole::Integer
        }
        DataType::Null => Whole::Integer,
        DataType::List(of) => of_type(of.data_type()),
        _ => Whole::Bigint,
    }
}

fn of_constant(of: &ScalarValue) -> Whole {
    match of {
        ScalarValue::Int64(Some(number)) if i32::try_from(*number).is_err() => Whole::Bigint,
        ScalarValue::Int64(_) => Whole::Integer,
        of => of_type(&of.data_type()),
    }
}

struct Search {
    left: usize,
}

impl Search {
    fn greatest<'a>(&mut self, of: impl IntoIterator<Item = &'a Expr>, inputs: &[&LogicalPlan]) -> Whole {
        let mut greatest = Whole::Integer;
        for expr in of {
            greatest = greatest.max(self.expr(expr, inputs));
        }
        greatest
    }

    fn expr(&mut self, of: &Expr, inputs: &[&LogicalPlan]) -> Whole {
        let of_result = || {
            let known = inputs.first().and_then(|input| of.get_type(input.schema().as_ref()).ok());
            known.map_or(Whole::Bigint, |known| of_type(&known))
        };
        let Some(left) = self.left.checked_sub(1) else { return of_result() };
        self.left = left;
        match of {
            Expr::Alias(alias) => self.expr(&alias.expr, inputs),
            Expr::Literal(value, _) => of_constant(value),
            Expr::Column(column) => {
                let found = inputs
                    .iter()
                    .find_map(|input| Some((input, input.schema().maybe_index_of_column(column)?)));
                found.map_or(Whole::Bigint, |(input, at)| self.column(input, at))
            }
            Expr::OuterReferenceColumn(field, _) => of_type(field.data_type()),
            Expr::Cast(cast) => of_type(cast.field.data_type()),
            Expr::TryCast(cast) => of_type(cast.field.data_type()),
            Expr::Negative(of) => self.expr(of, inputs),
            Expr::BinaryExpr(of) if is_difference_of_dates(of, inputs) => Whole::Integer,
            Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
                self.greatest([left.as_ref(), right.as_ref()], inputs)
            }
            Expr::Case(of) => {
                let results = of.when_then_expr.iter().map(|(_, then)| then.as_ref());
                self.greatest(results.chain(of.else_expr.as_deref()), inputs)
            }
            Expr::Unnest(of) => self.expr(&of.expr, inputs),
            Expr::ScalarFunction(of) => match of.func.name() {
                name if OF_FRACTIONS.contains(&name) => Whole::Fraction,
                name if OF_FIRST.contains(&name) => self.greatest(of.args.first(), inputs),
                name if OF_ARGUMENTS.contains(&name) => self.greatest(&of.args, inputs),
                _ => of_result(),
            },
            Expr::AggregateFunction(AggregateFunction { func, params }) => {
                self.rows(func.name(), &params.args, inputs).unwrap_or_else(of_result)
            }
            Expr::WindowFunction(of) => {
                let WindowFunction { fun, params } = of.as_ref();
                let name = match fun {
                    WindowFunctionDefinition::AggregateUDF(of) => of.name(),
                    WindowFunctionDefinition::WindowUDF(of) => of.name(),
                };
                self.rows(name, &params.args, inputs).unwrap_or_else(of_result)
            }
            Expr::ScalarSubquery(of) => self.column(&of.subquery, 0),
            _ => of_result(),
        }
    }

    /// The result of a function of several rows. `None` if its type says what it is.
    fn rows(&mut self, name: &str, args: &[Expr], inputs: &[&LogicalPlan]) -> Option<Whole> {
        match name {
            "sum" => Some(self.greatest(args, inputs).max(Whole::Bigint)),
            name if OF_ROWS.contains(&name) => Some(self.greatest(args.first(), inputs)),
            _ => None,
        }
    }

    /// The column of a plan at this place.
    fn column(&mut self, plan: &LogicalPlan, at: usize) -> Whole {
        let of_result =
            || plan.schema().fields().get(at).map_or(Whole::Bigint, |field| of_type(field.data_type()));
        let Some(left) = self.left.checked_sub(1) else { return of_result() };
        self.left = left;
        match plan {
            LogicalPlan::Projection(of) => match of.expr.get(at) {
                Some(expr) => self.expr(expr, &[of.input.as_ref()]),
                None => of_result(),
            },
            LogicalPlan::SubqueryAlias(of) => self.column(&of.input, at),
            LogicalPlan::Subquery(of) => self.column(&of.subquery, at),
            LogicalPlan::Filter(of) => self.column(&of.input, at),
            LogicalPlan::Sort(of) => self.column(&of.input, at),
            LogicalPlan::Limit(of) => self.column(&of.input, at),
            LogicalPlan::Distinct(Distinct::All(of)) => self.column(of, at),
            LogicalPlan::Distinct(Distinct::On(of)) => match of.select_expr.get(at) {
                Some(expr) => self.expr(expr, &[of.input.as_ref()]),
                None => of_result(),
            },
            LogicalPlan::Aggregate(of) => {
                let keys = grouping_set_to_exprlist(&of.group_expr).unwrap_or_default();
                let first = plan.schema().fields().len().saturating_sub(of.aggr_expr.len());
                let expr = match at.checked_sub(first) {
                    Some(at) => of.aggr_expr.get(at),
                    None => keys.get(at).copied(),
                };
                expr.map_or_else(of_result, |expr| self.expr(expr, &[of.input.as_ref()]))
            }
            LogicalPlan::Window(of) => match at.checked_sub(of.input.schema().fields().len()) {
                None => self.column(&of.input, at),
                Some(at) => match of.window_expr.get(at) {
                    Some(expr) => self.expr(expr, &[of.input.as_ref()]),
                    None => Whole::Bigint,
                },
            },
            LogicalPlan::Join(of) => {
                let is_of_right = matches!(of.join_type, JoinType::RightSemi | JoinType::RightAnti);
                let left = if is_of_right { 0 } else { of.left.schema().fields().len() };
                match at.checked_sub(left) {
                    None => self.column(&of.left, at),
                    Some(at) => self.column(&of.right, at),
                }
            }
            LogicalPlan::Union(of) => {
                let mut greatest = Whole::Integer;
                for input in &of.inputs {
                    greatest = greatest.max(self.column(input, at));
                }
                greatest
            }
            LogicalPlan::Values(of) => self.greatest(of.values.iter().filter_map(|row| row.get(at)), &[]),
            LogicalPlan::RecursiveQuery(of) => self.column(&of.static_term, at),
            LogicalPlan::Unnest(of) => match of.dependency_indices.get(at) {
                Some(at) => self.column(&of.input, *at),
                None => of_result(),
            },
            LogicalPlan::TableScan(of) => match of_series(of) {
                true => Whole::Integer,
                false => self.table(of, at).unwrap_or_else(of_result),
            },
            _ => of_result(),
        }
    }

    /// The column of a view. `None` for other tables.
    fn table(&mut self, of: &TableScan, at: usize) -> Option<Whole> {
        let view = of.source.get_logical_plan()?;
        let at = match &of.projection {
            Some(columns) => *columns.get(at)?,
            None => at,
        };
        Some(self.column(view.as_ref(), at))
    }
}

/// Returns whether a table is a series of numbers.
fn of_series(of: &TableScan) -> bool {
    of.table_name.table().starts_with("generate_series(")
}

fn is_difference_of_dates(of: &BinaryExpr, inputs: &[&LogicalPlan]) -> bool {
    let is_date = |of: &Expr| {
        inputs.iter().any(|input| matches!(of.get_type(input.schema().as_ref()), Ok(DataType::Date32)))
    };
    of.op == Operator::Minus && is_date(&of.left) && is_date(&of.right)
}
