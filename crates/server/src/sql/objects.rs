//! Names of objects in catalogs: functions that `postgres::objects` puts into statements.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::{AsArray, Int32Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion_pg_catalog::pg_catalog::ArrowTable;

use super::ast::folded;
use super::type_numbers::{type_number, type_of_number};

/// The function that returns the name of an object without its schema.
pub(crate) const OBJECT_NAME: &str = "pg_object_name";
/// The function around `$1::oid[]`. Clients must get the type `oid[]` for such a parameter.
pub(crate) const OID_ARRAY: &str = "pg_oid_array";
/// The function that returns the number of a function with this name, and 0 for `-`.
pub(crate) const FUNCTION_NUMBER: &str = "pg_function_number";
/// The function that returns the number of a type.
pub(crate) const TO_REGTYPE: &str = "to_regtype";

/// The name of an object without its schema. `None` if the schema does not exist.
pub(crate) fn object_name(written: &str) -> Option<String> {
    let written = written.split('(').next().unwrap_or_default().trim();
    let name = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(written)
        .and_then(|mut parser| parser.parse_object_name(false));
    let Ok(name) = name else { return Some(written.to_owned()) };
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    match &parts[..] {
        [name] => Some(name.clone()),
        [.., schema, name] if matches!(schema.as_str(), "public" | "pg_catalog" | "information_schema") => {
            Some(name.clone())
        }
        _ => None,
    }
}

/// The numbers of functions by their names. Of equal names, the first counts.
fn function_numbers(functions: &ArrowTable) -> Result<HashMap<String, i32>> {
    let mut numbers = HashMap::new();
    for batch in functions.data() {
        let column = |name: &str, of| cast(batch.column(batch.schema().index_of(name)?), of);
        let (names, oids) = (column("proname", &DataType::Utf8)?, column("oid", &DataType::Int32)?);
        for (name, oid) in names.as_string::<i32>().iter().zip(oids.as_primitive::<Int32Type>()) {
            if let (Some(name), Some(oid)) = (name, oid) {
                numbers.entry(name.to_owned()).or_insert(oid);
            }
        }
    }
    Ok(numbers)
}

/// Registers the functions. `functions` is PostgreSQL's table of functions.
pub(super) fn register(context: &SessionContext, functions: Arc<ArrowTable>) {
    let texts = |args: &[ColumnarValue]| -> Result<StringArray> {
        let arrays = ColumnarValue::values_to_arrays(args)?;
        Ok(cast(&arrays[0], &DataType::Utf8)?.as_string::<i32>().clone())
    };
    let number = move |args: &[ColumnarValue]| {
        let numbers = texts(args)?.iter().map(|name| name.and_then(type_number)).collect::<Int32Array>();
        Ok(ColumnarValue::Array(Arc::new(numbers)))
    };
    let name = move |args: &[ColumnarValue]| {
        let names = texts(args)?.iter().map(|name| name.and_then(object_name)).collect::<StringArray>();
        Ok(ColumnarValue::Array(Arc::new(names)))
    };
    let known = OnceLock::new();
    let of_function = move |args: &[ColumnarValue]| {
        let known = known.get_or_init(|| function_numbers(&functions).unwrap_or_default());
        let number = |name: &str| name.parse().ok().or_else(|| known.get(name).copied()).unwrap_or(0);
        let numbers = texts(args)?.iter().map(|name| name.map(number)).collect::<Int32Array>();
        Ok(ColumnarValue::Array(Arc::new(numbers)))
    };
    let shown = |args: &[ColumnarValue]| {
        let arrays = ColumnarValue::values_to_arrays(args)?;
        let (numbers, modifiers) =
            (arrays[0].as_primitive::<Int64Type>(), arrays[1].as_primitive::<Int64Type>());
        let names = numbers.iter().zip(modifiers).map(|(number, of)| Some(type_of_number(number?, of)));
        Ok(ColumnarValue::Array(Arc::new(names.collect::<StringArray>())))
    };
    let same = |args: &[ColumnarValue]| Ok(args[0].clone());
    let oids = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    // There are no locks. Pools of connections release them all.
    let nothing = |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(ScalarValue::from("")));
    // No schema of temporary tables.
    let none = |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(ScalarValue::from(0_i32)));
    let text = || vec![DataType::Utf8];
    let (stable, fixed) = (Volatility::Stable, Volatility::Immutable);
    for function in [
        create_udf("format_type", vec![DataType::Int64; 2], DataType::Utf8, fixed, Arc::new(shown)),
        create_udf(FUNCTION_NUMBER, text(), DataType::Int32, stable, Arc::new(of_function)),
        create_udf(TO_REGTYPE, text(), DataType::Int32, stable, Arc::new(number)),
        create_udf(OBJECT_NAME, text(), DataType::Utf8, fixed, Arc::new(name)),
        create_udf(OID_ARRAY, vec![oids.clone()], oids, fixed, Arc::new(same)),
        create_udf("pg_my_temp_schema", Vec::new(), DataType::Int32, stable, Arc::new(none)),
        create_udf("pg_advisory_unlock_all", Vec::new(), DataType::Utf8, stable, Arc::new(nothing)),
    ] {
        context.register_udf(function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_are_not_part_of_names() {
        for (written, name) in [
            ("Nation", Some("nation")),
            ("public.nation", Some("nation")),
            ("\"A b\"", Some("A b")),
            ("pg_catalog.now()", Some("now")),
            ("other.nation", None),
        ] {
            assert_eq!(object_name(written).as_deref(), name, "{written}");
        }
    }
}
