//! Strings that come as keys into the dictionary of their chunk.
//!
//! A condition is evaluated once per entry of the dictionary, and looked up by key for each row. All slices
//! of a chunk have one dictionary, so its answers are kept while the chunk is open.

use std::sync::Arc;

use coscan_operators::{Keyed, SliceName, same_views};
use datafusion::arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;

use crate::file::conditions::is_true;

/// The answers of a filter's conditions about the dictionaries of a chunk, and the slice that is filtered.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    /// The slice's name, if the rows are all of it.
    pub(crate) slice: Option<SliceName>,
    by_condition: Vec<Option<Known>>,
}

/// The answers of a condition over one column about a dictionary.
#[derive(Debug)]
struct Known {
    values: ArrayRef,
    /// Rows that were tested before the dictionary was.
    rows: usize,
    passes: Option<Passes>,
}

/// The values that pass a condition.
#[derive(Debug)]
struct Passes {
    /// By key.
    values: Vec<bool>,
    null: bool,
}

impl Answers {
    /// Sets the slice of the next rows.
    pub(crate) fn of_slice(&mut self, slice: Option<SliceName>) -> &mut Self {
        self.slice = slice;
        self
    }

    /// Returns the rows of `texts` for which condition `number` is true. `texts` is a batch of one column
    /// with a dictionary, and `rows` the number of its rows of interest. Returns `None` if the caller should
    /// evaluate the rows instead: a dictionary is evaluated after as many rows as it has entries. So the work
    /// at most doubles.
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
    /// The number of dictionaries with answers.
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

/// Returns the keys of a column, if another type was requested.
pub(crate) fn keyed<'a>(column: &'a ArrayRef, schema: &SchemaRef) -> Option<Keyed<'a>> {
    Keyed::of(column).filter(|_| column.data_type() != schema.field(0).data_type())
}
