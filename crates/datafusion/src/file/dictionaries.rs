//! Strings that come as keys into the dictionary of their chunk.
//!
//! Whether a string passes a conjunct is asked once for each entry of the dictionary, and looked up by its key for each row. All
//! slices of a chunk have one dictionary, so what is known of it is kept as long as the chunk is open.

use std::sync::Arc;

use coscan_engine::unpacked;
use coscan_operators::{SliceName, same_views};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, RecordBatch, RecordBatchOptions, new_null_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{FieldRef, Int32Type, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

use crate::file::row_filter::matches;

/// The batch with columns of the types that `schema` has, instead of dictionaries of them.
pub(crate) fn without_dictionaries(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if is_as(&batch, schema) {
        return Ok(batch);
    }
    let (_, arrays, rows) = batch.into_parts();
    let plain = |(array, field): (&ArrayRef, _)| match array.data_type() == field {
        true => Ok(Arc::clone(array)),
        false => unpacked(array),
    };
    let types = schema.fields().iter().map(|field| field.data_type());
    let arrays = arrays.iter().zip(types).map(plain).collect::<Result<Vec<_>, _>>()?;
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &with_rows(rows))?)
}

/// Whether the batch has the types that `schema` has.
pub(crate) fn is_as(batch: &RecordBatch, schema: &SchemaRef) -> bool {
    let of = batch.schema_ref();
    let same = |(a, b): (&FieldRef, &FieldRef)| a.data_type() == b.data_type();
    Arc::ptr_eq(of, schema) || of.fields().iter().zip(schema.fields()).all(same)
}

fn with_rows(rows: usize) -> RecordBatchOptions {
    RecordBatchOptions::new().with_row_count(Some(rows))
}

/// What the conjuncts of a filter say of the dictionaries of a chunk, and the slice that is filtered.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Its name, if rows are all of it.
    pub(crate) slice: Option<SliceName>,
    by_conjunct: Vec<Option<Known>>,
}

/// What a conjunct over one column says of a dictionary.
#[derive(Debug)]
struct Known {
    values: ArrayRef,
    /// Rows that were tested before the dictionary was.
    rows: usize,
    passes: Option<Passes>,
}

/// What passes a conjunct.
#[derive(Debug)]
struct Passes {
    /// By key.
    values: Vec<bool>,
    null: bool,
}

impl Answers {
    /// The same, for rows of another slice.
    pub(crate) fn of_slice(&mut self, slice: Option<SliceName>) -> &mut Self {
        self.slice = slice;
        self
    }

    /// For which rows of `texts`, a batch of one column with a dictionary, the conjunct with this number is true. `None` if that
    /// should be asked of the rows, of which so many are of interest: a dictionary is asked about when as many rows have been
    /// as it has entries, so that it takes at most twice as long as it would without.
    pub(crate) fn of(
        &mut self,
        number: usize,
        conjunct: &Arc<dyn PhysicalExpr>,
        texts: &DictionaryArray<Int32Type>,
        schema: &SchemaRef,
        rows: usize,
    ) -> Result<Option<BooleanBuffer>> {
        if self.by_conjunct.len() <= number {
            self.by_conjunct.resize_with(number + 1, || None);
        }
        let new = || Known { values: Arc::clone(texts.values()), rows: 0, passes: None };
        let known = self.by_conjunct[number].get_or_insert_with(new);
        if !same_views(&known.values, texts.values()) {
            *known = new();
        }
        known.rows = known.rows.saturating_add(rows);
        if known.passes.is_none() && known.rows < known.values.len() {
            return Ok(None);
        }
        let passes = match &mut known.passes {
            Some(passes) => passes,
            unknown => unknown.insert(Passes::of(conjunct, &known.values, schema)?),
        };
        Ok(Some(passes.rows(texts)))
    }
}

#[cfg(test)]
impl Answers {
    /// About how many dictionaries it knows something.
    pub(crate) fn asked(&self) -> usize {
        self.by_conjunct.iter().flatten().filter(|known| known.passes.is_some()).count()
    }
}

impl Passes {
    fn of(conjunct: &Arc<dyn PhysicalExpr>, values: &ArrayRef, schema: &SchemaRef) -> Result<Self> {
        let ask = |column: ArrayRef| -> Result<BooleanBuffer> {
            let rows = column.len();
            let batch =
                RecordBatch::try_new_with_options(Arc::clone(schema), vec![column], &with_rows(rows))?;
            Ok(matches(conjunct, &batch)?.values().clone())
        };
        let null = schema.field(0).is_nullable() && ask(new_null_array(values.data_type(), 1))?.value(0);
        Ok(Passes { values: ask(Arc::clone(values))?.iter().collect(), null })
    }

    fn rows(&self, texts: &DictionaryArray<Int32Type>) -> BooleanBuffer {
        let keys = texts.keys().values();
        // The key of a null may be any.
        let passes = |row: usize| self.values.get(keys[row] as usize).is_some_and(|passes| *passes);
        let values = BooleanBuffer::collect_bool(keys.len(), passes);
        match (texts.nulls(), self.null) {
            (None, _) => values,
            (Some(valid), true) => &values | &!valid.inner(),
            (Some(valid), false) => &values & valid.inner(),
        }
    }
}

/// The dictionary array that a column is, if it is one where another type was asked for.
pub(crate) fn packed<'a>(column: &'a ArrayRef, schema: &SchemaRef) -> Option<&'a DictionaryArray<Int32Type>> {
    (column.data_type() != schema.field(0).data_type()).then(|| column.as_dictionary_opt()).flatten()
}
