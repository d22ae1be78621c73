//! Keys of a table: columns whose values are in the names of folders, `key=value`.
//!
//! The type of a key follows from the values at the creation of the table, as in DuckDB. It is BIGINT if all
//! are integers written in the usual way (no `01`, no `+1`), otherwise DATE if all are days (`2024-01-31`),
//! otherwise text. Names and values are percent-decoded. `__HIVE_DEFAULT_PARTITION__` means NULL.

use std::sync::Arc;

use coscan_upstream::predicates_in_turn;
use datafusion::arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::Session;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use percent_encoding::percent_decode_str;

/// The text of NULL.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// A key and its type.
pub(crate) type Key = (String, DataType);

/// Texts of keys are dictionaries, because a file has one value.
pub(crate) fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8))
}

/// Returns the key and the value that the name of a folder states.
pub(crate) fn stated(folder: &str) -> Option<(String, String)> {
    let decoded =
        |text: &str| percent_decode_str(text).decode_utf8().map_or(text.to_owned(), |text| text.into_owned());
    folder.split_once('=').map(|(key, value)| (decoded(key), decoded(value)))
}

/// Returns the type of a key with these values.
pub(crate) fn type_of<'a>(values: impl Iterator<Item = &'a str> + Clone) -> DataType {
    let mut known = values.filter(|value| *value != NULL).peekable();
    if known.peek().is_none() {
        return text_type();
    }
    let all = |of: DataType| known.clone().all(|value| value_of(value, &of).is_some());
    if all(DataType::Int64) {
        return DataType::Int64;
    }
    if all(DataType::Date32) { DataType::Date32 } else { text_type() }
}

/// Returns the value of a text; `None` if it is not written as values of the type are.
pub(crate) fn value_of(text: &str, of: &DataType) -> Option<ScalarValue> {
    if text == NULL {
        return ScalarValue::try_new_null(of).ok();
    }
    let value = ScalarValue::try_from_string(text.to_owned(), of).ok()?;
    let usual = !matches!(of, DataType::Int64 | DataType::Date32) || value.to_string() == text;
    usual.then_some(value)
}

/// The value that a key has in all wanted rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    key: String,
    value: ScalarValue,
    of: DataType,
}

impl Wanted {
    /// Returns whether the name of a folder states this value. Writers percent-encode different characters, and declared types have
    /// several texts of a value, so the values are compared.
    pub(crate) fn is_stated_by(&self, folder: &str) -> bool {
        let Some((key, text)) = stated(folder) else { return false };
        let is_wanted = |value: ScalarValue| match (value.try_as_str(), self.value.try_as_str()) {
            (Some(found), Some(wanted)) => found == wanted,
            _ => value == self.value,
        };
        key == self.key && value_of(&text, &self.of).is_some_and(is_wanted)
    }
}

/// Returns the values of keys, from the first key on, that all rows have that pass `filters`; empty if the
/// filters do not determine the first one.
pub(crate) fn wanted_by(keys: &[Key], filters: &[Expr]) -> Vec<Wanted> {
    let conjuncts: Vec<&Expr> = filters.iter().flat_map(split_conjunction).collect();
    let wanted = |(key, of): &Key| {
        let value = conjuncts.iter().find_map(|conjunct| equal_to(conjunct, key))?;
        let same_type = &value.data_type() == of || *of == text_type() && value.try_as_str().is_some();
        // Zeros of both signs are equal, and their values are not.
        (same_type && !of.is_floating() && !value.is_null()).then(|| Wanted {
            key: key.clone(),
            value: value.clone(),
            of: of.clone(),
        })
    };
    keys.iter().map_while(wanted).collect()
}

/// Returns the value that a conjunct requires of a key.
fn equal_to<'a>(conjunct: &'a Expr, key: &str) -> Option<&'a ScalarValue> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = conjunct else { return None };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(Column { name, .. }), Expr::Literal(value, _))
        | (Expr::Literal(value, _), Expr::Column(Column { name, .. }))
            if name == key =>
        {
            Some(value)
        }
        _ => None,
    }
}

/// Returns which of these lists of values, one per key, pass the filters, which must use keys only.
pub(crate) fn passing(
    state: &dyn Session,
    keys: &[Key],
    values: &[&[ScalarValue]],
    filters: &[Expr],
) -> Result<Vec<bool>> {
    let Some(filter) = conjunction(filters.iter().cloned()) else { return Ok(vec![true; values.len()]) };
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let fields = keys.iter().map(|(key, of)| Field::new(key, of.clone(), true)).collect();
    let schema = DFSchema::from_unqualified_fields(fields, Default::default())?;
    let column = |at: usize| ScalarValue::iter_to_array(values.iter().map(|values| values[at].clone()));
    let columns = (0..keys.len()).map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(values.len()));
    let mut batch = RecordBatch::try_new_with_options(Arc::clone(schema.inner()), columns, &options)?;
    let filter = state.create_physical_expr(filter, &schema)?;
    let mut passing: Vec<usize> = (0..values.len()).collect();
    for predicate in predicates_in_turn(&filter, schema.inner())? {
        if passing.is_empty() {
            break;
        }
        let passes = predicate.evaluate(&batch)?.into_array(passing.len())?;
        let Some(passes) = passes.as_boolean_opt() else {
            return plan_err!("a filter over the keys of a table is {}", passes.data_type());
        };
        let mut left = passes.iter();
        passing.retain(|_| left.next() == Some(Some(true)));
        batch = filter_record_batch(&batch, passes)?;
    }
    let mut all = vec![false; values.len()];
    passing.into_iter().for_each(|at| all[at] = true);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    #[test]
    fn types_follow_from_values_as_in_duckdb() {
        for (values, of) in [
            (&["1", "9", "10"][..], DataType::Int64),
            (&["1", NULL], DataType::Int64),
            (&["-1", "0"], DataType::Int64),
            (&["01", "02", "10"], text_type()),
            (&["+1"], text_type()),
            (&["-0"], text_type()),
            (&["1", "a"], text_type()),
            (&["1", ""], text_type()),
            (&["99999999999999999999"], text_type()),
            (&["1.5"], text_type()),
            (&["2024-01-31", "2024-02-01"], DataType::Date32),
            (&["2024-02-01", NULL], DataType::Date32),
            (&["2024-02-30"], text_type()),
            (&["20240131"], DataType::Int64),
            (&["2024-01-31 10:00:00"], text_type()),
            (&[NULL], text_type()),
            (&["true"], text_type()),
        ] {
            assert_eq!(type_of(values.iter().copied()), of, "{values:?}");
        }
    }

    #[test]
    fn wanted_values_are_known_from_the_first_key_on() {
        let keys = [
            ("y".to_owned(), DataType::Int64),
            ("d".to_owned(), DataType::Date32),
            ("t".to_owned(), text_type()),
        ];
        let day = ScalarValue::Date32(Some(19723));
        let wanted = |filter: Expr| wanted_by(&keys, &[filter]);
        let nine = wanted(col("y").eq(lit(9_i64)));
        assert!(nine.len() == 1 && nine[0].is_stated_by("y=9") && nine[0].is_stated_by("%79=%39"));
        assert!(["y=8", "y=09", "x=9", "y"].iter().all(|folder| !nine[0].is_stated_by(folder)));
        assert_eq!(wanted(col("y").eq(lit(9_i64)).and(col("t").eq(lit("a")))), nine);
        let both = wanted(lit(9_i64).eq(col("y")).and(col("d").eq(lit(day))));
        assert_eq!(both[..1], nine);
        assert!(both[1].is_stated_by("d=2024-01-01") && both[1].is_stated_by("d=2024%2D01%2D01"));
        for unknown in [
            col("y").gt(lit(9_i64)),
            col("y").eq(lit(9.0)),
            col("y").eq(lit(9_i64)).or(col("y").eq(lit(8_i64))),
            col("t").eq(lit("a")),
            col("y").eq(lit(ScalarValue::Int64(None))),
        ] {
            assert!(wanted(unknown).is_empty());
        }
        let text = [("t".to_owned(), text_type())];
        for (value, folders) in [
            ("a=b", &["t=a%3Db", "t=a=b", "t=a%3db"][..]),
            ("A", &["t=A", "t=%41"]),
            ("a.b_c-d", &["t=a.b_c-d", "t=a%2Eb%5Fc%2Dd"]),
            ("ü 50%", &["t=%C3%BC%2050%25", "t=ü 50%"]),
            ("", &["t="]),
        ] {
            let wanted = wanted_by(&text, &[col("t").eq(lit(value))]);
            assert!(folders.iter().all(|folder| wanted[0].is_stated_by(folder)), "{value}");
            assert!(!wanted[0].is_stated_by("t=b"), "{value}");
        }
        let null = wanted_by(&text, &[col("t").eq(lit(NULL))]);
        assert!(!null[0].is_stated_by("t=__HIVE_DEFAULT_PARTITION__"), "it states NULL");
    }
}
