//! Distribution of a table's files over the partitions of a scan.

use std::sync::Arc;

use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::stats::NdvFallback;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{Partitioning, PhysicalExpr};

/// Returns the groups, and whether each has all files of its key values.
pub(crate) fn grouped(state: &dyn Session, files: FileGroup, has_keys: bool) -> (Vec<FileGroup>, bool) {
    let partitions = state.config().target_partitions().max(1);
    let wanted = state.config_options().optimizer.preserve_file_partitions;
    if wanted == 0 || !has_keys {
        return (files.split_files(partitions), false);
    }
    let groups = files.group_by_partition_values(partitions);
    if groups.len() >= wanted {
        return (groups, true);
    }
    let files = groups.into_iter().flat_map(FileGroup::into_inner).collect();
    (FileGroup::new(files).split_files(partitions), false)
}

/// Returns the partitioning of scans whose groups have all files of their key values.
pub(crate) fn by_keys(keys: &[FieldRef], schema: &SchemaRef, groups: usize) -> Partitioning {
    let first = schema.fields().len() - keys.len();
    let column = |(at, key): (usize, &FieldRef)| -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(key.name(), first + at))
    };
    Partitioning::Hash(keys.iter().enumerate().map(column).collect(), groups)
}

/// Returns the groups with their statistics, and the total, which is not exact if there are more files.
pub(crate) fn summed(
    state: &dyn Session,
    groups: Vec<FileGroup>,
    schema: &SchemaRef,
    more: bool,
) -> Result<(Vec<FileGroup>, Statistics)> {
    if !state.config().collect_statistics() {
        return Ok((groups, Statistics::new_unknown(schema)));
    }
    let sum_of = |group: FileGroup| {
        let files = group.iter().filter_map(|file| file.statistics.as_deref());
        let sum = Statistics::try_merge_iter_with_ndv_fallback(files, schema, NdvFallback::Max)?;
        Ok(group.with_statistics(Arc::new(sum)))
    };
    let groups = groups.into_iter().map(sum_of).collect::<Result<Vec<_>>>()?;
    let sums = groups.iter().filter_map(|group| group.file_statistics(None));
    let sum = Statistics::try_merge_iter_with_ndv_fallback(sums, schema, NdvFallback::Max)?;
    Ok((groups, if more { sum.to_inexact() } else { sum }))
}
