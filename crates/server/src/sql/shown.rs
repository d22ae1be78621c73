//! Names of columns as clients get them. Names that end with [`MARK`] and a number are those of several columns that
//! have one name in PostgreSQL.

use std::sync::Arc;

use coscan_upstream::REPEATED as MARK;
use datafusion::arrow::datatypes::{Schema, SchemaRef};

/// The name that clients get.
pub(crate) fn shown(name: &str) -> &str {
    name.split_once(MARK).map_or(name, |(name, _)| name)
}

/// The columns with the names that clients get.
pub fn shown_schema(schema: &SchemaRef) -> SchemaRef {
    if schema.fields().iter().all(|field| !field.name().contains(MARK)) {
        return schema.clone();
    }
    let fields = schema.fields().iter().map(|field| match shown(field.name()) {
        name if name.len() == field.name().len() => field.clone(),
        name => Arc::new(field.as_ref().clone().with_name(name)),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_not_shown() {
        assert_eq!(shown(&format!("a{MARK}2")), "a");
        assert_eq!(shown("a"), "a");
    }
}
