//! Places in the text of a statement, syntax errors, and `?` as a parameter.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
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

/// The client's span in a comment, `/*traceparent='00-..'*/`, as instrumented drivers write it (sqlcommenter).
pub(crate) fn trace_parent(sql: &str) -> Option<&str> {
    const KEY: &str = "traceparent='";
    let from = sql.rfind(KEY)? + KEY.len();
    let in_comment = sql[..from].rfind("/*").is_some_and(|comment| !sql[comment..from].contains("*/"));
    in_comment.then(|| sql[from..].split('\'').next()).flatten()
}

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

pub(super) fn ends_value(token: &Token) -> bool {
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

/// The place of an error in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A character, from 1.
    At(usize),
    /// A column with its qualifiers, as the query engine reads it.
    Column(Vec<String>),
    /// A table with its schema.
    Relation(Vec<String>),
    /// A function that is called.
    Call(String),
    /// A type.
    Type(String),
    /// A text constant.
    Text(String),
    /// An operator or a parameter.
    Operator(String),
}

impl Place {
    /// The place as the number of a character, from 1. `None` if it cannot be told from other places.
    pub(crate) fn position(&self, sql: &str) -> Option<usize> {
        if let Place::At(at) = self {
            return Some(*at);
        }
        let tokens = tokens(sql)?;
        let found = match self {
            Place::At(_) => None,
            Place::Column(path) => named(&tokens, path, |before, behind| {
                !is_period(before) && !is_as(before) && !is_open(behind)
            })
            .or_else(|| {
                named(&tokens, &path[path.len().saturating_sub(1)..], |before, _| !is_period(before))
            }),
            Place::Relation(path) => {
                let table = &path[path.len().saturating_sub(1)..];
                named(&tokens, path, |before, _| is_before_table(before))
                    .or_else(|| named(&tokens, table, |before, _| is_before_table(before)))
            }
            Place::Call(name) => named(&tokens, std::slice::from_ref(name), |_, behind| is_open(behind)),
            Place::Type(name) => named(&tokens, std::slice::from_ref(name), |before, _| {
                matches!(before, Some(Token::DoubleColon)) || is_as(before)
            }),
            Place::Text(text) => only(&tokens, |token| match token {
                Token::SingleQuotedString(of) | Token::EscapedStringLiteral(of) => of == text,
                _ => false,
            }),
            Place::Operator(operator) => only(&tokens, |token| token.to_string() == *operator),
        };
        found.map(|at| Places::of(sql).character(tokens[at].span.start))
    }
}

/// The tokens of a statement without white space. `None` if the text cannot be divided into tokens.
fn tokens(sql: &str) -> Option<Vec<TokenWithSpan>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().ok()?;
    Some(tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect())
}

/// The first name of this path, whose neighbours are as wanted.
fn named(
    tokens: &[TokenWithSpan],
    path: &[String],
    wanted: impl Fn(Option<&Token>, Option<&Token>) -> bool,
) -> Option<usize> {
    let length = (2 * path.len()).checked_sub(1)?;
    let is_named = |found: &[TokenWithSpan]| {
        found.iter().enumerate().all(|(at, token)| match (at % 2, &token.token) {
            (0, Token::Word(word)) if word.quote_style.is_some() => word.value == path[at / 2],
            (0, Token::Word(word)) => word.value.eq_ignore_ascii_case(&path[at / 2]),
            (1, token) => *token == Token::Period,
            _ => false,
        })
    };
    (0..tokens.len().saturating_sub(length - 1)).find(|&at| {
        let before = at.checked_sub(1).map(|at| &tokens[at].token);
        let behind = tokens.get(at + length).map(|token| &token.token);
        is_named(&tokens[at..at + length]) && wanted(before, behind)
    })
}

/// The only token of a kind.
fn only(tokens: &[TokenWithSpan], wanted: impl Fn(&Token) -> bool) -> Option<usize> {
    let mut found = (0..tokens.len()).filter(|&at| wanted(&tokens[at].token));
    match (found.next(), found.next()) {
        (Some(at), None) => Some(at),
        _ => None,
    }
}

fn is_period(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Period))
}

fn is_open(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::LParen))
}

fn is_as(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Word(word)) if word.keyword == Keyword::AS)
}

fn is_before_table(token: Option<&Token>) -> bool {
    match token {
        Some(Token::Word(word)) => matches!(
            word.keyword,
            Keyword::FROM
                | Keyword::JOIN
                | Keyword::INTO
                | Keyword::TABLE
                | Keyword::UPDATE
                | Keyword::ONLY
                | Keyword::COPY
        ),
        token => matches!(token, Some(Token::Comma | Token::LParen)),
    }
}

/// A syntax error in PostgreSQL's words, with its place. `None` if the parser does not tell the place.
pub(crate) fn syntax_error(sql: &str, error: &ParserError) -> Option<(String, Place)> {
    let places = Places::of(sql);
    let (ParserError::ParserError(text) | ParserError::TokenizerError(text)) = error else { return None };
    if text.contains("found: EOF") {
        return Some(("syntax error at end of input".to_owned(), Place::At(sql.chars().count() + 1)));
    }
    if text.starts_with("Unexpected EOF while in a multi-line comment") {
        let at = sql.rfind("/*")?;
        let text = format!("unterminated /* comment at or near \"{}\"", &sql[at..]);
        return Some((text, Place::At(sql[..at].chars().count() + 1)));
    }
    let (words, location) = text.rsplit_once("at Line: ")?;
    let (line, column) = location.split_once(", Column: ")?;
    let number = |text: &str| text.trim().parse().ok();
    let start = Location { line: number(line)?, column: number(column)? };
    let rest = &sql[places.byte(start)..];
    let at = Place::At(places.character(start));
    if words.starts_with("Unterminated string literal") {
        return Some((format!("unterminated quoted string at or near \"{rest}\""), at));
    }
    if words.starts_with("Unterminated dollar-quoted string") {
        let at = sql.rfind('$').and_then(|end| sql[..end].rfind('$'))?;
        let text = format!("unterminated dollar-quoted string at or near \"{}\"", &sql[at..]);
        return Some((text, Place::At(sql[..at].chars().count() + 1)));
    }
    if words.starts_with("Expected close delimiter") {
        return Some((format!("unterminated quoted identifier at or near \"{rest}\""), at));
    }
    let tokens = tokens(sql)?;
    let here = tokens.iter().position(|token| token.span.start == start)?;
    // Some messages have the place of the token behind that which they name.
    let found = words.rsplit_once("found: ").map(|(_, found)| found.trim());
    let is_found = |token: &TokenWithSpan| found.is_none_or(|found| token.token.to_string() == found);
    let here = (0..=here).rev().find(|&at| is_found(&tokens[at])).unwrap_or(here);
    let span = tokens[here].span;
    let written = &sql[places.byte(span.start)..places.byte(span.end)];
    Some((format!("syntax error at or near \"{written}\""), Place::At(places.character(span.start))))
}

/// The beginnings of a text's lines.
struct Places<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

impl<'a> Places<'a> {
    fn of(text: &'a str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Places { text, lines: std::iter::once(0).chain(ends).collect() }
    }

    /// The byte at a line and column, both from 1. The end of the text if there is none.
    fn byte(&self, at: Location) -> usize {
        let line = usize::try_from(at.line).unwrap_or(usize::MAX).saturating_sub(1);
        let Some(start) = self.lines.get(line) else { return self.text.len() };
        let column = usize::try_from(at.column).unwrap_or(usize::MAX).saturating_sub(1);
        let rest = &self.text[*start..];
        start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
    }

    /// The character at a line and column, from 1, as PostgreSQL counts positions.
    fn character(&self, at: Location) -> usize {
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
    fn places_are_found() {
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (sql, place, position) in [
            ("SELECT 'ä',\n  b", Place::Column(path(&["b"])), Some(15)),
            ("SELECT x AS a FROM t WHERE A = 1", Place::Column(path(&["a"])), Some(28)),
            ("SELECT t.a, a FROM t", Place::Column(path(&["a"])), Some(13)),
            ("SELECT a FROM t", Place::Column(path(&["t", "a"])), Some(8)),
            ("SELECT m FROM metric", Place::Relation(path(&["public", "metric"])), Some(15)),
            ("SELECT 1 FROM public.m", Place::Relation(path(&["public", "m"])), Some(15)),
            ("SELECT foo, foo(1)", Place::Call("foo".to_owned()), Some(13)),
            ("SELECT 'x'::int", Place::Text("x".to_owned()), Some(8)),
            ("SELECT 'x', 'x'", Place::Text("x".to_owned()), None),
            ("SELECT a + b", Place::Operator("+".to_owned()), Some(10)),
        ] {
            assert_eq!(place.position(sql), position, "{sql}");
        }
    }
}
