//! Changes of single words in the text of a statement.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Span, TokenWithSpan, Tokenizer};

/// Returns the statement with other texts at these places, in their order. A place that spans lines stays as it is.
pub(crate) fn replaced(sql: &str, places: impl FnOnce(&[TokenWithSpan]) -> Vec<(Span, String)>) -> String {
    // What cannot be split into words is reported when it is planned.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location() else {
        return sql.to_owned();
    };
    let mut lines: Vec<Vec<char>> = sql.split('\n').map(|line| line.chars().collect()).collect();
    for (Span { start, end }, text) in places(&tokens).into_iter().rev() {
        let place = (usize::try_from(start.line), usize::try_from(start.column), usize::try_from(end.column));
        if let (Ok(line), Ok(first), Ok(after)) = place
            && start.line == end.line
        {
            lines[line - 1].splice(first - 1..after - 1, text.chars());
        }
    }
    lines.into_iter().map(String::from_iter).collect::<Vec<_>>().join("\n")
}
