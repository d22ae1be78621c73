//! Columns in PostgreSQL's tables: types, their short names, and the digits of decimals.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::{Column, JoinType, Result};
use datafusion::datasource::provider_as_source;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};

use super::catalog::Visible;
use super::pg_catalog::table_of;
use crate::values::type_of_texts;

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

/// `pg_attribute` with the modifiers of types, which the given table lacks.
pub(super) async fn attributes(
    given: Arc<dyn TableProvider>,
    classes: Arc<dyn TableProvider>,
    namespaces: Arc<dyn TableProvider>,
    visible: &Visible,
) -> Result<Arc<dyn TableProvider>> {
    const MODIFIER: &str = "atttypmod";
    let (mut schemas, mut tables, mut names, mut modifiers) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (schema, table, columns) in visible.columns().await {
        for field in columns.fields() {
            if let Some(modifier) = modifier(field.data_type()) {
                schemas.push(schema.clone());
                tables.push(table.clone());
                names.push(field.name().clone());
                modifiers.push(modifier);
            }
        }
    }
    let fields = vec![
        Field::new("schema_name", DataType::Utf8, false),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("modifier", DataType::Int32, false),
    ];
    let known = table_of(
        fields,
        vec![
            Arc::new(StringArray::from(schemas)),
            Arc::new(StringArray::from(tables)),
            Arc::new(StringArray::from(names)),
            Arc::new(Int32Array::from(modifiers)),
        ],
    )?;
    let column = |table: &str, name: &str| Column::new(Some(table), name);
    let schema = given.schema();
    let all = schema.fields().iter().map(|field| {
        let of = Expr::Column(column("a", field.name()));
        match field.name().as_str() {
            MODIFIER => coalesce(vec![Expr::Column(column("m", "modifier")), of]).alias(MODIFIER),
            name => of.alias(name),
        }
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

/// The columns of the user's tables, in the form of PostgreSQL's `information_schema.columns`.
pub(super) async fn information(visible: &Visible, database: &str) -> Result<Arc<dyn TableProvider>> {
    let mut texts: [Vec<Option<String>>; 18] = Default::default();
    let (mut positions, mut precisions, mut scales) = (Vec::new(), Vec::new(), Vec::new());
    for (schema, table, columns) in visible.columns().await {
        for (at, field) in columns.fields().iter().enumerate() {
            let (data_type, udt) = type_names(field.data_type());
            let row = [
                Some(database),
                Some(schema.as_str()),
                Some(table.as_str()),
                Some(field.name()),
                None,
                Some(if field.is_nullable() { "YES" } else { "NO" }),
                Some(&data_type),
                None,
                None,
                None,
                Some(database),
                Some("pg_catalog"),
                Some(&udt),
                Some("NO"),
                None,
                Some("NEVER"),
                None,
                Some("NO"),
            ];
            texts.iter_mut().zip(row).for_each(|(column, value)| column.push(value.map(str::to_owned)));
            positions.push(i32::try_from(at + 1).unwrap_or(i32::MAX));
            let digits = digits(field.data_type());
            precisions.push(digits.map(|(precision, _)| precision));
            scales.push(digits.map(|(_, scale)| scale));
        }
    }
    const NAMES: [&str; 18] = [
        "table_catalog",
        "table_schema",
        "table_name",
        "column_name",
        "column_default",
        "is_nullable",
        "data_type",
        "character_set_name",
        "collation_name",
        "domain_name",
        "udt_catalog",
        "udt_schema",
        "udt_name",
        "is_identity",
        "identity_generation",
        "is_generated",
        "generation_expression",
        "is_updatable",
    ];
    let mut fields: Vec<Field> = NAMES.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
    let mut columns: Vec<ArrayRef> =
        texts.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef).collect();
    let rows = positions.len();
    fields.insert(4, Field::new("ordinal_position", DataType::Int32, false));
    columns.insert(4, Arc::new(Int32Array::from(positions)));
    for (name, values) in [("numeric_precision", precisions), ("numeric_scale", scales)] {
        fields.push(Field::new(name, DataType::Int32, true));
        columns.push(Arc::new(Int32Array::from(values)));
    }
    // Unknown: lengths of texts and digits of seconds.
    for name in ["character_maximum_length", "datetime_precision"] {
        fields.push(Field::new(name, DataType::Int32, true));
        columns.push(Arc::new(Int32Array::new_null(rows)));
    }
    table_of(fields, columns)
}

/// The SQL name of a column's type.
pub(super) fn type_name(field: &Field) -> String {
    type_of_texts(field).map_or_else(|| type_names(field.data_type()).0, |of| of.name().to_owned())
}

/// A type's SQL name and its short name.
pub(super) fn type_names(data_type: &DataType) -> (String, String) {
    let short = match digits(data_type) {
        Some(_) => "numeric".to_owned(),
        None => {
            arrow_pg::datatypes::into_pg_type(data_type).map_or("text".to_owned(), |of| of.name().to_owned())
        }
    };
    let long = match short.as_str() {
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "bool" => "boolean",
        "varchar" => "character varying",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        "time" => "time without time zone",
        array if array.starts_with('_') => "ARRAY",
        other => other,
    };
    (long.to_owned(), short.clone())
}

/// A column's type as a person reads it: with its digits, and without `without time zone`.
pub(crate) fn type_shown(field: &Field) -> String {
    if let Some(of) = type_of_texts(field) {
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
