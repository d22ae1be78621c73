//! Conditions that cannot fail, evaluated on the rows of a slice.
//!
//! A row passes a condition that is true for it, and truth distributes over AND and OR: `a OR b` is true
//! where `a` or `b` is. So a condition over strings is split into parts over one column each, which the
//! column's dictionary can answer. Comparisons of integers with constants are ranges (`ranges.rs`).

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use coscan_operators::{Found, Part, searched_likes};
use datafusion::arrow::array::{Array, BooleanArray, BooleanBufferBuilder, RecordBatch};
use datafusion::arrow::buffer::{BooleanBuffer, MutableBuffer};
use datafusion::arrow::compute::{filter_record_batch, prep_null_mask_filter};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::util::bit_util::set_bit;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::file::dictionaries::{Answers, keyed};
use crate::file::packed::unpacked_batch;
use crate::file::ranges::IntegerRange;
use crate::file::shared_answers::Conjunct;
use crate::interrupt::in_parts;

/// A condition on rows of the scan's batches.
#[derive(Debug)]
pub(crate) enum Condition {
    Integers(OverIntegers),
    Numbers(OwnColumns),
    Texts(OverTexts),
    All(Vec<Condition>),
    Any(Vec<Condition>),
}

/// A range condition on a column of integers.
#[derive(Debug)]
pub(crate) struct OverIntegers {
    column: usize,
    range: IntegerRange,
}

/// A condition over strings and other values of variable length.
#[derive(Debug)]
pub(crate) struct OverTexts {
    part: OwnColumns,
    /// Its number among the text conditions of the filter.
    number: usize,
    /// Its share in the answers of concurrent queries, if any.
    shared: Option<Part<Conjunct>>,
}

/// A condition over its own columns only. If all of these are of fixed length, testing a row costs less than
/// leaving it out.
#[derive(Debug)]
pub(crate) struct OwnColumns {
    condition: Arc<dyn PhysicalExpr>,
    /// The positions of these columns in a batch. `schema` has their requested types.
    columns: Vec<usize>,
    schema: SchemaRef,
}

/// Builds the conditions of a filter.
pub(crate) struct Conditions<'a, F> {
    /// The requested schema of batches.
    pub(crate) batch_schema: &'a SchemaRef,
    /// Returns the share of a condition over a file in the answers of concurrent queries.
    pub(crate) shared: F,
    /// The number of text conditions so far.
    pub(crate) texts: usize,
}

impl<F> Conditions<'_, F>
where
    F: Fn(&Arc<dyn PhysicalExpr>) -> Option<Part<Conjunct>>,
{
    /// Builds a condition over a file. `of` must not be able to fail.
    pub(crate) fn condition(&mut self, of: &Arc<dyn PhysicalExpr>) -> Result<Condition> {
        let over_batch = reassign_expr_columns(Arc::clone(of), self.batch_schema)?;
        let columns = columns_of(&over_batch);
        let fixed = |&at: &usize| self.batch_schema.field(at).data_type().primitive_width().is_some();
        if columns.iter().all(fixed) {
            if columns.len() == 1
                && let Some(&column) = columns.first()
                && let Some(range) =
                    IntegerRange::of(over_batch.as_ref(), self.batch_schema.field(column).data_type())
            {
                return Ok(Condition::Integers(OverIntegers { column, range }));
            }
            return Ok(Condition::Numbers(OwnColumns::new(over_batch, columns, self.batch_schema)?));
        }
        if columns.len() > 1
            && let Some(binary) = of.downcast_ref::<BinaryExpr>()
            && matches!(binary.op(), Operator::And | Operator::Or)
        {
            let mut parts = Vec::new();
            by_columns(of, *binary.op(), &mut parts);
            if parts.len() > 1 {
                let parts = parts.iter().map(|(_, part)| self.condition(part));
                let mut parts = parts.collect::<Result<Vec<_>>>()?;
                parts.sort_by_key(Condition::is_over_texts);
                return Ok(match binary.op() {
                    Operator::And => Condition::All(parts),
                    _ => Condition::Any(parts),
                });
            }
        }
        let part = OwnColumns::new(searched_likes(over_batch)?, columns, self.batch_schema)?;
        let number = self.texts;
        self.texts += 1;
        Ok(Condition::Texts(OverTexts { part, number, shared: (self.shared)(of) }))
    }
}

fn columns_of(condition: &Arc<dyn PhysicalExpr>) -> BTreeSet<usize> {
    collect_columns(condition).iter().map(Column::index).collect()
}

/// Collects the operands of a chain of this operator. Operands over the same columns become one.
fn by_columns(
    of: &Arc<dyn PhysicalExpr>,
    op: Operator,
    parts: &mut Vec<(BTreeSet<usize>, Arc<dyn PhysicalExpr>)>,
) {
    if let Some(binary) = of.downcast_ref::<BinaryExpr>()
        && *binary.op() == op
    {
        by_columns(binary.left(), op, parts);
        by_columns(binary.right(), op, parts);
        return;
    }
    let columns = columns_of(of);
    match parts.iter_mut().find(|(known, _)| *known == columns) {
        Some((_, part)) => *part = Arc::new(BinaryExpr::new(Arc::clone(part), op, Arc::clone(of))),
        None => parts.push((columns, Arc::clone(of))),
    }
}

impl Condition {
    /// Adds the condition to a conjunction. Two ranges of one column are merged if their intersection is a
    /// range.
    pub(crate) fn add_to(self, all: &mut Vec<Condition>) {
        if let Condition::Integers(new) = &self {
            for known in &mut *all {
                if let Condition::Integers(known) = known
                    && known.column == new.column
                    && let Some(both) = known.range.and(new.range)
                {
                    known.range = both;
                    return;
                }
            }
        }
        all.push(self);
    }

    /// Returns whether the condition, or a part of it, is over values of variable length.
    pub(crate) fn is_over_texts(&self) -> bool {
        match self {
            Condition::Integers(_) | Condition::Numbers(_) => false,
            Condition::Texts(_) => true,
            Condition::All(parts) | Condition::Any(parts) => parts.iter().any(Condition::is_over_texts),
        }
    }

    /// Returns the rows of `bits`, or of all, for which it is true.
    pub(crate) fn matches(
        &self,
        batch: &RecordBatch,
        bits: Option<&BooleanBuffer>,
        answers: &mut Answers,
    ) -> Result<BooleanBuffer> {
        match self {
            Condition::Integers(OverIntegers { column, range }) => {
                let integers = batch.column(*column);
                let Some(matches) = range.matches(integers) else {
                    return internal_err!("a range of integers over a column of {}", integers.data_type());
                };
                Ok(within(&matches, bits))
            }
            Condition::Numbers(numbers) => {
                Ok(within(&numbers.matches(batch.project(&numbers.columns)?)?, bits))
            }
            Condition::Texts(texts) => texts.matches(batch, bits, answers),
            Condition::All(parts) => all_match(parts, batch, bits, answers),
            Condition::Any(parts) => {
                let mut found = BooleanBuffer::new_unset(batch.num_rows());
                let mut others = bits.cloned();
                for part in parts {
                    let matches = part.matches(batch, others.as_ref(), answers)?;
                    found = &found | &matches;
                    let left = within(&!&matches, others.as_ref());
                    if !left.has_true() {
                        break;
                    }
                    others = Some(left);
                }
                Ok(found)
            }
        }
    }
}

/// Returns the rows of `bits`, or of all, for which all conditions are true. Each condition is evaluated for
/// the rows that the earlier ones left.
pub(crate) fn all_match(
    conditions: &[Condition],
    batch: &RecordBatch,
    bits: Option<&BooleanBuffer>,
    answers: &mut Answers,
) -> Result<BooleanBuffer> {
    let mut left = bits.cloned();
    for condition in conditions {
        let matches = condition.matches(batch, left.as_ref(), answers)?;
        let is_none_left = !matches.has_true();
        left = Some(matches);
        if is_none_left {
            break;
        }
    }
    Ok(left.unwrap_or_else(|| BooleanBuffer::new_set(batch.num_rows())))
}

impl OwnColumns {
    fn new(
        condition: Arc<dyn PhysicalExpr>,
        columns: BTreeSet<usize>,
        batch_schema: &SchemaRef,
    ) -> Result<Self> {
        let columns = Vec::from_iter(columns);
        let schema = Arc::new(batch_schema.project(&columns)?);
        let condition = reassign_expr_columns(condition, &schema)?;
        Ok(OwnColumns { condition, columns, schema })
    }

    /// Returns the rows of a batch of its columns for which it is true.
    fn matches(&self, columns: RecordBatch) -> Result<BooleanBuffer> {
        is_true(&self.condition, &unpacked_batch(columns, &self.schema)?)
    }
}

impl OverTexts {
    /// Returns the rows of `bits`, or of all, for which it is true. The answer comes from the column's
    /// dictionary, from another query, or from an evaluation.
    fn matches(
        &self,
        batch: &RecordBatch,
        bits: Option<&BooleanBuffer>,
        answers: &mut Answers,
    ) -> Result<BooleanBuffer> {
        let texts = batch.project(&self.part.columns)?;
        let rows = bits.map_or(texts.num_rows(), BooleanBuffer::count_set_bits);
        if let [text] = texts.columns()
            && let Some(text) = keyed(text, &self.part.schema)
            && let Some(matches) =
                answers.of(self.number, &self.part.condition, text, &self.part.schema, rows)?
        {
            return Ok(within(&matches, bits));
        }
        let most = rows * 2 > texts.num_rows();
        let found = match (&self.shared, answers.slice) {
            (Some(part), Some(slice)) => part.find(slice, most),
            _ => Found::Nothing,
        };
        if let Found::State(matches) = found {
            return Ok(within(&matches, bits));
        }
        let Some(bits) = bits.filter(|_| !most) else {
            let matches = self.part.matches(texts)?;
            if let Found::Wanted(claim) = found {
                claim.made(matches.clone());
            }
            return Ok(within(&matches, bits));
        };
        let left = filter_record_batch(&texts, &BooleanArray::new(bits.clone(), None))?;
        Ok(spread(bits, &self.part.matches(left)?))
    }
}

/// Restricts `matches` to `bits`, if given.
fn within(matches: &BooleanBuffer, bits: Option<&BooleanBuffer>) -> BooleanBuffer {
    bits.map_or_else(|| matches.clone(), |bits| bits & matches)
}

/// Keeps the set bits of `bits` whose rank among the set bits is in `left`.
pub(crate) fn spread(bits: &BooleanBuffer, left: &BooleanBuffer) -> BooleanBuffer {
    let mut spread = MutableBuffer::from_len_zeroed(bits.len().div_ceil(8));
    for (place, at) in bits.set_indices().enumerate() {
        if left.value(place) {
            set_bit(spread.as_slice_mut(), at);
        }
    }
    BooleanBuffer::new(spread.into(), 0, bits.len())
}

/// Returns the rows for which a condition is true, neither false nor null. A condition that may be slow is evaluated in
/// parts, so that it can be interrupted.
pub(crate) fn is_true(condition: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanBuffer> {
    if !may_be_slow(condition) {
        return is_true_at_once(condition, batch);
    }
    let mut bits = BooleanBufferBuilder::new(batch.num_rows());
    let part = |rows: Range<usize>| is_true_at_once(condition, &batch.slice(rows.start, rows.len()));
    in_parts(batch.num_rows(), part)?.iter().for_each(|part| bits.append_buffer(part));
    Ok(bits.finish())
}

fn is_true_at_once(condition: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanBuffer> {
    let matches = condition.evaluate(batch)?.into_array(batch.num_rows())?;
    Ok(without_nulls(as_boolean_array(&matches)?))
}

/// Returns whether the time for a value may grow faster than its length: regular expressions and functions.
fn may_be_slow(condition: &Arc<dyn PhysicalExpr>) -> bool {
    let is_slow = |expr: &Arc<dyn PhysicalExpr>| {
        let is_pattern = |op: &Operator| {
            use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
            matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch)
        };
        Ok(expr.downcast_ref::<BinaryExpr>().is_some_and(|binary| is_pattern(binary.op()))
            || expr.downcast_ref::<ScalarFunctionExpr>().is_some())
    };
    condition.exists(is_slow).unwrap_or(true)
}

fn without_nulls(matches: &BooleanArray) -> BooleanBuffer {
    match matches.nulls() {
        Some(_) => prep_null_mask_filter(matches).values().clone(),
        None => matches.values().clone(),
    }
}
