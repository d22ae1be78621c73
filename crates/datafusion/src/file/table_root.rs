//! The engine's name for a file's table. The scan of a folder and the scan of one file in it should be scans
//! of one table in the engine.
//!
//! A scan does not know the folder with which its table was registered, and may see only some of its files.
//! So the root is computed from each file alone. It consists of the file's folder, without the `key=value`
//! levels of a partitioned layout, and the names of its columns, because different tables may share a folder.

use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::arrow::datatypes::Schema;
use datafusion::object_store::path::Path;

/// Returns the name under which the engine keeps the file's table.
pub(crate) fn table_root(file: &Path, schema: &Schema) -> String {
    let mut levels: Vec<&str> = file.as_ref().split('/').collect();
    levels.pop();
    while levels.last().is_some_and(|level| level.contains('=')) {
        levels.pop();
    }
    // Only names: types differ between sessions that read strings as views and sessions that do not.
    let mut hasher = DefaultHasher::new();
    for field in schema.fields() {
        field.name().hash(&mut hasher);
    }
    format!("{}#{:016x}", levels.join("/"), hasher.finish())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    fn schema(names: &[&str], data_type: DataType) -> Schema {
        Schema::new(names.iter().map(|name| Field::new(*name, data_type.clone(), true)).collect::<Vec<_>>())
    }

    #[test]
    fn partitions_of_a_table_share_its_root() {
        let schema = schema(&["a", "b"], DataType::Utf8);
        let first = table_root(&Path::from("data/t/year=2024/month=1/x.parquet"), &schema);
        let second = table_root(&Path::from("data/t/year=2025/month=2/y.parquet"), &schema);
        assert_eq!(first, second);
    }

    #[test]
    fn tables_in_one_folder_are_told_apart_by_their_columns() {
        let orders = table_root(&Path::from("data/orders.parquet"), &schema(&["o"], DataType::Utf8));
        let views = table_root(&Path::from("data/orders.parquet"), &schema(&["o"], DataType::Utf8View));
        let lineitem = table_root(&Path::from("data/lineitem.parquet"), &schema(&["l"], DataType::Utf8));
        assert_ne!(orders, lineitem);
        assert_eq!(orders, views);
    }
}
