//! Operators and special forms of SQL that the query engine plans differently from PostgreSQL, or not at all.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::functions::datetime::date_part;
use datafusion::functions_nested::expr_fn::array_element;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, GetFieldAccess, Operator, ScalarUDF, cast, lit,
};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::interval::{interval_microseconds, interval_times};
use super::pattern::Substring;
use super::text::in_form_of;
use super::{any, arrays, json, whole_days};
use crate::sql::QueryError;
use crate::sql::arguments::{bound, is_untyped};
use crate::sql::dialect::{Numbers, Uuids};
use crate::sql::parameter_types::{beside, of_both};
use crate::values::type_of_texts;

/// The same state with PostgreSQL's meaning of these forms before the query engine's, and uuids of files as texts.
pub(crate) fn with_syntax(state: SessionState) -> SessionState {
    SessionStateBuilder::new_from_existing(with_operators(state))
        .with_relation_planners(vec![Arc::new(Uuids)])
        .build()
}

/// The same state with PostgreSQL's meaning of these forms before the query engine's.
pub(crate) fn with_operators(state: SessionState) -> SessionState {
    let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(Postgres::new()), Arc::new(Numbers)];
    planners.extend_from_slice(state.expr_planners());
    SessionStateBuilder::new_from_existing(state).with_expr_planners(planners).build()
}

#[derive(Debug)]
struct Postgres {
    substring: Arc<ScalarUDF>,
    times: Arc<ScalarUDF>,
    microseconds: Arc<ScalarUDF>,
}

impl Postgres {
    fn new() -> Self {
        Postgres {
            substring: Arc::new(ScalarUDF::from(Substring::default())),
            times: Arc::new(interval_times()),
            microseconds: Arc::new(interval_microseconds()),
        }
    }

    fn planned(&self, expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
        match (is_span(left), is_span(right)) {
            (true, false) if expr.op == BinaryOperator::Multiply && right.is_numeric() => {
                Some(self.times.call(vec![interval(&expr.left, left), expr.right.clone()]))
            }
            (false, true) if expr.op == BinaryOperator::Multiply && left.is_numeric() => {
                Some(self.times.call(vec![interval(&expr.right, right), expr.left.clone()]))
            }
            (true, false) if expr.op == BinaryOperator::Divide && right.is_numeric() => {
                let factor = lit(1.0) / cast(expr.right.clone(), DataType::Float64);
                Some(self.times.call(vec![interval(&expr.left, left), factor]))
            }
            _ => None,
        }
    }
}

/// The difference of two times as an interval.
fn interval(of: &Expr, from: &DataType) -> Expr {
    match from {
        DataType::Duration(_) => whole_days().call(vec![of.clone()]),
        _ => of.clone(),
    }
}

fn is_interval(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_))
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// Returns whether a date beside a time of this type becomes such a time.
fn meets_date(op: &BinaryOperator, time: &DataType) -> bool {
    is_comparison(op) && matches!(time, DataType::Timestamp(..))
        || *op == BinaryOperator::Minus && has_zone(time)
}

fn has_zone(of: &DataType) -> bool {
    matches!(of, DataType::Timestamp(_, Some(_)))
}

fn is_span(of: &DataType) -> bool {
    matches!(of, DataType::Interval(_) | DataType::Duration(_))
}

/// Returns true if an interval surely has whole days only. The query engine adds whole days to a date and drops the
/// rest, while PostgreSQL converts the date to a time first. A date plus whole days stays a date, which can skip
/// files.
fn is_whole_days(interval: &Expr) -> bool {
    match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(of)), _) => of.nanoseconds == 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(of)), _) => of.milliseconds == 0,
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => true,
        Expr::Negative(inner) => is_whole_days(inner),
        Expr::ScalarFunction(of) if of.func.name() == super::interval::TIMES => {
            let whole = |factor: &Expr| match factor {
                Expr::Literal(factor, _) => factor.data_type().is_integer(),
                _ => false,
            };
            matches!(&of.args[..], [interval, factor] if is_whole_days(interval) && whole(factor))
        }
        _ => false,
    }
}

/// Returns true for a part of a time and a rounded number, or for arithmetic with one. Such a value may be an integer in the
/// query engine, but has a fraction in PostgreSQL's division.
fn is_part(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(of) => matches!(of.func.name(), "date_part" | "round"),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply)
                && (is_part(left) || is_part(right))
        }
        Expr::Negative(inner) => is_part(inner),
        _ => false,
    }
}

/// The text of a constant.
fn text_of(expr: &Expr) -> Option<&str> {
    let Expr::Literal(value, _) = expr else { return None };
    value.try_as_str().flatten()
}

/// The type of an operand that has none of its own, beside an operand of this type: an untyped parameter, or a text
/// constant such as in `n + '2'`, `at - '2024-01-01'`, `at + '1 day'`, `list || '{3}'`, or NULL beside an array.
///
/// # Errors
///
/// If several operators fit.
fn type_of_unknown(
    op: &BinaryOperator,
    unknown: &Expr,
    other: &DataType,
    is_left: bool,
) -> Result<Option<DataType>> {
    use BinaryOperator::{
        ArrowAt, AtArrow, Divide, Minus, Modulo, Multiply, PGExp, PGOverlap, Plus, StringConcat,
    };
    let of_operator = || beside(op, other, is_left).map_err(external);
    if is_untyped(unknown) {
        return of_operator();
    }
    if let (DataType::List(_), Expr::Literal(constant, _)) = (other, unknown)
        && (constant.data_type().is_string() || constant.data_type().is_null())
    {
        let of_arrays = is_comparison(op) || matches!(op, StringConcat | AtArrow | ArrowAt | PGOverlap);
        return Ok(of_arrays.then(|| other.clone()));
    }
    let Some(text) = text_of(unknown) else { return Ok(None) };
    match (op, other) {
        (Plus | Minus | Multiply | Divide | Modulo, _) if other.is_integer() || other.is_floating() => {
            Ok(Some(other.clone()))
        }
        (PGExp, _) if other.is_integer() || other.is_floating() => Ok(Some(DataType::Float64)),
        (op, DataType::Decimal128(..))
            if is_comparison(op) || matches!(op, Plus | Minus | Multiply | Divide | PGExp) =>
        {
            let digits = text.trim().split_once('.').map_or(0, |(_, digits)| digits.len());
            let digits = i8::try_from(digits).ok().filter(|digits| *digits <= 20);
            Ok(digits.map(|digits| DataType::Decimal128(38, digits)))
        }
        (StringConcat, _) => Ok(None),
        (op, DataType::Boolean) if is_comparison(op) => Ok(Some(DataType::Boolean)),
        (op, DataType::Duration(_)) if is_comparison(op) || matches!(op, Plus | Minus) => {
            Ok(Some(DataType::Interval(IntervalUnit::MonthDayNano)))
        }
        _ => of_operator(),
    }
}

/// Brings a text constant or a parameter beside a value with a type of its own into the form of that type:
/// `id = 'A0EE...'` for a uuid.
fn with_typed_text(expr: &mut RawBinaryExpr, schema: &DFSchema) {
    if !is_comparison(&expr.op) {
        return;
    }
    let type_of = |of: &Expr| of.to_field(schema).ok().and_then(|(_, field)| type_of_texts(&field));
    let (left, right) = (type_of(&expr.left), type_of(&expr.right));
    let (of, constant) = match (left, right) {
        (Some(of), None) => (of, &mut expr.right),
        (None, Some(of)) => (of, &mut expr.left),
        _ => return,
    };
    if (text_of(constant).is_some() || is_untyped(constant))
        && let Some(text) = in_form_of(&of, &bound(constant, DataType::Utf8))
    {
        *constant = text;
    }
}

fn external(error: QueryError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl ExprPlanner for Postgres {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        if let BinaryOperator::PGCustomBinaryOperator(words) = &expr.op
            && let Some(planned) = any::planned(words, &expr.left, &expr.right, schema)?
        {
            return Ok(PlannerResult::Planned(planned));
        }
        with_typed_text(&mut expr, schema);
        if let Some(planned) = json::planned(&expr, schema)? {
            return Ok(PlannerResult::Planned(planned));
        }
        let (left, right) = match (expr.left.get_type(schema), expr.right.get_type(schema)) {
            (Ok(left), Ok(right)) => (left, right),
            // The query engine does not know this operator.
            (Err(error), _) | (_, Err(error)) if expr.op == BinaryOperator::PGOverlap => return Err(error),
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let (of_left, of_right) = match (is_untyped(&expr.left), is_untyped(&expr.right)) {
            (true, true) => (of_both(&expr.op), of_both(&expr.op)),
            _ => (
                type_of_unknown(&expr.op, &expr.left, &right, true)?,
                type_of_unknown(&expr.op, &expr.right, &left, false)?,
            ),
        };
        if of_left.is_some() || of_right.is_some() {
            let typed = |operand: Expr, of: Option<DataType>| match of {
                Some(of) if is_untyped(&operand) => bound(&operand, of),
                Some(of) => cast(operand, of),
                None => operand,
            };
            (expr.left, expr.right) = (typed(expr.left, of_left), typed(expr.right, of_right));
            return self.plan_binary_op(expr, schema);
        }
        if let Some(planned) = self.planned(&expr, &left, &right) {
            return Ok(PlannerResult::Planned(planned));
        }
        if let Some(planned) = json::contained(&expr, &left, &right) {
            return Ok(PlannerResult::Planned(planned));
        }
        if let Some(planned) = arrays::planned(&expr, &left, &right)? {
            return Ok(PlannerResult::Planned(planned));
        }
        let time = DataType::Timestamp(TimeUnit::Microsecond, None);
        match expr.op {
            BinaryOperator::Plus | BinaryOperator::Minus
                if left == DataType::Date32 && is_interval(&right) && !is_whole_days(&expr.right) =>
            {
                expr.left = cast(expr.left, time);
            }
            BinaryOperator::Plus
                if is_interval(&left) && right == DataType::Date32 && !is_whole_days(&expr.left) =>
            {
                expr.right = cast(expr.right, time);
            }
            // A date is midnight of the session beside a time with a zone, and has the unit of a time without one.
            ref op if left == DataType::Date32 && meets_date(op, &right) => {
                expr.left = cast(expr.left, right);
            }
            ref op if right == DataType::Date32 && meets_date(op, &left) => {
                expr.right = cast(expr.right, left);
            }
            BinaryOperator::Divide
                if left.is_integer()
                    && right.is_integer()
                    && (is_part(&expr.left) || is_part(&expr.right)) =>
            {
                expr.left = cast(expr.left, DataType::Float64);
            }
            ref op
                if is_comparison(op)
                    && is_span(&left)
                    && is_span(&right)
                    && (is_interval(&left) || is_interval(&right)) =>
            {
                // Thirty hours are more than a day.
                expr.left = self.microseconds.call(vec![expr.left]);
                expr.right = self.microseconds.call(vec![expr.right]);
            }
            _ => {}
        }
        Ok(PlannerResult::Original(expr))
    }

    /// Seconds with their fraction, and parts that the query engine lacks. `dialect::typed` has those that depend on the type.
    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let part = match &args[..] {
            [Expr::Literal(part, _), _] => part.try_as_str().flatten().map(str::to_ascii_lowercase),
            _ => None,
        };
        let (Some(part), Some(of)) = (part, args.get(1).cloned()) else {
            return Ok(PlannerResult::Original(args));
        };
        let whole = |part: &str| date_part().call(vec![lit(part), of.clone()]);
        let share = |of: f64| cast(whole("microsecond"), DataType::Float64) / lit(of);
        Ok(match part.as_str() {
            "second" | "seconds" | "sec" | "secs" => PlannerResult::Planned(share(1e6)),
            "millisecond" | "milliseconds" | "msec" => PlannerResult::Planned(share(1e3)),
            // Days since the year -4713.
            "julian" => PlannerResult::Planned(
                cast(whole("epoch"), DataType::Float64) / lit(86_400.0) + lit(2_440_588.0),
            ),
            "decade" => PlannerResult::Planned(cast(whole("year"), DataType::Int64) / lit(10)),
            _ => PlannerResult::Original(args),
        })
    }

    /// An element of `array_agg`. The query engine would compute it as `nth_value`, without DISTINCT and with the order of one
    /// call for all.
    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        _schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        match (&expr.field_access, &expr.expr) {
            (GetFieldAccess::ListIndex { key }, Expr::AggregateFunction(of))
                if of.func.name() == "array_agg" =>
            {
                Ok(PlannerResult::Planned(array_element(expr.expr.clone(), key.as_ref().clone())))
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }

    /// `substring(text FROM x)`, where `x` may be a position or a pattern. A literal number is a position.
    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(match &args[..] {
            [_, Expr::Literal(from, _)] if from.data_type().is_numeric() => PlannerResult::Original(args),
            [text, from] => {
                let args = vec![text.clone(), bound(from, DataType::Utf8)];
                PlannerResult::Planned(self.substring.call(args))
            }
            _ => PlannerResult::Original(args),
        })
    }
}
