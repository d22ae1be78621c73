//! Places in the text of a statement, and `?` as a parameter.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// Keywords before an operand. After other words, `?` is an operator.
const BEFORE_OPERANDS: [Keyword; 34] = [
    Keyword::ALL,
    Keyword::AND,
    Keyword::ANY,
    Keyword::BETWEEN,
    Keyword::BY,
    Keyword::CASE,
    Keyword::DISTINCT,
    Keyword::ELSE,
    Keyword::ESCAPE,
    Keyword::EXECUTE,
    Keyword::FETCH,
    Keyword::FIRST,
    Keyword::FOR,
    Keyword::FROM,
    Keyword::HAVING,
    Keyword::ILIKE,
    Keyword::IN,
    Keyword::IS,
    Keyword::LIKE,
    Keyword::LIMIT,
    Keyword::NEXT,
    Keyword::NOT,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::OR,
    Keyword::SELECT,
    Keyword::SET,
    Keyword::SOME,
    Keyword::THEN,
    Keyword::TO,
    Keyword::USING,
    Keyword::VALUES,
    Keyword::WHEN,
    Keyword::WHERE,
];

/// The statement with `$1`, `$2`, ... for each `?` that stands for a value. A `?` after a value is an operator of JSON.
pub(crate) fn with_numbered_parameters(sql: &str) -> String {
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location() else {
        return sql.to_owned();
    };
    let (mut numbered, mut done, mut count, mut after_value) = (String::new(), 0, 0, false);
    let places = Places::of(sql);
    for TokenWithSpan { token, span } in &tokens {
        match token {
            Token::Whitespace(_) => continue,
            Token::Question if !after_value => {
                count += 1;
                let at = places.byte(span.start);
                numbered.push_str(&sql[done..at]);
                numbered.push_str(&format!("${count}"));
                (done, after_value) = (at + 1, true);
            }
            token => after_value = ends_value(token),
        }
    }
    numbered.push_str(&sql[done..]);
    numbered
}

fn ends_value(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.quote_style.is_some() || !BEFORE_OPERANDS.contains(&word.keyword),
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::Placeholder(_)
        | Token::RParen
        | Token::RBracket => true,
        _ => false,
    }
}

/// The tokens of a statement without white space. `None` if the text cannot be divided into tokens.
pub(crate) fn tokens(sql: &str) -> Option<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().ok()?;
    let is_white = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    Some(tokens.into_iter().filter(|token| !is_white(token)).collect())
}

/// The beginnings of a text's lines.
pub(crate) struct Places<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Places { text, lines: std::iter::once(0).chain(ends).collect() }
    }

    /// The byte at a line and column, both from 1. The end of the text if there is none.
    pub(crate) fn byte(&self, at: Location) -> usize {
        let line = usize::try_from(at.line).unwrap_or(usize::MAX).saturating_sub(1);
        let Some(start) = self.lines.get(line) else { return self.text.len() };
        let column = usize::try_from(at.column).unwrap_or(usize::MAX).saturating_sub(1);
        let rest = &self.text[*start..];
        start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
    }

    /// The character at a line and column, from 1, as PostgreSQL counts positions.
    pub(crate) fn character(&self, at: Location) -> usize {
        self.text[..self.byte(at)].chars().count() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_are_parameters_or_operators() {
        for (sql, numbered) in [
            (
                "SELECT ? + 1, '?' FROM t WHERE a LIKE ? AND b IN (?, ?)",
                "SELECT $1 + 1, '?' FROM t WHERE a LIKE $2 AND b IN ($3, $4)",
            ),
            (
                "SELECT a ? 'k', a ? ?, (a) ? 'k' -- ?\nFROM t LIMIT ?",
                "SELECT a ? 'k', a ? $1, (a) ? 'k' -- ?\nFROM t LIMIT $2",
            ),
            ("SELECT 'ä', ?::int\n, ?", "SELECT 'ä', $1::int\n, $2"),
            ("SELECT \"a?\" /* ? */ = ?", "SELECT \"a?\" /* ? */ = $1"),
            ("SELECT '", "SELECT '"),
        ] {
            assert_eq!(with_numbered_parameters(sql), numbered);
        }
    }

    #[test]
    fn positions_count_characters() {
        let sql = "SELECT 'ä',\n  b";
        let found = tokens(sql).unwrap();
        let last = found.last().unwrap();
        assert_eq!(
            (Places::of(sql).byte(last.span.start), Places::of(sql).character(last.span.start)),
            (15, 15)
        );
    }
}
