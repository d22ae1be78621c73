//! `text(x)`: a value as text, in PostgreSQL's form. Casts to text become this function where the query engine writes
//! another form.

use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::declared::Function;
use crate::sql::QueryError;
use crate::values::texts;

static TEXT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let gives = |_: &[DataType]| DataType::Utf8;
    Arc::new(Function { name: "text", takes: value_and_zone, gives, compute: text_of }.immutable())
});

static TEXTS: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    Arc::new(
        Function { name: "texts", takes: value_and_zone, gives: list_of_texts, compute: texts_of }
            .immutable(),
    )
});

/// The function of a value, and of the name of a zone if the value contains times with one.
pub(crate) fn text() -> Arc<ScalarUDF> {
    TEXT.clone()
}

/// The same for each element of a list.
pub(crate) fn texts_of_list() -> Arc<ScalarUDF> {
    TEXTS.clone()
}

pub(super) fn register(context: &SessionContext) {
    context.register_udf(text().as_ref().clone());
}

fn value_and_zone(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [_] => Ok(types.to_vec()),
        [of, _] => Ok(vec![of.clone(), DataType::Utf8]),
        _ => plan_err!("text() takes a value and the name of a zone"),
    }
}

fn zone(args: &ScalarFunctionArgs) -> Option<Tz> {
    match args.args.get(1) {
        Some(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name)))) => Tz::from_str(name).ok(),
        _ => None,
    }
}

fn written(of: &ArrayRef, zone: Option<Tz>) -> Result<ArrayRef> {
    let texts =
        texts(of, zone).map_err(|error| DataFusionError::External(Box::new(QueryError::from(error))))?;
    Ok(Arc::new(texts))
}

fn text_of(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    match &args.args[0] {
        ColumnarValue::Scalar(of) => {
            let text = written(&of.to_array()?, zone(args))?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&text, 0)?))
        }
        ColumnarValue::Array(of) => Ok(ColumnarValue::Array(written(of, zone(args))?)),
    }
}

fn list_of_texts(types: &[DataType]) -> DataType {
    let texts = Arc::new(Field::new_list_field(DataType::Utf8, true));
    match types.first() {
        Some(DataType::LargeList(_)) => DataType::LargeList(texts),
        _ => DataType::List(texts),
    }
}

fn texts_of(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    fn list<O: OffsetSizeTrait>(of: &ArrayRef, zone: Option<Tz>) -> Result<ArrayRef> {
        let (_, offsets, values, nulls) = of.as_list::<O>().clone().into_parts();
        let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let texts = GenericListArray::<O>::try_new(field, offsets, written(&values, zone)?, nulls)?;
        Ok(Arc::new(texts))
    }
    let lists = args.args[0].to_array(args.number_rows)?;
    let lists = match lists.data_type() {
        DataType::LargeList(_) => list::<i64>(&lists, zone(args))?,
        _ => list::<i32>(&lists, zone(args))?,
    };
    Ok(ColumnarValue::Array(lists))
}
