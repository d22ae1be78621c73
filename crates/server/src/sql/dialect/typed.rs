//! Casts and calls whose meaning differs in PostgreSQL for some types.
//!
//! - Casts of texts to times, arrays and other values, in forms that the query engine does not read (`literals`).
//! - Infinite times are bounds of comparisons (`infinite`).
//! - Casts of fractions to integers round in PostgreSQL and truncate in the query engine. Floating-point numbers round
//!   halves to even ones.
//! - Casts of times, numbers, lists and others to text have PostgreSQL's form.
//! - Casts of times without a zone to times with one: some times do not exist or exist twice, when clocks change.
//! - The difference of two times has whole days.
//! - Intervals are compared and sorted by their length.
//! - Days and months are added to a time with a zone on the clocks of the session.
//! - Times with a zone are taken apart and truncated in the zone of the session, whatever zone their type names.
//!
//! This is a rule on plans, where types are known: `at > 'epoch'` is a cast there.

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::functions::datetime::date_bin;
use datafusion::functions::math::round;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Between, BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast, binary_expr, cast, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::calls::is_within_hours;
use super::date_sums::{as_timestamp, is_date_sum};
use super::{infinite, literals};
use crate::sql::QueryError;
use crate::sql::functions::{
    CLOCK_PART, calendar, clock, in_zone, interval_microseconds, interval_of_text, part_of_interval, rint,
    text, text_array, texts_of_list, whole_days,
};

/// Functions that show a value, or that show or change an interval.
const SHOWS: &str = "format";
const JOINS: [&str; 2] = ["array_to_string", "pg_array_to_string"];
const TAKES_APART: [&str; 4] = ["to_char", "justify_days", "justify_hours", "justify_interval"];

/// Casts as functions (`coscan_upstream`).
const LASTING: [&str; 2] = ["cast", "try_cast"];

/// The rule that replaces them.
#[derive(Debug)]
pub(crate) struct Typed;

impl AnalyzerRule for Typed {
    fn name(&self) -> &str {
        "types_of_postgres"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let in_node = |node: LogicalPlan| {
            let names = NamePreserver::new(&node);
            let schema = merge_schema(&node.inputs());
            let sorts = matches!(node, LogicalPlan::Sort(_));
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let mut changed = infinite::in_comparisons(expr)?
                    .transform_data(|expr| expr.transform_up(|expr| replaced(expr, &schema, config)))?;
                if sorts && is_interval(&changed.data, &schema) {
                    changed = Transformed::yes(length(changed.data));
                }
                Ok(match changed.transformed {
                    true => changed.update_data(|expr| name.restore(expr)),
                    false => changed,
                })
            })
        };
        Ok(plan.transform_up_with_subqueries(in_node)?.data)
    }
}

/// PostgreSQL's meaning of a cast or a call.
fn replaced(expr: Expr, schema: &DFSchema, config: &ConfigOptions) -> Result<Transformed<Expr>> {
    let other = match &expr {
        Expr::Cast(Cast { expr, field }) => casted(expr, field.data_type(), false, schema, config)?,
        Expr::TryCast(TryCast { expr, field }) => casted(expr, field.data_type(), true, schema, config)?,
        Expr::ScalarFunction(call) if LASTING.contains(&call.func.name()) => lasting(call, schema, config)?,
        Expr::ScalarFunction(call) => called(call, schema, config),
        Expr::BinaryExpr(of) if matches!(of.op, Operator::Plus | Operator::Minus) => {
            moved_on_clocks(of, schema, config).or_else(|| difference(of, schema, config))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if op.supports_propagation() && is_interval(left, schema) && is_interval(right, schema) =>
        {
            Some(binary_expr(length(*left.clone()), *op, length(*right.clone())))
        }
        Expr::Between(of) if is_interval(&of.expr, schema) => Some(Expr::Between(Between {
            expr: Box::new(length(*of.expr.clone())),
            negated: of.negated,
            low: Box::new(length(*of.low.clone())),
            high: Box::new(length(*of.high.clone())),
        })),
        Expr::InList(of) if is_interval(&of.expr, schema) => Some(Expr::InList(InList {
            expr: Box::new(length(*of.expr.clone())),
            list: of.list.iter().cloned().map(length).collect(),
            negated: of.negated,
        })),
        _ => None,
    };
    Ok(match other {
        Some(other) => Transformed::yes(other),
        None => Transformed::no(expr),
    })
}

fn is_interval(of: &Expr, schema: &DFSchema) -> bool {
    matches!(of.get_type(schema), Ok(DataType::Interval(_)))
}

/// The length of an interval, by which PostgreSQL compares intervals.
fn length(of: Expr) -> Expr {
    interval_microseconds().call(vec![of])
}

/// The sum of a time with a zone and an interval: months and days on the clocks of the session, then the time.
fn moved_on_clocks(sum: &BinaryExpr, schema: &DFSchema, config: &ConfigOptions) -> Option<Expr> {
    let (time, interval) = match is_interval(&sum.left, schema) {
        true => (&sum.right, &sum.left),
        false => (&sum.left, &sum.right),
    };
    let of @ DataType::Timestamp(_, Some(zone)) = &time.get_type(schema).ok()? else { return None };
    if !is_interval(interval, schema) || is_clock(interval) {
        return None;
    }
    let zone = elsewhere(zone, config)?;
    let local = in_zone().call(vec![zone.clone(), *time.clone()]);
    let day = binary_expr(local, sum.op, calendar(interval));
    let instant = cast(in_zone().call(vec![zone, day]), of.clone());
    Some(match &**interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(of)), _) if of.nanoseconds == 0 => instant,
        _ => binary_expr(instant, sum.op, clock(interval)),
    })
}

/// The difference of a time with a zone and one without, which is a time of the session.
fn difference(of: &BinaryExpr, schema: &DFSchema, config: &ConfigOptions) -> Option<Expr> {
    if of.op != Operator::Minus {
        return None;
    }
    let in_session = |time: &Expr, like: &Expr| {
        let to = like.get_type(schema).ok()?;
        let from = time.get_type(schema).ok()?;
        let is_local = matches!(from, DataType::Timestamp(_, None) | DataType::Date32);
        if !is_local || !has_zone(&to) {
            return None;
        }
        Some(casted(time, &to, false, schema, config).ok()?.unwrap_or_else(|| cast(time.clone(), to)))
    };
    if let Some(right) = in_session(&of.right, &of.left) {
        return Some(*of.left.clone() - right);
    }
    in_session(&of.left, &of.right).map(|left| left - *of.right.clone())
}

/// Returns whether an interval has surely neither months nor days.
fn is_clock(interval: &Expr) -> bool {
    match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(of), _) => {
            of.is_none_or(|of| of.months == 0 && of.days == 0)
        }
        Expr::ScalarFunction(of) => of.func.name() == CLOCK_PART,
        _ => false,
    }
}

/// PostgreSQL's meaning of a cast that was made a function, so that it stays in a comparison.
fn lasting(call: &ScalarFunction, schema: &DFSchema, config: &ConfigOptions) -> Result<Option<Expr>> {
    let [of] = &call.args[..] else { return Ok(None) };
    let to = Expr::ScalarFunction(call.clone()).get_type(schema)?;
    let other = casted(of, &to, call.func.name() == LASTING[1], schema, config)?;
    Ok(match other {
        Some(Expr::Cast(Cast { expr, field })) if *field.data_type() == to => {
            Some(call.func.call(vec![*expr]))
        }
        other => other,
    })
}

fn casted(
    of: &Expr,
    to: &DataType,
    may_be_wrong: bool,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Option<Expr>> {
    if let Expr::Literal(of, _) = of
        && let Some(Some(text)) = of.try_as_str()
    {
        return literals::read(text, to, may_be_wrong, config);
    }
    let Ok(from) = of.get_type(schema) else { return Ok(None) };
    Ok(match (&from, to) {
        (DataType::List(of), DataType::List(to)) if is_list(of) && !is_list(to) => {
            let text = "lists of lists are not supported: cast the elements, or unnest them";
            return Err(DataFusionError::External(Box::new(QueryError::unsupported(text))));
        }
        (from, DataType::List(element)) if from.is_string() && !may_be_wrong && !is_list(element) => {
            Some(cast(text_array().call(vec![of.clone()]), to.clone()))
        }
        (DataType::Date32, to) if to.is_string() && is_date_sum(of, schema) => {
            Some(cast(shown(as_timestamp(of.clone()), &DataType::Date32, config), to.clone()))
        }
        (from, to) if to.is_string() => has_another_form(from).then(|| {
            let text = shown(of.clone(), from, config);
            if *to == DataType::Utf8 { text } else { cast(text, to.clone()) }
        }),
        (from, to) if to.is_integer() => whole(of, from, to),
        (from, DataType::Interval(_)) if from.is_string() && !may_be_wrong => {
            Some(interval_of_text(of.clone()))
        }
        // Seconds are the days that were added to a date.
        (DataType::Duration(unit), DataType::Interval(_)) if *unit != TimeUnit::Second => {
            Some(whole_days().call(vec![of.clone()]))
        }
        (
            DataType::Timestamp(_, Some(zone)),
            DataType::Date32 | DataType::Time64(_) | DataType::Timestamp(_, None),
        ) => elsewhere(zone, config).map(|zone| cast(in_zone().call(vec![zone, of.clone()]), to.clone())),
        (DataType::Timestamp(_, None) | DataType::Date32, DataType::Timestamp(unit, Some(zone))) => {
            let session =
                elsewhere(zone, config).or_else(|| changes_clocks(zone).then(|| lit(zone.as_ref())));
            session.map(|session| {
                let local = cast(of.clone(), DataType::Timestamp(*unit, None));
                cast(in_zone().call(vec![session, local]), to.clone())
            })
        }
        _ => None,
    })
}

fn is_list(field: &Field) -> bool {
    matches!(field.data_type(), DataType::List(_))
}

/// The zone of the session, if it may be another one than that of a type.
fn elsewhere(of_type: &str, config: &ConfigOptions) -> Option<Expr> {
    let session = config.execution.time_zone.as_deref()?;
    let utc = |zone: &str| zone.eq_ignore_ascii_case("utc") || zone == "+00:00";
    (session != of_type && !(utc(session) && utc(of_type)) || changes_clocks(session))
        .then(|| lit(ScalarValue::Utf8(Some(session.to_owned()))))
}

/// Returns whether a zone may be other than a fixed offset.
fn changes_clocks(zone: &str) -> bool {
    !zone.starts_with(['+', '-']) && !zone.eq_ignore_ascii_case("utc")
}

/// A number with a fraction as an integer.
fn whole(of: &Expr, from: &DataType, to: &DataType) -> Option<Expr> {
    let is_round =
        |of: &Expr| matches!(of, Expr::ScalarFunction(of) if matches!(of.func.name(), "round" | "rint"));
    let has_fraction = from.is_floating() || matches!(from, DataType::Decimal128(_, scale) if *scale > 0);
    let function = || if from.is_floating() { rint() } else { round() };
    (has_fraction && !is_round(of)).then(|| cast(function().call(vec![of.clone()]), to.clone()))
}

/// Returns whether the query engine writes values of a type in another form than PostgreSQL.
fn has_another_form(of: &DataType) -> bool {
    of.is_floating()
        || of.is_nested() && !matches!(of, DataType::Map(..))
        || matches!(
            of,
            DataType::Timestamp(..)
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Interval(_)
                | DataType::Duration(_)
        )
}

/// The value as a text in PostgreSQL's form.
fn shown(of: Expr, from: &DataType, config: &ConfigOptions) -> Expr {
    text().call(with_zone(of, from, config))
}

fn with_zone(of: Expr, from: &DataType, config: &ConfigOptions) -> Vec<Expr> {
    let zone = config.execution.time_zone.clone().filter(|_| from.is_nested() || has_zone(from));
    let zone = zone.map(|zone| lit(ScalarValue::Utf8(Some(zone))));
    [Some(of), zone].into_iter().flatten().collect()
}

fn has_zone(of: &DataType) -> bool {
    matches!(of, DataType::Timestamp(_, Some(_)))
}

fn called(call: &ScalarFunction, schema: &DFSchema, config: &ConfigOptions) -> Option<Expr> {
    let name = call.func.name();
    let change = |change: &dyn Fn(usize, &Expr, DataType) -> Option<Expr>| {
        let changed =
            call.args.iter().enumerate().map(|(at, arg)| change(at, arg, arg.get_type(schema).ok()?));
        let changed: Vec<Option<Expr>> = changed.collect();
        changed.iter().any(Option::is_some).then(|| {
            let args =
                changed.into_iter().zip(&call.args).map(|(new, old)| new.unwrap_or_else(|| old.clone()));
            call.func.call(args.collect())
        })
    };
    if name == SHOWS {
        return change(&|_, arg, of| {
            (!of.is_string() && !of.is_null()).then(|| shown(arg.clone(), &of, config))
        });
    }
    if JOINS.contains(&name) {
        return change(&|at, arg, of| match &of {
            DataType::List(of_element) | DataType::LargeList(of_element) => {
                let other = at == 0 && has_another_form(of_element.data_type());
                other.then(|| texts_of_list().call(with_zone(arg.clone(), &of, config)))
            }
            _ => None,
        });
    }
    if let ("round", [of]) = (name, &call.args[..]) {
        let is_floating = of.get_type(schema).is_ok_and(|of| of.is_floating());
        return is_floating.then(|| rint().call(vec![of.clone()]));
    }
    if let ("date_part", [Expr::Literal(part, _), of]) = (name, &call.args[..])
        && let Some(Some(part)) = part.try_as_str()
    {
        return part_of(&part.to_ascii_lowercase(), of, call, schema, config);
    }
    if let ("date_trunc", [Expr::Literal(unit, _), of]) = (name, &call.args[..])
        && let Some(Some("millisecond" | "microsecond")) = unit.try_as_str()
        && matches!(of.get_type(schema), Ok(DataType::Timestamp(..)))
    {
        // The query engine truncates times before 1970 towards that year.
        let nanoseconds = if unit.try_as_str() == Some(Some("millisecond")) { 1_000_000 } else { 1_000 };
        let step = ScalarValue::new_interval_mdn(0, 0, nanoseconds);
        return Some(date_bin().call(vec![lit(step), of.clone()]));
    }
    if let Some(there) = in_session_zone(call, schema, config) {
        return Some(there);
    }
    if TAKES_APART.contains(&name) {
        return change(&|_, arg, of| {
            matches!(of, DataType::Duration(_)).then(|| whole_days().call(vec![arg.clone()]))
        });
    }
    None
}

/// A part of a time or of an interval.
fn part_of(
    part: &str,
    of: &Expr,
    call: &ScalarFunction,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Option<Expr> {
    let from = of.get_type(schema).ok()?;
    if let DataType::Interval(_) | DataType::Duration(_) = from {
        return Some(part_of_interval(part, of.clone()));
    }
    let years = match part {
        "century" => 100,
        "millennium" => 1000,
        _ => return in_session_zone(call, schema, config),
    };
    let year = call.func.call(vec![lit("year"), of.clone()]);
    let year = match &year {
        Expr::ScalarFunction(call) => in_session_zone(call, schema, config).unwrap_or(year),
        _ => year,
    };
    Some((year + lit(years - 1)) / lit(years))
}

/// A part of a time, its text, or a time that is truncated, computed on the clocks of the session.
fn in_session_zone(call: &ScalarFunction, schema: &DFSchema, config: &ConfigOptions) -> Option<Expr> {
    let at = match (call.func.name(), &call.args[..]) {
        ("date_part", [Expr::Literal(part, _), _]) => {
            let part = part.try_as_str().flatten()?.to_ascii_lowercase();
            (!part.starts_with("epoch") && !part.starts_with("timezone")).then_some(1)?
        }
        ("date_trunc", [_, _]) => 1,
        ("to_char", [_, _]) => 0,
        _ => return None,
    };
    let of = call.args[at].get_type(schema).ok()?;
    let DataType::Timestamp(_, Some(zone)) = &of else { return None };
    let zone = elsewhere(zone, config)?;
    let mut args = call.args.clone();
    if let ("to_char", DataType::Timestamp(unit, _)) = (call.func.name(), &of) {
        // A template may show the zone, so the value keeps one.
        let session = config.execution.time_zone.as_deref()?;
        args[at] = cast(call.args[at].clone(), DataType::Timestamp(*unit, Some(session.into())));
        return Some(call.func.call(args));
    }
    args[at] = in_zone().call(vec![zone.clone(), call.args[at].clone()]);
    let (clock, there) = (args[at].clone(), call.func.call(args));
    let unit = match &call.args[0] {
        Expr::Literal(unit, _) => unit.try_as_str().flatten().unwrap_or_default(),
        _ => "",
    };
    Some(match call.func.name() {
        // Clocks that are set do not change the time since the last full hour.
        "date_trunc" if is_within_hours(unit) => call.args[at].clone() - (clock - there),
        "date_trunc" => cast(in_zone().call(vec![zone, there]), of),
        _ => there,
    })
}
