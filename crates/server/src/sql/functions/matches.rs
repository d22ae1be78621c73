//! Matches of regular expressions as lists: `regexp_matches`, `regexp_split_to_array`, `regexp_split_to_table`, and
//! `regexp_substr`.
//!
//! Patterns have the syntax of Rust's `regex`, as in `pattern`.

use std::sync::Arc;

use datafusion::arrow::array::{ListBuilder, StringArray, StringBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};
use datafusion::prelude::SessionContext;
use regex::{Regex, RegexBuilder};

use super::declared::Function;
use super::latest::Latest;
use super::pattern::invalid;
use crate::sql::QueryError;
use crate::sql::arguments::Texts;

/// The list of all matches, each with the texts of its groups. `regexp_matches` returns them as rows.
pub(crate) const ALL: &str = "regexp_all";
/// The list of the parts between matches. `regexp_split_to_table` returns them as rows.
pub(crate) const PARTS: &str = "regexp_split_to_array";

const FUNCTIONS: [Function; 3] = [
    Function { name: ALL, takes: texts, gives: |_| DataType::new_list(list(), true), compute: matches },
    Function { name: PARTS, takes: texts, gives: |_| list(), compute: parts },
    Function { name: "regexp_substr", takes: texts, gives: |_| DataType::Utf8, compute: first },
];

pub(super) fn register(context: &SessionContext) {
    FUNCTIONS.into_iter().for_each(|function| context.register_udf(function.immutable()));
}

fn list() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}

fn texts(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [_, _] | [_, _, _] if types.iter().all(|of| of.is_string() || of.is_null()) => {
            Ok(vec![DataType::Utf8View; types.len()])
        }
        _ => plan_err!("this function takes a text, a pattern and flags"),
    }
}

/// A pattern with its flags.
struct Pattern {
    regex: Regex,
    /// Whether all matches are wanted.
    all: bool,
}

impl Pattern {
    fn new(pattern: &str, flags: &str) -> Result<Self> {
        let mut regex = RegexBuilder::new(pattern);
        let mut all = false;
        for flag in flags.chars() {
            match flag {
                'g' => all = true,
                'i' => _ = regex.case_insensitive(true),
                'c' => _ = regex.case_insensitive(false),
                'm' | 'n' => _ = regex.multi_line(true),
                's' => _ = regex.dot_matches_new_line(true),
                'x' => _ = regex.ignore_whitespace(true),
                flag => {
                    let error = format!("invalid regular expression option: \"{flag}\"");
                    return Err(DataFusionError::External(Box::new(QueryError::other("22023", error))));
                }
            }
        }
        let regex = regex.build().map_err(|error| invalid(pattern, &error))?;
        Ok(Pattern { regex, all })
    }
}

/// Calls `each` for every row, with `None` where an argument is NULL.
fn for_each(
    args: &ScalarFunctionArgs,
    mut each: impl FnMut(Option<(&str, &Pattern)>) -> Result<()>,
) -> Result<()> {
    let columns = args.args.iter().map(Texts::of).collect::<Result<Vec<_>>>()?;
    let mut latest = Latest::new();
    for row in 0..args.number_rows {
        let flags = columns.get(2).map_or(Some(""), |flags| flags.get(row));
        match (columns[0].get(row), columns[1].get(row), flags) {
            (Some(text), Some(pattern), Some(flags)) => {
                // A pattern has no zero byte.
                let read = |_: &str| Pattern::new(pattern, flags);
                each(Some((text, latest.of(&format!("{flags}\0{pattern}"), read)?)))?;
            }
            _ => each(None)?,
        }
    }
    Ok(())
}

fn matches(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let mut lists = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
    for_each(args, |given| {
        if let Some((text, pattern)) = given {
            let wanted = if pattern.all { usize::MAX } else { 1 };
            for found in pattern.regex.captures_iter(text).take(wanted) {
                // The whole match if the pattern has no group.
                let groups = usize::from(found.len() > 1)..found.len();
                groups.for_each(|group| {
                    lists.values().values().append_option(found.get(group).map(|group| group.as_str()));
                });
                lists.values().append(true);
            }
        }
        lists.append(true);
        Ok(())
    })?;
    Ok(ColumnarValue::Array(Arc::new(lists.finish())))
}

fn parts(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for_each(args, |given| {
        if let Some((text, pattern)) = given {
            split(&pattern.regex, text).into_iter().for_each(|part| lists.values().append_value(part));
        }
        lists.append(given.is_some());
        Ok(())
    })?;
    Ok(ColumnarValue::Array(Arc::new(lists.finish())))
}

/// The texts between matches. An empty match at the begin, at the end or behind another match splits nothing.
fn split<'a>(pattern: &Regex, text: &'a str) -> Vec<&'a str> {
    let (mut parts, mut begin) = (Vec::new(), 0);
    for found in pattern.find_iter(text) {
        if found.is_empty() && (found.start() == begin || found.end() == text.len()) {
            continue;
        }
        parts.push(&text[begin..found.start()]);
        begin = found.end();
    }
    parts.push(&text[begin..]);
    parts
}

fn first(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let mut texts = Vec::with_capacity(args.number_rows);
    for_each(args, |given| {
        texts.push(
            given.and_then(|(text, pattern)| pattern.regex.find(text)).map(|found| found.as_str().to_owned()),
        );
        Ok(())
    })?;
    Ok(ColumnarValue::Array(Arc::new(StringArray::from(texts))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_as_in_postgres() {
        for (text, pattern, parts) in [
            ("a b  c", r"\s+", &["a", "b", "c"][..]),
            ("abc", "", &["a", "b", "c"]),
            ("abc", "x*", &["a", "b", "c"]),
            (",a,", ",", &["", "a", ""]),
            ("", ",", &[""]),
        ] {
            assert_eq!(split(&Regex::new(pattern).unwrap(), text), parts, "{text} {pattern}");
        }
    }
}
