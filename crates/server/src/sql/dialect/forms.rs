//! Clauses and expressions that are replaced by equivalent ones.

use std::collections::HashSet;
use std::ops::ControlFlow;

use coscan_upstream::walk::{visit_expressions, visit_expressions_mut};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, BinaryOperator, CastKind, DataType, DateTimeField, Distinct, DuplicateTreatment,
    ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    Ident, Interval, ObjectName, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TimezoneInfo,
    TypedString, UnaryOperator, Value, ValueWithSpan, Values, VisitorMut,
};

use super::calls::{as_number, called, like, word};
use super::interval::{in_fields, in_words, interval};
use super::{arrays, casts, fetch, operators, ordered_lists, rows, sample};
use crate::sql::QueryError;
use crate::sql::ast::{binary, call, cast, has_parameter, is_outer, is_parameter, literal, nested, text};
use crate::sql::functions::with_backslashes;
use crate::sql::parsable::READ_AS_QUERY;

/// Names of the only collation, the order of bytes.
const BY_BYTES: [&str; 4] = ["c", "posix", "ucs_basic", "default"];

/// Checks the collations that statements name.
///
/// # Errors
///
/// If one is not the order of bytes.
pub(crate) fn check_collations(statements: &[Statement]) -> Result<(), QueryError> {
    let check = |expr: &Expr| match expr {
        Expr::Collate { collation, .. } => {
            check_collation(collation).map_or_else(ControlFlow::Break, ControlFlow::Continue)
        }
        _ => ControlFlow::Continue(()),
    };
    let wrong = statements.iter().find_map(|statement| visit_expressions(statement, check).break_value());
    wrong.map_or(Ok(()), Err)
}

fn check_collation(collation: &ObjectName) -> Result<(), QueryError> {
    let name = collation.0.last().map(|part| part.to_string().replace('"', "").to_ascii_lowercase());
    match name {
        Some(name) if BY_BYTES.contains(&name.as_str()) => Ok(()),
        _ => Err(QueryError::unsupported(format!(
            "the collation {collation} is not supported: texts are ordered by their bytes, which is COLLATE \"C\""
        ))),
    }
}

/// The visitor that replaces them.
pub(super) struct Forms;

impl VisitorMut for Forms {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        query
            .with
            .take_if(|with| with.cte_tables.iter().all(|table| table.alias.name.value == READ_AS_QUERY));
        casts::tell_apart(query);
        if let SetExpr::Values(values) = query.body.as_mut() {
            with_types(values);
        }
        if let Some(fetch) = query.fetch.take()
            && let Err(error) = fetch::fetch(query, fetch)
        {
            return ControlFlow::Break(error);
        }
        fetch::limits(query);
        rows::refused(&query.body).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        if let Err(error) = columns_of_distinct(select) {
            return ControlFlow::Break(error);
        }
        ordered_lists::order_lists(select);
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && let Expr::Function(function) = expr
                && let Some((name, list)) = rows::of(function)
            {
                function.name = Ident::new(list).into();
                let rows = rows::unnested(name, expr.clone());
                let alias = match item {
                    SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
                    _ => Ident::new(name),
                };
                *item = SelectItem::ExprWithAlias { expr: rows, alias };
            } else if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                rows::within(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        joined_texts(select);
        distinct_lists(select);
        if let Err(error) = counted_rows(select) {
            return ControlFlow::Break(error);
        }
        for condition in select.selection.iter_mut().chain(&mut select.having) {
            if text(condition).is_some() {
                *condition = cast(condition.clone(), DataType::Boolean);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<QueryError> {
        rows::declared(factor).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<QueryError> {
        let replaced = sample::replace(factor).and_then(|()| rows::replace(factor));
        replaced.map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        operators::symmetric(expr);
        operators::precedence(expr);
        arrays::before(expr).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        match replaced(expr) {
            Ok(Some(other)) => *expr = other,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        if let Expr::Function(function) = expr {
            ordered_lists::without_constants(function);
        }
        ControlFlow::Continue(())
    }
}

/// Replaces places of columns in `DISTINCT ON (1)` by these columns.
fn columns_of_distinct(select: &mut Select) -> Result<(), QueryError> {
    let Some(Distinct::On(keys)) = &mut select.distinct else { return Ok(()) };
    for key in keys {
        let Expr::Value(ValueWithSpan { value: Value::Number(place, _), .. }) = key else { continue };
        let item = place.parse::<usize>().ok().and_then(|place| select.projection.get(place.checked_sub(1)?));
        *key = match item {
            Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr.clone(),
            Some(_) => return Err(QueryError::unsupported("DISTINCT ON (1) beside *: name the columns")),
            None => {
                let text = format!("SELECT DISTINCT ON position {place} is not in select list");
                return Err(QueryError::other("42P10", text));
            }
        };
    }
    Ok(())
}

/// Refuses `count(t.*)` beside outer joins, where it counts the rows that have a row of `t`.
fn counted_rows(select: &Select) -> Result<(), QueryError> {
    if !select.from.iter().any(|from| from.joins.iter().any(is_outer)) {
        return Ok(());
    }
    let counts_rows = |expr: &Expr| match expr {
        Expr::Function(Function { name, args: FunctionArguments::List(list), .. })
            if name.to_string().eq_ignore_ascii_case("count")
                && matches!(
                    &list.args[..],
                    [FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_))]
                ) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    };
    if visit_expressions(&select.projection, counts_rows).is_break() {
        return Err(QueryError::unsupported(
            "count(t.*) beside an outer join is not supported: count a column of t that is never NULL"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Texts that a query joins in several orders. The query engine joins them in one order only, but makes lists in any.
fn joined_texts(select: &mut Select) {
    let mut orders = HashSet::new();
    let mut visit = |change: bool| {
        let visited = visit_expressions_mut(&mut select.projection, |expr| {
            if let Expr::Function(function) = expr
                && function.over.is_none()
                && function.name.to_string().eq_ignore_ascii_case("string_agg")
                && let FunctionArguments::List(list) = &function.args
            {
                let is_order =
                    |clause: &&FunctionArgumentClause| matches!(clause, FunctionArgumentClause::OrderBy(_));
                let order = list.clauses.iter().find(is_order).map(ToString::to_string);
                if change {
                    if let Some(list) = of_list(function) {
                        *expr = list;
                    }
                } else {
                    orders.extend(order);
                }
            }
            ControlFlow::<()>::Continue(())
        });
        debug_assert!(visited.is_continue());
        orders.len()
    };
    if visit(false) > 1 {
        visit(true);
    }
}

/// Lists of distinct values in several orders. The query engine makes one of them by another, in the same order, so each list
/// is sorted outside.
fn distinct_lists(select: &mut Select) {
    let mut orders = HashSet::new();
    for change in [false, true] {
        let visited = visit_expressions_mut(&mut select.projection, |expr| {
            if let Expr::Function(function) = &*expr
                && let Some((list, order)) = in_order(function)
            {
                if change {
                    *expr = call("array_sort", [vec![list], order].concat());
                } else {
                    orders.insert(format!("{order:?}"));
                }
            }
            ControlFlow::<()>::Continue(())
        });
        debug_assert!(visited.is_continue());
        if orders.len() < 2 {
            return;
        }
    }
}

/// The list of `array_agg(DISTINCT x ORDER BY x)` without its order, and the order as the arguments of `array_sort`. `None` for
/// other functions.
fn in_order(function: &Function) -> Option<(Expr, Vec<Expr>)> {
    let mut list = function.clone();
    let FunctionArguments::List(args) = &mut list.args else { return None };
    let is_distinct = args.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    if !is_distinct || function.over.is_some() || !function.name.to_string().eq_ignore_ascii_case("array_agg")
    {
        return None;
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = &args.args[..] else { return None };
    let [FunctionArgumentClause::OrderBy(order)] = &args.clauses[..] else { return None };
    let [by] = &order[..] else { return None };
    if by.expr != *value {
        return None;
    }
    let descends = by.options.asc == Some(false);
    let nulls_first = by.options.nulls_first.unwrap_or(descends);
    args.clauses.clear();
    let order = [
        literal(if descends { "DESC" } else { "ASC" }),
        literal(if nulls_first { "NULLS FIRST" } else { "NULLS LAST" }),
    ];
    Some((Expr::Function(list), order.to_vec()))
}

/// `string_agg(x, between)` as `array_to_string` of a list of the texts that are not NULL.
fn of_list(function: &Function) -> Option<Expr> {
    let mut aggregate = function.clone();
    aggregate.name = Ident::new("array_agg").into();
    let FunctionArguments::List(list) = &mut aggregate.args else { return None };
    let between = match list.args.pop()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(between)) => between,
        _ => return None,
    };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(text))] = &list.args[..] else { return None };
    let is_text = Expr::IsNotNull(Box::new(nested(text.clone())));
    aggregate.filter = Some(Box::new(match aggregate.filter.take() {
        Some(filter) => binary(nested(*filter), BinaryOperator::And, is_text),
        None => is_text,
    }));
    Some(call("array_to_string", vec![Expr::Function(aggregate), between]))
}

fn replaced(expr: &mut Expr) -> Result<Option<Expr>, QueryError> {
    Ok(match expr {
        Expr::Value(ValueWithSpan { value: Value::NationalStringLiteral(text), .. }) => {
            Some(literal(text.as_str()))
        }
        Expr::Like { escape_char: Some(ValueWithSpan { value: Value::Null, .. }), .. }
        | Expr::ILike { escape_char: Some(ValueWithSpan { value: Value::Null, .. }), .. }
        | Expr::SimilarTo { escape_char: Some(ValueWithSpan { value: Value::Null, .. }), .. } => {
            Some(cast(Expr::value(Value::Null), DataType::Boolean))
        }
        // The query engine's escape character is the backslash.
        Expr::Like { escape_char, pattern, .. } | Expr::ILike { escape_char, pattern, .. }
            if escape_char.is_some() =>
        {
            let escape = escape_char.take();
            if let Some(parameter) = escape.clone().map(Expr::Value).filter(is_parameter) {
                **pattern = call("like_escape", vec![pattern.as_ref().clone(), parameter]);
                return Ok(None);
            }
            let escape = escape.map_or(Ok(None), |escape| escape_of(&escape))?;
            **pattern = match text(pattern) {
                Some(written) => literal(with_backslashes(written, escape)),
                None => {
                    let escape = literal(escape.map_or_else(String::new, String::from));
                    call("like_escape", vec![pattern.as_ref().clone(), escape])
                }
            };
            None
        }
        Expr::InList { list, .. } => {
            with_type(&mut list.iter_mut().collect::<Vec<_>>());
            None
        }
        // The query engine does not read text constants beside a difference of times here.
        Expr::Between { expr, negated, low, high }
            if matches!(**expr, Expr::BinaryOp { op: BinaryOperator::Minus, .. })
                && text(low).is_some()
                && text(high).is_some() =>
        {
            let of = || nested(expr.as_ref().clone());
            let above = binary(of(), BinaryOperator::GtEq, low.as_ref().clone());
            let below = binary(of(), BinaryOperator::LtEq, high.as_ref().clone());
            let within = nested(binary(above, BinaryOperator::And, below));
            Some(match *negated {
                true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(within) },
                false => within,
            })
        }
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let escape = escape_char.take().map_or(Ok(Some('\\')), |escape| escape_of(&escape))?;
            let Some(pattern) = text(pattern) else {
                return Err(QueryError::unsupported(
                    "the pattern of SIMILAR TO has to be a constant".to_owned(),
                ));
            };
            let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
            Some(nested(binary(expr.as_ref().clone(), op, literal(similar(pattern, escape)))))
        }
        // The query engine forgets the stated types of parameters within such lists.
        Expr::Array(array) if array.elem.iter().any(has_parameter) => {
            Some(call("make_array", std::mem::take(&mut array.elem)))
        }
        Expr::Collate { expr, collation } => {
            check_collation(collation)?;
            Some(expr.as_ref().clone())
        }
        Expr::Cast { data_type: DataType::Interval { precision: Some(_), .. }, .. }
        | Expr::TypedString(TypedString {
            data_type: DataType::Interval { precision: Some(_), .. }, ..
        }) => {
            return Err(QueryError::unsupported(
                "interval with a number of digits is not supported: leave the digits out, and round what is shown"
                    .to_owned(),
            ));
        }
        Expr::Interval(Interval {
            value,
            leading_field: Some(DateTimeField::Year),
            last_field: Some(DateTimeField::Month),
            ..
        }) => text(value).and_then(years_and_months).map(|words| interval(&words)),
        Expr::Interval(Interval { value, leading_field: Some(first), last_field: Some(last), .. }) => {
            text(value).and_then(|text| in_fields(text, first, last)).map(|words| interval(&words))
        }
        Expr::Interval(Interval { value, leading_field: None, .. }) => {
            if let Some(words) = text(value).and_then(in_words) {
                **value = literal(words);
            }
            None
        }
        // The query engine would change the sign of the first part only.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(**expr, Expr::Interval(_)) => {
            **expr = nested(expr.as_ref().clone());
            None
        }
        Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => text(expr).map(interval),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            with_microseconds(data_type);
            text_type(data_type, expr.as_ref()).or_else(|| numeric(data_type, expr.as_ref()))
        }
        Expr::TypedString(TypedString { data_type, value, .. }) => {
            with_microseconds(data_type);
            let of = Expr::Value(value.clone());
            text_type(data_type, &of).or_else(|| numeric(data_type, &of))
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } if text(expr).is_some() => {
            **expr = cast(expr.as_ref().clone(), DataType::Boolean);
            None
        }
        Expr::Identifier(name) if name.quote_style.is_none() => word(&name.value.to_ascii_lowercase()),
        Expr::AtTimeZone { timestamp, time_zone } => {
            let mut time = timestamp.as_ref().clone();
            // A text without a type is a time with a zone.
            if text(&time).is_some() {
                time = cast(time, DataType::Timestamp(None, TimezoneInfo::WithTimeZone));
            }
            Some(call("timezone", vec![time_zone.as_ref().clone(), time]))
        }
        Expr::Function(function) if !matches!(function.args, FunctionArguments::Subquery(_)) => {
            called(function)
        }
        Expr::Substring { substring_from, substring_for, shorthand: true, .. } => {
            substring_from.iter_mut().chain(substring_for).for_each(|at| as_number(at));
            None
        }
        Expr::Substring { substring_from: Some(pattern), .. } => {
            operators::change_pattern(pattern);
            None
        }
        Expr::Ceil { expr, .. } | Expr::Floor { expr, .. } => {
            as_number(expr);
            None
        }
        Expr::Value(ValueWithSpan {
            value: Value::UnicodeStringLiteral(text) | Value::SingleQuotedByteStringLiteral(text),
            ..
        }) => Some(literal(text.as_str())),
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => with_exponent(number),
        expr => match operators::replaced(expr) {
            None => arrays::replaced(expr)?,
            other => other,
        },
    })
}

/// Gives text constants in a column of VALUES the type that another row states. A NULL gets it, too, if its values are texts
/// here.
fn with_types(values: &mut Values) {
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..columns {
        let items = values.rows.iter_mut().filter_map(|row| row.content.get_mut(column));
        let mut items: Vec<_> = items.collect();
        with_type(&mut items);
        let of_texts = items.iter().find_map(|item| match item {
            Expr::Cast { data_type: of @ (DataType::JSON | DataType::JSONB | DataType::Uuid), .. } => {
                Some(of.clone())
            }
            _ => None,
        });
        for item in items {
            if let (Some(of), Expr::Value(ValueWithSpan { value: Value::Null, .. })) = (&of_texts, &*item) {
                *item = cast(item.clone(), of.clone());
            }
        }
    }
}

fn is_typed(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { .. } | Expr::TypedString(_) | Expr::Interval(_))
}

/// Gives text constants in such a list the type that another item states.
fn with_type(items: &mut [&mut Expr]) {
    let typed = items.iter().find(|item| text(item).is_none() && is_typed(item)).map(|item| (**item).clone());
    if let Some(typed) = typed {
        items.iter_mut().for_each(|item| **item = like(&typed, item));
    }
}

/// Gives times PostgreSQL's microseconds. The query engine's times of nanoseconds end in the year 2262.
fn with_microseconds(of: &mut DataType) {
    match of {
        DataType::Timestamp(digits, _) => {
            digits.get_or_insert(6);
        }
        DataType::Array(ArrayElemTypeDef::SquareBracket(of, _)) => with_microseconds(of),
        _ => {}
    }
}

/// The character of ESCAPE, if there is one.
fn escape_of(escape: &ValueWithSpan) -> Result<Option<char>, QueryError> {
    let text = escape.value.clone().into_string().unwrap_or_default();
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (first, None) => Ok(first),
        _ => Err(QueryError::other("22025", "invalid escape string")),
    }
}

/// The words of an interval that is written `1-2`: a year and two months.
fn years_and_months(text: &str) -> Option<String> {
    let (sign, digits) = match text.trim().strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.trim()),
    };
    let (years, months) = digits.split_once('-')?;
    let (years, months): (u32, u32) = (years.parse().ok()?, months.parse().ok()?);
    Some(format!("{sign}{years} years {sign}{months} months"))
}

/// A cast to a type whose values are texts here. A function checks the text, or converts it to PostgreSQL's form.
fn text_type(data_type: &DataType, of: &Expr) -> Option<Expr> {
    let name = match data_type {
        DataType::JSON => "json",
        DataType::JSONB => "jsonb",
        DataType::Uuid => "uuid_text",
        _ => return None,
    };
    Some(call(name, vec![cast(of.clone(), DataType::Text)]))
}

/// A cast to `numeric` without digits. A constant keeps the digits that it is written with.
fn numeric(data_type: &DataType, of: &Expr) -> Option<Expr> {
    let plain = matches!(
        data_type,
        DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None)
    );
    let is_decimal = matches!(data_type, DataType::Numeric(_) | DataType::Decimal(_) | DataType::Dec(_));
    let number = match of {
        of if is_decimal && text(of).is_some_and(is_scientific) => {
            return in_scientific(text(of)?, data_type, plain);
        }
        _ if !plain => return None,
        Expr::Value(ValueWithSpan { value: Value::Placeholder(_) | Value::Null, .. }) => return None,
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => number.to_string(),
        of => match text(of) {
            Some(text) => text.trim().to_owned(),
            None => return Some(call("numeric", vec![of.clone()])),
        },
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole.trim_start_matches(['+', '-'])) || !digits(fraction) || whole.len() + fraction.len() > 30
    {
        return None;
    }
    let info = ExactNumberInfo::PrecisionAndScale(38, i64::try_from(fraction.len()).ok()?);
    Some(cast(literal(number), DataType::Numeric(info)))
}

/// Returns whether a text is a number with an exponent.
fn is_scientific(text: &str) -> bool {
    text.contains(['e', 'E']) && text.trim().parse::<f64>().is_ok()
}

/// A text of such a number as a decimal.
fn in_scientific(text: &str, data_type: &DataType, plain: bool) -> Option<Expr> {
    let (negative, digits) = match text.trim().strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.trim().trim_start_matches('+')),
    };
    let number = with_exponent(digits)?;
    let number = match negative {
        true => nested(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) }),
        false => number,
    };
    Some(if plain { number } else { cast(number, data_type.clone()) })
}

/// A number that is written with an exponent: a decimal with all its digits, or a floating-point number if a decimal has
/// not so many. The query engine's decimal of `1e15` has a negative scale, and is 999999999999999.9 as a floating-point
/// number.
fn with_exponent(number: &str) -> Option<Expr> {
    let (digits, exponent) = number.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let digits = format!("{whole}{fraction}");
    let precision = match usize::try_from(point.unsigned_abs()).ok()? + digits.len() {
        ..=38 => 38,
        39..=76 => 76,
        // A double has the value only approximately, if it has it at all.
        _ if !is_double(number) => {
            return Some(cast(literal(number), DataType::Numeric(ExactNumberInfo::None)));
        }
        _ => return Some(cast(literal(number), DataType::DoublePrecision)),
    };
    let scale = (i32::try_from(digits.len()).ok()? - point).max(0);
    let written = match usize::try_from(point) {
        Ok(point) if point >= digits.len() => format!("{digits:0<point$}"),
        Ok(point) => format!("{}.{}", &digits[..point], &digits[point..]),
        Err(_) => format!("0.{}{digits}", "0".repeat(usize::try_from(-point).ok()?)),
    };
    let info = ExactNumberInfo::PrecisionAndScale(precision, i64::from(scale));
    Some(cast(literal(written), DataType::Numeric(info)))
}

/// Returns whether a number is one of double precision: neither infinite, nor zero because it is too small.
fn is_double(number: &str) -> bool {
    let is_zero =
        !number.split(['e', 'E']).next().unwrap_or_default().bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    number.parse::<f64>().is_ok_and(|value| value.is_finite() && (value != 0.0 || is_zero))
}

/// A pattern of SIMILAR TO as a regular expression, which has to match the whole text.
fn similar(pattern: &str, escape: Option<char>) -> String {
    let (mut regex, mut rest) = (String::from("^(?s:"), pattern.chars());
    let mut in_set = false;
    while let Some(c) = rest.next() {
        match c {
            c if Some(c) == escape => {
                if let Some(next) = rest.next() {
                    if !next.is_alphanumeric() {
                        regex.push('\\');
                    }
                    regex.push(next);
                }
            }
            ']' => {
                in_set = false;
                regex.push(c);
            }
            _ if in_set => {
                if c == '\\' {
                    regex.push('\\');
                }
                regex.push(c);
            }
            '[' => {
                in_set = true;
                regex.push(c);
            }
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            '(' => regex.push_str("(?:"),
            '.' | '^' | '$' | '\\' => {
                regex.push('\\');
                regex.push(c);
            }
            c => regex.push(c),
        }
    }
    regex.push_str(")$");
    regex
}

#[cfg(test)]
mod tests {
    use super::*;
    use coscan_upstream::walk::visit_mut;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn translated(sql: &str) -> Result<String, QueryError> {
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        match visit_mut(&mut statements, &mut Forms) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(statements[0].to_string()),
        }
    }

    #[test]
    fn forms_are_replaced() {
        for (sql, other) in [
            ("SELECT a FROM t FETCH FIRST 2 ROWS ONLY", "SELECT a FROM t LIMIT 2"),
            ("SELECT a FROM t OFFSET 3 FETCH NEXT ROW ONLY", "SELECT a FROM t LIMIT 1 OFFSET 3"),
            ("SELECT a SIMILAR TO '(a|b)%.'", "SELECT (a ~ '^(?s:(?:a|b).*\\.)$')"),
            ("SELECT a NOT SIMILAR TO 'x_'", "SELECT (a !~ '^(?s:x.)$')"),
            ("SELECT a LIKE 'a!_!!\\' ESCAPE '!'", "SELECT a LIKE 'a\\_\\!\\\\'"),
            ("SELECT a LIKE b ESCAPE ''", "SELECT a LIKE like_escape(b, '')"),
            ("SELECT a COLLATE \"C\" FROM t", "SELECT a FROM t"),
            ("SELECT '1 day 02:00:00'::interval", "SELECT INTERVAL '1 day 02 hours 00 minutes 00 seconds'"),
            ("SELECT interval '1 day'", "SELECT INTERVAL '1 day'"),
            ("SELECT localtimestamp", "SELECT CAST(now() AS TIMESTAMP(6))"),
            ("SELECT ceiling(a), mod(a, 2) FROM t", "SELECT ceil(a), ((a) % (2)) FROM t"),
            ("SELECT n FROM generate_series(1, 2) n", "SELECT n FROM generate_series(1, 2) AS n (n)"),
            (
                "SELECT * FROM generate_series(1, 2)",
                "SELECT * FROM generate_series(1, 2) AS generate_series (generate_series)",
            ),
            ("SELECT x FROM unnest(ARRAY[1]) AS x", "SELECT x FROM UNNEST(ARRAY[1]) AS x (x)"),
            ("SELECT generate_series(1, 2)", "SELECT unnest(generate_series(1, 2)) AS generate_series"),
        ] {
            let told = translated(sql).unwrap();
            assert_eq!(told.replace(" AS n (n)", " n (n)"), other.replace(" AS n (n)", " n (n)"), "{sql}");
        }
        for sql in [
            "SELECT a FROM t FETCH FIRST 2 ROWS WITH TIES",
            "SELECT a FROM t LIMIT 1 FETCH FIRST 2 ROWS ONLY",
            "SELECT a COLLATE \"de_DE\" FROM t",
            "SELECT a SIMILAR TO b FROM t",
        ] {
            assert!(translated(sql).is_err(), "{sql}");
        }
    }
}
