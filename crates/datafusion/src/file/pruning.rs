//! The row groups of a file that a scan needs, and their rows: by byte range, row-group statistics, bloom
//! filter, limit and page index.
//!
//! DataFusion makes the decisions. This module reads their inputs and translates their outcome into row
//! ranges. Pruning during a scan is in [`crate::scan::dynamic`].

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::config::ParquetOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::datasource::listing::FileRange;
use datafusion::datasource::physical_plan::parquet::{
    BloomFilterStatistics, PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics,
    RowGroupAccess, RowGroupAccessPlanFilter,
};
use datafusion::parquet::arrow::ParquetRecordBatchStreamBuilder;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::arrow::parquet_column;
use datafusion::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use datafusion::physical_expr::expressions::{CastExpr, Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::metrics::Count;

type Reader = Box<dyn AsyncFileReader>;

/// The rows of a row group that a scan needs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowsNeeded {
    /// All of them.
    All,
    /// These ranges, ascending, not touching each other.
    Ranges(Arc<[Range<usize>]>),
}

impl RowsNeeded {
    /// Restricts the rows to a piece of the row group, counted from its first row; `None` if there are none.
    pub(crate) fn within(&self, piece: &Range<usize>) -> Option<RowsNeeded> {
        let RowsNeeded::Ranges(ranges) = self else { return Some(RowsNeeded::All) };
        let within = |range: &Range<usize>| {
            let (start, end) = (range.start.max(piece.start), range.end.min(piece.end));
            (start < end).then(|| start - piece.start..end - piece.start)
        };
        let ranges: Arc<[Range<usize>]> = ranges.iter().filter_map(within).collect();
        let all = ranges.len() == 1 && ranges[0] == (0..piece.len());
        if all { Some(RowsNeeded::All) } else { (!ranges.is_empty()).then_some(RowsNeeded::Ranges(ranges)) }
    }

    /// Returns the same rows, counted from a row that is `by` rows earlier.
    pub(crate) fn moved(&self, by: usize) -> RowsNeeded {
        match self {
            RowsNeeded::Ranges(ranges) if by > 0 => {
                RowsNeeded::Ranges(ranges.iter().map(|range| range.start + by..range.end + by).collect())
            }
            _ => self.clone(),
        }
    }

    /// Returns their number in a chunk of `rows` rows.
    pub(crate) fn count(&self, rows: usize) -> usize {
        match self {
            RowsNeeded::All => rows,
            RowsNeeded::Ranges(ranges) => ranges.iter().map(ExactSizeIterator::len).sum(),
        }
    }
}

/// The rest of a file after pruning.
pub(crate) struct Pruned {
    /// The file's metadata, with the page index if it was read.
    pub(crate) metadata: Arc<ParquetMetaData>,
    /// The row groups to read, in the file's order.
    pub(crate) row_groups: Vec<(usize, RowsNeeded)>,
}

/// The inputs of pruning.
pub(crate) struct PruneInputs<'a> {
    pub(crate) options: &'a ParquetOptions,
    /// In terms of `schema`.
    pub(crate) predicate: Option<&'a Arc<dyn PhysicalExpr>>,
    pub(crate) schema: &'a SchemaRef,
    /// The rows that the table provider has chosen.
    pub(crate) chosen: ParquetAccessPlan,
    /// Row groups that begin outside these ranges belong to other partitions. Empty for the whole file.
    pub(crate) ranges: &'a [FileRange],
    /// Rows wanted in any order.
    pub(crate) limit: Option<usize>,
    pub(crate) metrics: &'a ParquetFileMetrics,
    pub(crate) creation_errors: &'a Count,
}

/// Prunes one file.
pub(crate) async fn prune(
    inputs: PruneInputs<'_>,
    metadata: Arc<ParquetMetaData>,
    reader: Reader,
) -> Result<Pruned> {
    let row_groups = metadata.row_groups();
    let initial = initial_plan(inputs.chosen.clone(), row_groups, inputs.ranges);
    let mut plan = RowGroupAccessPlanFilter::new(initial);
    let pruning_predicate = inputs.predicate.and_then(|predicate| {
        PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(inputs.schema))
            .with_error_counter(inputs.creation_errors)
            .with_max_in_list_size(inputs.options.max_in_list_size)
            .build(Arc::clone(predicate))
    });
    prune_by_statistics(&inputs, &metadata, &mut plan, pruning_predicate.as_deref());

    let has_indexes = metadata.column_index().is_some() && metadata.offset_index().is_some();
    let pages = inputs
        .predicate
        .filter(|_| has_indexes && inputs.options.enable_page_index && !plan.is_empty())
        .map(|predicate| (predicate, PagePruningAccessPlanFilter::new(predicate, Arc::clone(inputs.schema))))
        .filter(|(predicate, pages)| {
            pages.filter_number() > 0 && has_page_index(predicate, inputs.schema, &metadata, &plan)
        })
        .map(|(_, pages)| pages);
    if let Some(predicate) = pruning_predicate.as_deref()
        && inputs.options.bloom_filter_on_read
        && !plan.is_empty()
    {
        let filters = bloom_filters(&inputs, &metadata, reader, &plan, predicate).await?;
        plan.prune_by_bloom_filters(predicate, inputs.metrics, &filters);
    }
    if let Some(limit) = inputs.limit {
        plan.prune_by_limit(limit, metadata.row_groups(), inputs.metrics);
    }
    let mut plan = plan.build();
    if let Some(pages) = pages
        && !plan.is_empty()
    {
        let parquet_schema = metadata.file_metadata().schema_descr();
        plan =
            pages.prune_plan_with_page_index(plan, inputs.schema, parquet_schema, &metadata, inputs.metrics);
    }
    let row_groups = needed(plan);
    Ok(Pruned { metadata, row_groups })
}

/// Removes join filters from the predicate that would mislead statistics. One kind is over casts that map
/// several values to one, because bounds before the cast would be compared with values after it. The other is
/// over columns of type null: a join may take nulls to be equal, but finds none in arrays that do not count
/// them.
pub(crate) fn for_pruning(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let mut kept = Vec::new();
    for conjunct in split_conjunction(predicate) {
        let mut misleads = false;
        if conjunct.is::<DynamicFilterPhysicalExpr>() {
            conjunct.apply(|part| {
                misleads |= match part.downcast_ref::<CastExpr>() {
                    Some(cast) => !keeps_apart(&cast.expr().data_type(schema)?, cast.cast_type()),
                    None => part.is::<Column>() && part.data_type(schema)? == DataType::Null,
                };
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        if !misleads {
            kept.push(Arc::clone(conjunct));
        }
    }
    Ok(conjunction(kept))
}

/// Returns whether a cast preserves the order of values.
pub(crate) fn keeps_order(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, Timestamp};
    let is_bytes = |of: &DataType| matches!(of, Binary | BinaryView | LargeBinary);
    match (from, to) {
        (Dictionary(_, from), _) => keeps_order(from, to),
        (_, Dictionary(_, to)) => keeps_order(from, to),
        (Timestamp(from, zone), Timestamp(to, of)) => from <= to && zone.is_some() == of.is_some(),
        _ if from.is_floating() && to.is_floating() => from.primitive_width() <= to.primitive_width(),
        _ => is_bytes(from) && is_bytes(to) || keeps_apart(from, to),
    }
}

/// Returns whether a cast maps different values to different values.
fn keeps_apart(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Decimal32, Decimal64, Decimal128, Decimal256, Timestamp};
    let scale = |of: &DataType| match of {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            Some(*scale)
        }
        of if of.is_integer() => Some(0),
        _ => None,
    };
    match (scale(from), scale(to)) {
        (Some(from), Some(to)) => from <= to,
        _ => {
            from == to || from.is_string() && to.is_string() || matches!((from, to), (Date32, Timestamp(..)))
        }
    }
}

/// Restricts the chosen rows to row groups with rows that begin in one of the ranges; without ranges, to all
/// with rows.
fn initial_plan(
    mut plan: ParquetAccessPlan,
    row_groups: &[RowGroupMetaData],
    ranges: &[FileRange],
) -> ParquetAccessPlan {
    for (index, row_group) in row_groups.iter().enumerate() {
        // Row groups without rows have no pages, and the reader of page indexes panics at columns without
        // pages.
        if row_group.num_rows() <= 0 || !ranges.is_empty() && !begins_in(row_group, ranges) {
            plan.skip(index);
        }
    }
    plan
}

/// Returns whether the first page of the row group's first column lies in one of the ranges. This is the rule
/// of all readers, so each row group belongs to exactly one range.
fn begins_in(row_group: &RowGroupMetaData, ranges: &[FileRange]) -> bool {
    let column = row_group.columns().first();
    let begin =
        column.map(|column| column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset()));
    begin.is_some_and(|begin| ranges.iter().any(|range| range.contains(begin)))
}

fn prune_by_statistics(
    inputs: &PruneInputs<'_>,
    metadata: &ParquetMetaData,
    plan: &mut RowGroupAccessPlanFilter,
    predicate: Option<&PruningPredicate>,
) {
    match predicate {
        Some(predicate) if inputs.options.pruning => plan.prune_by_statistics(
            inputs.schema,
            metadata.file_metadata().schema_descr(),
            metadata.row_groups(),
            predicate,
            inputs.metrics,
        ),
        _ => inputs.metrics.row_groups_pruned_statistics.add_matched(plan.remaining_row_group_count()),
    }
}

/// Returns whether page indexes can help: a remaining row group may have rows to skip, and its writer has
/// written an index for a column of the predicate. Metadata has all indexes that it mentions; see
/// [`coscan_parquet`].
fn has_page_index(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    metadata: &ParquetMetaData,
    plan: &RowGroupAccessPlanFilter,
) -> bool {
    let fully_matched = plan.is_fully_matched();
    let parquet_schema = metadata.file_metadata().schema_descr();
    collect_columns(predicate).iter().any(|column| {
        let Some((leaf, _)) = parquet_column(parquet_schema, schema, column.name()) else { return false };
        plan.row_group_indexes().filter(|&row_group| !fully_matched[row_group]).any(|row_group| {
            let column = metadata.row_group(row_group).column(leaf);
            column.column_index_offset().is_some() && column.offset_index_offset().is_some()
        })
    })
}

/// Returns whether one value has several representations, of which a bloom filter tests one: zeros of both
/// signs, and NaN.
fn has_several_bits(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(value)) => value.is_nan() || value.to_f32() == 0.0,
        ScalarValue::Float32(Some(value)) => value.is_nan() || *value == 0.0,
        ScalarValue::Float64(Some(value)) => value.is_nan() || *value == 0.0,
        ScalarValue::Dictionary(_, value) | ScalarValue::RunEndEncoded(_, _, value) => {
            has_several_bits(value)
        }
        _ => false,
    }
}

/// Returns the bloom filters of the columns that the predicate compares with literals.
async fn bloom_filters(
    inputs: &PruneInputs<'_>,
    metadata: &Arc<ParquetMetaData>,
    reader: Reader,
    plan: &RowGroupAccessPlanFilter,
    predicate: &PruningPredicate,
) -> Result<Vec<BloomFilterStatistics>> {
    let mut filters = vec![BloomFilterStatistics::new(); metadata.num_row_groups()];
    let parquet_schema = metadata.file_metadata().schema_descr();
    let of_several_bits = |name: &str| {
        let guarantees = predicate.literal_guarantees().iter().filter(|of| of.column.name == name);
        guarantees.flat_map(|of| &of.literals).any(has_several_bits)
    };
    let columns: Vec<(String, usize)> = predicate
        .literal_columns()
        .into_iter()
        .filter(|name| !of_several_bits(name))
        .filter_map(|name| {
            let (leaf, _) = parquet_column(parquet_schema, inputs.schema, &name)?;
            Some((name, leaf))
        })
        .collect();
    let written = |row_group: usize, leaf: usize| {
        metadata.row_group(row_group).column(leaf).bloom_filter_offset().is_some()
    };
    if !plan.row_group_indexes().any(|row_group| columns.iter().any(|(_, leaf)| written(row_group, *leaf))) {
        return Ok(filters);
    }
    let loaded = ArrowReaderMetadata::try_new(Arc::clone(metadata), ArrowReaderOptions::new())?;
    let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, loaded);
    for row_group in plan.row_group_indexes() {
        for (name, leaf) in columns.iter().filter(|(_, leaf)| written(row_group, *leaf)) {
            match builder.get_row_group_column_bloom_filter(row_group, *leaf).await {
                Ok(Some(filter)) => {
                    let column = parquet_schema.column(*leaf);
                    filters[row_group].insert(name, filter, column.physical_type(), column.type_length());
                }
                Ok(None) => {}
                Err(error) => {
                    // A bloom filter only saves work; without it the row group is read.
                    tracing::debug!(%error, row_group, column = name, "cannot read a bloom filter");
                    inputs.metrics.predicate_evaluation_errors.add(1);
                }
            }
        }
    }
    Ok(filters)
}

fn needed(plan: ParquetAccessPlan) -> Vec<(usize, RowsNeeded)> {
    let accesses = plan.into_inner().into_iter().enumerate();
    accesses
        .filter_map(|(index, access)| match access {
            RowGroupAccess::Skip => None,
            RowGroupAccess::Scan => Some((index, RowsNeeded::All)),
            RowGroupAccess::Selection(selection) => {
                let ranges = selected(&selection);
                (!ranges.is_empty()).then(|| (index, RowsNeeded::Ranges(ranges.into())))
            }
        })
        .collect()
}

/// Converts a selection to ranges of the rows that it keeps.
fn selected(selection: &RowSelection) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut row = 0;
    for selector in selection.iter() {
        let next = row + selector.row_count;
        if !selector.skip && selector.row_count > 0 {
            match ranges.last_mut() {
                Some(last) if last.end == row => last.end = next,
                _ => ranges.push(row..next),
            }
        }
        row = next;
    }
    ranges
}

#[cfg(test)]
mod tests {
    use datafusion::parquet::arrow::arrow_reader::RowSelector;

    use super::*;

    #[test]
    fn bloom_filters_do_not_know_zero_and_nan() {
        for value in [0.0, -0.0, f64::NAN, -f64::NAN] {
            assert!(has_several_bits(&ScalarValue::Float64(Some(value))), "{value}");
            let packed = Box::new(ScalarValue::Float32(Some(value as f32)));
            assert!(has_several_bits(&ScalarValue::Dictionary(Box::new(DataType::Int32), packed)), "{value}");
        }
        for value in
            [ScalarValue::Float64(Some(1.0)), ScalarValue::Int64(Some(0)), ScalarValue::Float64(None)]
        {
            assert!(!has_several_bits(&value), "{value}");
        }
    }

    #[test]
    fn a_selection_becomes_ranges() {
        let selection = RowSelection::from(vec![
            RowSelector::skip(10),
            RowSelector::select(5),
            RowSelector::skip(3),
            RowSelector::select(2),
        ]);
        assert_eq!(selected(&selection), vec![10..15, 18..20]);
    }
}
