//! Eight statements over a table, which show a newcomer that statements share: each groups by one column and computes
//! over two others, so that each column is needed by several.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::utils::quote_identifier;

use super::tables::{ColumnAbout, TableAbout};

const STATEMENTS: usize = 8;
/// Of a wide table the first columns are used, because others would have few columns in common.
const COLUMNS_MAX: usize = 8;
/// Units to which times are cut.
const UNITS: [&str; 3] = ["year", "quarter", "month"];

pub(super) fn over(table: &TableAbout) -> Vec<String> {
    let columns = &table.columns[..table.columns.len().min(COLUMNS_MAX)];
    let grouped: Vec<&ColumnAbout> = columns.iter().filter(|column| group(column, 0).is_some()).collect();
    let mut measured: Vec<&ColumnAbout> = columns.iter().filter(|column| column.of.is_numeric()).collect();
    if measured.is_empty() {
        measured = columns.iter().collect();
    }
    let from = quote_identifier(&table.name);
    let statement = |number: usize| {
        let at =
            |from: &[&ColumnAbout], number: usize| from.get(number % from.len().max(1)).copied().cloned();
        let (first, second) =
            (at(&measured, number), at(&measured, number + 1 + number / measured.len().max(1)));
        let mut values = vec!["count(*)".to_owned()];
        values.extend(first.map(|column| measure(&column, number)));
        values.extend(second.map(|column| measure(&column, number + 1)));
        let round = number / grouped.len().max(1);
        match at(&grouped, number).and_then(|column| group(&column, round)) {
            Some(group) => format!(
                "SELECT {group} AS kind, {} FROM {from} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 20",
                values.join(", ")
            ),
            None => format!("SELECT {} FROM {from}", values.join(", ")),
        }
    };
    (0..STATEMENTS).map(statement).collect()
}

/// An expression with few values. Another round has another one, where there is one.
fn group(column: &ColumnAbout, round: usize) -> Option<String> {
    let name = quote_identifier(&column.name);
    match &column.of {
        DataType::Boolean => Some(name.into_owned()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Some(format!("left({name}, {})", 1 + round % 2))
        }
        DataType::Date32 | DataType::Timestamp(..) => {
            Some(format!("date_trunc('{}', {name})", UNITS[round % UNITS.len()]))
        }
        of if of.is_integer() => Some(format!("{name} % {}", 10 + round)),
        _ => None,
    }
}

fn measure(column: &ColumnAbout, number: usize) -> String {
    let name = quote_identifier(&column.name);
    let function = match (column.of.is_numeric(), number % 3) {
        (false, _) => "count",
        (true, 0) => "sum",
        (true, 1) => "avg",
        (true, _) => "max",
    };
    format!("{function}({name})")
}
