//! Strings that come as keys into the dictionary of their chunk.
//!
//! Whether a string passes a condition is asked once for each entry of the dictionary, and looked up by its key for each row. All
//! slices of a chunk have one dictionary, so what is known of it is kept as long as the chunk is open.

use std::sync::Arc;

use coscan_operators::{Keyed, SliceName, same_views};
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

use crate::file::conditions::is_true;

/// What the conditions of a filter say of the dictionaries of a chunk, and the slice that is filtered.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// Its name, if rows are all of it.
    pub(crate) slice: Option<SliceName>,
    by_condition: Vec<Option<Known>>,
}

/// What a condition over one column says of a dictionary.
#[derive(Debug)]
struct Known {
    values: ArrayRef,
    /// Rows that were tested before the dictionary was.
    rows: usize,
    passes: Option<Passes>,
}

/// What passes a condition.
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

    /// For which rows of `texts`, a batch of one column with a dictionary, the condition with this number is true. `None` if that
    /// should be asked of the rows, of which so many are of interest: a dictionary is asked about when as many rows have been
    /// as it has entries, so that it takes at most twice as long as it would without.
    pub(crate) fn of(
        &mut self,
        number: usize,
        condition: &Arc<dyn PhysicalExpr>,
        texts: Keyed<'_>,
        schema: &SchemaRef,
        rows: usize,
    ) -> Result<Option<BooleanBuffer>> {
        if self.by_condition.len() <= number {
            self.by_condition.resize_with(number + 1, || None);
        }
        let new = || Known { values: Arc::clone(texts.values), rows: 0, passes: None };
        let known = self.by_condition[number].get_or_insert_with(new);
        if !same_views(&known.values, texts.values) {
            *known = new();
        }
        known.rows = known.rows.saturating_add(rows);
        if known.passes.is_none() && known.rows < known.values.len() {
            return Ok(None);
        }
        let passes = match &mut known.passes {
            Some(passes) => passes,
            unknown => unknown.insert(Passes::of(condition, &known.values, schema)?),
        };
        Ok(Some(passes.rows(texts)))
    }
}

#[cfg(test)]
impl Answers {
    /// About how many dictionaries it knows something.
    pub(crate) fn asked(&self) -> usize {
        self.by_condition.iter().flatten().filter(|known| known.passes.is_some()).count()
    }
}

impl Passes {
    fn of(condition: &Arc<dyn PhysicalExpr>, values: &ArrayRef, schema: &SchemaRef) -> Result<Self> {
        let ask = |column: ArrayRef| -> Result<BooleanBuffer> {
            is_true(condition, &RecordBatch::try_new(Arc::clone(schema), vec![column])?)
        };
        let null = schema.field(0).is_nullable() && ask(new_null_array(values.data_type(), 1))?.value(0);
        Ok(Passes { values: ask(Arc::clone(values))?.iter().collect(), null })
    }

    fn rows(&self, texts: Keyed<'_>) -> BooleanBuffer {
        // The key of a null may be any.
        let values = texts.rows_where(|key| self.values.get(key).is_some_and(|passes| *passes));
        match (texts.nulls, self.null) {
            (None, _) => values,
            (Some(valid), true) => &values | &!valid.inner(),
            (Some(valid), false) => &values & valid.inner(),
        }
    }
}

/// The keys that a column is, if another type was asked for.
pub(crate) fn keyed<'a>(column: &'a ArrayRef, schema: &SchemaRef) -> Option<Keyed<'a>> {
    Keyed::of(column).filter(|_| column.data_type() != schema.field(0).data_type())
}
