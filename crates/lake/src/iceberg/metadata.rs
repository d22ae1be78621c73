//! The metadata file of a table, versions 1 to 3 of the format.

use std::collections::{BTreeMap, HashMap};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, plan_err};
use serde::Deserialize;
use serde_json::Value;

use crate::options::Wanted;

/// The newest version of the format that is read.
const NEWEST: u8 = 3;

/// What a metadata file says, as far as readers need it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Metadata {
    format_version: u8,
    pub(super) location: String,
    #[serde(default)]
    current_schema_id: i32,
    #[serde(default)]
    schemas: Vec<Schema>,
    /// The only schema of old files of version 1.
    schema: Option<Schema>,
    #[serde(default)]
    partition_specs: Vec<PartitionSpec>,
    /// The only specification of old files of version 1.
    #[serde(default)]
    partition_spec: Vec<PartitionField>,
    #[serde(default)]
    pub(super) snapshots: Vec<Snapshot>,
    current_snapshot_id: Option<i64>,
    #[serde(default)]
    snapshot_log: Vec<LogEntry>,
    #[serde(default)]
    refs: HashMap<String, Reference>,
    #[serde(default)]
    properties: HashMap<String, String>,
}

/// A list of columns.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Schema {
    #[serde(default)]
    schema_id: i32,
    pub(super) fields: Vec<Field>,
}

/// A column, or a field of a struct.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Field {
    pub(super) id: i32,
    pub(super) name: String,
    pub(super) required: bool,
    #[serde(rename = "type")]
    pub(super) data_type: Type,
    pub(super) initial_default: Option<Value>,
}

/// The type of a column.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Type {
    /// `long`, `decimal(9, 2)` and so on.
    Primitive(String),
    Nested(Box<Nested>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub(super) enum Nested {
    Struct { fields: Vec<Field> },
    List { element_id: i32, element_required: bool, element: Type },
    Map { key_id: i32, key: Type, value_id: i32, value_required: bool, value: Type },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PartitionSpec {
    spec_id: i32,
    fields: Vec<PartitionField>,
}

/// A field of the partition of files.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct PartitionField {
    /// Absent in fields of several columns, which no transform that is read has.
    #[serde(default)]
    pub(super) source_id: i32,
    pub(super) transform: String,
}

/// A version of the table.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Snapshot {
    pub(super) snapshot_id: i64,
    /// The file that lists manifests.
    pub(super) manifest_list: Option<String>,
    /// The manifests, in old files of version 1.
    #[serde(default)]
    pub(super) manifests: Vec<String>,
    schema_id: Option<i32>,
    pub(super) timestamp_ms: Option<i64>,
    #[serde(default)]
    pub(super) summary: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct LogEntry {
    snapshot_id: i64,
    timestamp_ms: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Reference {
    snapshot_id: i64,
    #[serde(rename = "type")]
    kind: String,
}

impl Metadata {
    /// Reads a metadata file.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| DataFusionError::External(Box::new(error)))
    }

    /// # Errors
    /// If the version of the format is too new.
    pub(super) fn check(&self) -> Result<()> {
        if self.format_version > NEWEST {
            return exec_err!(
                "its format has version {}, and the newest that can be read is {NEWEST}",
                self.format_version
            );
        }
        Ok(())
    }

    /// Returns the wanted snapshot with its columns. A table without snapshots is empty.
    pub(super) fn find(&self, wanted: &Wanted) -> Result<(Option<&Snapshot>, &Schema)> {
        let by_id = |id: i64| self.snapshots.iter().find(|snapshot| snapshot.snapshot_id == id);
        let (id, newest_columns) = match wanted {
            // The value -1 is that of old writers.
            Wanted::Newest => (self.current_snapshot_id.filter(|id| *id != -1), true),
            Wanted::Version(id) => (Some(*id as i64), false),
            Wanted::Time(at) => {
                let logged = self.snapshot_log.iter().filter(|entry| entry.timestamp_ms <= *at);
                let Some(last) = logged.max_by_key(|entry| entry.timestamp_ms) else {
                    return plan_err!("it has no snapshot at this time or before");
                };
                (Some(last.snapshot_id), false)
            }
            Wanted::Reference(name) => match self.refs.get(name) {
                Some(reference) => (Some(reference.snapshot_id), reference.kind == "branch"),
                None => {
                    let mut names: Vec<&str> = self.refs.keys().map(String::as_str).collect();
                    names.sort_unstable();
                    return plan_err!("it has no branch or tag {name}, but {}", names.join(", "));
                }
            },
        };
        let Some(id) = id else { return Ok((None, self.schema(None)?)) };
        let Some(snapshot) = by_id(id) else {
            return plan_err!("it has no snapshot {id}: it may have expired");
        };
        let schema = self.schema(snapshot.schema_id.filter(|_| !newest_columns))?;
        Ok((Some(snapshot), schema))
    }

    /// The columns with this id, or the newest ones.
    fn schema(&self, id: Option<i32>) -> Result<&Schema> {
        let wanted = id.unwrap_or(self.current_schema_id);
        let found = self.schemas.iter().find(|schema| schema.schema_id == wanted);
        let only = self.schema.as_ref().filter(|_| self.schemas.is_empty());
        found.or(only).ok_or_else(|| exec_datafusion_err!("its metadata have no schema {wanted}"))
    }

    /// Returns the fields of partitions with this specification.
    pub(super) fn partition_fields(&self, spec: i32) -> Result<&[PartitionField]> {
        match self.partition_specs.iter().find(|found| found.spec_id == spec) {
            Some(found) => Ok(&found.fields),
            None if self.partition_specs.is_empty() => Ok(&self.partition_spec),
            None => exec_err!("its metadata have no partition specification {spec}"),
        }
    }

    /// Returns the ids of names in files without ids.
    pub(super) fn names(&self) -> Result<HashMap<Vec<String>, i32>> {
        let mut names = HashMap::new();
        if let Some(mapping) = self.properties.get("schema.name-mapping.default") {
            let mapping: Vec<NamedField> =
                serde_json::from_str(mapping).map_err(|error| DataFusionError::External(Box::new(error)))?;
            add_names(&mapping, &[], &mut names);
        }
        Ok(names)
    }
}

/// The names of a field in files without ids.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct NamedField {
    field_id: Option<i32>,
    names: Vec<String>,
    #[serde(default)]
    fields: Vec<NamedField>,
}

fn add_names(mapping: &[NamedField], outer: &[String], names: &mut HashMap<Vec<String>, i32>) {
    for field in mapping {
        for name in &field.names {
            let mut path = outer.to_vec();
            path.push(name.clone());
            add_names(&field.fields, &path, names);
            if let Some(id) = field.field_id {
                names.insert(path, id);
            }
        }
    }
}
