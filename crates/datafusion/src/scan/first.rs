//! The chunks that a scan reads first: those whose rows a limit over an order most likely keeps.
//!
//! As soon as their rows are known, the limit's filter rules most other chunks out. Statistics only choose
//! the start. Wrong or missing statistics cause more reads and do not change the result.

use std::cmp::Ordering;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;

use crate::file::plan::FilePlan;
use crate::scan::plan::ScanPlan;

/// The order whose first rows are wanted.
#[derive(Clone, Debug)]
pub(crate) struct WantedFirst {
    /// The column of the files.
    pub(crate) column: String,
    /// Its type in the table. Files may have another one.
    pub(crate) data_type: DataType,
    /// Whether the greatest values come first.
    pub(crate) descending: bool,
}

impl WantedFirst {
    /// Returns the `count` chunks with the most extreme values, by their positions in the plan. Returns none
    /// if a file lacks the statistics.
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

    /// Returns the first value of each row group of a file in this order.
    fn values(&self, file: &FilePlan) -> Option<ArrayRef> {
        let parquet = file.metadata.file_metadata().schema_descr();
        let column = StatisticsConverter::try_new(&self.column, &file.physical_schema, parquet).ok()?;
        let row_groups = file.metadata.row_groups();
        let values = match self.descending {
            true => column.row_group_maxes(row_groups),
            false => column.row_group_mins(row_groups),
        };
        cast(&values.ok()?, &self.data_type).ok()
    }
}
