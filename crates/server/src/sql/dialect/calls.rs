//! Calls of functions with other names, arguments or types.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, DataType, DateTimeField, DuplicateTreatment, Expr, ExtractSyntax, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident,
    OrderByExpr, OrderByOptions, TimezoneInfo, TypedString, UnaryOperator, Value, ValueWithSpan,
};

use super::interval::interval;
use super::{json, operators};
use crate::sql::ast::{
    binary, call, cast, function as ast_function, is_parameter, literal, nested, number, text,
};
use crate::sql::functions::IN_ZONE_OF_PARTS;

/// Functions that have another name in the query engine.
const RENAMED: [(&str, &str); 6] = [
    ("array_replace", "array_replace_all"),
    ("ceiling", "ceil"),
    ("current_catalog", "current_database"),
    ("every", "bool_and"),
    ("sign", "signum"),
    ("variance", "var_samp"),
];

/// Functions whose result is an unsigned or a long integer in the query engine, with PostgreSQL's type of it. Clients show
/// an unsigned one as a decimal.
const COUNTS: [(&str, DataType); 13] = [
    ("array_length", DataType::Integer(None)),
    ("array_ndims", DataType::Integer(None)),
    ("array_lower", DataType::Integer(None)),
    ("array_position", DataType::Integer(None)),
    ("array_upper", DataType::Integer(None)),
    ("cardinality", DataType::Integer(None)),
    ("dense_rank", DataType::BigInt(None)),
    ("ntile", DataType::Integer(None)),
    ("rank", DataType::BigInt(None)),
    ("regexp_count", DataType::Integer(None)),
    ("regexp_instr", DataType::Integer(None)),
    ("regr_count", DataType::BigInt(None)),
    ("row_number", DataType::BigInt(None)),
];

/// Arguments that are numbers, by their positions. PostgreSQL reads text constants there as numbers.
const OF_NUMBERS: [(&str, &[usize]); 26] = [
    ("abs", &[0]),
    ("array_length", &[1]),
    ("ceiling", &[0]),
    ("chr", &[0]),
    ("exp", &[0]),
    ("lag", &[1]),
    ("lead", &[1]),
    ("left", &[1]),
    ("ln", &[0]),
    ("lpad", &[1]),
    ("make_date", &[0, 1, 2]),
    ("mod", &[0, 1]),
    ("nth_value", &[1]),
    ("ntile", &[0]),
    ("percentile_cont", &[0]),
    ("percentile_disc", &[0]),
    ("pow", &[0, 1]),
    ("power", &[0, 1]),
    ("repeat", &[1]),
    ("right", &[1]),
    ("round", &[0, 1]),
    ("rpad", &[1]),
    ("split_part", &[2]),
    ("sqrt", &[0]),
    ("trunc", &[0, 1]),
    ("width_bucket", &[0, 1, 2, 3]),
];

/// Names of types that are functions, too: `float8(x)` is a cast.
const CASTS: [(&str, DataType); 6] = [
    ("bool", DataType::Boolean),
    ("float4", DataType::Real),
    ("float8", DataType::DoublePrecision),
    ("int2", DataType::SmallInt(None)),
    ("int4", DataType::Integer(None)),
    ("int8", DataType::BigInt(None)),
];

/// Makes text constants in such arguments numbers.
fn numbers(function: &mut Function, name: &str) {
    let Ok(at) = OF_NUMBERS.binary_search_by_key(&name, |(known, _)| known) else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    for position in OF_NUMBERS[at].1 {
        if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))) = list.args.get_mut(*position) {
            match (name, text(arg)) {
                ("abs", Some(_)) => *arg = cast(arg.clone(), DataType::DoublePrecision),
                _ => as_number(arg),
            }
        }
    }
}

/// Makes a text constant a number.
pub(super) fn as_number(arg: &mut Expr) {
    if let Some(digits) = text(arg).map(str::trim)
        && digits.parse::<f64>().is_ok_and(f64::is_finite)
    {
        *arg = match digits.strip_prefix('-') {
            Some(digits) => negative(digits),
            None => number(digits),
        };
    }
}

/// Calls of functions with other arguments.
pub(super) fn called(function: &mut Function) -> Option<Expr> {
    let name = function.name.to_string().to_ascii_lowercase();
    numbers(function, &name);
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
    if let [of] = args[..]
        && let Some((_, to)) = CASTS.into_iter().find(|(known, _)| *known == name)
    {
        return Some(cast(of.clone(), to));
    }
    let other = match (name.as_str(), &args[..]) {
        // The definition in PostgreSQL's documentation.
        ("date_trunc", [field, time, zone]) => {
            let zone = || (*zone).clone();
            let time = cast((*time).clone(), DataType::Timestamp(None, TimezoneInfo::WithTimeZone));
            let there = || call("timezone", vec![zone(), time.clone()]);
            let truncated = call("date_trunc", vec![(*field).clone(), there()]);
            // Clocks that are set do not change the time since the last full hour.
            let since = nested(binary(there(), BinaryOperator::Minus, truncated.clone()));
            let within_hours = nested(binary(time.clone(), BinaryOperator::Minus, since));
            let beyond = call("timezone", vec![zone(), truncated]);
            Some(match text(field) {
                Some(field) if is_within_hours(field) => within_hours,
                Some(_) => beyond,
                None => either(names_hours(field), within_hours, beyond),
            })
        }
        ("now" | "current_timestamp" | "statement_timestamp" | "transaction_timestamp", []) => Some(now()),
        ("date_part", [field, time]) if text(field).is_some_and(has_fraction_or_is_lacking) => {
            let field = DateTimeField::Custom(Ident::new(text(field)?));
            Some(Expr::Extract { field, syntax: ExtractSyntax::From, expr: Box::new((*time).clone()) })
        }
        ("date_trunc", [unit, time]) => match text(unit)?.to_ascii_lowercase().as_str() {
            unit @ ("milliseconds" | "microseconds") => {
                Some(call("date_trunc", vec![literal(unit.trim_end_matches('s')), (*time).clone()]))
            }
            unit => first_of_years(unit, time),
        },
        ("current_timestamp" | "current_time" | "localtimestamp" | "localtime", [digits]) => {
            let now = word(&name).unwrap_or_else(|| call(&name, Vec::new()));
            Some(match digits.to_string().as_str() {
                "0" => call("date_trunc", vec![literal("second"), now]),
                "1" | "2" | "3" => call("date_trunc", vec![literal("millisecond"), now]),
                _ => now,
            })
        }
        ("lead" | "lag", [_, by, ..]) if function.over.is_some() && is_null(by) => {
            let none = Expr::value(Value::Null);
            Some(either(boolean(false), Expr::Function(with_first_argument(function)), none))
        }
        ("lead" | "lag", [of, by, default]) if function.over.is_some() && !is_literal(default) => {
            let (of, by, default) = ((*of).clone(), (*by).clone(), (*default).clone());
            let over = |args: Vec<Expr>| {
                Expr::Function(Function { over: function.over.clone(), ..ast_function(&name, args) })
            };
            let has_row = over(vec![boolean(true), by.clone(), boolean(false)]);
            Some(either(has_row, over(vec![of, by]), default))
        }
        ("lpad" | "rpad", [of, length, by @ ..]) if !is_literal(length) => {
            let length = call("greatest", vec![(*length).clone(), number("0")]);
            let by = by.iter().map(|by| (*by).clone());
            Some(call(&name, [(*of).clone(), length].into_iter().chain(by).collect()))
        }
        ("mod", [of, by]) => {
            let (of, by) = (nested((*of).clone()), nested((*by).clone()));
            Some(nested(binary(of, BinaryOperator::Modulo, by)))
        }
        // Other arguments than the first are no bytes.
        (
            "encode" | "sha224" | "sha256" | "sha384" | "sha512" | "get_byte" | "get_bit" | "set_byte"
            | "set_bit",
            [bytes, others @ ..],
        ) if text(bytes).is_some() || is_parameter(bytes) => {
            let bytes = cast((*bytes).clone(), DataType::Bytea);
            let others = others.iter().map(|other| (*other).clone());
            Some(call(&name, [bytes].into_iter().chain(others).collect()))
        }
        ("gen_random_uuid", []) => Some(call("uuid_text", vec![call("uuid", Vec::new())])),
        ("date", [time]) => Some(cast((*time).clone(), DataType::Date)),
        // Bounds of dimensions, such as `[1:3]`. The query engine has a list of lengths.
        ("array_dims", [of]) => {
            let lengths = call("array_dims", vec![(*of).clone()]);
            let lengths = call("array_to_string", vec![lengths, literal("][1:")]);
            let begun = binary(literal("[1:"), BinaryOperator::StringConcat, lengths);
            Some(nested(binary(begun, BinaryOperator::StringConcat, literal("]"))))
        }
        // An empty array has no dimension.
        ("array_ndims", [of]) => {
            let has_elements =
                binary(call("cardinality", vec![(*of).clone()]), BinaryOperator::Gt, number("0"));
            let count = call("array_ndims", vec![(*of).clone()]);
            Some(either(has_elements, count, Expr::value(Value::Null)))
        }
        ("array_length", [of, dimension]) => {
            let length = call("array_length", vec![(*of).clone(), (*dimension).clone()]);
            Some(call("nullif", vec![length, number("0")]))
        }
        ("make_timestamptz", [parts @ .., zone]) if parts.len() == 6 => {
            let time = call("make_timestamp", parts.iter().map(|part| (*part).clone()).collect());
            Some(call(IN_ZONE_OF_PARTS, vec![(*zone).clone(), time]))
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
        ("generate_series", [from, to]) => {
            let to_number =
                text(to).filter(|digits| text(from).is_none() && digits.parse::<i64>().is_ok())?;
            Some(call("generate_series", vec![(*from).clone(), nested(number(to_number))]))
        }
        ("generate_series", [from, to, step]) => {
            let step = match text(step).filter(|step| step.parse::<i64>().is_err()) {
                Some(words) => interval(words),
                None if is_parameter(step) && is_time(from) => {
                    cast((*step).clone(), DataType::Interval { fields: None, precision: None })
                }
                None => return None,
            };
            Some(call("generate_series", vec![(*from).clone(), like(from, to), step]))
        }
        _ => None,
    };
    match COUNTS.into_iter().find(|(known, _)| *known == name) {
        Some((_, to)) => Some(cast(other.unwrap_or_else(|| Expr::Function(function.clone())), to)),
        None => other,
    }
}

/// The time at which the statement began, in microseconds.
fn now() -> Expr {
    cast(call("now", Vec::new()), DataType::Timestamp(Some(6), TimezoneInfo::WithTimeZone))
}

/// The replacement of a word without parentheses: times on the session's clock.
pub(super) fn word(name: &str) -> Option<Expr> {
    let here = || cast(call("now", Vec::new()), DataType::Timestamp(Some(6), TimezoneInfo::None));
    match name {
        "current_timestamp" => Some(now()),
        "localtimestamp" => Some(here()),
        "localtime" => Some(cast(here(), DataType::Time(None, TimezoneInfo::None))),
        "current_catalog" => Some(call("current_database", Vec::new())),
        "current_role" | "current_schema" => Some(call(name, Vec::new())),
        _ => None,
    }
}

/// A text or a parameter as a value of the type that another expression states.
pub(super) fn like(of: &Expr, constant: &Expr) -> Expr {
    match of {
        Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })
            if text(constant).is_some() || is_parameter(constant) =>
        {
            cast(constant.clone(), data_type.clone())
        }
        // Beside numbers with an exponent, others have one, too.
        Expr::Cast {
            data_type: of @ (DataType::DoublePrecision | DataType::Double(_) | DataType::Real),
            ..
        } if is_number(constant) => cast(constant.clone(), of.clone()),
        Expr::Interval(_) => text(constant).map_or_else(|| constant.clone(), interval),
        _ => constant.clone(),
    }
}

fn negative(digits: &str) -> Expr {
    nested(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number(digits)) })
}

/// Returns whether an expression is a number as written.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => is_number(expr),
        expr => matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(..), .. })),
    }
}

/// Returns whether an expression is written as a time.
fn is_time(expr: &Expr) -> bool {
    let (Expr::Cast { data_type, .. } | Expr::TypedString(TypedString { data_type, .. })) = expr else {
        return false;
    };
    matches!(data_type, DataType::Date | DataType::Timestamp(..))
}

/// `date_trunc` of a decade, a century or a millennium: the first of January of a year before that of the time.
fn first_of_years(unit: &str, time: &Expr) -> Option<Expr> {
    let (first, years) = match unit {
        "decade" | "decades" => (0, 10),
        "century" | "centuries" => (1, 100),
        "millennium" | "millennia" => (1, 1000),
        _ => return None,
    };
    let year = cast(call("date_part", vec![literal("year"), time.clone()]), DataType::Integer(None));
    let since = binary(
        nested(binary(year, BinaryOperator::Minus, number(first))),
        BinaryOperator::Modulo,
        number(years),
    );
    let since = call("make_interval", vec![nested(since)]);
    let year = call("date_trunc", vec![literal("year"), time.clone()]);
    Some(nested(binary(year, BinaryOperator::Minus, since)))
}

/// Units of an hour or less.
const WITHIN_HOURS: [&str; 5] = ["hour", "minute", "second", "millisecond", "microsecond"];

/// Returns whether a unit of `date_trunc` is an hour or less.
pub(super) fn is_within_hours(unit: &str) -> bool {
    WITHIN_HOURS.contains(&unit.to_ascii_lowercase().trim_end_matches('s'))
}

/// The condition that a unit is an hour or less.
fn names_hours(unit: &Expr) -> Expr {
    let unit = call("rtrim", vec![call("lower", vec![unit.clone()]), literal("s")]);
    Expr::InList {
        expr: Box::new(unit),
        list: WITHIN_HOURS.into_iter().map(literal).collect(),
        negated: false,
    }
}

/// One of two values.
pub(super) fn either(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
    nested(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: then }],
        else_result: Some(Box::new(otherwise)),
    })
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

/// Returns whether a part of a time has fractions, or is one that only EXTRACT has.
fn has_fraction_or_is_lacking(field: &str) -> bool {
    const FIELDS: [&str; 5] = ["julian", "decade", "century", "millennium", "microseconds"];
    let field = field.to_ascii_lowercase();
    FIELDS.contains(&&*field)
        || field.starts_with("sec")
        || field.starts_with("millisecond")
        || field == "msec"
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::Null, .. }))
}

/// The call with its first argument only.
fn with_first_argument(function: &Function) -> Function {
    let mut function = function.clone();
    if let FunctionArguments::List(list) = &mut function.args {
        list.args.truncate(1);
    }
    function
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
