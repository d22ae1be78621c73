//! Names of objects in catalogs: functions that `postgres::objects` puts into statements, and the numbers of types.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{AsArray, Int32Array, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use pgwire::api::Type;

use super::ast::folded;

/// The function that returns the name of an object without its schema.
pub(crate) const OBJECT_NAME: &str = "pg_object_name";
/// The function around `$1::oid[]`. Clients must get the type `oid[]` for such a parameter.
pub(crate) const OID_ARRAY: &str = "pg_oid_array";
/// The function that returns the number of a type.
pub(crate) const TO_REGTYPE: &str = "to_regtype";

/// Numbers above those of PostgreSQL's own types.
const TYPES_END: u32 = 6_000;

/// SQL's names of types that have another name in `pg_type`.
const ALIASES: [(&str, &str); 18] = [
    ("bigint", "int8"),
    ("bit varying", "varbit"),
    ("boolean", "bool"),
    ("character varying", "varchar"),
    ("character", "bpchar"),
    ("dec", "numeric"),
    ("decimal", "numeric"),
    ("double precision", "float8"),
    ("float", "float8"),
    ("int", "int4"),
    ("integer", "int4"),
    ("real", "float4"),
    ("smallint", "int2"),
    ("time with time zone", "timetz"),
    ("time without time zone", "time"),
    ("timestamp with time zone", "timestamptz"),
    ("timestamp without time zone", "timestamp"),
    ("varying", "varchar"),
];

static TYPES: LazyLock<HashMap<String, i32>> = LazyLock::new(|| {
    let known = (1..TYPES_END).filter_map(Type::from_oid);
    known.filter_map(|of| Some((of.name().to_owned(), i32::try_from(of.oid()).ok()?))).collect()
});

/// The number of a type, which may be written as a number. `None` for an unknown type.
pub(crate) fn type_number(written: &str) -> Option<i32> {
    if let Ok(number) = written.parse() {
        return Some(number);
    }
    let lower = written.trim().to_ascii_lowercase();
    let (element, array) = match lower.strip_suffix("[]") {
        Some(element) => (element.trim_end(), true),
        None => (lower.as_str(), false),
    };
    let element = element.strip_prefix("pg_catalog.").unwrap_or(element);
    // Digits, as in numeric(10, 2), are not a part of the type.
    let (before, behind) = element.split_once('(').unwrap_or((element, ""));
    let behind = behind.split_once(')').map_or("", |(_, behind)| behind);
    let name = before.split_whitespace().chain(behind.split_whitespace()).collect::<Vec<_>>().join(" ");
    let name = name.trim_matches('"');
    let name = ALIASES.iter().find(|(sql, _)| *sql == name).map_or(name, |(_, short)| short);
    let name = if array { format!("_{name}") } else { name.to_owned() };
    TYPES.get(&name).copied()
}

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

/// Registers the functions.
pub(super) fn register(context: &SessionContext) {
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
    let same = |args: &[ColumnarValue]| Ok(args[0].clone());
    let oids = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    // There are no locks. Pools of connections release them all.
    let nothing = |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(ScalarValue::from("")));
    // No schema of temporary tables.
    let none = |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(ScalarValue::from(0_i32)));
    let text = || vec![DataType::Utf8];
    let (stable, fixed) = (Volatility::Stable, Volatility::Immutable);
    for function in [
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
    fn types_have_numbers() {
        for (written, number) in [
            ("integer", Some(23)),
            ("INT4", Some(23)),
            ("pg_catalog.int4", Some(23)),
            ("int[]", Some(1007)),
            ("character varying(10)", Some(1043)),
            ("timestamp(3) with time zone", Some(1184)),
            ("numeric(10, 2)", Some(1700)),
            ("double  precision", Some(701)),
            ("23", Some(23)),
            ("hstore", None),
            ("", None),
        ] {
            assert_eq!(type_number(written), number, "{written}");
        }
    }

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
