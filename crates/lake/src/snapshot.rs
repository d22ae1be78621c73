//! One version of a table, in the terms of all formats.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array, new_null_array,
};
use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue, Statistics, not_impl_datafusion_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path;
use datafusion::parquet::arrow::arrow_reader::RowSelector;
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;
use tokio::sync::OnceCell;

use crate::field_ids::id_of;

/// One version of a table.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The number of the version.
    pub(crate) version: u64,
    /// The columns, as queries see them.
    pub(crate) schema: SchemaRef,
    /// The ways in which files have the columns: at least one.
    pub(crate) layouts: Vec<Layout>,
    /// The files.
    pub(crate) files: Vec<DataFile>,
    /// The bounds of the columns in the files, by position.
    pub(crate) bounds: Vec<Bounds>,
    /// Rows that are in no file, with all columns.
    pub(crate) rows: Option<Rows>,
}

/// A constant of a file as its columns have values: zeros have no sign.
pub(crate) fn as_in_columns(constant: ScalarValue) -> ScalarValue {
    match constant {
        ScalarValue::Float64(Some(of)) => {
            ScalarValue::Float64(Some(if of.is_nan() { f64::NAN } else { of + 0.0 }))
        }
        ScalarValue::Float32(Some(of)) => {
            ScalarValue::Float32(Some(if of.is_nan() { f32::NAN } else { of + 0.0 }))
        }
        other => other,
    }
}

/// Rows in memory.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) count: usize,
}

/// A way in which files have the columns.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// The columns as files name them, with the constants of files at the end.
    pub(crate) stored: TableSchema,
    /// The place of each column in `stored`.
    pub(crate) places: Vec<Place>,
    /// Adapts expressions over the columns to files.
    pub(crate) adapters: Option<Arc<dyn PhysicalExprAdapterFactory>>,
}

/// The position of a column, or the reason why it cannot be read.
pub(crate) type Place = std::result::Result<usize, String>;

/// A file of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    /// The file with its constants.
    pub(crate) file: PartitionedFile,
    /// The position of its layout.
    pub(crate) layout: usize,
    /// Its rows, deleted ones included.
    pub(crate) rows: Option<u64>,
    /// Its deleted rows.
    pub(crate) deletes: Option<Deletes>,
}

/// The deleted rows of a file.
#[derive(Clone, Debug)]
pub(crate) struct Deletes {
    /// The place where they are listed. Two lists with one place are equal.
    pub(crate) place: Arc<dyn DeletesPlace>,
    /// Their number, if the table says it.
    pub(crate) count: Option<u64>,
    /// The file with the rows that are left, once the list was read.
    pub(crate) left: Arc<OnceCell<PartitionedFile>>,
}

/// The place where deleted rows are listed, in the terms of a format.
pub(crate) trait DeletesPlace: Any + fmt::Debug + Send + Sync {
    /// Returns whether the list of both places is the same.
    fn is(&self, other: &dyn DeletesPlace) -> bool;
}

impl<T: Any + PartialEq + fmt::Debug + Send + Sync> DeletesPlace for T {
    fn is(&self, other: &dyn DeletesPlace) -> bool {
        (other as &dyn Any).downcast_ref::<T>() == Some(self)
    }
}

/// Facts about one column in all files. An absent array or value is not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// Lower bounds.
    pub(crate) min: Option<ArrayRef>,
    /// Upper bounds.
    pub(crate) max: Option<ArrayRef>,
    /// Numbers of nulls.
    pub(crate) nulls: Option<UInt64Array>,
}

/// What is known of a file that a table lists: files of a path do not change.
pub(crate) fn file_meta(location: Path, size: u64) -> ObjectMeta {
    ObjectMeta { location, last_modified: Default::default(), size, e_tag: None, version: None }
}

impl DataFile {
    fn memory(&self) -> usize {
        let left = self.deletes.as_ref().and_then(|deletes| deletes.left.get());
        let selection = left.and_then(|left| left.extension::<ParquetRowSelection>());
        let selectors = selection.map_or(0, |rows| rows.selection().iter().count());
        size_of::<Self>()
            + self.file.object_meta.location.as_ref().len()
            + self.file.partition_values.iter().map(ScalarValue::size).sum::<usize>()
            + left.map_or(0, |_| size_of::<PartitionedFile>())
            + selectors * size_of::<RowSelector>()
    }
}

impl Deletes {
    /// Deleted rows that are listed in this place, unless they are known.
    pub(crate) fn of<P: DeletesPlace>(place: P, count: Option<u64>, known: Option<&&Deletes>) -> Self {
        match known {
            Some(known) if place.is(&*known.place) => (*known).clone(),
            _ => Deletes { place: Arc::new(place), count, left: Arc::new(OnceCell::new()) },
        }
    }

    /// The place in the terms of a format.
    pub(crate) fn place<P: DeletesPlace>(&self) -> Option<&P> {
        (&*self.place as &dyn Any).downcast_ref()
    }
}

impl Rows {
    /// Returns some of the columns.
    pub(crate) fn project(&self, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = columns.iter().map(|&column| Arc::clone(&self.columns[column])).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }
}

/// Returns whether two names in files are of one column. A column may have no id in one version.
fn is_same((name, id): (&str, Option<i32>), (other, of_other): (&str, Option<i32>)) -> bool {
    name == other && (id == of_other || id.is_none() || of_other.is_none())
}

impl Layout {
    /// Returns the positions of these columns.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub(crate) fn places_of(&self, columns: &[usize]) -> Result<Vec<usize>> {
        let of = |&column: &usize| {
            let place = self.places[column].as_ref();
            place.copied().map_err(|reason| not_impl_datafusion_err!("{reason}"))
        };
        columns.iter().map(of).collect()
    }

    /// What files call the column.
    fn stored(&self, column: usize) -> std::result::Result<(&str, Option<i32>), String> {
        let field = &self.stored.table_schema().fields()[self.places[column].clone()?];
        Ok((field.name(), id_of(field)))
    }
}

impl Snapshot {
    /// Returns the statistics of these files of one layout together.
    pub(crate) fn statistics(&self, layout: &Layout, files: &[usize]) -> Statistics {
        let mut rows = Some(0);
        let mut bytes = 0;
        for &at in files {
            let DataFile { file, rows: all, deletes, .. } = &self.files[at];
            let deleted = deletes.as_ref().map_or(Some(0), |deletes| deletes.count);
            let left = all.zip(deleted).and_then(|(all, deleted)| all.checked_sub(deleted));
            rows = rows.zip(left).map(|(sum, left)| sum + left);
            bytes += file.object_meta.size;
        }
        let mut statistics = Statistics::new_unknown(layout.stored.table_schema());
        statistics.num_rows = rows.map_or(Precision::Absent, |rows| Precision::Exact(rows as usize));
        statistics.total_byte_size = Precision::Inexact(bytes as usize);
        statistics
    }

    /// The memory that it takes, about.
    pub(crate) fn memory(&self) -> usize {
        let of_array = |array: &Option<ArrayRef>| array.as_ref().map_or(0, |of| of.get_array_memory_size());
        let of_bounds = |Bounds { min, max, nulls }: &Bounds| {
            of_array(min) + of_array(max) + nulls.as_ref().map_or(0, |of| of.get_array_memory_size())
        };
        let rows = self.rows.iter().flat_map(|rows| &rows.columns);
        self.files.iter().map(DataFile::memory).sum::<usize>()
            + self.bounds.iter().map(of_bounds).sum::<usize>()
            + rows.map(|column| column.get_array_memory_size()).sum::<usize>()
    }

    /// The deleted rows, by file.
    pub(crate) fn deletes(&self) -> HashMap<&Path, &Deletes> {
        let files = self.files.iter();
        files.filter_map(|file| Some((&file.file.object_meta.location, file.deletes.as_ref()?))).collect()
    }

    /// Returns this snapshot with the columns of an earlier one. Those that differ here cannot be read.
    pub(crate) fn with_columns_of(self, earlier: &Snapshot, table: &str) -> Self {
        let (layout, before) = (&self.layouts[0], &earlier.layouts[0]);
        let place_here = |column: usize| {
            let was = earlier.schema.field(column);
            let stored = before.stored(column)?;
            let here = self.schema.index_of(was.name()).ok().filter(|&here| {
                let field = self.schema.field(here);
                field.data_type() == was.data_type()
                    && field.is_nullable() <= was.is_nullable()
                    && layout.stored(here).is_ok_and(|here| is_same(here, stored))
            });
            here.ok_or_else(|| {
                let (name, version) = (was.name(), self.version);
                format!("the column {name} of {table} has changed in version {version}: make the table again")
            })
        };
        let here: Vec<Place> = (0..before.places.len()).map(place_here).collect();
        let bounds = |here: &Place| here.as_ref().map(|&here| self.bounds[here].clone()).unwrap_or_default();
        let bounds = here.iter().map(bounds).collect();
        let placed = |layout: &Layout| {
            let places = here.iter().map(|here| layout.places[here.clone()?].clone());
            Layout { places: places.collect(), ..layout.clone() }
        };
        let layouts = self.layouts.iter().map(placed).collect();
        let rows = self.rows.map(|Rows { columns, count }| {
            let column = |(here, was): (&Place, &FieldRef)| match here {
                Ok(here) => Arc::clone(&columns[*here]),
                // Not read: see `places`.
                Err(_) => new_null_array(was.data_type(), count),
            };
            Rows { columns: here.iter().zip(earlier.schema.fields()).map(column).collect(), count }
        });
        Snapshot { schema: Arc::clone(&earlier.schema), layouts, bounds, rows, ..self }
    }
}
