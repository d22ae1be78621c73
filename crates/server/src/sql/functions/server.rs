//! Functions about the server: schemas of the search path, names of encodings and users; sizes.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int64Array, ListBuilder, StringArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, Signature, Volatility};
use datafusion::prelude::SessionContext;

use super::declared::{Function, holding};
use crate::sql::QueryError;
use crate::sql::visible::{OWNER, OWNER_NUMBER, USER_NUMBER};

/// PostgreSQL's encodings by their numbers.
const ENCODINGS: [&str; 42] = [
    "SQL_ASCII",
    "EUC_JP",
    "EUC_CN",
    "EUC_KR",
    "EUC_TW",
    "EUC_JIS_2004",
    "UTF8",
    "MULE_INTERNAL",
    "LATIN1",
    "LATIN2",
    "LATIN3",
    "LATIN4",
    "LATIN5",
    "LATIN6",
    "LATIN7",
    "LATIN8",
    "LATIN9",
    "LATIN10",
    "WIN1256",
    "WIN1258",
    "WIN866",
    "WIN874",
    "KOI8R",
    "WIN1251",
    "WIN1252",
    "ISO_8859_5",
    "ISO_8859_6",
    "ISO_8859_7",
    "ISO_8859_8",
    "WIN1250",
    "WIN1253",
    "WIN1254",
    "WIN1255",
    "WIN1257",
    "KOI8U",
    "SJIS",
    "BIG5",
    "GBK",
    "UHC",
    "GB18030",
    "JOHAB",
    "SHIFT_JIS_2004",
];

/// The units of sizes, with their bytes.
const UNITS: [(&str, i64); 8] = [
    ("", 1),
    ("b", 1),
    ("bytes", 1),
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("tb", 1 << 40),
    ("pb", 1 << 50),
];

const FUNCTIONS: [Function; 3] = [
    Function { name: "current_schemas", takes: truth, gives: |_| texts(), compute: schemas },
    Function { name: "pg_encoding_to_char", takes: number, gives: |_| DataType::Utf8, compute: encodings },
    Function { name: "pg_size_bytes", takes: text, gives: |_| DataType::Int64, compute: sizes },
];

pub(super) fn register(context: &SessionContext) {
    FUNCTIONS.into_iter().for_each(|function| context.register_udf(function.immutable()));
}

fn truth(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [DataType::Boolean | DataType::Null] => Ok(vec![DataType::Boolean]),
        _ => plan_err!("current_schemas() takes a truth value"),
    }
}

fn number(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of] if of.is_integer() || of.is_null() => Ok(vec![DataType::Int64]),
        _ => plan_err!("this function takes one integer"),
    }
}

fn text(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [of] if of.is_string() || of.is_null() => Ok(vec![DataType::Utf8]),
        _ => plan_err!("this function takes one text"),
    }
}

fn texts() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}

/// The schemas of the search path. PostgreSQL's own one is in it, but has to be asked for.
fn schemas(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let all = args.args[0].to_array(args.number_rows)?;
    let mut lists = ListBuilder::new(StringBuilder::new());
    for all in all.as_boolean() {
        if all == Some(true) {
            lists.values().append_value("pg_catalog");
        }
        if all.is_some() {
            lists.values().append_value("public");
        }
        lists.append(all.is_some());
    }
    Ok(ColumnarValue::Array(Arc::new(lists.finish())))
}

fn encodings(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let numbers = args.args[0].to_array(args.number_rows)?;
    let name = |number: i64| usize::try_from(number).ok().and_then(|at| ENCODINGS.get(at)).copied();
    let names = numbers.as_primitive::<Int64Type>().iter().map(|of| of.map(|of| name(of).unwrap_or("")));
    Ok(ColumnarValue::Array(Arc::new(names.collect::<StringArray>())))
}

fn sizes(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let texts = args.args[0].to_array(args.number_rows)?;
    let wrong = |text: &str| {
        let error = QueryError::other("22023", format!("invalid size: \"{text}\""));
        DataFusionError::External(Box::new(error))
    };
    let size = |text: Option<&str>| text.map(|text| size(text).ok_or_else(|| wrong(text))).transpose();
    let sizes = texts.as_string::<i32>().iter().map(size);
    Ok(ColumnarValue::Array(Arc::new(sizes.collect::<Result<Int64Array>>()?)))
}

/// The bytes of a size such as `1.5 MB`.
fn size(text: &str) -> Option<i64> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '+' | '-' | '.'))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
    if let Ok(number) = number.parse::<i64>() {
        return number.checked_mul(*bytes);
    }
    // Half a byte is rounded away from zero.
    let size = (number.parse::<f64>().ok()? * *bytes as f64).round();
    (size.abs() < i64::MAX as f64).then_some(size as i64)
}

/// The name of a user with this number. `user` reads it.
pub(super) fn user_by_number(user: &str) -> ScalarUDF {
    let (user, signature) = (user.to_owned(), Signature::exact(vec![DataType::Int64], Volatility::Stable));
    holding("pg_get_userbyid", signature, DataType::Utf8, move |args| {
        let numbers = ColumnarValue::values_to_arrays(args)?.swap_remove(0);
        let name = |number: i64| match i32::try_from(number) {
            Ok(OWNER_NUMBER) => OWNER.to_owned(),
            Ok(USER_NUMBER) => user.clone(),
            _ => format!("unknown (OID={number})"),
        };
        let names = numbers.as_primitive::<Int64Type>().iter().map(|number| number.map(name));
        Ok(ColumnarValue::Array(Arc::new(names.collect::<StringArray>())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results are those of PostgreSQL 15.
    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("10", Some(10)),
            ("1.5 MB", Some(1_572_864)),
            (" -3kB ", Some(-3072)),
            ("1 TB", Some(1 << 40)),
            ("1 XB", None),
            ("", None),
            ("9223372036854775807 kB", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }
}
