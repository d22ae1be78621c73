//! `concat` and `concat_ws`, which write truth values as `t` and `f`. The query engine writes `true` and `false`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::functions::string;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;

use super::declared::coerced_by;
use super::text;

/// A function that joins texts.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Joined {
    of_texts: Arc<ScalarUDF>,
    signature: Signature,
}

pub(super) fn register(context: &SessionContext) {
    for of_texts in [string::concat(), string::concat_ws()] {
        let signature = Signature::user_defined(Volatility::Immutable);
        context.register_udf(ScalarUDF::from(Joined { of_texts, signature }));
    }
}

/// The types with texts in place of truth values.
fn as_texts(types: &[DataType]) -> Vec<DataType> {
    let text = |of: &DataType| if *of == DataType::Boolean { DataType::Utf8 } else { of.clone() };
    types.iter().map(text).collect()
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        self.of_texts.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let mut coerced = coerced_by(&self.of_texts, &as_texts(types))?;
        for (to, of) in coerced.iter_mut().zip(types) {
            if *of == DataType::Boolean {
                *to = DataType::Boolean;
            }
        }
        Ok(coerced)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.of_texts.return_type(&as_texts(types))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for (arg, field) in args.args.iter_mut().zip(&mut args.arg_fields) {
            if arg.data_type() == DataType::Boolean {
                *field = Arc::new(Field::new(field.name(), DataType::Utf8, true));
                *arg = text().invoke_with_args(ScalarFunctionArgs {
                    args: vec![arg.clone()],
                    arg_fields: vec![field.clone()],
                    number_rows: args.number_rows,
                    return_field: field.clone(),
                    config_options: args.config_options.clone(),
                })?;
            }
        }
        self.of_texts.invoke_with_args(args)
    }
}
