//! Formats of one request, or one run of requests, per line.

use std::io::BufRead;

use super::{Request, Sink, Stop};
use crate::At;
use crate::ids::{Id, parse_number};

/// The maximum number of blocks in one line of an ARC trace. Published traces have fewer than a thousand.
const RUN_MAX: u64 = 1 << 24;

/// Takes the place and the text of a line.
type OnLine<'a> = dyn FnMut(At, &[u8]) -> Result<(), Stop> + 'a;

/// Calls back with the place and the text of every line that is not blank, without white space at its ends.
fn lines(input: &mut dyn BufRead, on_line: &mut OnLine<'_>) -> Result<(), Stop> {
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            on_line(At::Line(number), text)?;
        }
    }
    Ok(())
}

/// The form of a line in errors.
fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(60)]).escape_debug().to_string()
}

/// An id on each line: a number or any other word.
pub(super) fn ids(input: &mut dyn BufRead, sink: &mut Sink<'_>) -> Result<(), Stop> {
    lines(input, &mut |at, line| {
        if line.iter().any(u8::is_ascii_whitespace) {
            return Err(Stop::Bad(at, format!("expected one id, found '{}'", shown(line))));
        }
        sink(Request::of(Id::of_text(line)))
    })
}

/// First block, count, an ignored number, number of the request.
pub(super) fn arc(input: &mut dyn BufRead, sink: &mut Sink<'_>) -> Result<(), Stop> {
    lines(input, &mut |at, line| {
        let bad = |reason: &str| {
            Stop::Bad(
                at,
                format!("{reason}; expected 'first-block count ignored request', found '{}'", shown(line)),
            )
        };
        let mut numbers = [0; 4];
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        for number in &mut numbers {
            let word = words.next().ok_or_else(|| bad("too few fields"))?;
            *number = parse_number(word).ok_or_else(|| bad("a field is not a number"))?;
        }
        if words.next().is_some() {
            return Err(bad("too many fields"));
        }
        let [first, count, ..] = numbers;
        if count == 0 || count > RUN_MAX {
            return Err(bad(&format!("a count is from 1 to {RUN_MAX}")));
        }
        let end = first.checked_add(count).ok_or_else(|| bad("block numbers have 64 bits"))?;
        (first..end).try_for_each(|block| sink(Request::of(Id::Number(block))))
    })
}

/// A block number on each line, or a mark.
pub(super) fn lirs(input: &mut dyn BufRead, sink: &mut Sink<'_>) -> Result<(), Stop> {
    lines(input, &mut |at, line| {
        if line.starts_with(b"*") {
            return Ok(());
        }
        let Some(block) = parse_number(line) else {
            return Err(Stop::Bad(at, format!("expected a block number or '*', found '{}'", shown(line))));
        };
        sink(Request::of(Id::Number(block)))
    })
}
