//! JSON made from values: `to_json`, `json_build_object`, `json_build_array`, and `json_agg`, which makes an array of a
//! list.
//!
//! A text is a JSON string, unless [`AS_JSON`] marks it as JSON. Statements call it for each argument.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray, StructArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{DataFusionError, Result, internal_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::normal;
use crate::sql::QueryError;
use crate::sql::functions::declared::Function;
use crate::values::{is_json, texts};

/// The name of the function that marks a text as JSON, and of the field that holds it then.
pub(crate) const AS_JSON: &str = "as_json";

const TEXT: fn(&[DataType]) -> DataType = |_| DataType::Utf8;

/// The functions.
pub(super) const FUNCTIONS: [Function; 8] = [
    Function { name: "to_json", takes: one, gives: TEXT, compute: |args| of_values(args, false) },
    Function { name: "to_jsonb", takes: one, gives: TEXT, compute: |args| of_values(args, true) },
    Function { name: "json_build_object", takes: pairs, gives: TEXT, compute: |args| objects(args, false) },
    Function { name: "jsonb_build_object", takes: pairs, gives: TEXT, compute: |args| objects(args, true) },
    Function { name: "json_build_array", takes: any, gives: TEXT, compute: |args| arrays(args, false) },
    Function { name: "jsonb_build_array", takes: any, gives: TEXT, compute: |args| arrays(args, true) },
    Function { name: "json_of_list", takes: one, gives: TEXT, compute: |args| of_lists(args, false) },
    Function { name: "jsonb_of_list", takes: one, gives: TEXT, compute: |args| of_lists(args, true) },
];

fn marked() -> Fields {
    Fields::from(vec![Field::new(AS_JSON, DataType::Utf8, true)])
}

fn any(types: &[DataType]) -> Result<Vec<DataType>> {
    Ok(types.to_vec())
}

fn one(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [_] => Ok(types.to_vec()),
        _ => plan_err!("this function takes one value"),
    }
}

fn pairs(types: &[DataType]) -> Result<Vec<DataType>> {
    if types.iter().step_by(2).any(DataType::is_nested) {
        let text = "key value must be scalar, not array, composite, or json";
        return Err(DataFusionError::External(Box::new(QueryError::other("22023", text))));
    }
    match types.len().is_multiple_of(2) {
        true => Ok(types.to_vec()),
        false => plan_err!("argument list must have even number of elements: names and values of an object"),
    }
}

static AS: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(AsJson(Signature::any(1, Volatility::Immutable)))));

/// The function that marks JSON.
pub(crate) fn as_json() -> Arc<ScalarUDF> {
    AS.clone()
}

/// `as_json(x)`: marks a text that is JSON. Other values stay as they are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsJson(Signature);

impl ScalarUDFImpl for AsJson {
    fn name(&self) -> &str {
        AS_JSON
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type depends on metadata")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let of = &args.arg_fields[0];
        let to = if is_json(of) { DataType::Struct(marked()) } else { of.data_type().clone() };
        Ok(Arc::new(Field::new(AS_JSON, to, true)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !is_marked(args.return_field.data_type()) || is_marked(&args.args[0].data_type()) {
            return Ok(args.args.swap_remove(0));
        }
        let texts = cast(&args.args[0].to_array(args.number_rows)?, &DataType::Utf8)?;
        let nulls = texts.nulls().cloned();
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new(marked(), vec![texts], nulls)?)))
    }
}

fn is_marked(of: &DataType) -> bool {
    matches!(of, DataType::Struct(fields) if *fields == marked())
}

/// Each value as JSON; `None` for NULL.
pub(super) fn written(of: &ArrayRef) -> Result<Vec<Option<String>>> {
    let list = |values: &ArrayRef, place: &dyn Fn(usize) -> std::ops::Range<usize>| {
        let elements = written(values)?;
        let array = |row: usize| {
            let elements = elements[place(row)].iter().map(|of| of.as_deref().unwrap_or("null"));
            of.is_valid(row).then(|| format!("[{}]", elements.collect::<Vec<_>>().join(",")))
        };
        Ok::<_, DataFusionError>((0..of.len()).map(array).collect())
    };
    match of.data_type() {
        DataType::Null => Ok(vec![None; of.len()]),
        kind if is_marked(kind) => Ok(of
            .as_struct()
            .column(0)
            .as_string::<i32>()
            .iter()
            .map(|text| text.map(str::to_owned))
            .collect()),
        DataType::Struct(fields) => {
            let columns = of.as_struct().columns().iter().map(written).collect::<Result<Vec<_>>>()?;
            let object = |row: usize| {
                let pairs = fields.iter().zip(&columns).map(|(field, column)| {
                    format!("{}:{}", quoted(field.name()), column[row].as_deref().unwrap_or("null"))
                });
                of.is_valid(row).then(|| format!("{{{}}}", pairs.collect::<Vec<_>>().join(",")))
            };
            Ok((0..of.len()).map(object).collect())
        }
        DataType::List(_) => {
            let lists = of.as_list::<i32>();
            list(lists.values(), &|row| {
                lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize
            })
        }
        DataType::LargeList(_) => {
            let lists = of.as_list::<i64>();
            list(lists.values(), &|row| {
                lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize
            })
        }
        kind => {
            let texts = texts(of, None)
                .map_err(|error| DataFusionError::External(Box::new(QueryError::from(error))))?;
            let value = |text: &str| match kind {
                DataType::Boolean => (if text == "t" { "true" } else { "false" }).to_owned(),
                kind if kind.is_numeric() && text.ends_with(|c: char| c.is_ascii_digit()) => text.to_owned(),
                // ISO 8601.
                DataType::Timestamp(_, zone) => {
                    let text = text.replacen(' ', "T", 1);
                    quoted(&if zone.is_some() && text.ends_with("+00") { format!("{text}:00") } else { text })
                }
                _ => quoted(text),
            };
            Ok(texts.iter().map(|text| text.map(value)).collect())
        }
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn columns(args: &ScalarFunctionArgs) -> Result<Vec<Vec<Option<String>>>> {
    args.args.iter().map(|arg| written(&arg.to_array(args.number_rows)?)).collect()
}

/// Texts with JSON, in the form of jsonb if `binary`.
fn finished(rows: impl Iterator<Item = Result<Option<String>>>, binary: bool) -> Result<ColumnarValue> {
    let form = |json: Option<String>| match json {
        Some(json) if binary => normal(&json).map(Some),
        json => Ok(json),
    };
    let rows = rows.map(|json| json.and_then(form)).collect::<Result<StringArray>>()?;
    Ok(ColumnarValue::Array(Arc::new(rows)))
}

fn of_values(args: &ScalarFunctionArgs, binary: bool) -> Result<ColumnarValue> {
    finished(columns(args)?.swap_remove(0).into_iter().map(Ok), binary)
}

fn objects(args: &ScalarFunctionArgs, binary: bool) -> Result<ColumnarValue> {
    let columns = columns(args)?;
    let row = |row: usize| {
        let pairs = columns.chunks_exact(2).map(|pair| (pair[0][row].as_deref(), pair[1][row].as_deref()));
        object(pairs).map(Some)
    };
    finished((0..args.number_rows).map(row), binary)
}

/// An object of names and values that are JSON.
///
/// # Errors
///
/// If a name is NULL.
pub(super) fn object<'a>(pairs: impl Iterator<Item = (Option<&'a str>, Option<&'a str>)>) -> Result<String> {
    let pair = |(name, value): (Option<&str>, Option<&str>)| match name {
        Some(name) => {
            let name = if name.starts_with('"') { name.to_owned() } else { quoted(name) };
            Ok(format!("{name} : {}", value.unwrap_or("null")))
        }
        None => {
            let error = QueryError::other("22004", "null value not allowed for object key");
            Err(DataFusionError::External(Box::new(error)))
        }
    };
    Ok(format!("{{{}}}", pairs.map(pair).collect::<Result<Vec<_>>>()?.join(", ")))
}

fn arrays(args: &ScalarFunctionArgs, binary: bool) -> Result<ColumnarValue> {
    let columns = columns(args)?;
    let array = |row: usize| {
        let values = columns.iter().map(|column| column[row].as_deref().unwrap_or("null"));
        Ok(Some(format!("[{}]", values.collect::<Vec<_>>().join(", "))))
    };
    finished((0..args.number_rows).map(array), binary)
}

/// Lists as arrays in the form of `json_agg`.
fn of_lists(args: &ScalarFunctionArgs, binary: bool) -> Result<ColumnarValue> {
    let lists = args.args[0].to_array(args.number_rows)?;
    let DataType::List(_) = lists.data_type() else { return of_values(args, binary) };
    let lists = lists.as_list::<i32>();
    let elements = written(lists.values())?;
    // PostgreSQL writes rows and arrays on lines of their own.
    let between =
        if lists.value_type().is_nested() && !is_marked(&lists.value_type()) { ", \n " } else { ", " };
    let array = |row: usize| {
        let place = lists.value_offsets()[row] as usize..lists.value_offsets()[row + 1] as usize;
        let elements = elements[place].iter().map(|of| of.as_deref().unwrap_or("null"));
        Ok(lists.is_valid(row).then(|| format!("[{}]", elements.collect::<Vec<_>>().join(between))))
    };
    finished((0..lists.len()).map(array), binary)
}
