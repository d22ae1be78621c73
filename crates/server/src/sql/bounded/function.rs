//! A function that reserves memory for its result.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

use super::growth::{Growth, growth, made};
use super::{Room, are_constants};

/// A bounded function in place of this one. `None` if its result cannot be much larger than its arguments, or if it
/// is bounded already. A function of another session, which a view may have, is bounded in this room.
pub(super) fn bounded(of: &Arc<ScalarUDF>, room: &Arc<Room>) -> Option<ScalarUDF> {
    if let Some(bounded) = of.inner().downcast_ref::<Bounded>() {
        let other = !Arc::ptr_eq(&bounded.room, room);
        return other
            .then(|| ScalarUDF::from(Bounded { room: room.clone(), of: bounded.of.clone(), ..*bounded }));
    }
    let growth = growth(of.name())?;
    Some(ScalarUDF::from(Bounded { of: of.clone(), growth, room: room.clone() }))
}

/// A function that reserves memory before it runs. It is not simplified, because the simplified form would not
/// reserve.
#[derive(Debug)]
struct Bounded {
    of: Arc<ScalarUDF>,
    growth: Growth,
    room: Arc<Room>,
}

impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of
    }
}

impl Eq for Bounded {}

impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.of.hash(state);
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn aliases(&self) -> &[String] {
        self.of.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.of.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.of.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.of.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.of.inner().is_strict()
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let of = Arc::new(self.of.inner().with_updated_config(config)?);
        Some(ScalarUDF::from(Bounded { of, growth: self.growth, room: self.room.clone() }))
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.of.inner().coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.of.documentation()
    }

    fn struct_field_mapping(
        &self,
        literal_args: &[Option<ScalarValue>],
    ) -> Option<datafusion::logical_expr::StructFieldMapping> {
        self.of.inner().struct_field_mapping(literal_args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let makes = made(self.growth, &args.args, args.number_rows)?;
        let constant = are_constants(&args.args);
        self.room.hold(self.name(), makes, constant, || self.of.invoke_with_args(args))
    }
}
