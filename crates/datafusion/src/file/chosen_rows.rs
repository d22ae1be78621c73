//! The rows of a file that its table provider has chosen, such as those that a lake table has not deleted.
//!
//! A provider attaches DataFusion's [`ParquetAccessPlan`] or [`ParquetRowSelection`] to a file. All queries
//! share the file's pages and arrays; each one takes its own rows of them.

use datafusion::common::{Result, exec_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, ParquetRowSelection};
use datafusion::parquet::file::metadata::RowGroupMetaData;

/// Returns the chosen rows of a file with these row groups.
///
/// # Errors
/// If the choice is not one of a file with these row groups.
pub(crate) fn chosen_rows(
    file: &PartitionedFile,
    row_groups: &[RowGroupMetaData],
) -> Result<ParquetAccessPlan> {
    let name = &file.object_meta.location;
    match (file.extensions.get::<ParquetAccessPlan>(), file.extensions.get::<ParquetRowSelection>()) {
        (Some(_), Some(_)) => exec_err!("{name} comes with an access plan and with a selection of rows"),
        (Some(plan), None) if plan.len() != row_groups.len() => exec_err!(
            "the access plan of {name} is for {} row groups, and the file has {}",
            plan.len(),
            row_groups.len()
        ),
        (Some(plan), None) => Ok(plan.clone()),
        (None, Some(rows)) => {
            let plan =
                ParquetAccessPlan::try_new_from_overall_row_selection(rows.selection().clone(), row_groups);
            plan.map_err(|error| error.context(format!("the selection of rows of {name}")))
        }
        (None, None) => Ok(ParquetAccessPlan::new_all(row_groups.len())),
    }
}

/// Returns whether the provider has chosen the same rows of two files.
pub(crate) fn same_rows(a: &PartitionedFile, b: &PartitionedFile) -> bool {
    a.extensions.get::<ParquetAccessPlan>() == b.extensions.get::<ParquetAccessPlan>()
        && a.extensions.get::<ParquetRowSelection>() == b.extensions.get::<ParquetRowSelection>()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::parquet::arrow::arrow_reader::{RowSelection, RowSelector};
    use datafusion::parquet::basic::Type;
    use datafusion::parquet::schema::types::{SchemaDescriptor, Type as Node};

    use super::*;

    fn row_groups(rows: &[i64]) -> Vec<RowGroupMetaData> {
        let root = Node::group_type_builder("root")
            .with_fields(vec![Arc::new(
                Node::primitive_type_builder("a", Type::INT64).build().expect("a column"),
            )])
            .build()
            .expect("a schema");
        let schema = Arc::new(SchemaDescriptor::new(Arc::new(root)));
        let column = || {
            datafusion::parquet::file::metadata::ColumnChunkMetaData::builder(schema.column(0))
                .build()
                .expect("a column")
        };
        let group = |rows: &i64| {
            RowGroupMetaData::builder(Arc::clone(&schema))
                .set_num_rows(*rows)
                .set_column_metadata(vec![column()])
                .build()
                .expect("a row group")
        };
        rows.iter().map(group).collect()
    }

    fn file() -> PartitionedFile {
        PartitionedFile::new("a.parquet".to_owned(), 100)
    }

    fn selection(kept: &[(usize, bool)]) -> ParquetRowSelection {
        let selector = |(rows, kept): &(usize, bool)| RowSelector { row_count: *rows, skip: !kept };
        ParquetRowSelection::new(RowSelection::from(kept.iter().map(selector).collect::<Vec<_>>()))
    }

    #[test]
    fn a_choice_is_one_of_the_file_or_an_error() {
        let groups = row_groups(&[10, 20]);
        assert_eq!(chosen_rows(&file(), &groups).expect("all"), ParquetAccessPlan::new_all(2));
        let plan = file().with_extension(ParquetAccessPlan::new_none(2));
        assert_eq!(chosen_rows(&plan, &groups).expect("none"), ParquetAccessPlan::new_none(2));
        let rows = file().with_extension(selection(&[(10, false), (20, true)]));
        let chosen = chosen_rows(&rows, &groups).expect("the second group");
        assert_eq!(chosen.row_group_indexes(), [1]);

        let other = file().with_extension(ParquetAccessPlan::new_none(3));
        let error = chosen_rows(&other, &groups).expect_err("another number of groups").to_string();
        assert!(error.contains("a.parquet") && error.contains('3') && error.contains('2'), "{error}");
        let longer = file().with_extension(selection(&[(31, true)]));
        let error = chosen_rows(&longer, &groups).expect_err("another number of rows").to_string();
        assert!(error.contains("a.parquet"), "{error}");
        let both = plan.with_extension(selection(&[(30, true)]));
        assert!(chosen_rows(&both, &groups).is_err());
    }

    #[test]
    fn choices_are_compared() {
        let some = file().with_extension(selection(&[(1, false), (29, true)]));
        let others = file().with_extension(selection(&[(2, false), (28, true)]));
        assert!(same_rows(&some, &some.clone()) && same_rows(&file(), &file()));
        assert!(!same_rows(&some, &others) && !same_rows(&some, &file()));
    }
}
