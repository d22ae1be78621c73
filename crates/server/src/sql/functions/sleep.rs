//! `pg_sleep`: waits without a thread. A stopped statement stops waiting.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{AsArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Maximum seconds of one wait, as long as PostgreSQL's clock goes without an overflow.
const SECONDS_MAX: f64 = 1e9;

/// The function.
pub(super) fn udf() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("pg_sleep waits only in an asynchronous plan")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seconds = args.args[0].to_array(args.number_rows)?;
        let seconds = seconds.as_primitive::<Float64Type>().clone();
        for seconds in seconds.iter().flatten().filter(|seconds| *seconds > 0.0) {
            tokio::time::sleep(Duration::from_secs_f64(seconds.min(SECONDS_MAX))).await;
        }
        let waited = seconds.iter().map(|seconds| seconds.map(|_| "")).collect::<StringArray>();
        Ok(ColumnarValue::Array(Arc::new(waited)))
    }
}
