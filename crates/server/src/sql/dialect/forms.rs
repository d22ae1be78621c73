//! Clauses and expressions that are replaced by equivalent ones.

use std::collections::HashSet;
use std::ops::ControlFlow;

use coscan_upstream::walk::{visit_expressions, visit_expressions_mut};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, DateTimeField, DuplicateTreatment, ExactNumberInfo, Expr,
    Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    Ident, Interval, ObjectName, OrderByExpr, OrderByOptions, Query, Select, SelectItem, Statement,
    TableFactor, TimezoneInfo, TypedString, Value, ValueWithSpan, VisitorMut,
};

use super::interval::{in_words, interval};
use super::{arrays, fetch, json, operators, rows, sample};
use crate::sql::QueryError;
use crate::sql::ast::{binary, call, cast, function as ast_function, literal, nested, number, text};

/// Functions that have another name in the query engine.
const RENAMED: [(&str, &str); 10] = [
    ("array_remove", "array_remove_all"),
    ("array_to_json", "to_json"),
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
        match query.fetch.take() {
            Some(fetch) => fetch::fetch(query, fetch).map_or_else(ControlFlow::Break, ControlFlow::Continue),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<QueryError> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                && let Expr::Function(function) = expr
                && let Some((name, list)) = rows::of(function)
            {
                function.name = Ident::new(list).into();
                let rows = call("unnest", vec![expr.clone()]);
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
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<QueryError> {
        let replaced = sample::replace(factor).and_then(|()| rows::replace(factor));
        replaced.map_or_else(ControlFlow::Break, ControlFlow::Continue)
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
            check_collation(collation)?;
            Some(expr.as_ref().clone())
        }
        Expr::Interval(Interval {
            value,
            leading_field: Some(DateTimeField::Year),
            last_field: Some(DateTimeField::Month),
            ..
        }) => text(value).and_then(years_and_months).map(|words| interval(&words)),
        Expr::Interval(Interval { value, leading_field: None, .. }) => {
            if let Some(words) = text(value).and_then(in_words) {
                **value = literal(words);
            }
            None
        }
        Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => text(expr).map(interval),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, .. } => {
            text_type(data_type, expr.as_ref()).or_else(|| numeric(data_type, expr.as_ref()))
        }
        Expr::TypedString(TypedString { data_type, value, .. }) => {
            let of = Expr::Value(value.clone());
            text_type(data_type, &of).or_else(|| numeric(data_type, &of))
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
        Expr::Substring { substring_from: Some(pattern), .. } => {
            operators::change_pattern(pattern);
            None
        }
        Expr::Value(ValueWithSpan { value: Value::UnicodeStringLiteral(text), .. }) => {
            Some(literal(text.as_str()))
        }
        expr => match operators::replaced(expr) {
            None => arrays::replaced(expr)?,
            other => other,
        },
    })
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

/// Returns whether an expression is a constant without a fraction, which has the type that its place wants.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_literal(expr),
        expr => matches!(expr, Expr::Value(_)) && !has_fraction(expr),
    }
}

fn has_fraction(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) if number.contains(['.', 'e', 'E']))
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

/// Gives lists of different values the order of PostgreSQL, which sorts to find them.
fn order_distinct(function: &mut Function, name: &str) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct) && list.clauses.is_empty();
    if let ("array_agg" | "string_agg", true, Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(of)))) =
        (name, distinct && function.over.is_none(), list.args.first())
    {
        let options = OrderByOptions { asc: None, nulls_first: None };
        let by = OrderByExpr { expr: of.clone(), options, with_fill: None };
        list.clauses.push(FunctionArgumentClause::OrderBy(vec![by]));
    }
}

/// Constant patterns of regular expressions among the arguments of a function.
fn patterns(function: &mut Function, name: &str) {
    let FunctionArguments::List(list) = &mut function.args else { return };
    if !name.starts_with("regexp_") {
        return;
    }
    let mut args = list.args.iter_mut().skip(1).map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    });
    if let Some(Some(pattern)) = args.next() {
        operators::change_pattern(pattern);
    }
    // The whole match.
    if let ("regexp_replace", Some(Some(by))) = (name, args.next())
        && let Some(other) = text(by).filter(|by| by.contains(r"\&")).map(|by| by.replace(r"\&", r"\0"))
    {
        *by = literal(other);
    }
}

/// Calls of functions with other arguments.
fn called(function: &mut Function) -> Option<Expr> {
    let name = function.name.to_string().to_ascii_lowercase();
    order_distinct(function, &name);
    patterns(function, &name);
    if let Some(json) = json::made(function, &name) {
        return Some(json);
    }
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
        // An empty array has no dimension.
        ("array_length", [of, dimension]) => {
            let length = call("array_length", vec![(*of).clone(), (*dimension).clone()]);
            Some(call("nullif", vec![length, number("0")]))
        }
        ("make_timestamptz", [parts @ .., zone]) if parts.len() == 6 => {
            let time = call("make_timestamp", parts.iter().map(|part| (*part).clone()).collect());
            Some(call("timezone", vec![(*zone).clone(), time]))
        }
        ("make_timestamptz", parts) => {
            let time = call("make_timestamp", parts.iter().map(|part| (*part).clone()).collect());
            Some(cast(time, DataType::Timestamp(None, TimezoneInfo::WithTimeZone)))
        }
        // No time is infinite here.
        ("isfinite", [time]) => {
            let known = Expr::IsNotNull(Box::new(nested((*time).clone())));
            Some(call("nullif", vec![known, boolean(false)]))
        }
        ("generate_series", [from, to, step]) => {
            let step = interval(text(step)?);
            Some(call("generate_series", vec![(*from).clone(), (*to).clone(), step]))
        }
        _ => None,
    }
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
