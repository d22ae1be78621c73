//! The current time, independent of the statement's start; and the name of a value's type.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::declared::Function;
use crate::sql::columns::type_name;

pub(super) const UTC: &str = "+00:00";

/// The microseconds since 1970.
pub(super) fn micros(at: SystemTime) -> Option<i64> {
    i64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()).ok()
}

pub(super) fn register(context: &SessionContext) {
    let now = Arc::new(|_: &[ColumnarValue]| {
        let micros = micros(SystemTime::now());
        Ok(ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(micros, Some(UTC.into()))))
    });
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
    context.register_udf(create_udf("clock_timestamp", Vec::new(), time, Volatility::Volatile, now));
    let type_of =
        Function { name: "pg_typeof", takes: anything, gives: |_| DataType::Utf8, compute: name_of_type };
    context.register_udf(type_of.immutable());
}

fn anything(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [_] => Ok(types.to_vec()),
        _ => plan_err!("pg_typeof() takes one value"),
    }
}

fn name_of_type(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let field = &args.arg_fields[0];
    let name = if field.data_type().is_null() { "unknown".to_owned() } else { type_name(field) };
    Ok(ColumnarValue::Scalar(name.into()))
}
