//! JSON in texts: operators and functions of PostgreSQL's json and jsonb.
//!
//! | module | contents |
//! |---|---|
//! | `tokens` | reads JSON |
//! | `jsonb` | writes it in the form of jsonb |
//! | `build` | makes it from values |
//! | `rows` | lists its parts |
//! | `change` | changes and compares whole values |
//!
//! A value is a text, which metadata of its column mark as JSON, and each function that inspects it parses it again.
//! `x::json` is the same text, or an error if it is not JSON. `x::jsonb` is the text that PostgreSQL would write. A part
//! of a text is returned as it is written there, so parts of jsonb have the form of jsonb.

mod build;
mod change;
mod jsonb;
mod rows;
mod tokens;

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, AsArray, BooleanArray, Int32Array, ListArray, StringArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{DFSchema, Result, exec_err, plan_err};
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, lit};
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::declared::Function;
use crate::sql::arguments::{Numbers, Texts, bound};
use crate::sql::dialect::array_elements;
use crate::values::type_of_texts;
pub(crate) use build::{AS_JSON, as_json};
pub(crate) use jsonb::EXPONENT_MAX;
use jsonb::normal;
use tokens::{Kind, members, unescaped};

const TEXT: fn(&[DataType]) -> DataType = |_| DataType::Utf8View;
const BOOLEAN: fn(&[DataType]) -> DataType = |_| DataType::Boolean;
const INTEGER: fn(&[DataType]) -> DataType = |_| DataType::Int32;

type Compute = fn(&ScalarFunctionArgs) -> Result<ColumnarValue>;

/// A function of one text.
const fn of_text(name: &'static str, gives: fn(&[DataType]) -> DataType, compute: Compute) -> Function {
    Function { name, takes: one_text, gives, compute }
}

/// A function of a text and the steps of a path.
const fn along_steps(name: &'static str, compute: Compute) -> Function {
    Function { name, takes: text_and_steps, gives: TEXT, compute }
}

/// The functions with names.
const FUNCTIONS: [Function; 15] = [
    of_text("json", TEXT, checked),
    of_text("jsonb", TEXT, normalized),
    // A part of JSON needs no check.
    of_text("json_part", TEXT, |args| Ok(args.args[0].clone())),
    of_text("jsonb_part", TEXT, |args| Ok(args.args[0].clone())),
    of_text("json_typeof", TEXT, kinds),
    of_text("jsonb_typeof", TEXT, kinds),
    of_text("json_array_length", INTEGER, array_lengths),
    of_text("jsonb_array_length", INTEGER, array_lengths),
    Function { name: "jsonb_exists", takes: two_texts, gives: BOOLEAN, compute: has_one },
    Function { name: "jsonb_exists_any", takes: text_and_list, gives: BOOLEAN, compute: has_any },
    Function { name: "jsonb_exists_all", takes: text_and_list, gives: BOOLEAN, compute: has_all },
    along_steps("json_extract_path", |args| at_steps(args, Form::Written)),
    along_steps("json_extract_path_text", |args| at_steps(args, Form::Meant)),
    along_steps("jsonb_extract_path", |args| at_steps(args, Form::Jsonb)),
    along_steps("jsonb_extract_path_text", |args| at_steps(args, Form::MeantJsonb)),
];

/// Registers the functions.
pub(super) fn register(context: &SessionContext) {
    rows::FUNCTIONS.into_iter().for_each(|function| context.register_udf(function.immutable()));
    let all = FUNCTIONS.into_iter().chain(build::FUNCTIONS).chain(change::FUNCTIONS);
    all.for_each(|function| {
        context.register_udf(match type_of(function.name) {
            Some(of) => function.immutable_of(of),
            None => function.immutable(),
        });
    });
    context.register_udf(as_json().as_ref().clone());
}

/// The function of a cast to jsonb.
pub(super) fn jsonb() -> ScalarUDF {
    of_text("jsonb", TEXT, normalized).immutable_of("jsonb")
}

/// The function that marks a text as `json` or `jsonb`.
pub(super) fn part(of: &str) -> ScalarUDF {
    let (name, of) = if of == "jsonb" { ("jsonb_part", "jsonb") } else { ("json_part", "json") };
    of_text(name, TEXT, |args| Ok(args.args[0].clone())).immutable_of(of)
}

/// The type of a function's texts, if they are JSON.
fn type_of(name: &str) -> Option<&'static str> {
    let is_text = ["_text", "typeof", "pretty"].iter().any(|end| name.ends_with(end));
    let is_test = ["jsonb_contain", "jsonb_exists"].iter().any(|begin| name.starts_with(begin));
    match name {
        _ if is_text || is_test => None,
        name if name.starts_with("jsonb") || name == "to_jsonb" => Some("jsonb"),
        _ => Some("json"),
    }
}

/// The expression for an operator. `None` if it is not a JSON operator.
pub(super) fn planned(expr: &RawBinaryExpr, schema: &DFSchema) -> Result<Option<Expr>> {
    if let Some(changed) = change::planned(expr, schema) {
        return Ok(Some(changed));
    }
    if expr.op == BinaryOperator::HashMinus {
        let args = vec![text(&expr.left), texts(&expr.right)?];
        return Ok(Some(change::DELETE_PATH.immutable_of("jsonb").call(args)));
    }
    let member = |name, compute| Function { name, takes: text_and_key, gives: TEXT, compute };
    let at_path = |name, compute| Function { name, takes: text_and_list, gives: TEXT, compute };
    let has = |takes, name, compute| Function { name, takes, gives: BOOLEAN, compute };
    let (function, right) = match expr.op {
        BinaryOperator::Arrow => (member("->", |args| keyed(args, Form::Written)), text(&expr.right)),
        BinaryOperator::LongArrow => (member("->>", |args| keyed(args, Form::Meant)), text(&expr.right)),
        BinaryOperator::HashArrow => {
            (at_path("#>", |args| at_lists(args, Form::Written)), texts(&expr.right)?)
        }
        BinaryOperator::HashLongArrow => {
            (at_path("#>>", |args| at_lists(args, Form::Meant)), texts(&expr.right)?)
        }
        BinaryOperator::Question => (has(two_texts, "?", has_one), text(&expr.right)),
        BinaryOperator::QuestionPipe => (has(text_and_list, "?|", has_any), texts(&expr.right)?),
        BinaryOperator::QuestionAnd => (has(text_and_list, "?&", has_all), texts(&expr.right)?),
        _ => return Ok(None),
    };
    let function = match expr.op {
        BinaryOperator::Arrow | BinaryOperator::HashArrow => {
            let of_left = expr.left.to_field(schema).ok().and_then(|(_, field)| type_of_texts(&field));
            let is_jsonb = of_left == Some(pgwire::api::Type::JSONB);
            function.immutable_of(if is_jsonb { "jsonb" } else { "json" })
        }
        _ => function.immutable(),
    };
    Ok(Some(function.call(vec![text(&expr.left), right])))
}

/// `@>` or `<@` of two texts with JSON.
pub(super) fn contained(expr: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
    let texts = is_text(left) && is_text(right);
    let (all, some) = match expr.op {
        BinaryOperator::AtArrow if texts => (&expr.left, &expr.right),
        BinaryOperator::ArrowAt if texts => (&expr.right, &expr.left),
        _ => return None,
    };
    Some(change::CONTAINS.immutable().call(vec![text(all), text(some)]))
}

/// An operand. A parameter is a text.
fn text(side: &Expr) -> Expr {
    bound(side, DataType::Utf8)
}

/// An operand that is a list of texts. It may be written as one text. A parameter is a list.
fn texts(side: &Expr) -> Result<Expr> {
    let written = match side {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    };
    let Some(written) = written else { return Ok(bound(side, DataType::new_list(DataType::Utf8, true))) };
    let elements = Arc::new(StringArray::from(array_elements(written)?));
    Ok(lit(SingleRowListArrayBuilder::new(elements).with_nullable(true).build_list_scalar()))
}

fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, of) => is_text(of),
        of => of.is_string() || of.is_null(),
    }
}

fn one_text(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of] if is_text(of) => Ok(vec![DataType::Utf8View]),
        _ => plan_err!("function of JSON does not exist with these arguments: it takes one text"),
    }
}

fn two_texts(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, name] if is_text(of) && is_text(name) => Ok(vec![DataType::Utf8View; 2]),
        _ => no_operator(types, "a text"),
    }
}

fn text_and_key(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, at] if is_text(of) && at.is_integer() => Ok(vec![DataType::Utf8View, DataType::Int64]),
        [of, name] if is_text(of) && is_text(name) => Ok(vec![DataType::Utf8View; 2]),
        _ => no_operator(types, "a name or a number"),
    }
}

fn text_and_list(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, DataType::List(step) | DataType::LargeList(step) | DataType::FixedSizeList(step, _)]
            if is_text(of) && is_text(step.data_type()) =>
        {
            Ok(vec![DataType::Utf8View, DataType::new_list(DataType::Utf8, true)])
        }
        [of, DataType::Null] if is_text(of) => {
            Ok(vec![DataType::Utf8View, DataType::new_list(DataType::Utf8, true)])
        }
        _ => no_operator(types, "an array of texts"),
    }
}

fn text_and_steps(types: &[DataType]) -> Result<Vec<DataType>> {
    match types.len() {
        2.. if types.iter().all(is_text) => Ok(vec![DataType::Utf8View; types.len()]),
        _ => plan_err!(
            "function of JSON does not exist with these arguments: it takes a text and the steps of a path"
        ),
    }
}

fn no_operator(types: &[DataType], wanted: &str) -> Result<Vec<DataType>> {
    let types = types.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
    plan_err!("operator of JSON does not exist for {types}: it takes a text with JSON, and {wanted}")
}

/// The form of an extracted part.
#[derive(Clone, Copy)]
enum Form {
    /// The text as it is written.
    Written,
    /// The form of jsonb.
    Jsonb,
    /// A text: a string without quotes, and null as NULL.
    Meant,
    /// A text, with objects and arrays in the form of jsonb.
    MeantJsonb,
}

/// Collects the result of `part` for each row.
fn parts<'a>(
    rows: usize,
    form: Form,
    part: impl Fn(usize) -> Result<Option<&'a str>>,
) -> Result<ColumnarValue> {
    let mut out = StringViewBuilder::new();
    for row in 0..rows {
        match (part(row)?, form) {
            (None, _) | (Some("null"), Form::Meant | Form::MeantJsonb) => out.append_null(),
            (Some(json), Form::Meant | Form::MeantJsonb) if json.starts_with('"') => {
                out.append_value(unescaped(json)?);
            }
            (Some(json), Form::Jsonb | Form::MeantJsonb) => out.append_value(normal(json)?),
            (Some(json), Form::Written | Form::Meant) => out.append_value(json),
        }
    }
    Ok(ColumnarValue::Array(Arc::new(out.finish())))
}

fn checked(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let texts = Texts::of(&args.args[0])?;
    parts(args.number_rows, Form::Written, |row| {
        texts.get(row).map(|text| members(text, |_, _| Ok(())).map(|_| text)).transpose()
    })
}

fn normalized(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let texts = Texts::of(&args.args[0])?;
    parts(args.number_rows, Form::Jsonb, |row| Ok(texts.get(row)))
}

fn kinds(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let texts = Texts::of(&args.args[0])?;
    let name = |text| {
        Ok(match members(text, |_, _| Ok(()))? {
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::Null => "null",
        })
    };
    parts(args.number_rows, Form::Written, |row| texts.get(row).map(name).transpose())
}

fn array_lengths(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let texts = Texts::of(&args.args[0])?;
    let length = |text| {
        let mut count = 0;
        let kind = members(text, |_, _| {
            count += 1;
            Ok(())
        })?;
        match kind {
            Kind::Array => Ok(count),
            Kind::Object => exec_err!("cannot get array length of a non-array"),
            _ => exec_err!("cannot get array length of a scalar"),
        }
    };
    let lengths = (0..args.number_rows).map(|row| texts.get(row).map(length).transpose());
    Ok(ColumnarValue::Array(Arc::new(lengths.collect::<Result<Int32Array>>()?)))
}

fn keyed(args: &ScalarFunctionArgs, form: Form) -> Result<ColumnarValue> {
    let (texts, key) = (Texts::of(&args.args[0])?, &args.args[1]);
    if key.data_type().is_integer() {
        let numbers = Numbers::of(key)?;
        return parts(args.number_rows, form, |row| match (texts.get(row), numbers.get(row)) {
            (Some(text), Some(at)) => element(text, at),
            _ => Ok(None),
        });
    }
    let names = Texts::of(key)?;
    parts(args.number_rows, form, |row| match (texts.get(row), names.get(row)) {
        (Some(text), Some(name)) => member(text, name),
        _ => Ok(None),
    })
}

fn at_steps(args: &ScalarFunctionArgs, form: Form) -> Result<ColumnarValue> {
    let texts = Texts::of(&args.args[0])?;
    let steps = args.args[1..].iter().map(Texts::of).collect::<Result<Vec<_>>>()?;
    parts(args.number_rows, form, |row| {
        let path: Option<Vec<&str>> = steps.iter().map(|step| step.get(row)).collect();
        texts.get(row).zip(path).map_or(Ok(None), |(text, path)| at_path(text, &path))
    })
}

fn at_lists(args: &ScalarFunctionArgs, form: Form) -> Result<ColumnarValue> {
    let (texts, lists) = (Texts::of(&args.args[0])?, Lists::of(&args.args[1])?);
    parts(args.number_rows, form, |row| {
        let path: Option<Vec<&str>> = lists.get(row).and_then(|path| path.into_iter().collect());
        texts.get(row).zip(path).map_or(Ok(None), |(text, path)| at_path(text, &path))
    })
}

fn has_one(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let (texts, names) = (Texts::of(&args.args[0])?, Texts::of(&args.args[1])?);
    holds(args.number_rows, |row| texts.get(row).zip(names.get(row)).map(|(text, name)| has(text, name)))
}

fn has_any(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    has_some(args, |text, names| Ok(has_of(text, names)?.contains(&true)))
}

fn has_all(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    has_some(args, |text, names| Ok(!has_of(text, names)?.contains(&false)))
}

fn has_some(
    args: &ScalarFunctionArgs,
    decide: fn(&str, &[Option<&str>]) -> Result<bool>,
) -> Result<ColumnarValue> {
    let (texts, lists) = (Texts::of(&args.args[0])?, Lists::of(&args.args[1])?);
    holds(args.number_rows, |row| {
        texts.get(row).zip(lists.get(row)).map(|(text, names)| decide(text, &names))
    })
}

/// Returns, for each name, whether the text has it. Names that are NULL are skipped.
fn has_of(text: &str, names: &[Option<&str>]) -> Result<Vec<bool>> {
    // The text is also read if there are no names, because it may be invalid.
    members(text, |_, _| Ok(()))?;
    names.iter().flatten().map(|name| has(text, name)).collect()
}

fn holds(rows: usize, of: impl Fn(usize) -> Option<Result<bool>>) -> Result<ColumnarValue> {
    let rows = (0..rows).map(|row| of(row).transpose()).collect::<Result<BooleanArray>>()?;
    Ok(ColumnarValue::Array(Arc::new(rows)))
}

/// Lists of texts, one per row or one for all rows.
struct Lists(ListArray);

impl Lists {
    fn of(arg: &ColumnarValue) -> Result<Self> {
        Ok(Lists(arg.clone().into_array(1)?.as_list::<i32>().clone()))
    }

    fn get(&self, row: usize) -> Option<Vec<Option<&str>>> {
        let row = if self.0.len() == 1 { 0 } else { row };
        let (texts, offsets) = (self.0.values().as_string::<i32>(), self.0.value_offsets());
        let place = offsets[row] as usize..offsets[row + 1] as usize;
        self.0.is_valid(row).then(|| place.map(|at| texts.is_valid(at).then(|| texts.value(at))).collect())
    }
}

/// The last member of an object with this name.
fn member<'a>(text: &'a str, name: &str) -> Result<Option<&'a str>> {
    let mut found = None;
    members(text, |written, value| {
        if let Some(written) = written
            && is(written, name)?
        {
            found = Some(value);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The element of an array at this place, counted from its end if negative.
fn element(text: &str, at: i64) -> Result<Option<&str>> {
    let at = match usize::try_from(at) {
        Ok(at) => at,
        Err(_) => {
            let mut count: usize = 0;
            members(text, |_, _| {
                count += 1;
                Ok(())
            })?;
            let from_end = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
            let Some(at) = count.checked_sub(from_end) else { return Ok(None) };
            at
        }
    };
    let (mut found, mut next) = (None, 0);
    members(text, |name, value| {
        if name.is_none() && next == at {
            found = Some(value);
        }
        next += 1;
        Ok(())
    })?;
    Ok(found)
}

/// The value at a path. A step is a name in an object, and a number in an array.
fn at_path<'a>(text: &'a str, path: &[&str]) -> Result<Option<&'a str>> {
    let Some((first, rest)) = path.split_first() else {
        members(text, |_, _| Ok(()))?;
        return Ok(Some(text.trim()));
    };
    let mut found = step(text, first)?;
    for name in rest {
        found = match found {
            Some(value) => step(value, name)?,
            None => break,
        };
    }
    Ok(found)
}

fn step<'a>(text: &'a str, name: &str) -> Result<Option<&'a str>> {
    if !text.trim_start().starts_with('[') {
        return member(text, name);
    }
    match name.trim_start().parse::<i32>() {
        Ok(at) => element(text, at.into()),
        Err(_) => member(text, name),
    }
}

/// Returns true if an object has a member of this name, an array has this string, or the value is this string.
fn has(text: &str, name: &str) -> Result<bool> {
    let mut found = false;
    let kind = members(text, |written, value| {
        found |= is(written.unwrap_or(value), name)?;
        Ok(())
    })?;
    Ok(found || (kind == Kind::String && is(text.trim(), name)?))
}

/// Returns true if the JSON string equals this name.
fn is(written: &str, name: &str) -> Result<bool> {
    Ok(written.starts_with('"') && unescaped(written)? == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are output of PostgreSQL 15.
    #[test]
    fn parts_are_those_of_postgres() {
        assert_eq!(member(r#"{"a": 1, "a" : 2}"#, "a").unwrap(), Some("2"));
        assert_eq!(member(r#"{"a": {"b": 1}, "": null}"#, "").unwrap(), Some("null"));
        assert_eq!(member(r#"{"\u0061":1}"#, "a").unwrap(), Some("1"));
        for none in ["[1, 2]", "1", "\"a\"", "{}", r#"{"b": {"a": 1}}"#] {
            assert_eq!(member(none, "a").unwrap(), None, "{none}");
        }
        for (text, at, found) in [
            ("[1, [2] ]", 1, Some("[2]")),
            ("[1, 2]", -1, Some("2")),
            ("[1, 2]", 2, None),
            ("[1, 2]", -3, None),
            ("[1, 2]", i64::MIN, None),
            ("{\"a\": 1}", 0, None),
            ("\"foo\"", 0, None),
        ] {
            assert_eq!(element(text, at).unwrap(), found, "{text} -> {at}");
        }
        for (text, path, found) in [
            ("[1,[2,3]]", &["1", "0"][..], Some("2")),
            ("[1,[2,3]]", &["1", "-1"], Some("3")),
            ("[1,2]", &[" 1"], Some("2")),
            ("[1,2]", &["a"], None),
            (" {\"a\" : 1 } ", &[], Some("{\"a\" : 1 }")),
            ("[[1]]", &["0", "0", "0"], None),
            ("{\"0\": 7}", &["0"], Some("7")),
        ] {
            assert_eq!(at_path(text, path).unwrap(), found, "{text} #> {path:?}");
        }
        for (text, name, found) in [
            (r#"["a","b",1]"#, "a", true),
            (r#"["a"]"#, "b", false),
            ("\"a\"", "a", true),
            (r#"{"a":{"b":1}}"#, "a", true),
            (r#"{"a":{"b":1}}"#, "b", false),
            (r#"{"b":"a"}"#, "a", false),
            ("1", "1", false),
        ] {
            assert_eq!(has(text, name).unwrap(), found, "{text} ? {name}");
        }
        for wrong in ["{\"a\": 1", "[1] x", ""] {
            assert!(member(wrong, "a").is_err() && element(wrong, 0).is_err(), "{wrong}");
            assert!(at_path(wrong, &[]).is_err() && has(wrong, "a").is_err(), "{wrong}");
        }
    }
}
