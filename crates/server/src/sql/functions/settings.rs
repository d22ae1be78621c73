//! `current_setting` and `set_config`: the variables of the session.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use crate::sql::settings::Shared;

/// The functions for these variables.
pub(super) fn udfs(variables: &Arc<Shared>) -> [ScalarUDF; 2] {
    let (text, truth) = (DataType::Utf8, DataType::Boolean);
    let of_name = TypeSignature::Exact(vec![text.clone()]);
    let may_be_missing = TypeSignature::Exact(vec![text.clone(), truth.clone()]);
    let reads = Signature::one_of(vec![of_name, may_be_missing], Volatility::Stable);
    let sets = Signature::exact(vec![text.clone(), text, truth], Volatility::Volatile);
    [("current_setting", reads), ("set_config", sets)].map(|(name, signature)| {
        ScalarUDF::from(OfSettings { name, signature, variables: Arc::clone(variables) })
    })
}

/// One of the two functions. It equals only the one of the same session.
#[derive(Debug)]
struct OfSettings {
    name: &'static str,
    signature: Signature,
    variables: Arc<Shared>,
}

impl PartialEq for OfSettings {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.variables, &other.variables)
    }
}

impl Eq for OfSettings {}

impl Hash for OfSettings {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for OfSettings {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = args.args.iter().map(|arg| arg.to_array(args.number_rows));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let text = |at: usize, row: usize| {
            let texts = arrays.get(at)?.as_string_opt::<i32>()?;
            texts.is_valid(row).then(|| texts.value(row))
        };
        let last = arrays.last().map(|last| cast(last, &DataType::Boolean)).transpose();
        let last = last.ok().flatten();
        let is_true = |row: usize| {
            let last = last.as_ref().and_then(|last| last.as_boolean_opt());
            last.is_some_and(|last| last.is_valid(row) && last.value(row))
        };
        let setting = |row: usize| {
            let Some(name) = text(0, row).map(str::to_ascii_lowercase) else { return Ok(None) };
            if self.name == "set_config" {
                return self.variables.ask(name, text(1, row), is_true(row)).map(Some);
            }
            match self.variables.show(&name) {
                Err(_) if arrays.len() > 1 && is_true(row) => Ok(None),
                shown => shown.map(Some),
            }
        };
        let settings = (0..args.number_rows).map(setting).collect::<std::result::Result<StringArray, _>>();
        Ok(ColumnarValue::Array(Arc::new(
            settings.map_err(|error| DataFusionError::External(Box::new(error)))?,
        )))
    }
}
