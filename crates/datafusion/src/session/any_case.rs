//! A schema that finds tables in any case.
//!
//! SQL folds unquoted names to lower case, but a table may have been registered in another case. An exact
//! match wins. Otherwise a match in another case is used.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::Result;

/// A schema in memory, for registration in a catalog.
#[derive(Debug, Default)]
pub struct AnyCaseSchema(MemorySchemaProvider);

impl AnyCaseSchema {
    /// Returns the table's registered name.
    fn real_name(&self, name: &str) -> Option<String> {
        if self.0.table_exist(name) {
            return Some(name.to_owned());
        }
        let folded = name.to_lowercase();
        let mut fitting = self.0.table_names().into_iter().filter(|table| table.to_lowercase() == folded);
        fitting.next().filter(|_| fitting.next().is_none())
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
