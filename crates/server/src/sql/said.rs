//! PostgreSQL's words for errors of the query engine, with a hint and the place in the statement.
//!
//! Clients and tools search messages for PostgreSQL's words, and editors mark the place. The query engine has its own
//! words, which [`said`] recognises. A message that it does not know keeps its words, without the names of the engine's
//! parts before them.

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::common::{Column, DataFusionError, SchemaError};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::parser::ParserError;

use super::columns::type_names;
use super::shown::shown;
use super::text::Place;
use super::type_numbers::type_number;

/// Names of the engine's parts before a message.
const PREFIXES: [&str; 21] = [
    "Arrow error: ",
    "Arrow: ",
    "Cast error: ",
    "Compute error: ",
    "Configuration error: ",
    "Error during planning: ",
    "Execution error: ",
    "External error: ",
    "External: ",
    "Internal error: ",
    "Invalid argument error: ",
    "Invalid or Unsupported Configuration: ",
    "IO error: ",
    "Object Store error: ",
    "Parquet error: ",
    "Parser error: ",
    "Resources exhausted: ",
    "Schema error: ",
    "SQL error: ",
    "sql parser error: ",
    "This feature is not implemented: ",
];

const FUNCTION_HINT: &str =
    "No function matches the given name and argument types. You might need to add explicit type casts.";
const OPERATOR_HINT: &str =
    "No operator matches the given name and argument types. You might need to add explicit type casts.";

/// The greatest number of different letters of a similar name, as in PostgreSQL.
const SIMILAR_MAX: usize = 3;

/// An error in PostgreSQL's words.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Said {
    /// The code, if it follows from the words.
    pub(super) sqlstate: Option<&'static str>,
    pub(super) text: String,
    pub(super) hint: Option<String>,
    pub(super) place: Option<Place>,
}

impl Said {
    fn of(sqlstate: &'static str, text: impl Into<String>) -> Self {
        Said { sqlstate: Some(sqlstate), text: text.into(), ..Said::default() }
    }

    fn at(self, place: Place) -> Self {
        Said { place: Some(place), ..self }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Said { hint: Some(hint.into()), ..self }
    }
}

/// The words for an error.
pub(super) fn said(error: &DataFusionError) -> Said {
    let root = error.find_root();
    let text = match root {
        DataFusionError::SchemaError(error, _) => {
            return of_schema(error)
                .unwrap_or_else(|| Said { text: words(&error.to_string()), ..Said::default() });
        }
        DataFusionError::SQL(error, _) => match error.as_ref() {
            ParserError::ParserError(text) | ParserError::TokenizerError(text) => text.clone(),
            error @ ParserError::RecursionLimitExceeded => error.to_string(),
        },
        DataFusionError::ArrowError(error, _) => of_arrow(error),
        other => {
            let text = other.message();
            text.split(DataFusionError::BACK_TRACE_SEP).next().unwrap_or_default().to_owned()
        }
    };
    let text = words(&text);
    known(&text).unwrap_or_else(|| {
        let parts = contexts(error).into_iter().chain([text]).collect::<Vec<_>>();
        Said { text: parts.join(": "), ..Said::default() }
    })
}

/// What was done when the error occurred. Rules of the engine's planner are no help.
fn contexts(mut error: &DataFusionError) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        error = match error {
            DataFusionError::Context(what, inner) => {
                let is_rule =
                    what.starts_with("Optimizer rule") || what == "Invalid regex" || !what.contains(' ');
                if !is_rule {
                    found.push(what.split_whitespace().collect::<Vec<_>>().join(" "));
                }
                inner
            }
            DataFusionError::Shared(inner) => inner,
            DataFusionError::Diagnostic(_, inner) => inner,
            _ => return found,
        }
    }
}

fn of_arrow(error: &ArrowError) -> String {
    match error {
        ArrowError::ExternalError(error) => error.to_string(),
        ArrowError::CastError(text)
        | ArrowError::ComputeError(text)
        | ArrowError::ParseError(text)
        | ArrowError::InvalidArgumentError(text)
        | ArrowError::SchemaError(text)
        | ArrowError::ArithmeticOverflow(text)
        | ArrowError::NotYetImplemented(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The text in one line, without names of the engine's parts at its beginning.
fn words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut rest = line.as_str();
    while let Some(shorter) = PREFIXES.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = shorter.trim_start();
    }
    // The engine's contexts.
    match rest.rsplit_once(" caused by ") {
        Some((_, cause)) => words(cause),
        None => rest.to_owned(),
    }
}

fn of_schema(error: &SchemaError) -> Option<Said> {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => Some(no_column(field, valid_fields)),
        SchemaError::AmbiguousReference { field } => {
            let name = &field.name;
            let said = Said::of("42702", format!("column reference \"{name}\" is ambiguous"));
            Some(said.at(Place::Column(vec![name.clone()])))
        }
        SchemaError::DuplicateQualifiedField { qualifier, .. } => {
            let table = qualifier.table();
            Some(Said::of("42712", format!("table name \"{table}\" specified more than once")))
        }
        SchemaError::DuplicateUnqualifiedField { .. } => None,
    }
}

fn no_column(field: &Column, valid: &[Column]) -> Said {
    let table = field.relation.as_ref().map(|relation| relation.table());
    let of_table = |column: &&Column| column.relation.as_ref().map(|of| of.table()) == table;
    if let Some(table) = table
        && !valid.iter().any(|column| of_table(&column))
    {
        let said = Said::of("42P01", format!("missing FROM-clause entry for table \"{table}\""));
        return said.at(Place::Column(vec![table.to_owned(), field.name.clone()]));
    }
    let mut found: Vec<(usize, String)> = Vec::new();
    for column in valid.iter().filter(|column| table.is_none() || of_table(column)) {
        let (name, wanted) = (shown(&column.name), field.name.as_str());
        let distance = levenshtein(name, wanted);
        let shown = match &column.relation {
            Some(relation) => format!("\"{}.{name}\"", relation.table()),
            None => format!("\"{name}\""),
        };
        if distance <= SIMILAR_MAX.min(wanted.chars().count() / 2)
            && !found.contains(&(distance, shown.clone()))
        {
            found.push((distance, shown));
        }
    }
    let least = found.iter().map(|(distance, _)| *distance).min();
    found.retain(|(distance, _)| Some(*distance) == least);
    let (text, place) = match table {
        Some(table) => (
            format!("column {table}.{} does not exist", field.name),
            vec![table.to_owned(), field.name.clone()],
        ),
        None => (format!("column \"{}\" does not exist", field.name), vec![field.name.clone()]),
    };
    let said = Said::of("42703", text).at(Place::Column(place));
    match &found[..] {
        [(_, one)] => said.hint(format!("Perhaps you meant to reference the column {one}.")),
        [(_, one), (_, two)] => {
            said.hint(format!("Perhaps you meant to reference the column {one} or the column {two}."))
        }
        _ => said,
    }
}

/// The name that is most similar to a missing one.
pub(super) fn similar<'a>(wanted: &str, names: &'a [String]) -> Option<&'a String> {
    let distance = |name: &&String| levenshtein(&name.to_lowercase(), &wanted.to_lowercase());
    let least = names.iter().min_by_key(distance)?;
    (distance(&least) <= SIMILAR_MAX.min(wanted.chars().count() / 2)).then_some(least)
}

/// The part of a text between two others.
fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(behind).map(|(inside, _)| inside)
}

/// The words for a known text of the query engine.
fn known(text: &str) -> Option<Said> {
    value(text).or_else(|| object(text)).or_else(|| clause(text))
}

/// Values that cannot be read or do not fit.
fn value(text: &str) -> Option<Said> {
    if text.contains("Divide by zero") || text.contains("DivideByZero") {
        return Some(Said::of("22012", "division by zero"));
    }
    for (before, middle) in
        [("Cannot cast string '", "' to value of "), ("Cannot cast value '", "' to value of ")]
    {
        if let Some((_, rest)) = text.split_once(before)
            && let Some((value, of)) = rest.rsplit_once(middle)
        {
            return Some(no_value(value, of.strip_suffix(" type").unwrap_or(of)));
        }
    }
    if let Some((_, rest)) = text.split_once("Error parsing timestamp from '")
        && let Some((value, _)) = rest.rsplit_once("': ")
    {
        return Some(no_value(value, "Timestamp"));
    }
    if let Some((_, value)) = text.split_once("Invalid input syntax for type interval: ") {
        let said = Said::of("22007", format!("invalid input syntax for type interval: {value}"));
        return Some(said.at(Place::Text(value.trim_matches('"').to_owned())));
    }
    if let Some((_, rest)) = text.split_once("Can't cast value ")
        && let Some((_, of)) = rest.rsplit_once(" to type ")
    {
        return Some(Said::of("22003", format!("{} out of range", named(of))));
    }
    for size in [" is too large", " is too small"] {
        if let Some((value, rest)) = text.split_once(size)
            && let Some((_, limit)) = rest.split_once(" to store in a Decimal")
        {
            let (value, limit) = (words(value), limit.trim_start_matches(|c: char| c.is_ascii_digit()));
            let hint = format!("{value}{size} for a numeric{limit}.");
            return Some(Said::of("22003", "numeric field overflow").hint(hint));
        }
    }
    if let Some((range, rest)) = text.split_once(" out of range: ")
        && rest.contains("overflows; cast an argument to ")
    {
        let hint =
            rest.replace("overflows; cast an argument to DECIMAL", "overflows: cast an argument to numeric");
        return Some(Said::of("22003", format!("{range} out of range")).hint(format!("{hint}.")));
    }
    if text.contains("cannot take square root of a negative number") {
        return Some(Said::of("2201F", "cannot take square root of a negative number"));
    }
    let unit = between(text, "Unsupported date_trunc granularity: '", "'");
    if let Some(unit) = unit.or_else(|| between(text, "Date part '", "' not supported")) {
        return Some(Said::of("22023", format!("unit \"{unit}\" not recognized")));
    }
    if text == "Step cannot be zero" {
        return Some(Said::of("22023", "step size cannot equal zero"));
    }
    if let Some((_, why)) = text.split_once("regex parse error: ") {
        let why = why.rsplit_once("error: ").map_or(why, |(_, why)| why);
        return Some(Said::of("2201B", format!("invalid regular expression: {why}")));
    }
    None
}

fn no_value(value: &str, of: &str) -> Said {
    let of = named(of);
    let place = Place::Text(value.to_owned());
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let whole = value.trim().trim_start_matches(['-', '+']);
    let is_time = of == "date" || of.starts_with("time");
    let day: Vec<&str> = value.split([' ', 'T']).next().unwrap_or_default().split('-').collect();
    let said = if matches!(of.as_str(), "smallint" | "integer" | "bigint") && digits(whole) {
        Said::of("22003", format!("value \"{value}\" is out of range for type {of}"))
    } else if is_time && day.len() == 3 && day.iter().all(|part| digits(part)) {
        Said::of("22008", format!("date/time field value out of range: \"{value}\""))
    } else {
        let of = of.strip_suffix(" without time zone").unwrap_or(&of);
        Said::of(
            if is_time { "22007" } else { "22P02" },
            format!("invalid input syntax for type {of}: \"{value}\""),
        )
    };
    said.at(place)
}

/// Missing tables, functions, types and operators.
fn object(text: &str) -> Option<Said> {
    if let Some(name) = between(text, "table function '", "' not found") {
        return Some(no_function(name, None));
    }
    if let Some(name) = between(text, "table '", "' not found") {
        // The name of a file or an address has dots, too.
        let parts = name.split_once(".public.").map(|(_, table)| ("public", table)).or_else(|| {
            let (rest, table) = name.rsplit_once('.')?;
            Some((rest.rsplit('.').next().unwrap_or_default(), table))
        });
        let (schema, table) = parts.unwrap_or(("public", name));
        let shown = if schema == "public" { table.to_owned() } else { format!("{schema}.{table}") };
        let said = Said::of("42P01", format!("relation \"{shown}\" does not exist"));
        return Some(said.at(Place::Relation(vec![schema.to_owned(), table.to_owned()])));
    }
    if let Some(name) = between(text, "Invalid function '", "'") {
        return Some(no_function(name, None));
    }
    let words = "op ANY/ALL (array) requires array on right side";
    if text.contains(words) {
        return Some(Said::of("42809", words));
    }
    if let Some(call) = between(text, "given name and argument types '", "'. ")
        && let Some((name, types)) = call.strip_suffix(')').and_then(|call| call.split_once('('))
        && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    {
        return Some(no_function(name, Some(listed(types))));
    }
    if let Some(of) = text.strip_prefix("Unsupported SQL type ") {
        let of = of.to_ascii_lowercase();
        return Some(match type_number(&of) {
            Some(_) => Said::of("0A000", format!("type {of} is not supported")),
            None => {
                let word = of.trim_end_matches("[]").to_owned();
                Said::of("42704", format!("type \"{of}\" does not exist")).at(Place::Type(word))
            }
        });
    }
    if let Some(table) = text.strip_prefix("Invalid qualifier ") {
        let said = Said::of("42P01", format!("missing FROM-clause entry for table \"{table}\""));
        return Some(said.at(Place::Column(vec![table.to_owned()])));
    }
    if let Some(of) = text.strip_prefix("Unary operator 'NOT' requires a boolean expression, got ") {
        return Some(Said::of(
            "42804",
            format!("argument of NOT must be type boolean, not type {}", named(of)),
        ));
    }
    if let Some(types) = between(text, "There isn't a common type to coerce ", " in LIKE expression")
        && let Some((left, right)) = types.split_once(" and ")
    {
        let text = format!("operator does not exist: {} ~~ {}", named(left), named(right));
        return Some(Said::of("42883", text).hint(OPERATOR_HINT));
    }
    if text.starts_with("Cannot access field at argument ") {
        return Some(Said::of("42804", "array subscript must have type integer"));
    }
    let operands = between(text, "Cannot coerce arithmetic expression ", " to valid types")
        .or_else(|| text.split_once("common argument type for comparison operation ").map(|(_, of)| of));
    if let Some(operands) = operands {
        let parts: Vec<&str> = operands.split(' ').collect();
        let at = (1..parts.len()).find(|&at| !parts[at].chars().any(char::is_alphanumeric))?;
        let (left, right) = (named(&parts[..at].join(" ")), named(&parts[at + 1..].join(" ")));
        let said = Said::of("42883", format!("operator does not exist: {left} {} {right}", parts[at]));
        return Some(said.at(Place::Operator(parts[at].to_owned())).hint(OPERATOR_HINT));
    }
    None
}

/// A missing function, with the types of its arguments if they are known.
pub(super) fn no_function(name: &str, types: Option<Vec<String>>) -> Said {
    let arguments = types.map(|types| format!("({})", types.join(", "))).unwrap_or_default();
    let said = Said::of("42883", format!("function {name}{arguments} does not exist"));
    said.at(Place::Call(name.to_owned())).hint(FUNCTION_HINT)
}

/// A clause with a wrong content.
fn clause(text: &str) -> Option<Said> {
    if text.contains("must appear in the GROUP BY clause")
        && let Some(name) = between(text, "column \"", "\"")
    {
        let name = shown(name);
        let place = Place::Column(name.split('.').map(str::to_owned).collect());
        let text = format!(
            "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
        );
        return Some(Said::of("42803", text).at(place));
    }
    if let Some((_, of)) = text.split_once("non-boolean predicate ")
        && let Some((_, of)) = of.rsplit_once(" returning ")
    {
        return Some(Said::of(
            "42804",
            format!("argument of WHERE must be type boolean, not type {}", named(of)),
        ));
    }
    for clause in ["LIMIT", "OFFSET"] {
        let wrong = format!("Expected {clause} to be an integer or null, but got ");
        if let Some((_, of)) = text.split_once(&wrong) {
            let text = format!("argument of {clause} must be type bigint, not type {}", named(of));
            return Some(Said::of("42804", text));
        }
    }
    if let Some(at) = between(text, "Order by column out of bounds, specified: ", ",") {
        return Some(Said::of("42P10", format!("ORDER BY position {at} is not in select list")));
    }
    if let Some(name) = between(text, "Unsupported compound identifier '", "'") {
        return Some(Said::of("42601", format!("improper qualified name (too many dotted names): {name}")));
    }
    if let Some(id) = between(text, "Placeholder '", "' was not provided") {
        let said = Said::of("42P02", format!("there is no parameter {id}"));
        return Some(said.at(Place::Operator(id.to_owned())));
    }
    for (words, sqlstate, said) in [
        (
            "Aggregate functions are not allowed in the WHERE clause",
            "42803",
            "aggregate functions are not allowed in WHERE",
        ),
        ("Aggregate function calls cannot be nested", "42803", "aggregate function calls cannot be nested"),
        (
            "UNION queries have different number of columns",
            "42601",
            "each UNION query must have the same number of columns",
        ),
        (
            "INTERSECT queries have different number of columns",
            "42601",
            "each INTERSECT query must have the same number of columns",
        ),
        (
            "EXCEPT queries have different number of columns",
            "42601",
            "each EXCEPT query must have the same number of columns",
        ),
        (
            "Scalar subquery returned more than one row",
            "21000",
            "more than one row returned by a subquery used as an expression",
        ),
        ("LIMIT must be >=", "2201W", "LIMIT must not be negative"),
        ("OFFSET must be >=", "2201X", "OFFSET must not be negative"),
    ] {
        if text.contains(words) {
            return Some(Said::of(sqlstate, said));
        }
    }
    None
}

/// The types in a list, in PostgreSQL's names. Commas may be within types.
fn listed(types: &str) -> Vec<String> {
    let (mut parts, mut depth, mut part) = (Vec::new(), 0, String::new());
    for c in types.chars() {
        match c {
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            c => {
                depth += i32::from(c == '(') - i32::from(c == ')');
                part.push(c);
            }
        }
    }
    parts.push(part);
    parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).map(named).collect()
}

/// PostgreSQL's name of a type that the query engine writes so.
fn named(of: &str) -> String {
    let of = of.trim();
    let known = match of.split(['(', '<']).next().unwrap_or_default() {
        "Null" => "unknown",
        "Boolean" => "boolean",
        "Int8" | "UInt8" | "Int16" => "smallint",
        "UInt16" | "Int32" => "integer",
        "UInt32" | "Int64" => "bigint",
        "UInt64" | "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => "numeric",
        "Float16" | "Float32" => "real",
        "Float64" => "double precision",
        "Utf8" | "LargeUtf8" | "Utf8View" => "text",
        "Binary" | "LargeBinary" | "BinaryView" | "FixedSizeBinary" => "bytea",
        "Date32" | "Date64" => "date",
        "Time32" | "Time64" => "time without time zone",
        "Interval" | "Duration" => "interval",
        "Timestamp" if of.contains("Some(") || of.contains(", \"") || of.contains("s, +") => {
            "timestamp with time zone"
        }
        "Timestamp" => "timestamp without time zone",
        _ => of,
    };
    known.to_owned()
}

/// PostgreSQL's name of the type of an argument. A constant without a type is an integer if it fits.
pub(super) fn argument_type(of: &DataType, constant: Option<&ScalarValue>) -> String {
    match (of, constant) {
        (DataType::Int64, Some(ScalarValue::Int64(Some(value)))) if i32::try_from(*value).is_ok() => {
            "integer".to_owned()
        }
        (DataType::Float64, Some(_)) => "numeric".to_owned(),
        (DataType::Utf8 | DataType::Utf8View, Some(_)) | (DataType::Null, _) => "unknown".to_owned(),
        (DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _), _) => {
            format!("{}[]", type_names(element.data_type()).0)
        }
        (of, _) => type_names(of).0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::{exec_datafusion_err, plan_datafusion_err};

    fn of_cast(text: &str) -> DataFusionError {
        let error = DataFusionError::ArrowError(Box::new(ArrowError::CastError(text.to_owned())), None);
        error.context("Optimizer rule 'simplify_expressions' failed")
    }

    #[test]
    fn words_are_those_of_postgresql() {
        for (error, sqlstate, text) in [
            (
                of_cast("Cannot cast string 'it's' to value of Int32 type"),
                "22P02",
                "invalid input syntax for type integer: \"it's\"",
            ),
            (
                of_cast("Cannot cast string '12345678901' to value of Int32 type"),
                "22003",
                "value \"12345678901\" is out of range for type integer",
            ),
            (
                of_cast("Cannot cast string '2024-13-01' to value of Date32 type"),
                "22008",
                "date/time field value out of range: \"2024-13-01\"",
            ),
            (of_cast("Can't cast value 3000000000 to type Int32"), "22003", "integer out of range"),
            (plan_datafusion_err!("table 'db.public.m' not found"), "42P01", "relation \"m\" does not exist"),
            (
                plan_datafusion_err!("table 'db.public.http://1.2.3.4/f.parquet' not found"),
                "42P01",
                "relation \"http://1.2.3.4/f.parquet\" does not exist",
            ),
            (plan_datafusion_err!("table 'db.x.m' not found"), "42P01", "relation \"x.m\" does not exist"),
            (
                plan_datafusion_err!(
                    "x: No function matches the given name and argument types 'f(Utf8View, Timestamp(ns, \"+00:00\"))'. You might"
                ),
                "42883",
                "function f(text, timestamp with time zone) does not exist",
            ),
            (
                plan_datafusion_err!(
                    "Cannot coerce arithmetic expression Decimal128(15, 2) + Utf8 to valid types"
                )
                .context("type_coercion"),
                "42883",
                "operator does not exist: numeric + text",
            ),
            (exec_datafusion_err!("ParquetError: Arrow: DivideByZero"), "22012", "division by zero"),
        ] {
            let said = said(&error);
            assert_eq!((said.sqlstate, said.text.as_str()), (Some(sqlstate), text), "{error}");
        }
    }

    #[test]
    fn unknown_errors_keep_their_words_and_contexts() {
        let error = DataFusionError::ResourcesExhausted("no room".to_owned()).context("the sort in run 2");
        assert_eq!(said(&error.context("type_coercion")).text, "the sort in run 2: no room");
        let error = DataFusionError::External(Box::new(exec_datafusion_err!("odd")));
        assert_eq!(said(&error).text, "odd");
    }

    #[test]
    fn similar_columns_are_hints() {
        let column = |name: &str| Column::new(Some("nation"), name);
        let valid = [column("n_name"), column("n_regionkey"), column("n_nationkey")];
        let hint = |name: &str| no_column(&Column::new_unqualified(name), &valid).hint;
        assert_eq!(hint("n_nam").unwrap(), "Perhaps you meant to reference the column \"nation.n_name\".");
        assert_eq!(hint("xyz"), None);
        let other = no_column(&Column::new(Some("orders"), "n_name"), &valid);
        assert_eq!(other.text, "missing FROM-clause entry for table \"orders\"");
    }
}
