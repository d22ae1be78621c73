//! `CREATE EXTERNAL TABLE .. WITH (coscan.clustered_with = '..')`: table options in the syntax of other
//! engines.
//!
//! DataFusion's parser knows only `OPTIONS ('key' 'value')`, so the statement is rewritten by its tokens
//! before it is parsed. Every other statement, and every other `WITH`, stays as it is.

use std::borrow::Cow;

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// Rewrites `WITH (key = value, ..)` of a `CREATE EXTERNAL TABLE` to `OPTIONS (key value, ..)`.
pub fn with_options(statement: &str) -> Cow<'_, str> {
    let is_external = |text: &[u8]| text.eq_ignore_ascii_case(EXTERNAL.as_bytes());
    if !statement.as_bytes().windows(EXTERNAL.len()).any(is_external) {
        return Cow::Borrowed(statement);
    }
    // The parser reports text that cannot be split into tokens.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, statement).with_unescape(false).tokenize() else {
        return Cow::Borrowed(statement);
    };
    let Some((with, open)) = place(&tokens) else { return Cow::Borrowed(statement) };
    let mut text = String::with_capacity(statement.len());
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen if at >= open => depth += 1,
            Token::RParen if at >= open => depth -= 1,
            _ => {}
        }
        match token {
            _ if at == with => text += "OPTIONS",
            Token::Eq if at > open && depth == 1 => text.push(' '),
            token => text += &token.to_string(),
        }
        if at > open && depth == 0 {
            text.extend(tokens[at + 1..].iter().map(Token::to_string));
            break;
        }
    }
    Cow::Owned(text)
}

/// Every statement that is rewritten contains this word.
const EXTERNAL: &str = "EXTERNAL";

/// Words that may stand between `CREATE` and `EXTERNAL`.
const BETWEEN: [&str; 3] = ["OR", "REPLACE", "UNBOUNDED"];

/// Returns the positions of `WITH` and of its parenthesis, outside of all other parentheses. Returns `None`
/// unless the statement is a `CREATE EXTERNAL TABLE`.
fn place(tokens: &[Token]) -> Option<(usize, usize)> {
    let is = |token: &Token, word: &str| matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word));
    let mut written = tokens.iter().enumerate().filter(|(_, token)| !matches!(token, Token::Whitespace(_)));
    let (_, create) = written.next()?;
    let mut between = written.by_ref().skip_while(|(_, token)| BETWEEN.iter().any(|word| is(token, word)));
    if !is(create, "CREATE") || !is(between.next()?.1, EXTERNAL) {
        return None;
    }
    let (mut depth, mut with) = (0, None);
    for (at, token) in written {
        match (with, token) {
            (Some(with), Token::LParen) if depth == 0 => return Some((with, at)),
            (_, Token::LParen) => depth += 1,
            (_, Token::RParen) => depth -= 1,
            _ => {}
        }
        with = (depth == 0 && is(token, "WITH")).then_some(at);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_written_as_the_parser_knows_them() {
        let columns = "CREATE EXTERNAL TABLE t (a INT, b VARCHAR(3)) STORED AS PARQUET";
        for (with, options) in [
            ("WITH (coscan.tier = 'x')", "OPTIONS (coscan.tier   'x')"),
            (
                "with(coscan.tier='x', 'format.y' = 'a = (b)') LOCATION 'l'",
                "OPTIONS(coscan.tier 'x', 'format.y'   'a = (b)') LOCATION 'l'",
            ),
            ("WITH ORDER (a) WITH (coscan.tier = x)", "WITH ORDER (a) OPTIONS (coscan.tier   x)"),
            ("LOCATION 'it''s' WITH (a.b = 'c')", "LOCATION 'it''s' OPTIONS (a.b   'c')"),
            (
                "WITH (coscan.clustered_with = 'o (k = k)') LOCATION 'l'",
                "OPTIONS (coscan.clustered_with   'o (k = k)') LOCATION 'l'",
            ),
        ] {
            for create in ["CREATE EXTERNAL", "create OR replace external", "CREATE UNBOUNDED EXTERNAL"] {
                let columns = columns.replace("CREATE EXTERNAL", create);
                assert_eq!(with_options(&format!("{columns} {with}")), format!("{columns} {options}"));
            }
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        for other in [
            "WITH (SELECT 1) SELECT 2",
            "CREATE TABLE t WITH (a = 1)",
            "CREATE EXTERNAL TABLE t STORED AS PARQUET WITH ORDER (a) LOCATION 'WITH (x = y)'",
            "CREATE EXTERNAL TABLE t (a INT) OPTIONS ('a' 'b') -- WITH (a = b)",
            "CREATE EXTERNAL TABLE t 'unclosed WITH (a = b)",
            "",
        ] {
            assert!(matches!(with_options(other), Cow::Borrowed(text) if text == other), "{other}");
        }
    }
}
