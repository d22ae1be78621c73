//! Tables of text: one column is the id.

use std::io::BufRead;

use super::{Request, Sink, Stop};
use crate::At;
use crate::format::{Column, Csv};
use crate::ids::Id;

/// Reads the rows. Quotes are as in RFC 4180. White space around fields is ignored. Rows may have different
/// lengths as long as they have the column. Blank lines are skipped; an error in the row after blank lines
/// names the first of them.
pub(super) fn csv(input: &mut dyn BufRead, csv: &Csv, sink: &mut Sink<'_>) -> Result<(), Stop> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .delimiter(csv.delimiter)
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(input);
    let mut row = csv::ByteRecord::new();
    let mut column = match &csv.column {
        Column::Number(number) => number - 1,
        Column::Named(_) => 0,
    };
    let mut header = csv.header;
    while reader.read_byte_record(&mut row).map_err(stop)? {
        let at = At::Line(row.position().map_or(0, csv::Position::line));
        if std::mem::take(&mut header) {
            if let Column::Named(name) = &csv.column {
                column = find(&row, name).map_err(|reason| Stop::Bad(at, reason))?;
            }
            continue;
        }
        match row.get(column) {
            Some(field) if !field.is_empty() => sink(Request::of(Id::of_text(field)))?,
            Some(_) => return Err(Stop::Bad(at, format!("column {} is empty", column + 1))),
            None => {
                let reason = format!("there is no column {}, only {} of them", column + 1, row.len());
                return Err(Stop::Bad(at, reason));
            }
        }
    }
    Ok(())
}

/// The position of the column of that name.
fn find(header: &csv::ByteRecord, name: &str) -> Result<usize, String> {
    let clean = |field: &[u8]| {
        let field = String::from_utf8_lossy(field);
        field.strip_prefix('#').unwrap_or(&field).trim().to_owned()
    };
    let names: Vec<String> = header.iter().map(clean).collect();
    let position = names.iter().position(|column| column == name);
    position.ok_or_else(|| format!("there is no column '{name}', there are {}", names.join(", ")))
}

fn stop(error: csv::Error) -> Stop {
    let line = error.position().map_or(0, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => Stop::Io(error),
        kind => Stop::Bad(At::Line(line), format!("not a table of text: {kind:?}")),
    }
}
