//! Names of slices: the producer of a batch notes in its schema which rows the batch has.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};

/// The identity of a batch's rows. Batches with one name have equal rows in the same order, regardless of
/// marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SliceName(pub [u64; 4]);

/// The key of the name in a schema's metadata.
const NOTE: &str = "coscan_slice";

impl SliceName {
    /// `schema` for a batch with exactly the `rows` rows of this name.
    pub fn noted(self, schema: &Schema, rows: usize) -> SchemaRef {
        let SliceName([a, b, c, d]) = self;
        let mut notes = schema.metadata().clone();
        notes.insert(NOTE.to_owned(), format!("{a} {b} {c} {d} {rows}"));
        Arc::new(Schema::new_with_metadata(schema.fields().clone(), notes))
    }

    /// The name of all rows of a batch together, if they have one. A part of a batch has the metadata of the
    /// whole.
    pub(crate) fn of(batch: &RecordBatch) -> Option<Self> {
        let mut numbers = batch.schema_ref().metadata().get(NOTE)?.split(' ');
        let mut next = || numbers.next()?.parse::<u64>().ok();
        let name = SliceName([next()?, next()?, next()?, next()?]);
        (next()? == batch.num_rows() as u64).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn a_batch_keeps_its_name_and_a_part_of_it_has_none() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        assert_eq!(SliceName::of(&batch), None);
        let name = SliceName([7, 0, u64::MAX, 3]);
        let batch = batch.clone().with_schema(name.noted(&batch.schema(), 10)).unwrap();
        assert_eq!(SliceName::of(&batch), Some(name));
        assert_eq!(SliceName::of(&batch.slice(0, 9)), None);
    }
}
