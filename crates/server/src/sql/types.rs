//! Names of types that PostgreSQL's clients use and the query engine does not know.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{DataType as Named, ExactNumberInfo, TimezoneInfo};
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;

/// The types of object names, which are texts, and of single letters. `datafusion-pg-catalog` knows the other types
/// of catalogs.
#[derive(Debug)]
pub(crate) struct CatalogTypes;

impl TypePlanner for CatalogTypes {
    fn plan_type_field(&self, named: &Named) -> Result<Option<FieldRef>> {
        if let Some(known) = PgOidTypePlanner.plan_type_field(named)? {
            return Ok(Some(known));
        }
        // FLOAT has double precision unless its number of digits says otherwise.
        if let Named::Float(digits) = named {
            let of = match digits {
                ExactNumberInfo::Precision(digits) if *digits <= 24 => DataType::Float32,
                _ => DataType::Float64,
            };
            return Ok(Some(Arc::new(Field::new("", of, true))));
        }
        if let Named::Time(None | Some(6), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) = named {
            let of = DataType::Time64(TimeUnit::Microsecond);
            return Ok(Some(Arc::new(Field::new("", of, true))));
        }
        let name = named.to_string().to_ascii_lowercase();
        Ok(match name.strip_prefix("pg_catalog.").unwrap_or(&name) {
            "name" | "\"name\"" | "\"char\"" | "bpchar" => {
                Some(Arc::new(Field::new("", DataType::Utf8, true)))
            }
            _ => None,
        })
    }
}
