//! The values of a column that each chunk of a scan may hold, as far as statistics prove it.
//!
//! Chunks are *clustered* by a column if their ranges of values share at most end points. A value that lies
//! in several ranges is a *border*. Rows with any other value are all in one chunk. Null is a border of all
//! chunks that may hold nulls. The order of rows inside a chunk does not matter.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::kernels::cmp::{gt, lt};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use datafusion::parquet::arrow::parquet_column;

use crate::file::plan::FilePlan;
use crate::ordered::piece_ranges::piece_range;
use crate::scan::column::Roots;
use crate::scan::plan::ScanPlan;

/// The range of one chunk.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ChunkRange {
    /// The least and the greatest possible value; `None` if there are only nulls.
    pub(crate) bounds: Option<(ScalarValue, ScalarValue)>,
    /// Whether there may be nulls.
    pub(crate) nulls: bool,
    /// The borders to which rows of the chunk may belong, by position in [`Clustering::borders`].
    pub(crate) borders: Vec<usize>,
}

/// A value that may be in several chunks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Border {
    /// The value; a null for nulls.
    pub(crate) value: ScalarValue,
    /// The number of chunks that may hold it.
    pub(crate) chunks: usize,
}

/// The clustering of a scan's chunks by a column.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Clustering {
    /// By position in the plan.
    pub(crate) chunks: Vec<ChunkRange>,
    pub(crate) borders: Vec<Border>,
    /// The chunks that hold values, in the order of their ranges.
    in_order: Vec<usize>,
    /// The number of chunks whose keys were read for this query to find the clustering.
    pub(crate) keys_read: usize,
}

/// The statistics of a column of the files of a plan.
pub(crate) struct Statistics {
    /// By position of the chunk in the plan; `None` without statistics.
    pub(crate) ranges: Vec<Option<ChunkRange>>,
    /// The position of the column, by position of the file.
    pub(crate) roots: Roots,
}

impl Statistics {
    /// Returns the statistics of the column with this name; `None` if it does not have this type in every
    /// file.
    pub(crate) fn of(plan: &ScanPlan, column: &str, data_type: &DataType) -> Result<Option<Self>> {
        let (mut ranges, mut roots) = (Vec::with_capacity(plan.chunks.len()), vec![None; plan.files.len()]);
        let mut known: Option<(usize, FileRanges)> = None;
        for chunk in &plan.chunks {
            let file = &plan.files[chunk.file];
            let of_file = match known.take() {
                Some((file, of_file)) if file == chunk.file => of_file,
                _ => match FileRanges::new(file, column, data_type)? {
                    Some(of_file) => of_file,
                    None => return Ok(None),
                },
            };
            let whole = file.metadata.row_group(chunk.row_group).num_rows() == chunk.rows.len() as i64;
            ranges.push(match whole {
                true => of_file.of(file, chunk.row_group)?,
                false => piece_range(file, column, of_file.leaf, chunk)?,
            });
            roots[chunk.file] = Some(of_file.root);
            known = Some((chunk.file, of_file));
        }
        Ok(Some(Statistics { ranges, roots }))
    }
}

impl Clustering {
    /// Returns the clustering of chunks with these ranges; `None` if they overlap.
    pub(crate) fn new(mut chunks: Vec<ChunkRange>) -> Option<Self> {
        let mut in_order: Vec<usize> = (0..chunks.len()).filter(|&at| chunks[at].bounds.is_some()).collect();
        let mut comparable = true;
        in_order.sort_by(|&a, &b| {
            let ordering = chunks[a].bounds.partial_cmp(&chunks[b].bounds);
            comparable &= ordering.is_some();
            ordering.unwrap_or(Ordering::Equal)
        });
        if !comparable {
            return None;
        }
        let mut borders: Vec<Border> = Vec::new();
        for pair in in_order.windows(2) {
            let (Some((_, high)), Some((low, _))) = (&chunks[pair[0]].bounds, &chunks[pair[1]].bounds) else {
                return None;
            };
            match high.partial_cmp(low)? {
                Ordering::Less => continue,
                Ordering::Greater => return None,
                Ordering::Equal => {}
            }
            if borders.last().is_none_or(|border| border.value != *low) {
                borders.push(Border { value: low.clone(), chunks: 0 });
            }
            let border = borders.len() - 1;
            for &chunk in pair {
                if !chunks[chunk].borders.contains(&border) {
                    chunks[chunk].borders.push(border);
                    borders[border].chunks += 1;
                }
            }
        }
        let with_nulls = chunks.iter().filter(|chunk| chunk.nulls).count();
        if with_nulls > 0 {
            for chunk in chunks.iter_mut().filter(|chunk| chunk.nulls) {
                chunk.borders.push(borders.len());
            }
            borders.push(Border { value: ScalarValue::Null, chunks: with_nulls });
        }
        Some(Clustering { chunks, borders, in_order, keys_read: 0 })
    }

    /// Records that the keys of `keys_read` chunks were read.
    pub(crate) fn after_reading(self, keys_read: usize) -> Self {
        Clustering { keys_read, ..self }
    }

    /// Returns the chunks whose ranges share values with `range`.
    pub(crate) fn overlapping(&self, range: &ChunkRange) -> &[usize] {
        let Some((low, high)) = &range.bounds else { return &[] };
        let bounds = |chunk: &usize| self.chunks[*chunk].bounds.as_ref();
        let from = self.in_order.partition_point(|chunk| bounds(chunk).is_some_and(|(_, last)| last < low));
        let rest = &self.in_order[from..];
        &rest[..rest.partition_point(|chunk| bounds(chunk).is_some_and(|(first, _)| first <= high))]
    }

    /// Checks that the values of a chunk are within its statistics. Completeness follows from the statistics,
    /// so other values are an error.
    pub(crate) fn check(&self, plan: &ScanPlan, chunk: usize, column: &str, values: &ArrayRef) -> Result<()> {
        let range = &self.chunks[chunk];
        let values_ruled_out = match &range.bounds {
            None => values.len() > values.logical_null_count(),
            Some((low, high)) => {
                let (low, high) = (low.to_scalar()?, high.to_scalar()?);
                lt(values, &low)?.true_count() > 0 || gt(values, &high)?.true_count() > 0
            }
        };
        if !values_ruled_out && (range.nulls || values.logical_null_count() == 0) {
            return Ok(());
        }
        let chunk = &plan.chunks[chunk];
        let file = &plan.files[chunk.file].spec.meta.location;
        exec_err!(
            "{file}: row group {} holds values of {column} that its statistics rule out: write the file anew, or SET \
             coscan.order_aware = 'never' to read it all the same",
            chunk.row_group
        )
    }

    /// Returns whether most chunks hold more than one value. Otherwise there are few values, and nearly all
    /// are borders.
    pub(crate) fn is_worthwhile(&self) -> bool {
        self.chunks.is_empty() || self.with_several_values() * 2 > self.chunks.len()
    }

    /// Describes the basis of [`Self::is_worthwhile`].
    pub(crate) fn values_of(&self, column: &str) -> String {
        let (several, chunks) = (self.with_several_values(), self.chunks.len());
        format!(
            "{several} of {chunks} chunks hold more than one value of {column}{}",
            self.read_before(column)
        )
    }

    /// Describes the chunks that were read to find the clustering. Usually empty.
    pub(crate) fn read_before(&self, column: &str) -> String {
        match self.keys_read {
            0 => String::new(),
            read => format!(", {column} of {read} chunks was read before, as it is declared"),
        }
    }

    fn with_several_values(&self) -> usize {
        let several = |chunk: &&ChunkRange| chunk.bounds.as_ref().is_some_and(|(low, high)| low != high);
        self.chunks.iter().filter(several).count()
    }
}

/// The statistics of a column of one file.
struct FileRanges {
    low: Arc<dyn Array>,
    high: Arc<dyn Array>,
    leaf: usize,
    root: usize,
}

impl FileRanges {
    /// Returns `None` if the file has no such column of that type, or its statistics say nothing about its
    /// order.
    fn new(file: &FilePlan, column: &str, data_type: &DataType) -> Result<Option<Self>> {
        let schema = &file.physical_schema;
        let Some((root, field)) = schema.column_with_name(column) else { return Ok(None) };
        let parquet = file.metadata.file_metadata().schema_descr();
        let Some((leaf, _)) = parquet_column(parquet, schema, column) else { return Ok(None) };
        // The lookup finds the first of several columns with one name.
        if parquet.get_column_root_idx(leaf) != root || field.data_type() != data_type {
            return Ok(None);
        }
        let converter = StatisticsConverter::try_new(column, schema, parquet)?;
        let low = converter.row_group_mins(file.metadata.row_groups())?;
        let high = converter.row_group_maxes(file.metadata.row_groups())?;
        Ok(Some(FileRanges { low, high, leaf, root }))
    }

    fn of(&self, file: &FilePlan, row_group: usize) -> Result<Option<ChunkRange>> {
        let about = file.metadata.row_group(row_group);
        let column = about.column(self.leaf);
        let nulls = column.statistics().and_then(|statistics| statistics.null_count_opt());
        if nulls.is_some_and(|nulls| i64::try_from(nulls) == Ok(about.num_rows())) {
            return Ok(Some(ChunkRange { nulls: nulls != Some(0), ..ChunkRange::default() }));
        }
        let low = ScalarValue::try_from_array(&self.low, row_group)?;
        let high = ScalarValue::try_from_array(&self.high, row_group)?;
        if low.is_null() || high.is_null() || low.partial_cmp(&high).is_none_or(Ordering::is_gt) {
            return Ok(None);
        }
        Ok(Some(ChunkRange { bounds: Some((low, high)), nulls: nulls != Some(0), borders: Vec::new() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clustering(ranges: &[(i64, i64)], nulls: &[usize]) -> Option<Clustering> {
        let chunk = |(at, &(low, high)): (usize, &(i64, i64))| ChunkRange {
            bounds: (low <= high).then(|| (ScalarValue::from(low), ScalarValue::from(high))),
            nulls: nulls.contains(&at),
            borders: Vec::new(),
        };
        Clustering::new(ranges.iter().enumerate().map(chunk).collect())
    }

    fn borders(of: &Clustering) -> Vec<(String, usize)> {
        of.borders.iter().map(|border| (border.value.to_string(), border.chunks)).collect()
    }

    #[test]
    fn values_at_both_sides_of_an_end_are_borders() {
        let found = clustering(&[(20, 30), (0, 9), (10, 20)], &[]).unwrap();
        assert_eq!(borders(&found), [("20".to_owned(), 2)]);
        assert_eq!(found.chunks.iter().map(|chunk| chunk.borders.len()).collect::<Vec<_>>(), [1, 0, 1]);
    }

    #[test]
    fn ranges_overlap_in_their_end_points_too() {
        let found = clustering(&[(20, 30), (0, 9), (10, 20), (1, 0), (40, 50)], &[3]).unwrap();
        let overlapping = |low: i64, high: i64| {
            let bounds = (low <= high).then(|| (ScalarValue::from(low), ScalarValue::from(high)));
            found.overlapping(&ChunkRange { bounds, ..ChunkRange::default() }).to_vec()
        };
        assert_eq!(overlapping(9, 10), [1, 2]);
        assert_eq!(overlapping(20, 20), [2, 0]);
        assert_eq!(overlapping(-5, 100), [1, 2, 0, 4]);
        assert!(
            overlapping(31, 39).is_empty() && overlapping(51, 60).is_empty() && overlapping(1, 0).is_empty()
        );
    }

    #[test]
    fn a_run_over_many_chunks_is_one_border() {
        let found = clustering(&[(1, 5), (5, 5), (5, 5), (5, 9), (9, 9)], &[]).unwrap();
        assert_eq!(borders(&found), [("5".to_owned(), 4), ("9".to_owned(), 2)]);
        assert_eq!(found.chunks[3].borders, [0, 1]);
        assert!(!found.is_worthwhile());
    }

    #[test]
    fn overlapping_ranges_are_no_clustering() {
        assert_eq!(clustering(&[(1, 5), (4, 9)], &[]), None);
        assert_eq!(clustering(&[(1, 9), (5, 5)], &[]), None);
        assert_eq!(clustering(&[(1, 9), (1, 9)], &[]), None);
    }

    #[test]
    fn nulls_are_a_border_wherever_they_are() {
        let found = clustering(&[(1, 2), (3, 4), (1, 0)], &[0, 2]).unwrap();
        assert_eq!(borders(&found), [("NULL".to_owned(), 2)]);
        assert_eq!(found.chunks.iter().map(|chunk| chunk.borders.len()).collect::<Vec<_>>(), [1, 0, 1]);
        assert!(clustering(&[], &[]).unwrap().is_worthwhile());
    }
}
