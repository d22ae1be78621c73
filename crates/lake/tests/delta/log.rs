//! Delta tables that the tests write themselves, action by action.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use roaring::RoaringTreemap;
use serde_json::{Value, json};

/// The first bytes of a vector of deleted rows.
const VECTOR_MAGIC: u32 = 1_681_511_377;

/// A table in a temporary folder.
pub struct Log {
    folder: tempfile::TempDir,
    version: u64,
}

/// A column of a schema: its name, its type, and further notes.
pub fn column(name: &str, data_type: impl Into<Value>, metadata: Value) -> Value {
    json!({"name": name, "type": data_type.into(), "nullable": true, "metadata": metadata})
}

/// A plain column.
pub fn plain(name: &str, data_type: &str) -> Value {
    column(name, data_type, json!({}))
}

/// A column with this name in files.
pub fn mapped(name: &str, id: u32, data_type: &str, stored: &str) -> Value {
    column(name, data_type, json!({"delta.columnMapping.id": id, "delta.columnMapping.physicalName": stored}))
}

/// A field of a file with an id.
pub fn with_id(id: u32, name: &str, data_type: DataType) -> Field {
    let id = HashMap::from([("PARQUET:field_id".to_owned(), id.to_string())]);
    Field::new(name, data_type, true).with_metadata(id)
}

impl Log {
    /// A table without files: columns, keys, reader features and properties.
    pub fn new(columns: &[Value], keys: &[&str], features: &[&str], properties: Value) -> Self {
        let mut log = Log { folder: tempfile::tempdir().expect("a folder"), version: 0 };
        let protocol = match features {
            [] => json!({"minReaderVersion": 1, "minWriterVersion": 2}),
            features => json!({
                "minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": features, "writerFeatures": features,
            }),
        };
        let actions = [json!({"protocol": protocol}), metadata(columns, keys, properties)];
        fs::create_dir_all(log.path().join("_delta_log")).expect("a log");
        log.commit(&actions);
        log
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn location(&self) -> String {
        self.path().display().to_string()
    }

    /// Writes the next version.
    pub fn commit(&mut self, actions: &[Value]) {
        let text: String = actions.iter().map(|action| format!("{action}\n")).collect();
        let log = self.path().join("_delta_log");
        // Readers see whole files.
        fs::write(log.join(".written"), text).expect("a commit");
        fs::rename(log.join(".written"), log.join(format!("{:020}.json", self.version))).expect("a commit");
        self.version += 1;
    }

    /// Writes a file, and returns the action that adds it to the table.
    pub fn file(&self, name: &str, columns: &[(&str, ArrayRef)]) -> Value {
        self.file_with(name, columns, json!({}), json!({}))
    }

    /// The same with values of keys and with statistics beside the number of rows.
    pub fn file_with(
        &self,
        name: &str,
        columns: &[(&str, ArrayRef)],
        keys: Value,
        statistics: Value,
    ) -> Value {
        let field = |(name, values): &(&str, ArrayRef)| Field::new(*name, values.data_type().clone(), true);
        let values = columns.iter().map(|(_, values)| Arc::clone(values)).collect();
        self.file_of(name, columns.iter().map(field).collect(), values, keys, statistics)
    }

    /// The same with fields that may have ids.
    pub fn file_of(
        &self,
        name: &str,
        fields: Vec<Field>,
        columns: Vec<ArrayRef>,
        keys: Value,
        mut statistics: Value,
    ) -> Value {
        let rows = columns.first().map_or(0, |values| values.len());
        let path = self.write(name, fields, columns);
        statistics["numRecords"] = json!(rows);
        json!({"add": {
            "path": name, "partitionValues": keys, "modificationTime": 1_700_000_000_000_u64, "dataChange": true,
            "size": fs::metadata(path).expect("a file").len(), "stats": statistics.to_string(),
        }})
    }

    fn write(&self, name: &str, fields: Vec<Field>, columns: Vec<ArrayRef>) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a batch");
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(1000)).build();
        let file = File::create(&path).expect("a file");
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("rows");
        writer.close().expect("a footer");
        path
    }
}

/// The action that declares columns, keys and properties.
pub fn metadata(columns: &[Value], keys: &[&str], properties: Value) -> Value {
    let schema = json!({"type": "struct", "fields": columns}).to_string();
    json!({"metaData": {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9", "format": {"provider": "parquet", "options": {}},
        "schemaString": schema, "partitionColumns": keys, "configuration": properties, "createdTime": 0,
    }})
}

/// The action that removes the file of an action that adds it.
pub fn remove(add: &Value) -> Value {
    json!({"remove": {"path": add["add"]["path"], "deletionTimestamp": 0, "dataChange": true}})
}

/// The action that adds the same file with these rows deleted.
pub fn without(add: &Value, rows: &[u64]) -> Value {
    let deleted: RoaringTreemap = rows.iter().copied().collect();
    let mut bytes = VECTOR_MAGIC.to_le_bytes().to_vec();
    deleted.serialize_into(&mut bytes).expect("bytes");
    let size = bytes.len();
    bytes.resize(size.next_multiple_of(4), 0);
    let mut add = add.clone();
    add["add"]["deletionVector"] = json!({
        "storageType": "i", "pathOrInlineDv": z85::encode(&bytes), "sizeInBytes": size, "cardinality": rows.len(),
    });
    add
}
