//! Functions of PostgreSQL that clients call when they connect and that answer with something fixed.
//!
//! Most are in `datafusion-pg-catalog`; these are missing there, or answer what clients do not understand.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

/// The version that clients are told: they take features and queries of the catalog by it.
pub(crate) const POSTGRES_VERSION: &str = "16.6";

/// Registers what is the same for everybody.
pub(crate) fn register(context: &SessionContext) {
    let version = concat!("PostgreSQL 16.6 (coscan ", env!("CARGO_PKG_VERSION"), ")");
    fixed(context, "version", &[], version);
    current_setting(context);
    for (name, arguments) in [("obj_description", 2), ("col_description", 2), ("shobj_description", 2)] {
        nothing(context, name, arguments);
    }
}

/// Registers what tells who asks.
pub(crate) fn register_user(context: &SessionContext, user: &str) {
    for name in ["session_user", "current_user", "user", "current_role"] {
        fixed(context, name, &[], user);
    }
}

fn fixed(context: &SessionContext, name: &str, arguments: &[DataType], answer: &str) {
    let answer = answer.to_owned();
    let call = Arc::new(move |_: &[ColumnarValue]| {
        Ok(ColumnarValue::Array(Arc::new(StringArray::from(vec![answer.clone()])) as ArrayRef))
    });
    context.register_udf(create_udf(name, arguments.to_vec(), DataType::Utf8, Volatility::Stable, call));
}

fn nothing(context: &SessionContext, name: &str, arguments: usize) {
    let mut types = vec![DataType::Int64];
    types.extend(
        (1..arguments).map(|_| if name == "col_description" { DataType::Int64 } else { DataType::Utf8 }),
    );
    let call = Arc::new(|_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(ScalarValue::Utf8(None))));
    context.register_udf(create_udf(name, types, DataType::Utf8, Volatility::Stable, call));
}

/// Settings that clients ask for in a query; SHOW knows more.
fn current_setting(context: &SessionContext) {
    let call = Arc::new(|arguments: &[ColumnarValue]| {
        let name = match arguments {
            [ColumnarValue::Scalar(ScalarValue::Utf8(Some(name)))] => name.to_ascii_lowercase(),
            _ => String::new(),
        };
        let value = match name.as_str() {
            "server_version" => Some(POSTGRES_VERSION),
            "server_version_num" => Some("160006"),
            "timezone" => Some("UTC"),
            "standard_conforming_strings" => Some("on"),
            _ => None,
        };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(value.map(str::to_owned))))
    });
    let udf = create_udf("current_setting", vec![DataType::Utf8], DataType::Utf8, Volatility::Stable, call);
    context.register_udf(udf);
}
