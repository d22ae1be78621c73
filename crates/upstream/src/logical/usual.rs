//! Functions that differ from another one in a few respects.

/// The methods of an `AggregateUDFImpl` that are those of the function in its field `usual`.
macro_rules! as_usual {
    () => {
        fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
            self.usual.schema_name(params)
        }

        fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
            self.usual.display_name(params)
        }

        fn signature(&self) -> &Signature {
            self.usual.signature()
        }

        fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
            self.usual.coerce_types(types)
        }

        fn return_type(&self, types: &[DataType]) -> Result<DataType> {
            self.usual.return_type(types)
        }

        fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
            self.usual.return_field(fields)
        }

        fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
            self.usual.state_fields(args)
        }

        fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
            self.usual.accumulator(args)
        }

        fn order_sensitivity(&self) -> AggregateOrderSensitivity {
            self.usual.order_sensitivity()
        }
    };
}

pub(super) use as_usual;
