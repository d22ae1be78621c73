//! What time it is now, apart from when the statement began; and the name of a value's type.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, create_udf,
};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use crate::sql::columns::type_names;

const UTC: &str = "+00:00";

pub(super) fn register(context: &SessionContext) {
    let now = Arc::new(|_: &[ColumnarValue]| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(since.as_micros()).ok();
        Ok(ColumnarValue::Scalar(ScalarValue::TimestampMicrosecond(micros, Some(UTC.into()))))
    });
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()));
    context.register_udf(create_udf("clock_timestamp", Vec::new(), time, Volatility::Volatile, now));
    context.register_udf(ScalarUDF::from(TypeOf(Signature::any(1, Volatility::Immutable))));
}

/// `pg_typeof(x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TypeOf(Signature);

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = match args.arg_fields[0].data_type() {
            DataType::Null => "unknown".to_owned(),
            of => type_names(of).0,
        };
        Ok(ColumnarValue::Scalar(name.into()))
    }
}
