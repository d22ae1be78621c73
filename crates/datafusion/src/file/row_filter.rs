//! Filters that the scan has promised to apply to every row.
//!
//! Conjuncts that cannot fail, such as comparisons of a column with a constant, are evaluated on all rows of
//! a slice, and their bits are combined. This copies no row. Conjuncts over texts and other values of
//! variable length come last. If few rows are left, they read only these (`conditions.rs`).
//!
//! Conjuncts that may fail follow one after the other, the safest first, each on the rows that the earlier ones left. So a
//! conjunct still guards the next one, as in `b <> 0 AND a / b > 1`.

use std::sync::Arc;

use coscan_operators::{Part, searched_likes};
use coscan_upstream::{cannot_fail, guarded, safest_first};
use datafusion::arrow::array::{BooleanArray, RecordBatch};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::filter_record_batch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::reassign_expr_columns;

use crate::file::conditions::{Condition, Conditions, all_match, is_true};
use crate::file::dictionaries::Answers;
use crate::file::packed::unpacked_batch;
use crate::file::shared_answers::Conjunct;

/// The conjuncts of a filter in terms of the scan's batches.
#[derive(Debug)]
pub(crate) struct RowFilter {
    /// Conjuncts that cannot fail; first those over values of fixed length.
    total: Vec<Condition>,
    /// Conjuncts that may fail, in their order. Those that only fail if a file's values do not fit the table's type come first.
    partial: Vec<Arc<dyn PhysicalExpr>>,
    /// The requested schema of batches.
    schema: SchemaRef,
}

/// The rows of a batch that pass.
pub(crate) enum Passing {
    /// All of this batch.
    All(RecordBatch),
    /// The rows of this batch whose bit is set; at least one is and at least one is not.
    Some(RecordBatch, BooleanBuffer),
    /// None.
    None,
}

impl RowFilter {
    /// Builds a filter of these conjuncts over a file, in this order. `shared` returns a conjunct's share in
    /// the answers of other queries.
    pub(crate) fn new(
        conjuncts: impl Iterator<Item = Arc<dyn PhysicalExpr>>,
        batch_schema: &SchemaRef,
        shared: impl Fn(&Arc<dyn PhysicalExpr>) -> Option<Part<Conjunct>>,
    ) -> Result<Self> {
        let (mut total, mut partial) = (Vec::new(), Vec::new());
        let mut conditions = Conditions { batch_schema, shared, texts: 0 };
        for conjunct in conjuncts {
            let over_batch = reassign_expr_columns(Arc::clone(&conjunct), batch_schema)?;
            if cannot_fail(&over_batch, batch_schema) {
                conditions.condition(&conjunct)?.add_to(&mut total);
            } else {
                partial.push(over_batch);
            }
        }
        let partial = safest_first(partial, batch_schema).into_iter();
        let partial = partial.map(|conjunct| searched_likes(guarded(conjunct, batch_schema)?.data));
        let partial = partial.collect::<Result<_>>()?;
        total.sort_by_key(Condition::is_over_texts);
        Ok(RowFilter { total, partial, schema: Arc::clone(batch_schema) })
    }

    /// Returns the rows of `batch` that pass. Columns may be packed. `answers` has the known answers about
    /// dictionaries.
    pub(crate) fn passing(&self, batch: RecordBatch, answers: &mut Answers) -> Result<Passing> {
        let passing = if self.total.is_empty() {
            Passing::All(batch)
        } else {
            let bits = all_match(&self.total, &batch, None, answers)?;
            Passing::of(batch, bits)
        };
        if self.partial.is_empty() { Ok(passing) } else { self.narrow_down(passing) }
    }

    fn narrow_down(&self, passing: Passing) -> Result<Passing> {
        if matches!(passing, Passing::None) {
            return Ok(passing);
        }
        let mut batch = unpacked_batch(passing.into_batch()?, &self.schema)?;
        for conjunct in &self.partial {
            if batch.num_rows() == 0 {
                return Ok(Passing::None);
            }
            let matches = is_true(conjunct, &batch)?;
            if matches.has_false() {
                batch = filter_record_batch(&batch, &BooleanArray::new(matches, None))?;
            }
        }
        Ok(if batch.num_rows() == 0 { Passing::None } else { Passing::All(batch) })
    }
}

impl Passing {
    /// Selects the rows of `batch` in `bits`.
    pub(crate) fn of(batch: RecordBatch, bits: BooleanBuffer) -> Self {
        if !bits.has_true() {
            Passing::None
        } else if bits.has_false() {
            Passing::Some(batch, bits)
        } else {
            Passing::All(batch)
        }
    }

    /// Copies the rows that pass into a batch.
    pub(crate) fn into_batch(self) -> Result<RecordBatch> {
        match self {
            Passing::All(batch) => Ok(batch),
            Passing::Some(batch, bits) => Ok(filter_record_batch(&batch, &BooleanArray::new(bits, None))?),
            Passing::None => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{
        Array, ArrayRef, Date32Array, Decimal64Array, DictionaryArray, Int8Array, Int16Array, Int32Array,
        Int64Array, StringViewArray,
    };
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, cast, col, in_list, is_null, like, lit};
    use fastrand::Rng;

    use super::*;
    use crate::file::packed::packed_batch;

    fn batch() -> RecordBatch {
        let a: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(4), None, Some(9), Some(6)]));
        let b: ArrayRef = Arc::new(Int64Array::from(vec![1, 0, 1, 3, 2]));
        RecordBatch::try_from_iter_with_nullable([("a", a, true), ("b", b, false)]).unwrap()
    }

    fn filter(conjuncts: &[(&str, Operator, i64)], guarded: bool) -> RowFilter {
        let schema = batch().schema();
        let compare = |(name, op, value): &(&str, Operator, i64)| {
            binary(col(name, &schema).unwrap(), *op, lit(*value), &schema).unwrap()
        };
        let quotient = || {
            let (a, b) = (col("a", &schema).unwrap(), col("b", &schema).unwrap());
            let quotient = binary(a, Operator::Divide, b, &schema).unwrap();
            binary(quotient, Operator::Gt, lit(2i64), &schema).unwrap()
        };
        let all = conjuncts.iter().map(compare).chain(guarded.then(quotient));
        RowFilter::new(all, &schema, |_| None).unwrap()
    }

    fn rows(passing: Passing) -> Vec<Option<i64>> {
        match passing {
            Passing::None => Vec::new(),
            some => {
                let batch = some.into_batch().unwrap();
                let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
                column.iter().collect()
            }
        }
    }

    #[test]
    fn bits_of_comparisons_are_combined_and_null_does_not_pass() {
        let filter = filter(&[("a", Operator::Gt, 1), ("b", Operator::Lt, 3)], false);
        assert_eq!((filter.total.len(), filter.partial.len()), (2, 0));
        assert_eq!(rows(filter.passing(batch(), &mut Answers::default()).unwrap()), [Some(4), Some(6)]);
    }

    #[test]
    fn texts_are_compared_in_the_rows_that_are_left() {
        let rows = 0..1000i64;
        let numbers: ArrayRef =
            Arc::new(Int64Array::from_iter(rows.clone().map(|row| (row % 7 != 0).then_some(row % 10))));
        let texts: ArrayRef =
            Arc::new(StringViewArray::from_iter(rows.map(|row| {
                (row % 5 != 0).then(|| format!("a text of more than twelve letters {}", row % 3))
            })));
        let batch = RecordBatch::try_from_iter([("a", numbers), ("t", texts)]).unwrap();
        let schema = batch.schema();
        for below in [0i64, 2, 8, 10] {
            let of_text = |text: &str| {
                let text = ScalarValue::Utf8View(Some(format!("a text of more than twelve letters {text}")));
                binary(col("t", &schema).unwrap(), Operator::NotEq, lit(text), &schema).unwrap()
            };
            let number = binary(col("a", &schema).unwrap(), Operator::Lt, lit(below), &schema).unwrap();
            let conjuncts = [of_text("0"), number, of_text("1")];
            let filter = RowFilter::new(conjuncts.iter().cloned(), &schema, |_| None).unwrap();
            assert_eq!(
                filter.total.iter().map(Condition::is_over_texts).collect::<Vec<_>>(),
                [false, true, true]
            );
            let one_by_one =
                RowFilter { total: Vec::new(), partial: conjuncts.into(), schema: schema.clone() };
            let found = filter.passing(batch.clone(), &mut Answers::default()).unwrap();
            let expected = one_by_one.passing(batch.clone(), &mut Answers::default()).unwrap();
            match (found, expected) {
                (Passing::None, Passing::None) => assert_eq!(below, 0),
                (found, expected) => {
                    assert!(below > 0);
                    assert_eq!(found.into_batch().unwrap(), expected.into_batch().unwrap());
                }
            }
        }
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("n", DataType::Decimal64(9, 2), true),
            Field::new("d", DataType::Date32, true),
            Field::new("t", DataType::Utf8View, true),
            Field::new("u", DataType::Utf8View, true),
        ]))
    }

    /// Numbers in so many bits, and the same numbers in the type that `wide` returns.
    fn numbers(
        rng: &mut Rng,
        rows: usize,
        wide: impl Fn(Vec<Option<i64>>) -> ArrayRef,
    ) -> (ArrayRef, ArrayRef) {
        let bits = [8, 16, 32][rng.usize(..3)];
        let range = if rng.bool() { -9..9 } else { -(1 << (bits - 1))..1 << (bits - 1) };
        let values: Vec<Option<i64>> =
            (0..rows).map(|_| (rng.u8(..6) > 0).then(|| rng.i64(range.clone()))).collect();
        let of = values.iter();
        let packed: ArrayRef = match bits {
            8 => Arc::new(of.map(|value| value.map(|value| value as i8)).collect::<Int8Array>()),
            16 => Arc::new(of.map(|value| value.map(|value| value as i16)).collect::<Int16Array>()),
            _ => Arc::new(of.map(|value| value.map(|value| value as i32)).collect::<Int32Array>()),
        };
        let wide = wide(values);
        // Unpacked, as where no fewer bits hold a slice.
        (if rng.u8(..4) == 0 { Arc::clone(&wide) } else { packed }, wide)
    }

    /// Strings as keys into a dictionary, and unpacked.
    fn strings(rng: &mut Rng, rows: usize, dictionary: &ArrayRef) -> (ArrayRef, ArrayRef) {
        let keys: Vec<Option<i32>> =
            (0..rows).map(|_| (rng.u8(..5) > 0).then(|| rng.i32(0..dictionary.len() as i32))).collect();
        let keyed: ArrayRef = match dictionary.len() {
            ..=100 => {
                let keys: Int8Array = keys.iter().map(|key| key.map(|key| key as i8)).collect();
                Arc::new(DictionaryArray::new(keys, Arc::clone(dictionary)))
            }
            _ => Arc::new(DictionaryArray::new(Int32Array::from(keys), Arc::clone(dictionary))),
        };
        let plain = coscan_engine::unpacked(&keyed, &DataType::Utf8View).unwrap();
        (if rng.u8(..4) == 0 { Arc::clone(&plain) } else { keyed }, plain)
    }

    /// Rows with packed columns, and the same unpacked.
    fn both(rng: &mut Rng, dictionary: &ArrayRef) -> (RecordBatch, RecordBatch) {
        let rows = rng.usize(1..100);
        let columns = [
            numbers(rng, rows, |values| Arc::new(Int64Array::from(values))),
            numbers(rng, rows, |values| {
                let decimals = Decimal64Array::from(values).with_precision_and_scale(9, 2);
                Arc::new(decimals.unwrap())
            }),
            numbers(rng, rows, |values| {
                Arc::new(values.iter().map(|value| value.map(|value| value as i32)).collect::<Date32Array>())
            }),
            strings(rng, rows, dictionary),
            strings(rng, rows, dictionary),
        ];
        let (packed, plain): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        (packed_batch(&schema(), packed, rows).unwrap(), RecordBatch::try_new(schema(), plain).unwrap())
    }

    const COMPARISONS: [Operator; 8] = [
        Operator::Eq,
        Operator::NotEq,
        Operator::Lt,
        Operator::LtEq,
        Operator::Gt,
        Operator::GtEq,
        Operator::IsDistinctFrom,
        Operator::IsNotDistinctFrom,
    ];

    fn over_number(rng: &mut Rng) -> Arc<dyn PhysicalExpr> {
        let schema = schema();
        let constant = match rng.u8(..4) {
            0 => rng.i32(-9..9),
            1 => [-129, -128, 127, 128, -32769, -32768, 32767, 32768][rng.usize(..8)],
            2 => rng.i32(..),
            _ => rng.i32(-300..300),
        };
        let some = (rng.u8(..9) > 0).then_some(constant);
        let (name, constant) = match rng.u8(..3) {
            0 => ("a", ScalarValue::Int64(some.map(i64::from))),
            1 => ("n", ScalarValue::Decimal64(some.map(i64::from), 9, 2)),
            _ => ("d", ScalarValue::Date32(some)),
        };
        let column = col(name, &schema).unwrap();
        match rng.u8(..8) {
            0 => is_null(column).unwrap(),
            1 => in_list(column, vec![lit(constant)], &rng.bool(), &schema).unwrap(),
            at => {
                let op = COMPARISONS[rng.usize(..COMPARISONS.len())];
                let (left, right) =
                    if at % 2 == 0 { (column, lit(constant)) } else { (lit(constant), column) };
                binary(left, op, right, &schema).unwrap()
            }
        }
    }

    fn over_text(rng: &mut Rng) -> Arc<dyn PhysicalExpr> {
        let schema = schema();
        let text = |n: u8| ScalarValue::Utf8View(Some(format!("text {n} and more of it")));
        let column = col(["t", "u"][rng.usize(..2)], &schema).unwrap();
        match rng.u8(..6) {
            0 => binary(column, Operator::Eq, lit(text(rng.u8(..30))), &schema).unwrap(),
            1 => binary(column, Operator::Lt, lit(text(rng.u8(..30))), &schema).unwrap(),
            2 => is_null(column).unwrap(),
            3 => {
                let pattern = ScalarValue::Utf8View(Some(format!("%{}%of%", rng.u8(..10))));
                like(rng.bool(), false, column, lit(pattern), &schema).unwrap()
            }
            4 => in_list(column, vec![lit(text(1)), lit(text(rng.u8(..30)))], &rng.bool(), &schema).unwrap(),
            // It may fail, as far as is known.
            _ => {
                let length = cast(column, &schema, DataType::Utf8).unwrap();
                let least = lit(ScalarValue::Utf8(Some("text 2".into())));
                binary(length, Operator::GtEq, least, &schema).unwrap()
            }
        }
    }

    fn conjunct(rng: &mut Rng, depth: usize) -> Arc<dyn PhysicalExpr> {
        match rng.u8(..6) {
            0 | 1 => over_number(rng),
            2 | 3 => over_text(rng),
            _ if depth == 0 => over_text(rng),
            at => {
                let op = if at == 4 { Operator::And } else { Operator::Or };
                let (left, right) = (conjunct(rng, depth - 1), conjunct(rng, depth - 1));
                binary(left, op, right, &schema()).unwrap()
            }
        }
    }

    #[test]
    fn rows_of_packed_columns_pass_where_they_pass_unpacked_and_conjuncts_as_a_whole() {
        let mut rng = Rng::with_seed(3);
        let schema = schema();
        let (mut passed, mut asked, mut apart) = (0, 0, 0);
        for _ in 0..3000 {
            let conjuncts: Vec<_> = (0..rng.usize(1..4)).map(|_| conjunct(&mut rng, 3)).collect();
            let filter = RowFilter::new(conjuncts.iter().cloned(), &schema, |_| None).unwrap();
            let whole = RowFilter { total: Vec::new(), partial: conjuncts, schema: Arc::clone(&schema) };
            apart +=
                filter.total.iter().filter(|of| matches!(of, Condition::All(_) | Condition::Any(_))).count();
            let mut answers = Answers::default();
            for _ in 0..2 {
                let different = [1, 10, 300][rng.usize(..3)];
                let dictionary: ArrayRef = Arc::new(StringViewArray::from_iter_values(
                    (0..different).map(|n| format!("text {} and more of it", n % 31)),
                ));
                for _ in 0..4 {
                    let (packed, plain) = both(&mut rng, &dictionary);
                    let found = filter.passing(packed, &mut answers).unwrap();
                    let expected = whole.passing(plain, &mut Answers::default()).unwrap();
                    let rows_of = |passing| match passing {
                        Passing::None => RecordBatch::new_empty(Arc::clone(&schema)),
                        some => unpacked_batch(some.into_batch().unwrap(), &schema).unwrap(),
                    };
                    let (found, expected) = (rows_of(found), rows_of(expected));
                    assert_eq!(found, expected, "{filter:?}");
                    passed += found.num_rows();
                }
            }
            asked += answers.asked();
        }
        assert!(
            passed > 50_000 && asked > 1_000,
            "{passed} rows passed, {asked} dictionaries were asked about"
        );
        assert!(apart > 500, "{apart} conjuncts were taken apart");
    }

    #[test]
    fn all_and_none_are_told_apart() {
        let all =
            filter(&[("b", Operator::GtEq, 0)], false).passing(batch(), &mut Answers::default()).unwrap();
        assert!(matches!(all, Passing::All(batch) if batch.num_rows() == 5));
        let none = filter(&[("a", Operator::Gt, 5), ("b", Operator::Eq, 0)], false)
            .passing(batch(), &mut Answers::default())
            .unwrap();
        assert!(matches!(none, Passing::None));
    }

    #[test]
    fn a_guard_keeps_rows_from_what_would_fail() {
        let filter = filter(&[("b", Operator::NotEq, 0)], true);
        assert_eq!((filter.total.len(), filter.partial.len()), (1, 1));
        assert_eq!(rows(filter.passing(batch(), &mut Answers::default()).unwrap()), [Some(9), Some(6)]);
        // Without the guard the division by zero fails.
        assert!(self::filter(&[], true).passing(batch(), &mut Answers::default()).is_err());
    }
}
