//! A schema that finds tables in any case.
//!
//! SQL folds unquoted names to lower case, but a table may have been registered in another case. An exact
//! match wins. Otherwise a match in another case is used.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::Result;

/// Returns the name that is meant: the same one, or the only one that differs in case.
pub fn in_any_case<'a>(wanted: &str, names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let folded = wanted.to_lowercase();
    let same = names.clone().find(|name| *name == wanted);
    let mut fitting = names.filter(|name| name.to_lowercase() == folded);
    same.or_else(|| fitting.next().filter(|_| fitting.next().is_none()))
}

/// A schema in memory, for registration in a catalog.
#[derive(Debug, Default)]
pub struct AnyCaseSchema(MemorySchemaProvider);

impl AnyCaseSchema {
    /// Returns the table's registered name.
    fn real_name(&self, name: &str) -> Option<String> {
        in_any_case(name, self.0.table_names().iter().map(String::as_str)).map(str::to_owned)
    }
}

#[async_trait]
impl SchemaProvider for AnyCaseSchema {
    fn table_names(&self) -> Vec<String> {
        self.0.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.real_name(name) {
            Some(name) => self.0.table(&name).await,
            None => Ok(None),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.0.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.real_name(name).map_or(Ok(None), |name| self.0.deregister_table(&name))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.real_name(name).is_some()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::Schema;
    use datafusion::datasource::empty::EmptyTable;

    use super::*;

    #[tokio::test]
    async fn names_are_found_in_any_case_unless_two_fit() {
        let schema = AnyCaseSchema::default();
        let table = || Arc::new(EmptyTable::new(Arc::new(Schema::empty())));
        for name in ["Orders", "nation", "NATION"] {
            schema.register_table(name.to_owned(), table()).unwrap();
        }
        for (name, found) in
            [("orders", true), ("ORDERS", true), ("order", false), ("nation", true), ("Nation", false)]
        {
            assert_eq!(schema.table(name).await.unwrap().is_some(), found, "{name}");
            assert_eq!(schema.table_exist(name), found, "{name}");
        }
        assert!(schema.deregister_table("oRDERS").unwrap().is_some());
        assert!(!schema.table_exist("Orders"));
    }
}
