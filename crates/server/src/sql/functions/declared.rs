//! Short declarations of functions: name, argument types, result type, computation.
//!
//! They suit functions without further properties. [`holding`] is for functions that hold a value. Other functions
//! implement [`ScalarUDFImpl`]: those whose type depends on a value, and those that become another expression.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::expr_fn::SimpleScalarUDF;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::values::TYPE;

/// A declared function.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// Coerces argument types. Must be idempotent. Returns an error if the types do not fit.
    pub(super) takes: fn(&[DataType]) -> Result<Vec<DataType>>,
    /// The result type for these argument types.
    pub(super) gives: fn(&[DataType]) -> DataType,
    pub(super) compute: fn(&ScalarFunctionArgs) -> Result<ColumnarValue>,
}

impl Function {
    /// The function as immutable: the same result for the same arguments.
    pub(super) fn immutable(self) -> ScalarUDF {
        self.with(Volatility::Immutable, None)
    }

    /// The function as stable: the same result for the same arguments within a statement.
    pub(super) fn stable(self) -> ScalarUDF {
        self.with(Volatility::Stable, None)
    }

    /// The immutable function, whose texts have the type of this name in PostgreSQL.
    pub(super) fn immutable_of(self, texts: &'static str) -> ScalarUDF {
        self.with(Volatility::Immutable, Some(texts))
    }

    fn with(self, volatility: Volatility, texts: Option<&'static str>) -> ScalarUDF {
        let signature = Signature::user_defined(volatility);
        ScalarUDF::from(Declared { function: self, signature, texts })
    }
}

/// The types to which another function coerces its arguments.
pub(super) fn coerced_by(function: &ScalarUDF, types: &[DataType]) -> Result<Vec<DataType>> {
    let fields: Vec<_> = types.iter().map(|of| Arc::new(Field::new("", of.clone(), true))).collect();
    let fields = fields_with_udf(&fields, function)?;
    Ok(fields.iter().map(|field| field.data_type().clone()).collect())
}

/// A function that computes its results from its arguments and from values in the closure. It has one result type,
/// and equals only itself.
pub(super) fn holding(
    name: &str,
    signature: Signature,
    gives: DataType,
    compute: impl Fn(&[ColumnarValue]) -> Result<ColumnarValue> + Send + Sync + 'static,
) -> ScalarUDF {
    ScalarUDF::from(SimpleScalarUDF::new_with_signature(name, signature, gives, Arc::new(compute)))
}

/// See [`Function`]. Equality is that of the names.
#[derive(Debug)]
struct Declared {
    function: Function,
    signature: Signature,
    /// The name of the type that its texts have in PostgreSQL.
    texts: Option<&'static str>,
}

impl PartialEq for Declared {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for Declared {}

impl Hash for Declared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl ScalarUDFImpl for Declared {
    fn name(&self) -> &str {
        self.function.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        (self.function.takes)(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok((self.function.gives)(types))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let Some(of) = self.texts else { return Ok(Arc::new(field)) };
        let metadata = HashMap::from([(TYPE.to_owned(), of.to_owned())]);
        Ok(Arc::new(field.with_metadata(metadata)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        (self.function.compute)(&args)
    }
}
