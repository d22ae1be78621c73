//! A function in five lines: its name, what it takes, what it gives, how it is computed.
//!
//! For functions that have no more to say; [`holding`] is for those that hold something. Others implement [`ScalarUDFImpl`]: those
//! whose type follows from a value, or that become another expression.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::expr_fn::SimpleScalarUDF;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// What a function is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    /// The types that arguments of these types are cast to; an error if they do not fit. It is asked again with what it said.
    pub(super) takes: fn(&[DataType]) -> Result<Vec<DataType>>,
    /// The type of what it makes of them.
    pub(super) gives: fn(&[DataType]) -> DataType,
    pub(super) compute: fn(&ScalarFunctionArgs) -> Result<ColumnarValue>,
}

impl Function {
    /// The function, which gives the same for the same arguments.
    pub(super) fn immutable(self) -> ScalarUDF {
        self.with(Volatility::Immutable)
    }

    /// The function, which gives the same for the same arguments within a statement.
    pub(super) fn stable(self) -> ScalarUDF {
        self.with(Volatility::Stable)
    }

    fn with(self, volatility: Volatility) -> ScalarUDF {
        ScalarUDF::from(Declared { function: self, signature: Signature::user_defined(volatility) })
    }
}

/// A function that computes its values from more than its arguments: from what the closure holds. It gives one type, and is equal
/// to itself only.
pub(super) fn holding(
    name: &str,
    signature: Signature,
    gives: DataType,
    compute: impl Fn(&[ColumnarValue]) -> Result<ColumnarValue> + Send + Sync + 'static,
) -> ScalarUDF {
    ScalarUDF::from(SimpleScalarUDF::new_with_signature(name, signature, gives, Arc::new(compute)))
}

/// See [`Function`]; names tell them apart.
#[derive(Debug)]
struct Declared {
    function: Function,
    signature: Signature,
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        (self.function.compute)(&args)
    }
}
