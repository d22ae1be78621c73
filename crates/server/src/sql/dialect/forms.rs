//! Clauses and expressions that are replaced by equivalent ones.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident, Interval, Query,
    Select, SelectItem, TableFactor, TimezoneInfo, TypedString, UnaryOperator, Value, ValueWithSpan,
    VisitorMut, visit_expressions_mut,
};

use super::interval::in_words;
use super::{arrays, fetch, rows};
use crate::sql::QueryError;
use crate::sql::ast::{binary, call, cast, function as ast_function, literal, nested, number, text};

/// Functions that return rows, whose column has the function's name, and the query engine's list functions for them.
const ROWS_OF: [(&str, &str); 2] =
    [("generate_series", "generate_series"), ("string_to_table", "string_to_array")];

/// Functions that have another name in the query engine.
const RENAMED: [(&str, &str); 8] = [
    ("ceiling", "ceil"),
    ("current_catalog", "current_database"),
    ("every", "bool_and"),
    ("gen_random_uuid", "uuid"),
    ("sign", "signum"),
    ("statement_timestamp", "now"),
    ("transaction_timestamp", "now"),
    ("variance", "var_samp"),
];

/// Names of the only collation, the order of bytes.
const BY_BYTES: [&str; 4] = ["c", "posix", "ucs_basic", "default"];

/// The visitor that replaces them.
pub(super) struct Forms;

impl VisitorMut for Forms {
    type Break = QueryError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<QueryError> {
        match query.fetch.take() {
            Some(fetch) => fetch::fetch(query, fetch).map_or_else(ControlFlow::Break, ControlFlow::Continue),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && let Expr::Function(function) = expr
                && let Some((name, list)) = rows_of(function)
            {
                function.name = Ident::new(list).into();
                let rows = call("unnest", vec![expr.clone()]);
                let alias = match item {
                    SelectItem::ExprWithAlias { alias, .. } => alias.clone(),
                    _ => Ident::new(name),
                };
                *item = SelectItem::ExprWithAlias { expr: rows, alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        joined_texts(select);
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<QueryError> {
        rows::replace(factor).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        arrays::before(expr).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<QueryError> {
        match replaced(expr) {
            Ok(Some(other)) => *expr = other,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
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

fn rows_of(function: &Function) -> Option<(&'static str, &'static str)> {
    let name = function.name.to_string();
    let plain = function.over.is_none() && function.filter.is_none();
    ROWS_OF.into_iter().find(|(rows, _)| plain && name.eq_ignore_ascii_case(rows))
}

/// The replacement of a word without parentheses: times on the session's clock.
fn word(name: &str) -> Option<Expr> {
    let here = || call("to_local_time", vec![call("now", Vec::new())]);
    match name {
        "localtimestamp" => Some(here()),
        "localtime" => Some(cast(here(), DataType::Time(None, TimezoneInfo::None))),
        "current_catalog" => Some(call("current_database", Vec::new())),
        _ => None,
    }
}

/// An interval from its text.
pub(super) fn interval(given: &str) -> Expr {
    Expr::Interval(Interval {
        value: Box::new(literal(in_words(given).unwrap_or_else(|| given.to_owned()))),
        leading_field: None,
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    })
}

fn replaced(expr: &mut Expr) -> Result<Option<Expr>, QueryError> {
    Ok(match expr {
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let escape = match escape_char.take().map(|escape| escape.value.into_string()) {
                None => Some('\\'),
                Some(escape) => escape.and_then(|text| text.chars().next()),
            };
            let Some(pattern) = text(pattern) else {
                return Err(QueryError::unsupported(
                    "the pattern of SIMILAR TO has to be a constant".to_owned(),
                ));
            };
            let op = if *negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
            Some(nested(binary(expr.as_ref().clone(), op, literal(similar(pattern, escape)))))
        }
        Expr::Collate { expr, collation } => {
            let name = collation.0.last().map(|part| part.to_string().replace('"', "").to_ascii_lowercase());
            match name {
                Some(name) if BY_BYTES.contains(&name.as_str()) => Some(expr.as_ref().clone()),
                _ => {
                    return Err(QueryError::unsupported(format!(
                        "the collation {collation} is not supported: texts are ordered by their bytes, which is COLLATE \"C\""
                    )));
                }
            }
        }
        Expr::Interval(Interval { value, leading_field: None, .. }) => {
            if let Some(words) = text(value).and_then(in_words) {
                **value = literal(words);
            }
            None
        }
        Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => text(expr).map(interval),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            json(data_type, expr.as_ref()).or_else(|| numeric(data_type, expr.as_ref()))
        }
        Expr::TypedString(TypedString { data_type, value, .. }) => {
            let of = Expr::Value(value.clone());
            json(data_type, &of).or_else(|| numeric(data_type, &of))
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
        Expr::BinaryOp { left, op, right } => exact(left, op, right),
        expr => arrays::replaced(expr)?,
    })
}

/// A cast to JSON. JSON is a text that a function has checked, or has converted to the form of jsonb.
fn json(data_type: &DataType, of: &Expr) -> Option<Expr> {
    let name = match data_type {
        DataType::JSON => "json",
        DataType::JSONB => "jsonb",
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
    let number = match of {
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

/// Returns whether a unit of `date_trunc` is an hour or less.
pub(super) fn is_within_hours(unit: &str) -> bool {
    const UNITS: [&str; 5] = ["hour", "minute", "second", "millisecond", "microsecond"];
    UNITS.contains(&unit.to_ascii_lowercase().trim_end_matches('s'))
}

fn boolean(value: bool) -> Expr {
    Expr::value(Value::Boolean(value))
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_literal(expr),
        expr => matches!(expr, Expr::Value(_)),
    }
}

/// The arguments of `make_interval` in their order, if any is named. Others are 0.
fn named_parts(list: &FunctionArgumentList) -> Option<Vec<Expr>> {
    const PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
    let mut parts: Vec<Expr> = PARTS.iter().map(|_| number("0")).collect();
    let mut has_names = false;
    for (at, arg) in list.args.iter().enumerate() {
        let (at, value) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (at, value),
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            }
            | FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                has_names = true;
                (PARTS.iter().position(|part| name.value.eq_ignore_ascii_case(part))?, value)
            }
            _ => return None,
        };
        *parts.get_mut(at)? = value.clone();
    }
    has_names.then_some(parts)
}

/// Calls of functions with other arguments.
fn called(function: &mut Function) -> Option<Expr> {
    let name = function.name.to_string().to_ascii_lowercase();
    let FunctionArguments::List(list) = &function.args else {
        return word(&name);
    };
    if let Some((_, other)) = RENAMED.into_iter().find(|(known, _)| *known == name) {
        function.name = Ident::new(other).into();
        return None;
    }
    if name == "make_interval" {
        return named_parts(list).map(|args| call(&name, args));
    }
    let args: Vec<&Expr> = list
        .args
        .iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect();
    match (name.as_str(), &args[..]) {
        // The definition in PostgreSQL's documentation.
        ("date_trunc", [field, time, zone]) => {
            let zone = || (*zone).clone();
            let time = cast((*time).clone(), DataType::Timestamp(None, TimezoneInfo::WithTimeZone));
            let there = || call("timezone", vec![zone(), time.clone()]);
            let truncated = call("date_trunc", vec![(*field).clone(), there()]);
            // Clocks that are set do not change the time since the last full hour.
            Some(match text(field) {
                Some(field) if is_within_hours(field) => {
                    let since = nested(binary(there(), BinaryOperator::Minus, truncated));
                    nested(binary(time, BinaryOperator::Minus, since))
                }
                _ => call("timezone", vec![zone(), truncated]),
            })
        }
        ("current_timestamp" | "current_time" | "localtimestamp" | "localtime", [digits]) => {
            let now = word(&name).unwrap_or_else(|| call(&name, Vec::new()));
            Some(match digits.to_string().as_str() {
                "0" => call("date_trunc", vec![literal("second"), now]),
                "1" | "2" | "3" => call("date_trunc", vec![literal("millisecond"), now]),
                _ => now,
            })
        }
        ("lead" | "lag", [of, by, default]) if function.over.is_some() && !is_literal(default) => {
            let (of, by, default) = ((*of).clone(), (*by).clone(), (*default).clone());
            let over = |args: Vec<Expr>| {
                Expr::Function(Function { over: function.over.clone(), ..ast_function(&name, args) })
            };
            let has_row = over(vec![boolean(true), by.clone(), boolean(false)]);
            Some(nested(Expr::Case {
                case_token: AttachedToken::empty(),
                end_token: AttachedToken::empty(),
                operand: None,
                conditions: vec![CaseWhen { condition: has_row, result: over(vec![of, by]) }],
                else_result: Some(Box::new(default)),
            }))
        }
        ("mod", [of, by]) => {
            let (of, by) = (nested((*of).clone()), nested((*by).clone()));
            Some(nested(binary(of, BinaryOperator::Modulo, by)))
        }
        ("date", [time]) => Some(cast((*time).clone(), DataType::Date)),
        ("generate_series", [from, to, step]) => {
            let step = interval(text(step)?);
            Some(call("generate_series", vec![(*from).clone(), (*to).clone(), step]))
        }
        _ => None,
    }
}

/// Sums and products of decimal constants, which are exact in PostgreSQL: 0.06 + 0.01 is 0.07.
fn exact(left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Expr> {
    let ((a, a_scale), (b, b_scale)) = (decimal(left)?, decimal(right)?);
    if a_scale.max(b_scale) == 0 {
        return None;
    }
    let aligned = |value: i128, scale: u32, to: u32| value.checked_mul(10_i128.checked_pow(to - scale)?);
    let scale = a_scale.max(b_scale);
    let (value, scale) = match op {
        BinaryOperator::Plus => {
            (aligned(a, a_scale, scale)?.checked_add(aligned(b, b_scale, scale)?)?, scale)
        }
        BinaryOperator::Minus => {
            (aligned(a, a_scale, scale)?.checked_sub(aligned(b, b_scale, scale)?)?, scale)
        }
        BinaryOperator::Multiply => (a.checked_mul(b)?, a_scale + b_scale),
        _ => return None,
    };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale as usize + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    let number = number(format!("{whole}.{fraction}"));
    Some(match value < 0 {
        true => nested(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) }),
        false => number,
    })
}

fn decimal(expr: &Expr) -> Option<(i128, u32)> {
    let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = expr else { return None };
    let number = number.to_string();
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.len() > 15 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, u32::try_from(fraction.len()).ok()?))
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
    use datafusion::sql::sqlparser::ast::VisitMut;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn translated(sql: &str) -> Result<String, QueryError> {
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        match statements.visit(&mut Forms) {
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
            ("SELECT a COLLATE \"C\" FROM t", "SELECT a FROM t"),
            ("SELECT '1 day 02:00:00'::interval", "SELECT INTERVAL '1 day 02 hours 00 minutes 00 seconds'"),
            ("SELECT interval '1 day'", "SELECT INTERVAL '1 day'"),
            ("SELECT localtimestamp", "SELECT to_local_time(now())"),
            ("SELECT ceiling(a), mod(a, 2) FROM t", "SELECT ceil(a), ((a) % (2)) FROM t"),
            ("SELECT n FROM generate_series(1, 2) n", "SELECT n FROM generate_series(1, 2) AS n (n)"),
            (
                "SELECT * FROM generate_series(1, 2)",
                "SELECT * FROM generate_series(1, 2) AS generate_series (generate_series)",
            ),
            ("SELECT generate_series(1, 2)", "SELECT unnest(generate_series(1, 2)) AS generate_series"),
            ("SELECT 0.06 + 0.01, 1 + 2, 0.1 * 0.1", "SELECT 0.07, 1 + 2, 0.01"),
            ("SELECT 0.01 - 0.06", "SELECT (-0.05)"),
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
