//! The schema that a file is decoded to: its own, with short decimals in 64 bits.

use coscan_operators::short_decimals::with_short_fields;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::parquet::schema::types::SchemaDescriptor;

use crate::rule::eligibility::short_decimal;

/// The schema of the file, `physical`, with those decimals in 64 bits for which [`short_decimal`] holds.
pub(crate) fn decoding_schema(physical: &SchemaRef, parquet: &SchemaDescriptor) -> SchemaRef {
    let stored = parquet.root_schema().get_fields();
    with_short_fields(physical, |at| {
        stored.get(at).is_some_and(|stored| short_decimal(physical.field(at).data_type(), stored))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::parquet::schema::parser::parse_message_type;

    use super::*;

    #[test]
    fn integers_become_short_and_others_stay() {
        let message = "message m { REQUIRED INT64 price (DECIMAL(15,2)); OPTIONAL INT32 rate (DECIMAL(9,2));
            REQUIRED FIXED_LEN_BYTE_ARRAY(16) long (DECIMAL(38,2)); REQUIRED FIXED_LEN_BYTE_ARRAY(7) packed (DECIMAL(15,2));
            OPTIONAL INT64 short (DECIMAL(15,2)); }";
        let parquet = SchemaDescriptor::new(Arc::new(parse_message_type(message).expect("a schema")));
        let decimal = |name, precision| Field::new(name, DataType::Decimal128(precision, 2), true);
        let physical = Arc::new(Schema::new(vec![
            decimal("price", 15),
            decimal("rate", 9),
            decimal("long", 38),
            decimal("packed", 15),
            Field::new("short", DataType::Decimal64(15, 2), true),
        ]));
        let decoding = decoding_schema(&physical, &parquet);
        assert_eq!(decoding.field(0).data_type(), &DataType::Decimal64(15, 2));
        assert_eq!(decoding.field(1).data_type(), &DataType::Decimal64(9, 2));
        assert_eq!(decoding.field(2), physical.field(2));
        assert_eq!(decoding.field(3), physical.field(3));
        assert_eq!(decoding.field(4), physical.field(4));
    }
}
