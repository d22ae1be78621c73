//! Changes and tests of whole jsonb values: `@>`, `||`, `-`, `#-`, `jsonb_set`, `jsonb_insert`, `jsonb_strip_nulls`,
//! `jsonb_pretty`, and `json_object` and `json_object_agg`, which make objects of lists.
//!
//! Arguments are brought into the form of jsonb first, so equal values have equal texts but for numbers. Deep values, and
//! comparisons of many objects with many, are errors: they would take more stack, or more time, than a statement should.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, DataFusionError, Result, exec_err, plan_err};
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::build::{object, written};
use super::tokens::{Kind, Token, Tokens, members, unescaped};
use super::{Lists, TEXT, is_text, normal, one_text, two_texts};
use crate::sql::QueryError;
use crate::sql::arguments::{Numbers, Texts, is_untyped};
use crate::sql::functions::declared::Function;
use crate::values::is_json;

/// Maximum depth of a value.
const DEPTH_MAX: usize = 500;
/// Maximum number of pairs of objects and arrays that two arrays compare.
const COMPARISONS_MAX: usize = 100_000;

/// `@>`.
pub(super) const CONTAINS: Function =
    Function { name: "jsonb_contains", takes: two_texts, gives: |_| DataType::Boolean, compute: contained };

/// `#-`.
pub(super) const DELETE_PATH: Function =
    Function { name: "jsonb_delete_path", takes: text_and_path, gives: TEXT, compute: deleted_at };

/// The functions.
pub(super) const FUNCTIONS: [Function; 14] = [
    CONTAINS,
    DELETE_PATH,
    Function {
        name: "jsonb_contained",
        takes: two_texts,
        gives: |_| DataType::Boolean,
        compute: |args| {
            let mut args = args.clone();
            args.args.swap(0, 1);
            contained(&args)
        },
    },
    Function { name: "jsonb_insert", takes: set_types, gives: TEXT, compute: inserted },
    Function { name: "json_strip_nulls", takes: one_text, gives: TEXT, compute: written_without_nulls },
    Function { name: "json_object", takes: lists, gives: TEXT, compute: |args| of_texts(args, false) },
    Function { name: "jsonb_object", takes: lists, gives: TEXT, compute: |args| of_texts(args, true) },
    Function { name: "jsonb_concat", takes: two_texts, gives: TEXT, compute: concatenated },
    Function { name: "jsonb_delete", takes: text_and_part, gives: TEXT, compute: deleted },
    Function { name: "jsonb_set", takes: set_types, gives: TEXT, compute: set },
    Function {
        name: "jsonb_strip_nulls",
        takes: one_text,
        gives: TEXT,
        compute: |args| of_text(args, stripped),
    },
    Function { name: "jsonb_pretty", takes: one_text, gives: TEXT, compute: |args| of_text(args, pretty) },
    Function { name: "json_of_lists", takes: two_lists, gives: TEXT, compute: |args| of_lists(args, false) },
    Function { name: "jsonb_of_lists", takes: two_lists, gives: TEXT, compute: |args| of_lists(args, true) },
];

/// `||` and `-` of JSON. A constant beside it is read as JSON, or is a key.
pub(super) fn planned(expr: &RawBinaryExpr, schema: &DFSchema) -> Option<Expr> {
    let is_json = |of: &Expr| of.to_field(schema).is_ok_and(|(_, field)| is_json(&field));
    let is_constant =
        |of: &Expr| is_untyped(of) || matches!(of, Expr::Literal(of, _) if of.try_as_str().is_some());
    let (left, right) = (is_json(&expr.left), is_json(&expr.right));
    let name = match expr.op {
        BinaryOperator::StringConcat
            if left && (right || is_constant(&expr.right)) || right && is_constant(&expr.left) =>
        {
            "jsonb_concat"
        }
        BinaryOperator::Minus if left => "jsonb_delete",
        _ => return None,
    };
    let function = FUNCTIONS.into_iter().find(|function| function.name == name)?;
    Some(function.immutable_of("jsonb").call(vec![expr.left.clone(), expr.right.clone()]))
}

fn text_and_part(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, part] if is_text(of) && part.is_integer() => Ok(vec![DataType::Utf8View, DataType::Int64]),
        types => two_texts(types),
    }
}

fn set_types(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, DataType::List(_) | DataType::Utf8 | DataType::Utf8View | DataType::Null, new, rest @ ..]
            if is_text(of)
                && (is_text(new) || new.is_null())
                && matches!(rest, [] | [DataType::Boolean | DataType::Null]) =>
        {
            let list = DataType::new_list(DataType::Utf8, true);
            Ok([DataType::Utf8View, list, DataType::Utf8View]
                .into_iter()
                .chain(rest.iter().map(|_| DataType::Boolean))
                .collect())
        }
        _ => plan_err!(
            "this function takes a jsonb, a path, a jsonb, and whether to create or to insert behind"
        ),
    }
}

fn text_and_path(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of, path] if is_text(of) => {
            Ok([vec![DataType::Utf8View], lists(std::slice::from_ref(path))?].concat())
        }
        _ => plan_err!("this function takes a jsonb and a path"),
    }
}

/// One or two lists of texts.
fn lists(types: &[DataType]) -> Result<Vec<DataType>> {
    let is_list = |of: &DataType| match of {
        DataType::List(of) => is_text(of.data_type()),
        of => is_text(of),
    };
    match types {
        [_] | [_, _] if types.iter().all(is_list) => {
            Ok(vec![DataType::new_list(DataType::Utf8, true); types.len()])
        }
        _ => plan_err!("this function takes one or two arrays of texts"),
    }
}

fn two_lists(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [DataType::List(_), DataType::List(_)] => Ok(types.to_vec()),
        _ => plan_err!("this function takes the names and the values of an object"),
    }
}

/// Applies a function of jsonb to each text.
fn of_text(args: &ScalarFunctionArgs, of: fn(&str) -> Result<String>) -> Result<ColumnarValue> {
    let texts = Texts::of(&args.args[0])?;
    let row = |row: usize| texts.get(row).map(|text| of(&read(text)?)).transpose();
    rows(args.number_rows, row)
}

fn rows(count: usize, of: impl Fn(usize) -> Result<Option<String>>) -> Result<ColumnarValue> {
    let texts = (0..count).map(of).collect::<Result<StringArray>>()?;
    let texts: ArrayRef = Arc::new(texts);
    Ok(ColumnarValue::Array(cast(&texts, &DataType::Utf8View)?))
}

/// A member of an object, or an element of an array, as it is written. Only a member has a name.
type Part<'a> = (Option<&'a str>, &'a str);

fn parts(json: &str) -> Result<(Kind, Vec<Part<'_>>)> {
    let mut found = Vec::new();
    let kind = members(json, |name, value| {
        found.push((name, value));
        Ok(())
    })?;
    Ok((kind, found))
}

fn contained(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let (all, some) = (Texts::of(&args.args[0])?, Texts::of(&args.args[1])?);
    let row = |row: usize| {
        let pair = all.get(row).zip(some.get(row));
        pair.map(|(all, some)| contains(&read(all)?, &read(some)?, true)).transpose()
    };
    let rows = (0..args.number_rows).map(row).collect::<Result<BooleanArray>>()?;
    Ok(ColumnarValue::Array(Arc::new(rows)))
}

/// Returns whether one value contains another: objects by their members, arrays by their elements in any order. At
/// the top an array contains its elements.
fn contains(all: &str, some: &str, top: bool) -> Result<bool> {
    let ((kind, of), (wanted_kind, wanted)) = (parts(all)?, parts(some)?);
    Ok(match (kind, wanted_kind) {
        (Kind::Object, Kind::Object) => {
            let of: HashMap<Option<&str>, &str> = of.into_iter().collect();
            for (name, value) in wanted {
                if !of.get(&name).map_or(Ok(false), |of| contains(of, value, false))? {
                    return Ok(false);
                }
            }
            true
        }
        (Kind::Array, Kind::Array) => {
            let (nested, scalars): (Vec<_>, Vec<_>) =
                of.iter().map(|(_, of)| *of).partition(|of| is_nested(of));
            let scalars: HashSet<&str> = scalars.into_iter().map(trimmed).collect();
            let comparisons = wanted.iter().filter(|(_, value)| is_nested(value)).count();
            if comparisons.saturating_mul(nested.len()) > COMPARISONS_MAX {
                return Err(too_complex(format!(
                    "@> compares at most {COMPARISONS_MAX} pairs of objects and arrays within two arrays"
                )));
            }
            for (_, value) in wanted {
                let mut found = !is_nested(value) && scalars.contains(trimmed(value));
                for of in nested.iter().filter(|_| is_nested(value)) {
                    found = found || contains(of, value, false)?;
                }
                if !found {
                    return Ok(false);
                }
            }
            true
        }
        (Kind::Array, Kind::Object) => false,
        (Kind::Array, _) if top => of.iter().any(|(_, of)| trimmed(of) == trimmed(some)),
        (kind, other) => kind == other && trimmed(all) == trimmed(some),
    })
}

fn is_nested(json: &str) -> bool {
    json.starts_with(['{', '['])
}

/// A scalar without the zeros at the end of a fraction, which do not count.
fn trimmed(scalar: &str) -> &str {
    match scalar.contains('.') && !scalar.starts_with('"') {
        true => scalar.trim_end_matches('0').trim_end_matches('.'),
        false => scalar,
    }
}

fn too_complex(text: String) -> DataFusionError {
    DataFusionError::External(Box::new(QueryError::other("54001", text)))
}

/// A value in the form of jsonb.
///
/// # Errors
///
/// If it is no JSON, or is nested too deeply.
fn read(text: &str) -> Result<String> {
    let json = normal(text)?;
    let (mut tokens, mut depth) = (Tokens::of(&json), 0_usize);
    while let Some(token) = tokens.next()? {
        match token {
            Token::Begin(_) => depth += 1,
            Token::End => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(too_complex(format!("JSON is nested deeper than {DEPTH_MAX} levels")));
        }
    }
    Ok(json)
}

fn joined(kind: Kind, parts: &[Part<'_>]) -> Result<String> {
    let written = parts.iter().map(|(name, value)| match name {
        Some(name) => format!("{name}: {value}"),
        None => (*value).to_owned(),
    });
    let written = written.collect::<Vec<_>>().join(", ");
    normal(&if kind == Kind::Object { format!("{{{written}}}") } else { format!("[{written}]") })
}

/// The elements of an array. What is no array is the only element of one.
fn elements<'a>(kind: Kind, of: Vec<Part<'a>>, whole: &'a str) -> Vec<Part<'a>> {
    if kind == Kind::Array { of } else { vec![(None, whole)] }
}

fn concatenated(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let (left, right) = (Texts::of(&args.args[0])?, Texts::of(&args.args[1])?);
    rows(args.number_rows, |row| {
        let Some((left, right)) = left.get(row).zip(right.get(row)) else { return Ok(None) };
        let (left, right) = (read(left)?, read(right)?);
        let ((kind, of_left), (other, of_right)) = (parts(&left)?, parts(&right)?);
        if kind == Kind::Object && other == Kind::Object {
            return joined(kind, &[of_left, of_right].concat()).map(Some);
        }
        let all = [elements(kind, of_left, &left), elements(other, of_right, &right)].concat();
        joined(Kind::Array, &all).map(Some)
    })
}

fn deleted(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let texts = Texts::of(&args.args[0])?;
    let by_number = args.args[1].data_type().is_integer();
    let (names, numbers) = match by_number {
        true => (None, Some(Numbers::of(&args.args[1])?)),
        false => (Some(Texts::of(&args.args[1])?), None),
    };
    rows(args.number_rows, |row| {
        let Some(text) = texts.get(row) else { return Ok(None) };
        let text = read(text)?;
        let (kind, of) = parts(&text)?;
        if kind != Kind::Object && kind != Kind::Array {
            return exec_err!("cannot delete from scalar");
        }
        if let Some(numbers) = &numbers {
            let Some(at) = numbers.get(row) else { return Ok(None) };
            if kind == Kind::Object {
                return exec_err!("cannot delete from object using integer index");
            }
            let at = if at < 0 { at + of.len() as i64 } else { at };
            let kept: Vec<_> =
                (0_i64..).zip(of).filter(|(place, _)| *place != at).map(|(_, part)| part).collect();
            return joined(kind, &kept).map(Some);
        }
        let Some(name) = names.as_ref().and_then(|names| names.get(row)) else { return Ok(None) };
        let mut kept = Vec::new();
        for (key, value) in of {
            // An array loses the strings that are equal to the name.
            let written = key.unwrap_or(value);
            if !written.starts_with('"') || unescaped(written)? != name {
                kept.push((key, value));
            }
        }
        joined(kind, &kept).map(Some)
    })
}

/// A change of the part at the end of a path.
#[derive(Clone, Copy)]
enum Change<'a> {
    /// Another value. `creates`: also where there is none.
    Set {
        new: &'a str,
        creates: bool,
    },
    /// A new member, or a new element before another one, or behind it.
    Insert {
        new: &'a str,
        behind: bool,
    },
    Delete,
}

fn set(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    changed_at(args, true, |new, creates| Change::Set { new, creates })
}

fn inserted(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    changed_at(args, false, |new, behind| Change::Insert { new, behind })
}

/// Changes of each row by a value and by a truth value, which is `usual` if it is not given.
fn changed_at(
    args: &ScalarFunctionArgs,
    usual: bool,
    change: for<'a> fn(&'a str, bool) -> Change<'a>,
) -> Result<ColumnarValue> {
    let (texts, paths, new) =
        (Texts::of(&args.args[0])?, Lists::of(&args.args[1])?, Texts::of(&args.args[2])?);
    let flags = match args.args.get(3) {
        Some(flags) => Some(flags.to_array(args.number_rows)?),
        None => None,
    };
    rows(args.number_rows, |row| {
        let (Some(text), Some(path), Some(new)) = (texts.get(row), paths.get(row), new.get(row)) else {
            return Ok(None);
        };
        let flag = match &flags {
            Some(flags) if flags.is_null(row) => return Ok(None),
            Some(flags) => flags.as_boolean().value(row),
            None => usual,
        };
        along(text, path, change(&read(new)?, flag)).map(Some)
    })
}

fn deleted_at(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let (texts, paths) = (Texts::of(&args.args[0])?, Lists::of(&args.args[1])?);
    rows(args.number_rows, |row| {
        let at = texts.get(row).zip(paths.get(row));
        at.map(|(text, path)| along(text, path, Change::Delete)).transpose()
    })
}

/// The value with a change at the end of a path.
fn along(text: &str, path: Vec<Option<&str>>, change: Change<'_>) -> Result<String> {
    let Some(path) = path.into_iter().collect::<Option<Vec<_>>>() else {
        return exec_err!("path element is null");
    };
    let text = read(text)?;
    if !is_nested(&text) {
        let verb = if matches!(change, Change::Delete) { "delete" } else { "set" };
        return Err(wrong(format!("cannot {verb} path in scalar")));
    }
    replaced(&text, &path, change)
}

fn wrong(text: String) -> DataFusionError {
    DataFusionError::External(Box::new(QueryError::other("22023", text)))
}

/// The same for a value in the form of jsonb. A scalar within it has no parts to change.
fn replaced(text: &str, path: &[&str], change: Change<'_>) -> Result<String> {
    let Some((step, rest)) = path.split_first() else { return Ok(text.to_owned()) };
    let (kind, mut of) = parts(text)?;
    let name = serde_json::Value::from(*step).to_string();
    let place = match kind {
        Kind::Object => {
            let mut place = None;
            for (at, (name, _)) in of.iter().enumerate() {
                if unescaped(name.unwrap_or("\"\""))? == *step {
                    place = Some(at);
                }
            }
            place.ok_or(of.len())
        }
        Kind::Array => {
            let Ok(at) = step.parse::<i64>() else {
                return exec_err!("path element at position 1 is not an integer: \"{step}\"");
            };
            let at = if at < 0 { at + of.len() as i64 } else { at };
            let end = if at < 0 { 0 } else { of.len() };
            usize::try_from(at).ok().filter(|at| *at < of.len()).ok_or(end)
        }
        _ => return Ok(text.to_owned()),
    };
    let name = (kind == Kind::Object).then_some(name.as_str());
    let inner;
    match (place, change) {
        (Ok(at), change) if !rest.is_empty() => {
            inner = replaced(of[at].1, rest, change)?;
            of[at].1 = &inner;
        }
        (Err(_), _) if !rest.is_empty() => {}
        (Ok(at), Change::Set { new, .. }) => of[at].1 = new,
        (Ok(_), Change::Insert { .. }) if kind == Kind::Object => {
            return Err(wrong("cannot replace existing key".to_owned()));
        }
        (Ok(at), Change::Insert { new, behind }) => of.insert(at + usize::from(behind), (None, new)),
        (Ok(at), Change::Delete) => {
            of.remove(at);
        }
        (Err(end), Change::Set { new, creates: true } | Change::Insert { new, .. }) => {
            of.insert(end, (name, new));
        }
        (Err(_), _) => {}
    }
    joined(kind, &of)
}

/// JSON without members that are null, as it is written but for spaces.
fn written_without_nulls(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    fn without(text: &str) -> Result<String> {
        let quoted = |written: &str| -> Result<String> {
            Ok(serde_json::Value::from(unescaped(written)?.into_owned()).to_string())
        };
        let (kind, of) = parts(text)?;
        let mut written = Vec::new();
        for (name, value) in of {
            match name {
                Some(_) if value == "null" => {}
                Some(name) => written.push(format!("{}:{}", quoted(name)?, without(value)?)),
                None => written.push(without(value)?),
            }
        }
        let written = written.join(",");
        match kind {
            Kind::Object => Ok(format!("{{{written}}}")),
            Kind::Array => Ok(format!("[{written}]")),
            Kind::String => quoted(text.trim()),
            _ => Ok(text.trim().to_owned()),
        }
    }
    let texts = Texts::of(&args.args[0])?;
    rows(args.number_rows, |row| {
        let Some(text) = texts.get(row) else { return Ok(None) };
        read(text)?;
        without(text).map(Some)
    })
}

/// Objects of the texts in one list of names and values, or in a list of names and one of values.
fn of_texts(args: &ScalarFunctionArgs, binary: bool) -> Result<ColumnarValue> {
    let lists = args.args.iter().map(Lists::of).collect::<Result<Vec<_>>>()?;
    let quoted = |text: Option<&str>| text.map(|text| serde_json::Value::from(text).to_string());
    let fail = |text: &str| Err(DataFusionError::External(Box::new(QueryError::other("2202E", text))));
    rows(args.number_rows, |row| {
        let lists = lists.iter().map(|list| list.get(row)).collect::<Option<Vec<_>>>();
        let pairs: Vec<_> = match lists.as_deref() {
            Some([both]) if both.len().is_multiple_of(2) => {
                both.chunks_exact(2).map(|pair| (quoted(pair[0]), quoted(pair[1]))).collect()
            }
            Some([_]) => return fail("array must have even number of elements"),
            Some([names, values]) if names.len() == values.len() => {
                names.iter().zip(values).map(|(name, value)| (quoted(*name), quoted(*value))).collect()
            }
            Some(_) => return fail("mismatched array dimensions"),
            None => return Ok(None),
        };
        let json = object(pairs.iter().map(|(name, value)| (name.as_deref(), value.as_deref())))?;
        if binary { normal(&json).map(Some) } else { Ok(Some(json)) }
    })
}

/// The value without members that are null.
fn stripped(text: &str) -> Result<String> {
    let (kind, of) = parts(text)?;
    if kind != Kind::Object && kind != Kind::Array {
        return Ok(text.to_owned());
    }
    let kept = of.into_iter().filter(|(name, value)| name.is_none() || *value != "null");
    let kept = kept.map(|(name, value)| Ok((name, stripped(value)?))).collect::<Result<Vec<_>>>()?;
    joined(kind, &kept.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>())
}

/// The value with a line for each part.
fn pretty(text: &str) -> Result<String> {
    fn add(out: &mut String, text: &str, depth: usize) -> Result<()> {
        let (kind, of) = parts(text)?;
        let (open, close) = match kind {
            Kind::Object => ('{', '}'),
            Kind::Array => ('[', ']'),
            _ => {
                out.push_str(text);
                return Ok(());
            }
        };
        let margin = |out: &mut String, depth: usize| {
            out.push('\n');
            out.push_str(&"    ".repeat(depth));
        };
        out.push(open);
        for (at, (name, value)) in of.into_iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            margin(out, depth + 1);
            if let Some(name) = name {
                out.push_str(name);
                out.push_str(": ");
            }
            add(out, value, depth + 1)?;
        }
        margin(out, depth);
        out.push(close);
        Ok(())
    }
    let mut out = String::with_capacity(text.len() * 2);
    add(&mut out, text, 0)?;
    Ok(out)
}

/// Objects of the names and values in two lists of each row.
fn of_lists(args: &ScalarFunctionArgs, binary: bool) -> Result<ColumnarValue> {
    let (names, values) =
        (args.args[0].to_array(args.number_rows)?, args.args[1].to_array(args.number_rows)?);
    let (names, values) = (names.as_list::<i32>(), values.as_list::<i32>());
    let (all_names, all_values) = (written(names.values())?, written(values.values())?);
    rows(args.number_rows, |row| {
        if names.is_null(row) || values.is_null(row) {
            return Ok(None);
        }
        let place = |of: &[i32]| of[row] as usize..of[row + 1] as usize;
        let (of_names, of_values) = (place(names.value_offsets()), place(values.value_offsets()));
        if of_names.len() != of_values.len() {
            let error = QueryError::other("XX000", "an object has as many names as values");
            return Err(DataFusionError::External(Box::new(error)));
        }
        let pairs = all_names[of_names].iter().zip(&all_values[of_values]);
        let json = object(pairs.map(|(name, value)| (name.as_deref(), value.as_deref())))?;
        // PostgreSQL writes spaces inside the braces of this aggregate.
        match binary {
            true => normal(&json).map(Some),
            false => Ok(Some(format!("{{ {} }}", &json[1..json.len() - 1]))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_contain_what_postgres_says() {
        for (all, some, contains_it) in [
            (r#"{"a": 1, "b": 2}"#, r#"{"a": 1}"#, true),
            (r#"{"a": 1}"#, r#"{"a": 1, "b": 2}"#, false),
            (r#"[1, 2, 3]"#, r#"[3, 1, 1]"#, true),
            (r#"["a", "b"]"#, r#""a""#, true),
            (r#""a""#, r#"["a"]"#, false),
            (r#"{"a": [1, {"b": 1.0}]}"#, r#"{"a": [{"b": 1}]}"#, true),
            (r#"{"a": {"b": 1}}"#, r#"{"b": 1}"#, false),
            (r#"[[1]]"#, r#"[1]"#, false),
            ("1.50", "1.5", true),
            ("null", "null", true),
        ] {
            assert_eq!(contains(all, some, true).unwrap(), contains_it, "{all} @> {some}");
        }
    }

    #[test]
    fn deep_and_large_values_are_refused() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(read(&deep(DEPTH_MAX)).is_ok_and(|json| pretty(&json).is_ok()));
        assert!(read(&deep(DEPTH_MAX + 1)).is_err());
        let many = |of: &str| format!("[{}]", vec![of; 1000].join(", "));
        assert!(contains(&many("1"), &many("1"), true).unwrap());
        assert!(contains(&many("[1]"), &many("[2]"), true).is_err());
    }

    #[test]
    fn paths_are_set_as_in_postgres() {
        for (text, path, set) in [
            (r#"{"a": 1}"#, &["a"][..], r#"{"a": 9}"#),
            (r#"{"a": 1}"#, &["b"], r#"{"a": 1, "b": 9}"#),
            (r#"{"a": {"b": 1}}"#, &["a", "b"], r#"{"a": {"b": 9}}"#),
            (r#"{"a": 1}"#, &["b", "c"], r#"{"a": 1}"#),
            ("[1, 2]", &["-1"], "[1, 9]"),
            ("[1, 2]", &["5"], "[1, 2, 9]"),
            ("[1, 2]", &["-5"], "[9, 1, 2]"),
        ] {
            let change = Change::Set { new: "9", creates: true };
            assert_eq!(replaced(text, path, change).unwrap(), set, "{text} {path:?}");
        }
        for (text, path, behind, inserted) in [
            (r#"{"a": 1}"#, &["b"][..], false, r#"{"a": 1, "b": 9}"#),
            ("[1, 2]", &["1"], false, "[1, 9, 2]"),
            ("[1, 2]", &["-1"], true, "[1, 2, 9]"),
            ("[1]", &["-5"], false, "[9, 1]"),
        ] {
            let change = Change::Insert { new: "9", behind };
            assert_eq!(replaced(text, path, change).unwrap(), inserted, "{text} {path:?}");
        }
        for (text, path, rest) in [
            (r#"["a", {"b": 1}]"#, &["1", "b"][..], r#"["a", {}]"#),
            ("[1, 2]", &["-1"], "[1]"),
            (r#"{"a": 1}"#, &["a", "b"], r#"{"a": 1}"#),
        ] {
            assert_eq!(replaced(text, path, Change::Delete).unwrap(), rest, "{text} {path:?}");
        }
        assert!(replaced("[1]", &["a"], Change::Delete).is_err());
        assert!(along("1", vec![Some("a")], Change::Delete).is_err());
    }
}
