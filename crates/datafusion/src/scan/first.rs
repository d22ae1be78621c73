//! Which chunks a scan reads first: those whose rows a limit below an order is most likely to keep.
//!
//! Once rows of them are known, the limit's filter rules most other chunks out. Statistics only say where to begin: if they
//! are wrong or there are none, more is read and nothing else changes.

use std::cmp::Ordering;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;

use crate::file::plan::FilePlan;
use crate::scan::plan::ScanPlan;

/// The order of which the first rows are wanted.
#[derive(Clone, Debug)]
pub(crate) struct WantedFirst {
    /// The column of the files.
    pub(crate) column: String,
    /// Whether its greatest values are wanted.
    pub(crate) descending: bool,
}

impl WantedFirst {
    /// The chunks with the most extreme values, so many, by their positions in the plan; none if a file does not say.
    pub(crate) fn chunks(&self, plan: &ScanPlan, count: usize) -> Vec<usize> {
        let mut extremes: Vec<(ScalarValue, usize)> = Vec::with_capacity(plan.chunks.len());
        let mut known: Option<(usize, ArrayRef)> = None;
        for (at, chunk) in plan.chunks.iter().enumerate() {
            let values = match known.take() {
                Some((file, values)) if file == chunk.file => values,
                _ => match self.values(&plan.files[chunk.file]) {
                    Some(values) => values,
                    None => return Vec::new(),
                },
            };
            match ScalarValue::try_from_array(&values, chunk.row_group) {
                Ok(value) if !value.is_null() => extremes.push((value, at)),
                _ => {}
            }
            known = Some((chunk.file, values));
        }
        extremes.sort_by(|(a, _), (b, _)| {
            let order = a.partial_cmp(b).unwrap_or(Ordering::Equal);
            if self.descending { order.reverse() } else { order }
        });
        extremes.into_iter().take(count).map(|(_, at)| at).collect()
    }

    /// The value of each row group of a file that comes first in it.
    fn values(&self, file: &FilePlan) -> Option<ArrayRef> {
        let parquet = file.metadata.file_metadata().schema_descr();
        let column = StatisticsConverter::try_new(&self.column, &file.physical_schema, parquet).ok()?;
        let row_groups = file.metadata.row_groups();
        if self.descending { column.row_group_maxes(row_groups) } else { column.row_group_mins(row_groups) }
            .ok()
    }
}
