//! Draws tables in every shape that matters to a reader. Most are small, so that a seed takes milliseconds.

use datafusion::arrow::datatypes::DataType;

use super::kind::Kind;
use super::spread::{Nulls, Spread};
use super::write::Writer;
use super::{Column, DataFile, Database, KeyMatch, Stored, Table};
use crate::dice::Dice;
use crate::shapes::Shapes;

/// Draws one to three tables.
pub(crate) fn draw(dice: &mut Dice, shapes: &Shapes) -> Database {
    let tables = dice.weighted(&[(3, 1), (4, 2), (2, 3)]);
    let mut tables: Vec<Table> = (0..tables).map(|number| table(&mut dice.fork(), number, shapes)).collect();
    declare_matches(&mut dice.fork(), &mut tables);
    Database { tables }
}

/// Declares some tables as clustered by a key of another table, or of their own. Some declarations are true.
fn declare_matches(dice: &mut Dice, tables: &mut [Table]) {
    for at in 0..tables.len() {
        if !dice.one_in(3) {
            continue;
        }
        let other = dice.pick(tables);
        let keys = |table: &Table| -> Vec<String> {
            table
                .columns
                .iter()
                .filter(|column| is_key(&column.kind))
                .map(|column| column.name.clone())
                .collect()
        };
        let (own, others) = (keys(&tables[at]), keys(other));
        // Most joins use the first column, which has a distinct number for each row.
        let column = |dice: &mut Dice, of: &[String]| {
            if dice.one_in(2) { of[0].clone() } else { dice.pick(of).clone() }
        };
        let (own, table, other) = (column(dice, &own), other.name.clone(), column(dice, &others));
        tables[at].clustered_with = Some(KeyMatch { own, table, other });
    }
}

fn is_key(kind: &Kind) -> bool {
    let of = kind.arrow();
    of.is_integer()
        || matches!(of, DataType::Utf8 | DataType::Date32 | DataType::Decimal128(..) | DataType::Boolean)
}

fn table(dice: &mut Dice, number: usize, shapes: &Shapes) -> Table {
    let declared = dice.one_in(3);
    let old = !declared && dice.one_in(25);
    let ordered = dice.one_in(3);
    let mut columns = vec![id(dice, ordered)];
    let count = if dice.one_in(25) { dice.between(30, 90) } else { dice.between(1, 9) };
    for at in 0..count {
        let mut column = column(dice, at + 1, declared);
        if !shapes.nulls && column.kind.arrow() == DataType::Null {
            column.kind = Kind::Arrow(DataType::Utf8);
        }
        if old {
            column.kind = Kind::Int96;
        } else if column.kind == Kind::Int96 {
            column.kind = Kind::Arrow(DataType::Int32);
        }
        columns.push(column);
    }
    let files = files(dice, &columns, declared && !old);
    let hive = dice.one_in(6);
    Table {
        name: format!("t{number}"),
        columns,
        files,
        writer: Writer::draw(dice),
        declared,
        ordered,
        hive,
        clustered_with: None,
    }
}

fn id(dice: &mut Dice, ordered: bool) -> Column {
    let spread = if ordered || dice.one_in(2) { Spread::RowNumber } else { Spread::Shuffled };
    Column {
        name: "id".to_owned(),
        kind: Kind::Arrow(DataType::Int64),
        spread,
        nulls: Nulls::None,
        seed: dice.bits(),
        nullable: dice.one_in(2),
    }
}

fn column(dice: &mut Dice, number: usize, declared: bool) -> Column {
    let kind = if declared { Kind::draw_declared(dice) } else { Kind::draw(dice) };
    let nulls = if kind.arrow() == DataType::Null { Nulls::All } else { Nulls::draw(dice) };
    let nullable = nulls != Nulls::None || declared || dice.one_in(2);
    Column {
        name: format!("c{number}"),
        kind,
        spread: Spread::draw(dice),
        nulls,
        seed: dice.bits(),
        nullable,
    }
}

fn files(dice: &mut Dice, columns: &[Column], evolving: bool) -> Vec<DataFile> {
    let count = dice.weighted(&[(4, 1), (2, 2), (2, 3), (1, 6)]);
    // Rows of a row group: few, as in tests of edges, or enough for several slices and pages.
    let (groups, rows) =
        dice.weighted(&[(2, (4, 3)), (3, (3, 40)), (3, (4, 150)), (1, (12, 20)), (1, (2, 900))]);
    let empty = dice.one_in(6);
    let mut first_row = 0;
    let mut files = Vec::new();
    for _ in 0..count {
        let groups = if dice.one_in(12) { 0 } else { dice.between(1, groups) };
        let row_groups: Vec<usize> = (0..groups)
            .map(|_| match dice.below(12) {
                0 => 1,
                1 if empty => 0,
                2..=5 => dice.between(1, rows),
                _ => rows,
            })
            .collect();
        let stored = columns.iter().map(|column| stored(dice, column, evolving)).collect();
        let file = DataFile { first_row, row_groups, stored, hive_value: dice.below(4) as u8 };
        // Files may have gaps between them.
        first_row += file.rows() as u64 + *dice.pick(&[0, 0, 1, 100]);
        files.push(file);
    }
    files
}

fn stored(dice: &mut Dice, column: &Column, evolving: bool) -> Stored {
    if !evolving || column.name == "id" {
        return Stored::AsDeclared;
    }
    match dice.below(12) {
        0 if column.nullable => Stored::Missing,
        1..=2 => Stored::As(column.kind.draw_narrower(dice)),
        _ => Stored::AsDeclared,
    }
}
