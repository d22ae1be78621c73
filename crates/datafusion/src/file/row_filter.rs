//! Filters that the scan has promised to apply: every row is evaluated.
//!
//! Conjuncts that cannot fail, comparisons of a column with a constant and the like, are evaluated on all rows of
//! a slice and their bits combined: no row is copied for them. Those over texts and other values of variable length come
//! last, and read only the rows that are left if these are few. The conjuncts that may fail follow one after the other, each
//! on the rows the earlier ones left, so that a conjunct that guards the next (`b <> 0 AND a / b > 1`) still does.

use std::collections::BTreeSet;
use std::sync::Arc;

use coscan_operators::{Found, Part, searched_likes};
use datafusion::arrow::array::{Array, BooleanArray, RecordBatch};
use datafusion::arrow::buffer::{BooleanBuffer, MutableBuffer};
use datafusion::arrow::compute::{filter_record_batch, prep_null_mask_filter};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::util::bit_util::set_bit;
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use crate::file::dictionaries::{Answers, packed, without_dictionaries};
use crate::file::shared_answers::Conjunct;
use crate::rule::eligibility::cannot_fail;

/// The conjuncts of a filter in terms of the scan's batches.
#[derive(Debug)]
pub(crate) struct RowFilter {
    /// Those that cannot fail, over values of fixed length.
    total: Vec<Arc<dyn PhysicalExpr>>,
    /// Those that cannot fail, over others too.
    total_over_texts: Vec<OverTexts>,
    /// Those that may, in their order.
    partial: Vec<Arc<dyn PhysicalExpr>>,
    /// What batches are asked to be.
    schema: SchemaRef,
}

/// A conjunct that costs more a row than it costs to leave rows out.
#[derive(Debug)]
struct OverTexts {
    /// In terms of its own columns.
    conjunct: Arc<dyn PhysicalExpr>,
    /// The positions of these in a batch, and what they are asked to be.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// What it has in common with those of other queries, if anything.
    shared: Option<Part<Conjunct>>,
}

/// The rows of a batch that pass.
pub(crate) enum Passing {
    /// All of this batch.
    All(RecordBatch),
    /// Those of this batch whose bit is set; at least one is and at least one is not.
    Some(RecordBatch, BooleanBuffer),
    /// None.
    None,
}

impl RowFilter {
    /// Of these conjuncts over a file, in this order. `shared`: what each has in common with those of other queries.
    pub(crate) fn new(
        conjuncts: impl Iterator<Item = Arc<dyn PhysicalExpr>>,
        batch_schema: &SchemaRef,
        shared: impl Fn(&Arc<dyn PhysicalExpr>) -> Option<Part<Conjunct>>,
    ) -> Result<Self> {
        let over_batch =
            |of: Arc<dyn PhysicalExpr>| Ok((reassign_expr_columns(Arc::clone(&of), batch_schema)?, of));
        let conjuncts: Vec<_> = conjuncts.map(over_batch).collect::<Result<_>>()?;
        let (total, partial): (Vec<_>, Vec<_>) =
            conjuncts.into_iter().partition(|(conjunct, _)| cannot_fail(conjunct, batch_schema));
        let partial =
            partial.into_iter().map(|(conjunct, _)| searched_likes(conjunct)).collect::<Result<_>>()?;
        let schema = Arc::clone(batch_schema);
        let mut filter = RowFilter { total: Vec::new(), total_over_texts: Vec::new(), partial, schema };
        for (conjunct, of) in total {
            let conjunct = searched_likes(conjunct)?;
            let columns: BTreeSet<usize> =
                collect_columns(&conjunct).iter().map(|column| column.index()).collect();
            let fixed = |&at: &usize| batch_schema.field(at).data_type().primitive_width().is_some();
            if columns.iter().all(fixed) {
                filter.total.push(conjunct);
            } else {
                let columns = Vec::from_iter(columns);
                let schema = Arc::new(batch_schema.project(&columns)?);
                let conjunct = reassign_expr_columns(conjunct, &schema)?;
                filter.total_over_texts.push(OverTexts { conjunct, columns, schema, shared: shared(&of) });
            }
        }
        Ok(filter)
    }

    /// The rows of `batch` that pass. Strings may come as dictionaries, of which `answers` are known.
    pub(crate) fn passing(&self, batch: RecordBatch, answers: &mut Answers) -> Result<Passing> {
        let mut bits: Option<BooleanBuffer> = None;
        for conjunct in &self.total {
            let matches = matches(conjunct, &batch)?;
            bits = Some(match bits {
                Some(bits) => &bits & matches.values(),
                None => matches.values().clone(),
            });
            if bits.as_ref().is_some_and(|bits| !bits.has_true()) {
                return Ok(Passing::None);
            }
        }
        for (number, conjunct) in self.total_over_texts.iter().enumerate() {
            let matches = conjunct.matches(&batch, bits.as_ref(), number, answers)?;
            if !matches.has_true() {
                return Ok(Passing::None);
            }
            bits = Some(matches);
        }
        let passing = Passing::of(batch, bits);
        if self.partial.is_empty() { Ok(passing) } else { self.narrow_down(passing) }
    }

    fn narrow_down(&self, passing: Passing) -> Result<Passing> {
        if matches!(passing, Passing::None) {
            return Ok(passing);
        }
        let mut batch = without_dictionaries(passing.into_batch()?, &self.schema)?;
        for conjunct in &self.partial {
            if batch.num_rows() == 0 {
                return Ok(Passing::None);
            }
            let matches = matches(conjunct, &batch)?;
            if matches.true_count() < batch.num_rows() {
                batch = filter_record_batch(&batch, &matches)?;
            }
        }
        Ok(if batch.num_rows() == 0 { Passing::None } else { Passing::All(batch) })
    }
}

impl OverTexts {
    /// The rows of `bits`, or of all, for which the conjunct with this number is true: as its answers about a dictionary say, or
    /// what others found, or what is found now.
    fn matches(
        &self,
        batch: &RecordBatch,
        bits: Option<&BooleanBuffer>,
        number: usize,
        answers: &mut Answers,
    ) -> Result<BooleanBuffer> {
        let texts = batch.project(&self.columns)?;
        let rows = bits.map_or(texts.num_rows(), BooleanBuffer::count_set_bits);
        let within = |matches: &BooleanBuffer| bits.map_or_else(|| matches.clone(), |bits| bits & matches);
        if let [text] = texts.columns()
            && let Some(text) = packed(text, &self.schema)
            && let Some(matches) = answers.of(number, &self.conjunct, text, &self.schema, rows)?
        {
            return Ok(within(&matches));
        }
        let most = rows * 2 > texts.num_rows();
        let found = match (&self.shared, answers.slice) {
            (Some(part), Some(slice)) => part.find(slice, most),
            _ => Found::Nothing,
        };
        if let Found::State(matches) = found {
            return Ok(within(&matches));
        }
        let plain = |texts| without_dictionaries(texts, &self.schema);
        let Some(bits) = bits.filter(|_| !most) else {
            let matches = matches(&self.conjunct, &plain(texts)?)?.values().clone();
            if let Found::Wanted(claim) = found {
                claim.made(matches.clone());
            }
            return Ok(within(&matches));
        };
        let left = filter_record_batch(&texts, &BooleanArray::new(bits.clone(), None))?;
        let matches = matches(&self.conjunct, &plain(left)?)?;
        Ok(spread(bits, matches.values()))
    }
}

impl Passing {
    /// Those of `batch` in `bits`; without bits all.
    pub(crate) fn of(batch: RecordBatch, bits: Option<BooleanBuffer>) -> Self {
        match bits {
            Some(bits) if !bits.has_true() => Passing::None,
            Some(bits) if bits.has_false() => Passing::Some(batch, bits),
            _ => Passing::All(batch),
        }
    }

    /// The rows themselves.
    pub(crate) fn into_batch(self) -> Result<RecordBatch> {
        match self {
            Passing::All(batch) => Ok(batch),
            Passing::Some(batch, bits) => Ok(filter_record_batch(&batch, &BooleanArray::new(bits, None))?),
            Passing::None => Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))),
        }
    }
}

/// `bits` without those set bits whose place among the set ones is not in `left`.
pub(crate) fn spread(bits: &BooleanBuffer, left: &BooleanBuffer) -> BooleanBuffer {
    let mut spread = MutableBuffer::from_len_zeroed(bits.len().div_ceil(8));
    for (place, at) in bits.set_indices().enumerate() {
        if left.value(place) {
            set_bit(spread.as_slice_mut(), at);
        }
    }
    BooleanBuffer::new(spread.into(), 0, bits.len())
}

/// For which rows a conjunct is true: neither false nor null.
pub(crate) fn matches(conjunct: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray> {
    let matches = conjunct.evaluate(batch)?.into_array(batch.num_rows())?;
    let matches = as_boolean_array(&matches)?;
    Ok(match matches.nulls() {
        Some(_) => prep_null_mask_filter(matches),
        None => matches.clone(),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::{DataType, Field};
    use datafusion::common::ScalarValue;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{binary, cast, col, in_list, is_null, like, lit};
    use fastrand::Rng;

    use super::*;

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
            assert_eq!((filter.total.len(), filter.total_over_texts.len()), (1, 2));
            let one_by_one = RowFilter {
                total: Vec::new(),
                total_over_texts: Vec::new(),
                partial: conjuncts.into(),
                schema: schema.clone(),
            };
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

    /// A column of texts as keys into a dictionary, one of numbers, and both with the texts as they are.
    fn texts(rng: &mut Rng, dictionary: &ArrayRef, rows: usize) -> (RecordBatch, RecordBatch) {
        let keys: Int32Array =
            (0..rows).map(|_| (rng.u8(..5) > 0).then(|| rng.i32(0..dictionary.len() as i32))).collect();
        let keyed: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::clone(dictionary)));
        let plain = coscan_engine::unpacked(&keyed).unwrap();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|_| rng.i64(0..10))));
        let batch = |texts| {
            RecordBatch::try_from_iter_with_nullable([("a", Arc::clone(&numbers), true), ("t", texts, true)])
        };
        (batch(keyed).unwrap(), batch(plain).unwrap())
    }

    #[test]
    fn texts_of_a_dictionary_pass_where_they_pass_without() {
        let mut rng = Rng::with_seed(3);
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("t", DataType::Utf8View, true),
        ]));
        let text = |n: u8| ScalarValue::Utf8View(Some(format!("text {n} and more of it")));
        let column = || col("t", &schema).unwrap();
        let conjunct = |rng: &mut Rng| match rng.u8(..7) {
            0 => binary(column(), Operator::Eq, lit(text(rng.u8(..30))), &schema).unwrap(),
            1 => binary(column(), Operator::Lt, lit(text(rng.u8(..30))), &schema).unwrap(),
            2 => is_null(column()).unwrap(),
            3 => like(
                rng.bool(),
                false,
                column(),
                lit(ScalarValue::Utf8View(Some(format!("%{}%of%", rng.u8(..10))))),
                &schema,
            )
            .unwrap(),
            4 => {
                in_list(column(), vec![lit(text(1)), lit(text(rng.u8(..30)))], &rng.bool(), &schema).unwrap()
            }
            5 => binary(col("a", &schema).unwrap(), Operator::Lt, lit(rng.i64(0..12)), &schema).unwrap(),
            // It may fail, as far as is known.
            _ => {
                let length = cast(column(), &schema, DataType::Utf8).unwrap();
                binary(length, Operator::GtEq, lit(ScalarValue::Utf8(Some("text 2".into()))), &schema)
                    .unwrap()
            }
        };
        let (mut passed, mut asked) = (0, 0);
        for _ in 0..400 {
            let conjuncts: Vec<_> = (0..rng.usize(1..4)).map(|_| conjunct(&mut rng)).collect();
            let filter = RowFilter::new(conjuncts.into_iter(), &schema, |_| None).unwrap();
            let mut answers = Answers::default();
            for _ in 0..2 {
                let different = [1, 10, 300][rng.usize(..3)];
                let dictionary: ArrayRef = Arc::new(StringViewArray::from_iter_values(
                    (0..different).map(|n| format!("text {} and more of it", n % 31)),
                ));
                for _ in 0..4 {
                    let rows = rng.usize(1..100);
                    let (keyed, plain) = texts(&mut rng, &dictionary, rows);
                    let found = filter.passing(keyed, &mut answers).unwrap();
                    let expected = filter.passing(plain, &mut Answers::default()).unwrap();
                    let rows_of = |passing| match passing {
                        Passing::None => RecordBatch::new_empty(Arc::clone(&schema)),
                        some => without_dictionaries(some.into_batch().unwrap(), &schema).unwrap(),
                    };
                    let (found, expected) = (rows_of(found), rows_of(expected));
                    assert_eq!(found, expected, "{filter:?}");
                    passed += found.num_rows();
                }
            }
            asked += answers.asked();
        }
        assert!(passed > 5_000 && asked > 200, "{passed} rows passed, {asked} dictionaries were asked about");
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
        // Without the guard the division by zero is met.
        assert!(self::filter(&[], true).passing(batch(), &mut Answers::default()).is_err());
    }
}
