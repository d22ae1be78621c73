//! Columns in PostgreSQL's tables: types, their short names, and the digits of decimals.

use std::sync::Arc;

use coscan_datafusion::is_uuid;
use datafusion::arrow::array::{Int32Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::{Column, JoinType, Result};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion_pg_catalog::pg_catalog::oid_field::{kind, oid_field};
use pgwire::api::Type;

use super::computed::table_of;
use super::type_numbers::sql_name;
use super::visible::Visible;
use crate::values::{told_type, type_of_texts};

/// Offset that PostgreSQL adds to precision and scale in a type's modifier.
const MODIFIER_OFFSET: i32 = 4;

/// Precision and scale of a decimal.
fn digits(data_type: &DataType) -> Option<(i32, i32)> {
    match *data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((precision.into(), scale.into())),
        _ => None,
    }
}

/// PostgreSQL's modifier of a type, `atttypmod`: precision and scale of a decimal. `None` for other types.
pub(crate) fn modifier(data_type: &DataType) -> Option<i32> {
    // The scale is a signed number of eleven bits.
    digits(data_type).map(|(precision, scale)| ((precision << 16) | (scale & 0x7ff)) + MODIFIER_OFFSET)
}

/// `pg_attribute` with the types of columns, their modifiers and their dimensions. The given table has a few types only.
pub(super) async fn attributes(
    given: Arc<dyn TableProvider>,
    classes: Arc<dyn TableProvider>,
    namespaces: Arc<dyn TableProvider>,
    visible: &Visible,
) -> Result<Arc<dyn TableProvider>> {
    const TYPE: &str = "atttypid";
    const MODIFIER: &str = "atttypmod";
    const DIMENSIONS: &str = "attndims";
    let (mut schemas, mut tables, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let (mut types, mut modifiers, mut dimensions) = (Vec::new(), Vec::new(), Vec::new());
    for (schema, table, columns) in visible.columns().await {
        for field in columns.fields() {
            let of = told_type(field).unwrap_or(Type::TEXT);
            schemas.push(schema.clone());
            tables.push(table.clone());
            names.push(field.name().clone());
            types.push(i32::try_from(of.oid()).ok());
            modifiers.push(modifier(field.data_type()).unwrap_or(-1));
            dimensions.push(i32::from(of.name().starts_with('_')));
        }
    }
    let fields = vec![
        Field::new("schema_name", DataType::Utf8, false),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        oid_field(TYPE, kind::REGTYPE, true),
        Field::new(MODIFIER, DataType::Int32, false),
        Field::new(DIMENSIONS, DataType::Int32, false),
    ];
    let known = table_of(
        fields,
        vec![
            Arc::new(StringArray::from(schemas)),
            Arc::new(StringArray::from(tables)),
            Arc::new(StringArray::from(names)),
            Arc::new(Int32Array::from(types)),
            Arc::new(Int32Array::from(modifiers)),
            Arc::new(Int32Array::from(dimensions)),
        ],
    )?;
    let column = |table: &str, name: &str| Column::new(Some(table), name);
    let schema = given.schema();
    let all = schema.fields().iter().map(|field| {
        let table = match field.name().as_str() {
            TYPE | MODIFIER | DIMENSIONS => "m",
            _ => "a",
        };
        Expr::Column(column(table, field.name())).alias(field.name())
    });
    let scan = |name: &str, table| LogicalPlanBuilder::scan(name, provider_as_source(table), None);
    // A table's number and its names. The visible tables are known by name.
    let of_namespace = (vec![column("c", "relnamespace")], vec![column("n", "oid")]);
    let names = [("c", "oid"), ("c", "relname"), ("n", "nspname")]
        .map(|(table, name)| Expr::Column(column(table, name)));
    let numbered = scan("c", classes)?
        .join(scan("n", namespaces)?.build()?, JoinType::Inner, of_namespace, None)?
        .project(names)?;
    let modified = numbered
        .join(
            scan("m", known)?.build()?,
            JoinType::Inner,
            (
                vec![column("n", "nspname"), column("c", "relname")],
                vec![column("m", "schema_name"), column("m", "table_name")],
            ),
            None,
        )?
        .build()?;
    let keys = (
        vec![column("a", "attrelid"), column("a", "attname")],
        vec![column("c", "oid"), column("m", "column_name")],
    );
    let plan = scan("a", given)?.join(modified, JoinType::Left, keys, None)?.project(all)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// The type of a column as `information_schema.columns` describes it.
pub(super) struct Described {
    /// The type's SQL name and its short name.
    pub(super) name: String,
    pub(super) short: String,
    /// Digits of numbers, the base of these digits, and those behind the point.
    pub(super) precision: Option<i32>,
    pub(super) radix: Option<i32>,
    pub(super) scale: Option<i32>,
    /// Digits of seconds.
    pub(super) of_seconds: Option<i32>,
    /// Maximum bytes of a text.
    pub(super) octets: Option<i32>,
}

impl Described {
    pub(super) fn of(field: &Field) -> Self {
        let short = told_type(field).map_or_else(|_| "text".to_owned(), |of| of.name().to_owned());
        let (precision, radix, scale) = match (short.as_str(), digits(field.data_type())) {
            ("numeric", Some((precision, scale))) => (Some(precision), Some(10), Some(scale)),
            ("numeric", None) => (None, Some(10), None),
            ("int2", _) => (Some(16), Some(2), Some(0)),
            ("int4", _) => (Some(32), Some(2), Some(0)),
            ("int8", _) => (Some(64), Some(2), Some(0)),
            ("float4", _) => (Some(24), Some(2), None),
            ("float8", _) => (Some(53), Some(2), None),
            _ => (None, None, None),
        };
        let of_seconds = match short.as_str() {
            "date" => Some(0),
            "time" | "timestamp" | "timestamptz" | "interval" => Some(6),
            _ => None,
        };
        let octets = (short == "text").then_some(1 << 30);
        let name = if short.starts_with('_') { "ARRAY" } else { sql_name(&short) };
        Described { name: name.to_owned(), short, precision, radix, scale, of_seconds, octets }
    }
}

/// The SQL name of a column's type.
pub(super) fn type_name(field: &Field) -> String {
    let short = told_type(field).map_or_else(|_| "text".to_owned(), |of| of.name().to_owned());
    match short.strip_prefix('_') {
        Some(element) => format!("{}[]", sql_name(element)),
        None => sql_name(&short).to_owned(),
    }
}

/// A type's SQL name and its short name.
pub(super) fn type_names(data_type: &DataType) -> (String, String) {
    let short = match digits(data_type) {
        Some(_) => "numeric".to_owned(),
        None => {
            arrow_pg::datatypes::into_pg_type(data_type).map_or("text".to_owned(), |of| of.name().to_owned())
        }
    };
    let long = if short.starts_with('_') { "ARRAY" } else { sql_name(&short) };
    (long.to_owned(), short.clone())
}

/// A column's type as a person reads it: with its digits, and without `without time zone`.
pub(crate) fn type_shown(field: &Field) -> String {
    if let Some(of) = type_of_texts(field).or_else(|| is_uuid(field).then_some(Type::UUID)) {
        return of.name().to_owned();
    }
    match field.data_type() {
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            format!("{}[]", type_shown(of))
        }
        DataType::Struct(_) => "record".to_owned(),
        of => match (digits(of), type_names(of)) {
            (Some((precision, scale)), _) => format!("numeric({precision},{scale})"),
            (None, (_, short)) if short.starts_with("time") => short,
            (None, (long, _)) => long,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of `make_numeric_typmod` in PostgreSQL 16.
    #[test]
    fn modifiers_are_those_of_postgres() {
        assert_eq!(modifier(&DataType::Decimal128(15, 2)), Some(983_046));
        assert_eq!(modifier(&DataType::Decimal128(38, 0)), Some(2_490_372));
        assert_eq!(modifier(&DataType::Decimal128(5, -2)), Some(329_730));
        assert_eq!(modifier(&DataType::Int64), None);
    }
}
