//! `substring(text FROM pattern)`: the part of a text that matches a regular expression, or its first group if the
//! expression has one.
//!
//! Patterns have the syntax of Rust's `regex`, like those of the query engine's other functions. It includes
//! PostgreSQL's common patterns. PostgreSQL takes the longest of several matches at one place; this function takes
//! that of the first alternative.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::functions::unicode::substr;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use regex::Regex;

use super::declared::coerced_by;
use super::latest::Latest;

/// `substring` with two arguments. If the second is a position, the query engine's function is called.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Substring {
    by_position: Arc<ScalarUDF>,
    signature: Signature,
}

impl Default for Substring {
    fn default() -> Self {
        Substring { by_position: substr(), signature: Signature::user_defined(Volatility::Immutable) }
    }
}

fn is_pattern(types: &[DataType]) -> bool {
    types.get(1).is_some_and(DataType::is_string)
}

impl ScalarUDFImpl for Substring {
    fn name(&self) -> &str {
        "substring"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match is_pattern(types) {
            true => Ok(vec![DataType::Utf8; 2]),
            false => coerced_by(&self.by_position, types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match is_pattern(types) {
            true => Ok(DataType::Utf8),
            false => self.by_position.return_type(types),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !args.args.get(1).is_some_and(|arg| arg.data_type().is_string()) {
            return self.by_position.invoke_with_args(args);
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let (texts, patterns) = (arrays[0].as_string::<i32>(), arrays[1].as_string::<i32>());
        let (mut latest, mut parts) = (Latest::new(), Vec::with_capacity(texts.len()));
        for (row, text) in texts.iter().enumerate() {
            let at = if patterns.len() == 1 { 0 } else { row };
            let pattern = patterns.is_valid(at).then(|| patterns.value(at));
            parts.push(match text.zip(pattern) {
                Some((text, pattern)) => part(latest.of(pattern, compiled)?, text),
                None => None,
            });
        }
        Ok(ColumnarValue::Array(Arc::new(StringArray::from(parts))))
    }
}

fn compiled(pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|error| invalid(pattern, &error))
}

/// The error of a pattern that cannot be read.
pub(super) fn invalid(pattern: &str, error: &regex::Error) -> DataFusionError {
    let error = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    exec_datafusion_err!("invalid regular expression '{pattern}': {error}")
}

/// The first group, `None` if it is not part of the match. The whole match if the pattern has no group.
fn part<'a>(pattern: &Regex, text: &'a str) -> Option<&'a str> {
    match pattern.captures_len() {
        1 => pattern.find(text).map(|found| found.as_str()),
        _ => pattern.captures(text)?.get(1).map(|group| group.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_group_or_the_whole_match_is_taken() {
        for (text, pattern, expected) in [
            ("foobar", "o.b", Some("oob")),
            ("foobar", "o(.)b", Some("o")),
            ("foobar", "x", None),
            ("b", "(a)|(b)", None),
            ("foobar", "o(?:.)b", Some("oob")),
            ("", "", Some("")),
        ] {
            assert_eq!(part(&compiled(pattern).unwrap(), text), expected, "{pattern}");
        }
        assert!(compiled("(").is_err());
    }
}
