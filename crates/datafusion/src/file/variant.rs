//! A variant of reading row groups of one file: the columns to read, the filter, and the output.
//!
//! Row groups in which statistics decide the same conjuncts of the filter share a variant. A conjunct that is
//! true for all rows is not evaluated, and columns that only such conjuncts need are not read.

use std::sync::Arc;

use coscan_operators::SliceName;
use coscan_operators::short_decimals::shortened_array;
use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::{ProjectionExpr, Projector};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use crate::file::dictionaries::Answers;
use crate::file::join_filter::JoinFilters;
use crate::file::marks::marked;
use crate::file::packed::{is_unpacked, packed_batch, unpacked_batch, with_types_of};
use crate::file::recipe::Recipe;
use crate::file::row_filter::{Passing, RowFilter};

/// The reading of row groups in which statistics decide the same conjuncts.
#[derive(Debug)]
pub(crate) struct Variant {
    /// The root columns to read, ascending.
    pub(crate) roots: Vec<usize>,
    /// The number of conjuncts that are true for all rows.
    pub(crate) conjuncts_decided: usize,
    /// The root columns that only those conjuncts need, ascending.
    pub(crate) skipped_columns: Vec<usize>,
    batch_schema: SchemaRef,
    /// The positions in a batch of the projected columns. Only the filter needs the others.
    projected: Vec<usize>,
    /// The requested schema of the projected columns.
    projected_schema: SchemaRef,
    projector: Projector,
    /// Whether the projection takes columns and constants and computes nothing.
    takes_columns: bool,
    /// The number of the output's view of the file, if it has one.
    pub(crate) view: Option<u64>,
    filter: Option<RowFilter>,
    join_filters: JoinFilters,
    output_schema: SchemaRef,
    replace_schema: bool,
    /// The schema with marks, if rows are marked.
    marked_schema: Option<SchemaRef>,
}

impl Variant {
    /// Builds the variant for these decided conjuncts.
    pub(crate) fn new(recipe: &Recipe, decided: &[bool]) -> Result<Self> {
        let projected_roots = recipe.projection.column_indices();
        let mut roots = projected_roots.clone();
        let mut skipped_columns: Vec<usize> = Vec::new();
        for (conjunct, &decided) in recipe.conjuncts.iter().zip(decided) {
            let of = if decided { &mut skipped_columns } else { &mut roots };
            of.extend(collect_columns(conjunct).iter().map(|column| column.index()));
        }
        for roots in [&mut roots, &mut skipped_columns] {
            roots.sort_unstable();
            roots.dedup();
        }
        skipped_columns.retain(|root| roots.binary_search(root).is_err());
        let batch_schema = Arc::new(recipe.asked.decoding_schema.project(&roots)?);
        let left = || recipe.conjuncts.iter().zip(decided).filter(|(_, decided)| !**decided);
        let filter = match left().next() {
            None => None,
            Some(_) => {
                let conjuncts = left().map(|(conjunct, _)| Arc::clone(conjunct));
                Some(RowFilter::new(conjuncts, &batch_schema, |conjunct| recipe.shared(conjunct))?)
            }
        };
        let join_filters = JoinFilters::new(&recipe.join_filters, &roots, &batch_schema)?;
        let projected: Vec<usize> =
            (0..roots.len()).filter(|&at| projected_roots.contains(&roots[at])).collect();
        let projected_schema = Arc::new(batch_schema.project(&projected)?);
        let projection = recipe.projection.clone();
        let takes_columns =
            projection.iter().all(|column| column.expr.is::<Column>() || column.expr.is::<Literal>());
        let projector = projection
            .try_map_exprs(|expr| reassign_expr_columns(expr, &projected_schema))?
            .make_projector(&projected_schema)?;
        let output_schema = Arc::clone(&recipe.output_schema);
        let replace_schema = projector.output_schema() != &output_schema;
        Ok(Variant {
            roots,
            conjuncts_decided: decided.iter().filter(|decided| **decided).count(),
            skipped_columns,
            batch_schema,
            projected,
            projected_schema,
            projector,
            takes_columns,
            view: recipe.view,
            filter,
            join_filters,
            marked_schema: recipe.marks.then(|| marked(&output_schema)),
            output_schema,
            replace_schema,
        })
    }

    /// Builds a batch for [`Self::passing`] from the columns of a slice. They may be packed.
    pub(crate) fn batch(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        packed_batch(&self.batch_schema, arrays, rows)
    }

    /// Returns whether some rows of a batch may fail to pass.
    pub(crate) fn filters(&self) -> bool {
        self.filter.is_some() || !self.join_filters.is_empty()
    }

    /// Returns the rows of `batch` that pass the filter, in the projected columns, unpacked.
    pub(crate) fn rows(&self, batch: RecordBatch, answers: &mut Answers) -> Result<Passing> {
        let unpacked = |batch| unpacked_batch(batch, &self.projected_schema);
        Ok(match self.passing(batch, answers)? {
            Passing::Some(batch, bits) if !is_unpacked(&batch, &self.projected_schema) => {
                // The consumer copies passing rows again. A copy here pays only where most rows do not pass.
                match bits.count_set_bits() * 2 > batch.num_rows() {
                    true => Passing::Some(unpacked(batch)?, bits),
                    false => Passing::All(unpacked(Passing::Some(batch, bits).into_batch()?)?),
                }
            }
            Passing::All(batch) => Passing::All(unpacked(batch)?),
            passing => passing,
        })
    }

    /// Returns the rows of `batch` that pass the filter, in the projected columns. They may be packed.
    fn passing(&self, batch: RecordBatch, answers: &mut Answers) -> Result<Passing> {
        let passing = match &self.filter {
            Some(filter) => filter.passing(batch, answers)?,
            None => Passing::All(batch),
        };
        Ok(match self.join_filters.narrow(passing) {
            Passing::All(batch) => Passing::All(batch.project(&self.projected)?),
            Passing::Some(batch, bits) => Passing::Some(batch.project(&self.projected)?, bits),
            Passing::None => Passing::None,
        })
    }

    /// Returns whether rows are marked instead of dropped.
    pub(crate) fn marks(&self) -> bool {
        self.marked_schema.is_some()
    }

    /// Returns the rows of `batch` with marks, if any pass the filter. Some of the rows that do not pass may
    /// be missing. Columns may be packed, and other short decimals are in 64 bits if these hold the batch's
    /// values. `name` is the name of the complete slice.
    pub(crate) fn mark(
        &self,
        batch: RecordBatch,
        name: Option<SliceName>,
        answers: &mut Answers,
    ) -> Result<Option<RecordBatch>> {
        let all = batch.num_rows();
        let (batch, bits) = match self.passing(batch, answers)? {
            Passing::None => return Ok(None),
            Passing::Some(batch, bits) if self.takes_columns => (batch, bits),
            // A computation may fail on rows that do not pass.
            passing => {
                let batch = passing.into_batch()?;
                let bits = BooleanBuffer::new_set(batch.num_rows());
                (batch, bits)
            }
        };
        let batch = if self.takes_columns { batch } else { unpacked_batch(batch, &self.projected_schema)? };
        let rows = batch.num_rows();
        let column = |column: &ProjectionExpr| column.expr.evaluate(&batch)?.into_array(rows);
        let mut columns: Vec<ArrayRef> =
            self.projector.projection().iter().map(column).collect::<Result<_>>()?;
        for column in &mut columns {
            *column = shortened_array(column).unwrap_or_else(|| Arc::clone(column));
        }
        columns.push(Arc::new(BooleanArray::new(bits, None)));
        let schema = self.marked_schema.as_ref().unwrap_or(&self.output_schema);
        let mut schema = with_types_of(schema, &columns);
        if let Some(name) = name.filter(|_| rows == all) {
            schema = name.noted(&schema, rows);
        }
        Ok(Some(RecordBatch::try_new(schema, columns)?))
    }

    /// Projects rows that passed to the output of the plan.
    pub(crate) fn project(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let projected = self.projector.project_batch(batch)?;
        if !self.replace_schema {
            return Ok(projected);
        }
        let (_, arrays, rows) = projected.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output_schema), arrays, &options)?)
    }
}
