//! LIKE with a pattern of several pieces of text, without a regular expression.
//!
//! Arrow makes a regular expression of such a pattern for each batch, and builds its automaton as the texts
//! need it. This module searches the pieces one after the other.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayAccessor, AsArray, BooleanArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{LikeExpr, Literal};
use memchr::memmem::Finder;

/// Replaces every LIKE that has two or more pieces of text, separated by `%`, by a search for the pieces.
/// Patterns with `_` or `\`, and comparisons without regard to case, stay as they are.
///
/// # Errors
///
/// Only errors of the expression itself.
pub fn searched_likes(expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    expr.transform_up(|expr| {
        Ok(match Search::instead_of(&expr) {
            Some(search) => Transformed::yes(Arc::new(search)),
            None => Transformed::no(expr),
        })
    })
    .data()
}

/// The replacement of a [`LikeExpr`].
#[derive(Debug)]
struct Search {
    original: Arc<dyn PhysicalExpr>,
    text: Arc<dyn PhysicalExpr>,
    negated: bool,
    pieces: Pieces,
}

/// The pieces that a text must have. Any text may be between them.
#[derive(Debug)]
struct Pieces {
    /// The begin of the text.
    first: Vec<u8>,
    middle: Vec<Finder<'static>>,
    /// The end of the text.
    last: Vec<u8>,
}

impl Search {
    fn instead_of(expr: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let like = expr.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive())?;
        let pattern = like.pattern().downcast_ref::<Literal>()?.value().try_as_str()??;
        Some(Search {
            original: Arc::clone(expr),
            text: Arc::clone(like.expr()),
            negated: like.negated(),
            pieces: Pieces::of(pattern)?,
        })
    }

    fn matches<'a>(&self, texts: impl ArrayAccessor<Item = &'a str>) -> BooleanArray {
        let matches =
            |at| texts.is_valid(at) && self.pieces.are_in(texts.value(at).as_bytes()) != self.negated;
        BooleanArray::new(BooleanBuffer::collect_bool(texts.len(), matches), texts.nulls().cloned())
    }
}

impl Pieces {
    /// The pieces of a pattern; `None` if Arrow needs no regular expression for it, or if it has other
    /// elements than pieces.
    fn of(pattern: &str) -> Option<Self> {
        if pattern.contains(['_', '\\']) {
            return None;
        }
        let mut pieces = pattern.split('%').map(str::as_bytes);
        let (first, last) = (pieces.next()?, pieces.next_back()?);
        let middle: Vec<_> = pieces.filter(|piece| !piece.is_empty()).collect();
        let texts = middle.len() + [first, last].iter().filter(|piece| !piece.is_empty()).count();
        (texts > 1).then(|| Pieces {
            first: first.to_vec(),
            middle: middle.into_iter().map(|piece| Finder::new(piece).into_owned()).collect(),
            last: last.to_vec(),
        })
    }

    /// Returns whether the text has the pieces, one after the other. The first match of a piece is as good as
    /// any later one.
    fn are_in(&self, text: &[u8]) -> bool {
        let mut rest = text;
        // Comparing with an empty piece is slow: an empty vector's address is dangling, and processors take
        // long to see that they need not read from there.
        if !self.first.is_empty() {
            let Some(behind) = rest.strip_prefix(&self.first[..]) else { return false };
            rest = behind;
        }
        if !self.last.is_empty() {
            let Some(before) = rest.strip_suffix(&self.last[..]) else { return false };
            rest = before;
        }
        self.middle.iter().all(|piece| match piece.find(rest) {
            Some(at) => {
                rest = &rest[at + piece.needle().len()..];
                true
            }
            None => false,
        })
    }
}

impl PhysicalExpr for Search {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.original.nullable(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let ColumnarValue::Array(texts) = self.text.evaluate(batch)? else {
            return self.original.evaluate(batch);
        };
        let matches = match texts.data_type() {
            DataType::Utf8 => self.matches(texts.as_string::<i32>()),
            DataType::LargeUtf8 => self.matches(texts.as_string::<i64>()),
            DataType::Utf8View => self.matches(texts.as_string_view()),
            // Each value of a dictionary is searched once.
            _ => return self.original.evaluate(batch),
        };
        Ok(ColumnarValue::Array(Arc::new(matches)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.original]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match <[Arc<dyn PhysicalExpr>; 1]>::try_from(children) {
            Ok([child]) => Ok(match Search::instead_of(&child) {
                Some(search) => Arc::new(search),
                None => child,
            }),
            Err(children) => internal_err!("a search stands for one LIKE, not for {}", children.len()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt_sql(f)
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.original, f)
    }
}

impl PartialEq for Search {
    fn eq(&self, other: &Self) -> bool {
        self.original.eq(&other.original)
    }
}

impl Eq for Search {}

impl Hash for Search {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.original.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, LargeStringArray, StringArray, StringViewArray};
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_expr::expressions::{col, like, lit};
    use datafusion::scalar::ScalarValue;
    use fastrand::Rng;

    use super::*;

    /// A text of few letters, so that pieces are found, overlap and are missing.
    fn text(rng: &mut Rng, letters: &[&str], most: usize) -> String {
        (0..rng.usize(..=most)).map(|_| letters[rng.usize(..letters.len())]).collect()
    }

    fn pattern_of(data_type: &DataType, pattern: String) -> ScalarValue {
        match data_type {
            DataType::LargeUtf8 => ScalarValue::LargeUtf8(Some(pattern)),
            DataType::Utf8View => ScalarValue::Utf8View(Some(pattern)),
            _ => ScalarValue::Utf8(Some(pattern)),
        }
    }

    #[test]
    fn a_search_finds_what_like_finds() {
        let mut rng = Rng::with_seed(1);
        let (mut searches, mut found) = (0, 0);
        for _ in 0..3000 {
            let letters = ["a", "b", "ä", "\n", "ab"];
            let texts: Vec<Option<String>> =
                (0..40).map(|_| (rng.u8(..8) > 0).then(|| text(&mut rng, &letters, 12))).collect();
            let array: ArrayRef = match rng.u8(..3) {
                0 => Arc::new(StringArray::from(texts)),
                1 => Arc::new(LargeStringArray::from(texts)),
                _ => Arc::new(StringViewArray::from(texts)),
            };
            let array = array.slice(3, 30);
            let pattern = text(&mut rng, &["a", "b", "ä", "%", "%", "ab", "b%a"], 7);
            let batch = RecordBatch::try_from_iter_with_nullable([("s", array, true)]).expect("a batch");
            let schema: &Schema = &batch.schema();
            let pattern = lit(pattern_of(schema.field(0).data_type(), pattern));
            let negated = rng.bool();
            let plain = like(negated, false, col("s", schema).expect("a column"), pattern, schema)
                .expect("an expression");
            let searched = searched_likes(Arc::clone(&plain)).expect("an expression");
            searches += usize::from(searched.is::<Search>());
            let rows = |expr: &Arc<dyn PhysicalExpr>| {
                let value = expr.evaluate(&batch).expect("a value");
                value.into_array(batch.num_rows()).expect("an array")
            };
            let (expected, matches) = (rows(&plain), rows(&searched));
            assert_eq!(&matches, &expected, "{plain}");
            found += usize::from(searched.is::<Search>() && matches.as_boolean().has_true());
        }
        assert!(searches > 1000 && found > 500, "{searches} searches, {found} of which found something");
    }

    #[test]
    fn other_patterns_stay_as_they_are() {
        for pattern in ["", "%", "a", "a%", "%a", "%a%", "a_%b", "a\\%%b", "%%a%%"] {
            assert!(Pieces::of(pattern).is_none(), "{pattern}");
        }
        for pattern in ["a%b", "%a%b", "a%b%", "%a%b%", "a%%b"] {
            assert!(Pieces::of(pattern).is_some(), "{pattern}");
        }
    }
}
