//! The schema of a table, made from the schemas of its files.
//!
//! A table has every column that a file has. A column may be null unless every file has it and requires its
//! values. Its type holds the values of all files ([`super::promotion`]). The columns of the first file come
//! first, then those that later files add, in the order of the files' paths. Files that do not form a table
//! are an error that names them. This module reads no files.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::object_store::path::Path;

use super::promotion::{field_in_utc, first_twice, promoted_field};

/// A file and its schema.
pub(crate) type FileSchema = (Path, SchemaRef);

/// The schema of a table, and its sources.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) schema: Schema,
    /// For each column with several types, a file of each type, for messages.
    pub(crate) promotions: HashMap<String, Arc<str>>,
}

/// Returns the schema of a table of these files.
pub(crate) fn merged(mut files: Vec<FileSchema>) -> Result<Merged> {
    // Listings have no order, and columns must not depend on it.
    files.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    let mut columns: Vec<Column<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut metadata = HashMap::new();
    for (path, schema) in &files {
        for (key, value) in schema.metadata() {
            metadata.entry(key.clone()).or_insert_with(|| value.clone());
        }
        for own in schema.fields() {
            let field = field_in_utc(own);
            match places.get(own.name().as_str()) {
                None => {
                    places.insert(own.name(), columns.len());
                    let types = vec![(field.data_type().clone(), path)];
                    columns.push(Column { field: field.as_ref().clone(), types, files: 1 });
                }
                Some(&at) => columns[at].add(&field, path)?,
            }
        }
    }
    let promoted = columns.iter().filter(|column| column.types.len() > 1);
    let promotions = promoted.map(|column| (column.field.name().clone(), column.described().into()));
    let promotions = promotions.collect();
    let all = files.len();
    let fields: Vec<Field> = columns
        .into_iter()
        .map(|Column { field, files, .. }| {
            let nullable = field.is_nullable() || files < all;
            field.with_nullable(nullable)
        })
        .collect();
    Ok(Merged { schema: Schema::new_with_metadata(fields, metadata), promotions })
}

/// A column during the merge.
struct Column<'a> {
    field: Field,
    /// Its types in files, each with the first file that has it.
    types: Vec<(DataType, &'a Path)>,
    /// The number of files that have it.
    files: usize,
}

impl<'a> Column<'a> {
    fn add(&mut self, field: &Field, path: &'a Path) -> Result<()> {
        self.files += 1;
        if field == &self.field {
            return Ok(());
        }
        let Some(both) = promoted_field(&self.field, field) else {
            let (name, of_this, others) = (field.name(), field.data_type(), self.described());
            return plan_err!(
                "column {name} is {others} and {of_this} in {path}: no type holds the values of all. Make a table of the files \
                 of each type, or declare the columns in CREATE EXTERNAL TABLE"
            );
        };
        if !self.types.iter().any(|(known, _)| known == field.data_type()) {
            self.types.push((field.data_type().clone(), path));
        }
        self.field = both;
        Ok(())
    }

    fn described(&self) -> String {
        let one = |(of, path): &(DataType, &Path)| format!("{of} in {path}");
        self.types.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// Fails if two columns of the file have the same name: SQL could name only one of them.
pub(crate) fn check_names(path: &Path, schema: &Schema) -> Result<()> {
    match first_twice(schema.fields()) {
        None => Ok(()),
        Some(name) => plan_err!(
            "{path} has two columns of the name {name}, and SQL cannot tell them apart: write the file with another name for one"
        ),
    }
}

/// Fails if a file may have nulls in a column that is declared without nulls in the table: plans rely on
/// that.
pub(crate) fn check_nulls(table: &SchemaRef, path: &Path, file: &Schema) -> Result<()> {
    if table.fields().iter().all(|column| column.is_nullable()) {
        return Ok(());
    }
    let of_file: HashMap<&str, &Field> =
        file.fields().iter().map(|field| (field.name().as_str(), field.as_ref())).collect();
    for column in table.fields().iter().filter(|column| !column.is_nullable()) {
        let name = column.name();
        let problem = match of_file.get(name.as_str()) {
            None => "lacks the column",
            Some(field) if field.is_nullable() => "may have nulls in the column",
            Some(_) => continue,
        };
        return Err(DataFusionError::Plan(format!(
            "{path} {problem} {name}, which no file of the table did when the table was made: make the table again"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType::{Int32, Int64, Utf8};

    use super::*;

    fn file(path: &str, columns: &[(&str, DataType, bool)]) -> FileSchema {
        let field = |(name, of, nullable): &(&str, DataType, bool)| Field::new(*name, of.clone(), *nullable);
        (Path::from(path), Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>())))
    }

    #[test]
    fn columns_are_united_by_name() {
        let files = vec![
            file("b", &[("x", Int64, false), ("z", Utf8, false)]),
            file("a", &[("y", Utf8, false), ("x", Int32, false)]),
        ];
        let Merged { schema, promotions } = merged(files).expect("a schema");
        let expected = file("", &[("y", Utf8, true), ("x", Int64, false), ("z", Utf8, true)]).1;
        assert_eq!(Arc::new(schema), expected);
        assert_eq!(promotions["x"].as_ref(), "Int32 in a, Int64 in b");
        assert_eq!(promotions.len(), 1);
    }

    #[test]
    fn what_does_not_fit_names_both_files() {
        let files = vec![file("b", &[("x", Utf8, false)]), file("a", &[("x", Int32, false)])];
        let error = merged(files).expect_err("no type").to_string();
        for part in ["column x", "Int32 in a", "Utf8 in b", "CREATE EXTERNAL TABLE"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn names_must_be_unique_but_for_their_case() {
        let (path, schema) = file("f", &[("v", Int32, true), ("V", Int32, true)]);
        check_names(&path, &schema).expect("two names");
        let (path, schema) = file("f", &[("v", Int32, true), ("w", Int32, true), ("v", Int32, true)]);
        let error = check_names(&path, &schema).expect_err("one name").to_string();
        assert!(error.contains("f has two columns of the name v"), "{error}");
    }

    #[test]
    fn nulls_that_come_later_are_refused() {
        let table = file("", &[("x", Int32, false), ("y", Int32, true)]).1;
        let check = |columns: &[(&str, DataType, bool)]| {
            let (path, schema) = file("f", columns);
            check_nulls(&table, &path, &schema).map_err(|error| error.to_string())
        };
        check(&[("x", Int32, false)]).expect("no null");
        assert!(
            check(&[("x", Int32, true)])
                .is_err_and(|error| error.contains("f may have nulls in the column x"))
        );
        assert!(check(&[("y", Int32, true)]).is_err_and(|error| error.contains("f lacks the column x")));
    }
}
