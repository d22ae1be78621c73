//! The answer to a statement, and the comparison of two answers.
//!
//! Types, names and nullability of the columns must be the same, and so must the rows: in their order if the
//! query has one, otherwise as a multiset. Only sums that depend on the order of addition may differ, in
//! their last digits.

use std::fmt;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::query::{Form, Test};

/// The answer to a statement.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Rows(Rows),
    /// The text of the error.
    Error(String),
    Panic(String),
    /// No answer within the time limit of every query.
    Hang,
}

impl Answer {
    /// Returns whether the answer comes from a fault of the engine that was asked, and so proves nothing. A
    /// panic in a task of DataFusion is an error of the query. DataFusion may request no bytes of a row group
    /// without rows, which a store in memory refuses.
    pub(crate) fn is_broken(&self) -> bool {
        match self {
            Answer::Rows(_) => false,
            Answer::Error(text) => {
                text.contains("panicked with message") || text.contains("Invalid range: Range started at")
            }
            Answer::Panic(_) | Answer::Hang => true,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Other rows.
    Rows,
    /// The right rows in a wrong order.
    Order,
    /// Other names, types or nullability.
    Schema,
    /// An error where plain DataFusion has an answer.
    Error,
    /// An answer where plain DataFusion has an error.
    NoError,
    /// A panic.
    Panic,
    /// No end.
    Hang,
    /// Bytes that are held after everything ended.
    Ledger,
}

/// A wrong answer.
#[derive(Clone, Debug)]
pub struct Difference {
    /// Its kind.
    pub kind: Kind,
    /// The expected and the found answer.
    pub text: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Rows => "wrong rows",
            Kind::Order => "wrong order",
            Kind::Schema => "wrong schema",
            Kind::Error => "an error that plain DataFusion does not have",
            Kind::NoError => "an answer where plain DataFusion has an error",
            Kind::Panic => "a panic",
            Kind::Hang => "no end",
            Kind::Ledger => "bytes held after the end",
        };
        write!(f, "{kind}: {}", self.text)
    }
}

impl Difference {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Difference { kind, text: text.into() }
    }

    /// Returns whether the other difference is likely to have the same cause.
    pub(crate) fn resembles(&self, other: &Difference) -> bool {
        let words = |difference: &Difference| -> String {
            let letters = difference.text.chars().filter(|c| c.is_alphabetic() || *c == ' ');
            letters.take(40).collect()
        };
        let by_text = matches!(self.kind, Kind::Error | Kind::Panic);
        self.kind == other.kind && (!by_text || words(self) == words(other))
    }
}

/// Compares the found answer with that of plain DataFusion. For a sample, the expected answer is that of the
/// query without its limit.
pub(crate) fn compare(test: &Test, expected: &Answer, found: &Answer) -> Result<(), Difference> {
    match (expected, found) {
        (_, Answer::Panic(text)) => Err(Difference::new(Kind::Panic, text)),
        (_, Answer::Hang) => Err(Difference::new(Kind::Hang, "the query does not end")),
        (Answer::Rows(expected), Answer::Rows(found)) => compare_rows(test, expected, found),
        (Answer::Rows(_), Answer::Error(text)) => Err(Difference::new(Kind::Error, text)),
        (Answer::Error(text), Answer::Rows(_)) if !test.is_sample() => {
            Err(Difference::new(Kind::NoError, text))
        }
        _ => Ok(()),
    }
}

fn compare_rows(test: &Test, expected: &Rows, found: &Rows) -> Result<(), Difference> {
    // The expected answer of a sample comes from a query without limit, which may be nullable where the
    // sample is not.
    let schema = if test.is_sample() { &found.schema } else { &expected.schema };
    compare_schemas(schema, &found.schema)?;
    for batch in &found.batches {
        compare_schemas(schema, batch.schema_ref())?;
    }
    if matches!(test.form, Form::Explained(_)) || !test.is_sample() && same_sequence(expected, found) {
        return Ok(());
    }
    let approximate = approximate(test, &expected.schema);
    let ordered_by = test.query.ordered_by();
    let zeros = leaves_zero_to_chance(test);
    let (mut wanted, mut given) = (expected.text(&approximate, zeros), found.text(&approximate, zeros));
    if !test.is_sample() && !ordered_by.is_empty() {
        let keys = |rows: &[Row]| -> Vec<Vec<String>> {
            rows.iter().map(|row| ordered_by.iter().map(|at| row.cells[*at].clone()).collect()).collect()
        };
        if wanted.len() == given.len()
            && let Some(at) = keys(&wanted).iter().zip(&keys(&given)).position(|(a, b)| a != b)
        {
            let text = format!("row {at} is {} and not {}", given[at], wanted[at]);
            wanted.sort();
            given.sort();
            let kind = if wanted == given { Kind::Order } else { Kind::Rows };
            return Err(Difference::new(kind, text));
        }
    }
    wanted.sort();
    given.sort();
    if test.is_sample() { compare_sample(test, &wanted, &given) } else { compare_sorted(&wanted, &given) }
}

/// Returns whether the query keeps one of several equal values. A zero may then have either sign.
fn leaves_zero_to_chance(test: &Test) -> bool {
    const KEEP_ONE: [&str; 9] =
        ["DISTINCT", "GROUP BY", "UNION", "INTERSECT", "EXCEPT", "min(", "max(", "greatest(", "least("];
    let sql = test.query.to_sql();
    KEEP_ONE.iter().any(|word| sql.contains(word))
}

/// Returns the columns that are compared with a tolerance: sums of floating-point values, including sums that
/// arise indirectly.
fn approximate(test: &Test, schema: &Schema) -> Vec<usize> {
    let mut columns = test.query.approximate();
    let sql = test.query.to_sql();
    if sql.contains("sum(") || sql.contains("avg(") {
        let fields = schema.fields().iter().enumerate();
        columns.extend(fields.filter(|(_, field)| field.data_type().is_floating()).map(|(at, _)| at));
    }
    columns
}

fn compare_schemas(expected: &Schema, found: &Schema) -> Result<(), Difference> {
    let shown = |schema: &Schema| -> Vec<String> {
        let field = |field: &datafusion::arrow::datatypes::FieldRef| {
            format!(
                "{} {}{}",
                field.name(),
                field.data_type(),
                if field.is_nullable() { "" } else { " NOT NULL" }
            )
        };
        schema.fields().iter().map(field).collect()
    };
    if expected.fields() == found.fields() {
        return Ok(());
    }
    let (expected, found) = (shown(expected), shown(found));
    if expected == found {
        return Ok(());
    }
    let different = expected.iter().zip(&found).find(|(a, b)| a != b);
    let text = match different {
        Some((expected, found)) => format!("{found} instead of {expected}"),
        None => format!("{} columns instead of {}", found.len(), expected.len()),
    };
    Err(Difference::new(Kind::Schema, text))
}

/// Returns whether the rows are the same in the same order, bit by bit. This is the fast path.
fn same_sequence(expected: &Rows, found: &Rows) -> bool {
    let rows = |rows: &Rows| rows.batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    if rows(expected) != rows(found) {
        return false;
    }
    let together = |rows: &Rows| concat_batches(&expected.schema, &rows.batches).ok();
    matches!((together(expected), together(found)), (Some(a), Some(b)) if a.columns() == b.columns())
}

fn compare_sorted(expected: &[Row], found: &[Row]) -> Result<(), Difference> {
    let near =
        |(a, b): (&Row, &Row)| a.cells == b.cells && a.sums.iter().zip(&b.sums).all(|(a, b)| a.is_near(*b));
    if expected.len() == found.len() && expected.iter().zip(found).all(near) {
        return Ok(());
    }
    let only = |of: &[Row], other: &[Row]| -> String {
        let only: Vec<String> =
            of.iter().filter(|row| other.binary_search(row).is_err()).take(3).map(Row::to_string).collect();
        if only.is_empty() { "nothing".to_owned() } else { only.join("; ") }
    };
    let text = format!(
        "{} rows instead of {}; missing {}; too many {}",
        found.len(),
        expected.len(),
        only(expected, found),
        only(found, expected)
    );
    Err(Difference::new(Kind::Rows, text))
}

/// Checks that there are as many rows as the limit allows, all of them rows of the query without limit.
fn compare_sample(test: &Test, all: &[Row], found: &[Row]) -> Result<(), Difference> {
    let limit = test.query.limit.and_then(|limit| limit.rows).unwrap_or(usize::MAX);
    let wanted = all.len().min(limit);
    if found.len() != wanted {
        return Err(Difference::new(Kind::Rows, format!("{} rows instead of {wanted}", found.len())));
    }
    let mut rest = all.iter();
    // Sums that depend on the order of addition are not compared.
    match found.iter().find(|row| !rest.any(|known| known.cells == row.cells)) {
        None => Ok(()),
        Some(row) => Err(Difference::new(Kind::Rows, format!("{row} is no row of the query without limit"))),
    }
}

/// A row as text, and its values that are compared with a tolerance.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    cells: Vec<String>,
    sums: Vec<Sum>,
}

impl Eq for Row {}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let sums = || {
            let pairs = self.sums.iter().zip(&other.sums);
            pairs
                .map(|(a, b)| a.0.total_cmp(&b.0))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        };
        self.cells.cmp(&other.cells).then_with(sums)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sums = self.sums.iter().map(|sum| sum.0.to_string());
        let cells: Vec<String> = self.cells.iter().cloned().chain(sums).collect();
        write!(f, "({})", cells.join(", "))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Sum(f64);

impl Sum {
    fn is_near(self, other: Sum) -> bool {
        let (a, b) = (self.0, other.0);
        a.total_cmp(&b).is_eq()
            || a.is_nan() && b.is_nan()
            || (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1e-6)
    }
}

impl Rows {
    fn text(&self, approximate: &[usize], zeros: bool) -> Vec<Row> {
        let options = FormatOptions::default().with_null("NULL");
        let mut rows = Vec::new();
        for batch in &self.batches {
            let columns: Vec<ArrayFormatter> = batch
                .columns()
                .iter()
                .map(|column| {
                    ArrayFormatter::try_new(column.as_ref(), &options).expect("every type can be shown")
                })
                .collect();
            for row in 0..batch.num_rows() {
                let mut cells = Vec::with_capacity(columns.len());
                let mut sums = Vec::new();
                for (at, column) in columns.iter().enumerate() {
                    let mut text = column.value(row).to_string();
                    if zeros && text == "-0.0" {
                        text.remove(0);
                    }
                    match text.parse() {
                        Ok(value) if approximate.contains(&at) => {
                            sums.push(Sum(value));
                            cells.push("~".to_owned());
                        }
                        _ => cells.push(text),
                    }
                }
                rows.push(Row { cells, sums });
            }
        }
        rows
    }
}
