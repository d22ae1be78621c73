//! Forms of PostgreSQL that the parser does not know, rewritten by their tokens before a statement is parsed.
//!
//! | form | rewritten |
//! |---|---|
//! | `a>-1` | `a> -1` |
//! | `a ISNULL` | `a IS NULL` |
//! | `TABLE t` | `SELECT * FROM t` |
//! | `trim(LEADING FROM a)` | `trim(LEADING a)` |
//! | `ORDER BY a USING >` | `ORDER BY a DESC` |
//! | `FETCH c`, `FETCH 5 c`, `FETCH FORWARD c` | `FETCH NEXT FROM c`, `FETCH 5 FROM c`, `FETCH FORWARD 1 FROM c` |
//! | `MOVE 5 IN c` | `FETCH 5 IN c INTO "move"`, a target that PostgreSQL does not have |
//! | `ABORT` | `ROLLBACK` |
//! | `COPY BINARY t TO STDOUT` | `COPY t TO STDOUT WITH BINARY` |
//! | `COPY ... (HEADER on, FORCE_QUOTE *)` | `COPY ... (HEADER TRUE, FORCE_QUOTE ("*"))` |
//! | `RESET TIME ZONE` | `RESET timezone` |
//! | `START TRANSACTION READ ONLY, NOT DEFERRABLE` | `START TRANSACTION READ ONLY`, because nothing is deferred |
//! | `a BETWEEN SYMMETRIC b AND c` | `a BETWEEN !! b AND c`, with an operator that PostgreSQL has no more |
//! | `RESET SESSION AUTHORIZATION` | `RESET session_authorization` |
//! | `'a'` and `'b'` on the next line | `'ab'` |
//! | `ROLLUP (a)`, `GROUPING SETS (a, ())` | `"rollup"(a)`, `"grouping sets"(a, row())`, which the parser reads in any depth |
//! | `GROUP BY DISTINCT a` | `GROUP BY "distinct grouping sets"(), a` |
//! | `FROM ONLY t` | `FROM t` |
//! | `(VALUES (1))`, `((SELECT 1) UNION (SELECT 2))` as a value | the same with a WITH that is removed from the parsed statement |
//! | `interval(2) 'a'` | `CAST('a' AS interval(2))`, because the parser would drop the digits |

use std::borrow::Cow;
use std::str::Chars;

use coscan_upstream::{DISTINCT_SETS, GROUPING_SETS};
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

use super::text::ends_value;

/// Words without which no such form is there, in upper case.
const WORDS: [&str; 21] = [
    "ABORT",
    "COPY",
    "CUBE",
    "DEFERRABLE",
    "DISTINCT",
    "EXCEPT",
    "FETCH",
    "GROUPING",
    "INTERSECT",
    "INTERVAL",
    "ISNULL",
    "MOVE",
    "ONLY",
    "RESET",
    "ROLLUP",
    "SYMMETRIC",
    "TABLE",
    "TRIM",
    "UNION",
    "USING",
    "VALUES",
];

/// The name of a table of WITH that only makes the parser read a query.
pub(super) const READ_AS_QUERY: &str = "coscan query";

/// The statement in a form that the parser knows.
pub(crate) fn parsable(sql: &str) -> Cow<'_, str> {
    let upper = sql.to_ascii_uppercase();
    if ![">-", ">+"].iter().chain(&WORDS).any(|part| upper.contains(part)) && !is_continued(sql) {
        return Cow::Borrowed(sql);
    }
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location() else {
        return Cow::Borrowed(sql);
    };
    let tokens: Vec<_> =
        tokens.into_iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).collect();
    let (mut text, mut done, mut place) =
        (String::new(), 0, Cursor { rest: sql.chars(), at: Location::new(1, 1) });
    for (at, TokenWithSpan { span, .. }) in tokens.iter().enumerate() {
        let Some(other) = rewritten(&tokens, at) else { continue };
        text.push_str(&sql[done..sql.len() - place.rest_from(span.start)]);
        text.push_str(&other);
        done = sql.len() - place.rest_from(span.end);
    }
    if done == 0 {
        return Cow::Borrowed(sql);
    }
    text.push_str(&sql[done..]);
    Cow::Owned(text)
}

/// Returns whether a text constant may go on behind a line's end.
fn is_continued(sql: &str) -> bool {
    let mut ends = sql.split('\'').skip(1);
    ends.any(|between| between.contains('\n') && between.trim().is_empty())
}

/// The text constant that begins with this token and goes on in the next lines. Empty for a token that goes on with another
/// one.
fn continued(tokens: &[TokenWithSpan], at: usize) -> Option<String> {
    let text = |at: usize| match &tokens.get(at)?.token {
        Token::SingleQuotedString(text) => Some(text.as_str()),
        _ => None,
    };
    let goes_on = |at: usize| {
        let next = tokens.get(at + 1)?;
        (tokens[at].span.end.line < next.span.start.line).then(|| text(at + 1)).flatten()
    };
    text(at)?;
    if at > 0 && text(at - 1).is_some() && goes_on(at - 1).is_some() {
        return Some(String::new());
    }
    goes_on(at)?;
    let mut whole = text(at)?.to_owned();
    let mut last = at;
    while let Some(more) = goes_on(last) {
        whole.push_str(more);
        last += 1;
    }
    Some(format!("'{}'", whole.replace('\'', "''")))
}

/// A place in a text that only goes on, so that many places take no more time than one.
struct Cursor<'a> {
    rest: Chars<'a>,
    at: Location,
}

impl Cursor<'_> {
    /// Goes on to a line and column, and returns the number of bytes from there.
    fn rest_from(&mut self, to: Location) -> usize {
        while (self.at.line, self.at.column) < (to.line, to.column) {
            match self.rest.next() {
                Some('\n') => self.at = Location::new(self.at.line + 1, 1),
                Some(_) => self.at.column += 1,
                None => break,
            }
        }
        self.rest.as_str().len()
    }
}

/// The text in place of a token, if it is another one.
fn rewritten(tokens: &[TokenWithSpan], at: usize) -> Option<String> {
    let before = |by: usize| at.checked_sub(by).map(|at| &tokens[at].token);
    let behind = |by: usize| tokens.get(at + by).map(|token| &token.token);
    if let Some((digits, text)) = rounded_interval(tokens, at) {
        return Some(format!("CAST({text} AS interval({digits}))"));
    }
    if let Some(other) = copied(tokens, at).or_else(|| fetched(tokens, at)) {
        return Some(other);
    }
    if (1..=4).any(|by| at >= by && rounded_interval(tokens, at - by).is_some()) {
        return Some(String::new());
    }
    if let Some(text) = continued(tokens, at).or_else(|| grouping(tokens, at)) {
        return Some(text);
    }
    match &tokens[at].token {
        Token::LParen if is_query(tokens, at) => Some(format!("(WITH \"{READ_AS_QUERY}\" AS (SELECT 1)")),
        Token::LParen
            if behind(1) == Some(&Token::RParen)
                && matches!(before(1), Some(Token::LParen | Token::Comma)) =>
        {
            Some("row(".to_owned())
        }
        Token::Word(word) if word.keyword == Keyword::ONLY => {
            let of_table = matches!(before(1).and_then(word_of), Some(Keyword::FROM | Keyword::JOIN));
            (of_table && is_name(behind(1))).then(String::new)
        }
        Token::CustomBinaryOperator(operator) => separate_sign(operator),
        Token::Word(word) if word.quote_style.is_some() => None,
        Token::Word(word) if word.value.eq_ignore_ascii_case("isnull") => {
            let is_operand =
                before(1).is_some_and(|token| ends_value(token) && word_of(token) != Some(Keyword::AS));
            is_operand.then(|| "IS NULL".to_owned())
        }
        Token::Word(word) if word.value.eq_ignore_ascii_case("abort") => {
            begins_statement(before(1)).then(|| "ROLLBACK".to_owned())
        }
        Token::Word(word) if word.keyword == Keyword::TIME => {
            let is_reset = before(1).and_then(word_of) == Some(Keyword::RESET)
                && begins_statement(before(2))
                && behind(1).and_then(word_of) == Some(Keyword::ZONE);
            is_reset.then(|| "timezone".to_owned())
        }
        Token::Word(word) if word.keyword == Keyword::ZONE => {
            let is_reset = before(1).and_then(word_of) == Some(Keyword::TIME)
                && before(2).and_then(word_of) == Some(Keyword::RESET)
                && begins_statement(before(3));
            is_reset.then(String::new)
        }
        Token::Word(word) if word.keyword == Keyword::SESSION => {
            let is_reset = before(1).and_then(word_of) == Some(Keyword::RESET)
                && begins_statement(before(2))
                && behind(1).and_then(word_of) == Some(Keyword::AUTHORIZATION);
            is_reset.then(|| "session_authorization".to_owned())
        }
        Token::Word(word) if word.keyword == Keyword::AUTHORIZATION => {
            let is_reset = before(1).and_then(word_of) == Some(Keyword::SESSION)
                && before(2).and_then(word_of) == Some(Keyword::RESET)
                && begins_statement(before(3));
            is_reset.then(String::new)
        }
        token if is_deferrable(token, behind(1), before(1)) && is_about_transaction(tokens, at) => {
            Some(String::new())
        }
        Token::Word(word) if word.keyword == Keyword::TABLE => {
            let begins = match before(1) {
                None | Some(Token::LParen | Token::SemiColon) => true,
                Some(token) => matches!(
                    word_of(token),
                    Some(
                        Keyword::UNION
                            | Keyword::EXCEPT
                            | Keyword::INTERSECT
                            | Keyword::ALL
                            | Keyword::EXPLAIN
                            | Keyword::ANALYZE
                    )
                ),
            };
            let named = matches!(behind(1), Some(Token::Word(_))) && behind(2) != Some(&Token::LParen);
            (begins && named).then(|| "SELECT * FROM".to_owned())
        }
        Token::Word(word) if word.keyword == Keyword::FROM => {
            let is_open = |open: Option<&Token>, trim: Option<&Token>| {
                open == Some(&Token::LParen) && trim.and_then(word_of) == Some(Keyword::TRIM)
            };
            let sided = matches!(
                before(1).and_then(word_of),
                Some(Keyword::LEADING | Keyword::TRAILING | Keyword::BOTH)
            );
            (is_open(before(1), before(2)) || sided && is_open(before(2), before(3))).then(String::new)
        }
        Token::Word(word) if word.keyword == Keyword::USING => match behind(1) {
            Some(Token::Lt) => Some("ASC".to_owned()),
            Some(Token::Gt) => Some("DESC".to_owned()),
            _ => None,
        },
        Token::Word(word) if before(1).and_then(word_of) == Some(Keyword::BETWEEN) => match word.keyword {
            Keyword::SYMMETRIC => Some("!!".to_owned()),
            Keyword::ASYMMETRIC => Some(String::new()),
            _ => None,
        },
        Token::Lt | Token::Gt if before(1).and_then(word_of) == Some(Keyword::USING) => Some(String::new()),
        _ => None,
    }
}

/// Grouping sets as calls.
fn grouping(tokens: &[TokenWithSpan], at: usize) -> Option<String> {
    let word = |at: Option<usize>| tokens.get(at?).and_then(|token| word_of(&token.token));
    let opens = |by: usize| tokens.get(at + by).is_some_and(|token| token.token == Token::LParen);
    let begins = || {
        let words = (word(at.checked_sub(2)), word(at.checked_sub(1)));
        words == (Some(Keyword::GROUP), Some(Keyword::BY))
    };
    match word(Some(at))? {
        Keyword::ROLLUP if opens(1) => Some("\"rollup\"".to_owned()),
        Keyword::CUBE if opens(1) => Some("\"cube\"".to_owned()),
        Keyword::GROUPING if word(Some(at + 1)) == Some(Keyword::SETS) && opens(2) => {
            Some(format!("\"{GROUPING_SETS}\""))
        }
        Keyword::SETS if word(at.checked_sub(1)) == Some(Keyword::GROUPING) && opens(1) => {
            Some(String::new())
        }
        Keyword::DISTINCT if begins() => Some(format!("\"{DISTINCT_SETS}\"(),")),
        Keyword::ALL if begins() => {
            let sets = [Keyword::ROLLUP, Keyword::CUBE, Keyword::GROUPING];
            word(Some(at + 1)).is_some_and(|word| sets.contains(&word)).then(String::new)
        }
        _ => None,
    }
}

/// Returns whether this parenthesis, where a value is expected, begins a query that the parser takes for an expression.
fn is_query(tokens: &[TokenWithSpan], at: usize) -> bool {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let is_value = match at.checked_sub(1).and_then(token) {
        Some(Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq) => true,
        Some(other) => {
            matches!(word_of(other), Some(Keyword::SELECT | Keyword::ANY | Keyword::ALL | Keyword::SOME))
        }
        None => false,
    };
    if !is_value {
        return false;
    }
    let is_union = |word: Keyword| matches!(word, Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT);
    match token(at + 1) {
        Some(Token::LParen) if token(at + 2).and_then(word_of) == Some(Keyword::SELECT) => {
            let end = closing(tokens, at + 1);
            end.and_then(|end| token(end + 1)).and_then(word_of).is_some_and(is_union)
        }
        Some(first) => word_of(first) == Some(Keyword::VALUES) && token(at + 2) == Some(&Token::LParen),
        None => false,
    }
}

/// The place of the parenthesis that closes this one.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth <= 1 => return Some(at),
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The digits and the text of an interval that is rounded: `interval(2) '1 day'`.
fn rounded_interval(tokens: &[TokenWithSpan], at: usize) -> Option<(&str, &Token)> {
    match tokens.get(at..at + 5)? {
        [word, open, digits, close, text]
            if word_of(&word.token) == Some(Keyword::INTERVAL)
                && open.token == Token::LParen
                && close.token == Token::RParen
                && matches!(text.token, Token::SingleQuotedString(_)) =>
        {
            match &digits.token {
                Token::Number(digits, _) => Some((digits, &text.token)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The text in place of a token of FETCH or MOVE, if it is another one.
fn fetched(tokens: &[TokenWithSpan], at: usize) -> Option<String> {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let word = |at: usize| token(at).and_then(word_of);
    let is_move = |at: usize| match token(at) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case("move"),
        _ => false,
    };
    // These statements have few tokens.
    let is_verb = |at: &usize| word(*at) == Some(Keyword::FETCH) || is_move(*at);
    let begin = (at.saturating_sub(4)..=at).rev().find(is_verb)?;
    if !begins_statement(begin.checked_sub(1).and_then(token)) {
        return None;
    }
    let name = (begin + 1..begin + 5).find(|&at| ends_statement(token(at + 1)) && is_name(token(at)))?;
    let has_from = name > begin + 1 && matches!(word(name - 1), Some(Keyword::FROM | Keyword::IN));
    let directions = begin + 1..if has_from { name - 1 } else { name };
    let moves = is_move(begin);
    let written = token(at)?;
    if at == begin {
        let next = if directions.is_empty() { " NEXT" } else { "" };
        return (moves || !next.is_empty()).then(|| format!("FETCH{next}"));
    }
    if at == name {
        let (from, into) = (if has_from { "" } else { "FROM " }, if moves { " INTO \"move\"" } else { "" });
        return (!has_from || moves).then(|| format!("{from}{written}{into}"));
    }
    let is_short = directions.len() == 1 && matches!(word(at), Some(Keyword::FORWARD | Keyword::BACKWARD));
    (directions.contains(&at) && is_short).then(|| format!("{written} 1"))
}

/// Returns whether a FETCH of the parser was written as MOVE.
pub(crate) fn is_move(into: Option<&ObjectName>) -> bool {
    into.is_some_and(|into| into.to_string() == "\"move\"")
}

/// The text in place of a token of COPY, if it is another one.
fn copied(tokens: &[TokenWithSpan], at: usize) -> Option<String> {
    let word = |at: usize| tokens.get(at).and_then(|token| word_of(&token.token));
    let before = |by: usize| at.checked_sub(by).and_then(word);
    // The place where the statement begins is searched for few tokens.
    let follows =
        matches!(before(1), Some(Keyword::COPY | Keyword::FORCE_QUOTE | Keyword::QUOTE | Keyword::HEADER));
    if !follows && word(at) != Some(Keyword::STDOUT) {
        return None;
    }
    let begin = statement(tokens, at);
    if word(begin) != Some(Keyword::COPY) {
        return None;
    }
    let is_binary = word(begin + 1) == Some(Keyword::BINARY) && word(begin + 2) != Some(Keyword::TO);
    let is_header = before(1) == Some(Keyword::HEADER)
        && tokens.get(at + 1).is_some_and(|token| matches!(token.token, Token::Comma | Token::RParen));
    let other = match &tokens[at].token {
        Token::Word(_) if is_binary && at == begin + 1 => "",
        Token::Word(word) if is_binary && word.keyword == Keyword::STDOUT => "STDOUT WITH BINARY",
        Token::Mul if before(1) == Some(Keyword::FORCE_QUOTE) => "(\"*\")",
        Token::Mul if before(1) == Some(Keyword::QUOTE) && before(2) == Some(Keyword::FORCE) => "\"*\"",
        Token::Word(word) if is_header && word.keyword == Keyword::ON => "TRUE",
        Token::Word(word) if is_header && word.keyword == Keyword::OFF => "FALSE",
        Token::Number(number, _) if is_header && number == "1" => "TRUE",
        Token::Number(number, _) if is_header && number == "0" => "FALSE",
        _ => return None,
    };
    Some(other.to_owned())
}

/// The place of the first token of a statement.
fn statement(tokens: &[TokenWithSpan], at: usize) -> usize {
    tokens[..at].iter().rposition(|token| token.token == Token::SemiColon).map_or(0, |at| at + 1)
}

/// Returns whether a token is a part of `[NOT] DEFERRABLE`, or a comma beside it. The commas between modes of a
/// transaction may be left out.
fn is_deferrable(token: &Token, behind: Option<&Token>, before: Option<&Token>) -> bool {
    let is = |token: Option<&Token>, keyword| token.and_then(word_of) == Some(keyword);
    let deferrable = Keyword::DEFERRABLE;
    match token {
        Token::Comma => is(behind, Keyword::NOT) || is(behind, deferrable) || is(before, deferrable),
        token => is(Some(token), deferrable) || is(Some(token), Keyword::NOT) && is(behind, deferrable),
    }
}

/// Returns whether the statement of a token has modes of a transaction.
fn is_about_transaction(tokens: &[TokenWithSpan], at: usize) -> bool {
    let begin = statement(tokens, at);
    let mut words = tokens[begin..at].iter().map(|token| word_of(&token.token));
    match words.next().flatten() {
        Some(Keyword::BEGIN | Keyword::START) => true,
        Some(Keyword::SET) => words.any(|word| word == Some(Keyword::TRANSACTION)),
        _ => false,
    }
}

fn begins_statement(before: Option<&Token>) -> bool {
    matches!(before, None | Some(Token::SemiColon))
}

fn ends_statement(behind: Option<&Token>) -> bool {
    matches!(behind, None | Some(Token::SemiColon | Token::EOF))
}

fn is_name(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Word(_)))
}

fn word_of(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

/// The operator and a blank without the signs at its end. By PostgreSQL's rule an operator ends with a sign only if it has
/// one of some other letters.
fn separate_sign(operator: &str) -> Option<String> {
    const LETTERS: [char; 9] = ['~', '!', '@', '#', '%', '^', '&', '|', '`'];
    let plain = operator.trim_end_matches(['-', '+']);
    let has_sign = plain.len() < operator.len() && !operator.contains(LETTERS);
    has_sign.then(|| format!("{plain} {}", &operator[plain.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_rewritten_where_they_are_meant() {
        for (sql, other) in [
            ("SELECT a>-1, b>+2", "SELECT a> -1, b> +2"),
            ("SELECT a ISNULL, (b)isnull", "SELECT a IS NULL, (b)IS NULL"),
            ("TABLE t", "SELECT * FROM t"),
            ("SELECT 'a'\n 'it''s'\n\n'c', 'd'", "SELECT 'ait''sc'\n \n\n, 'd'"),
            ("SELECT 'a' 'b'\n, 'a'\n AS b", "SELECT 'a' 'b'\n, 'a'\n AS b"),
            ("FETCH c; fetch 5 \"C\"", "FETCH NEXT FROM c; fetch 5 FROM \"C\""),
            ("FETCH FORWARD c", "FETCH FORWARD 1 FROM c"),
            ("MOVE c; move 2 from c", "FETCH NEXT FROM c INTO \"move\"; FETCH 2 from c INTO \"move\""),
            ("ABORT", "ROLLBACK"),
            ("COPY BINARY t TO STDOUT", "COPY  t TO STDOUT WITH BINARY"),
            (
                "COPY t TO STDOUT (HEADER on, FORCE_QUOTE *)",
                "COPY t TO STDOUT (HEADER TRUE, FORCE_QUOTE (\"*\"))",
            ),
            ("COPY t TO STDOUT CSV FORCE QUOTE *", "COPY t TO STDOUT CSV FORCE QUOTE \"*\""),
            ("reset time zone; RESET timezone", "reset timezone ; RESET timezone"),
            ("RESET SESSION AUTHORIZATION", "RESET session_authorization "),
            ("BEGIN READ ONLY, NOT DEFERRABLE", "BEGIN READ ONLY  "),
            ("SET TRANSACTION DEFERRABLE, READ ONLY", "SET TRANSACTION  READ ONLY"),
            ("SELECT interval(2) '1 day', 1", "SELECT CAST('1 day' AS interval(2)) , 1"),
            (
                "SELECT a FROM t GROUP BY ROLLUP ((a)::text)",
                "SELECT a FROM t GROUP BY \"rollup\" ((a)::text)",
            ),
            (
                "SELECT 1 FROM t GROUP BY GROUPING SETS (CUBE (a), ())",
                "SELECT 1 FROM t GROUP BY \"grouping sets\"  (\"cube\" (a), row())",
            ),
            (
                "SELECT 1 FROM t GROUP BY DISTINCT ROLLUP (a)",
                "SELECT 1 FROM t GROUP BY \"distinct grouping sets\"(), \"rollup\" (a)",
            ),
            ("SELECT 1 FROM t GROUP BY ALL CUBE (a)", "SELECT 1 FROM t GROUP BY  \"cube\" (a)"),
            ("SELECT 1 FROM ONLY t", "SELECT 1 FROM  t"),
            ("SELECT (VALUES (1))", "SELECT (WITH \"coscan query\" AS (SELECT 1)VALUES (1))"),
            (
                "SELECT 1 = ANY ((SELECT 1) UNION (SELECT 2))",
                "SELECT 1 = ANY (WITH \"coscan query\" AS (SELECT 1)(SELECT 1) UNION (SELECT 2))",
            ),
            ("table s.t ORDER BY 1", "SELECT * FROM s.t ORDER BY 1"),
            ("SELECT 1 UNION ALL TABLE t", "SELECT 1 UNION ALL SELECT * FROM t"),
            ("SELECT trim(LEADING FROM a), trim(from b)", "SELECT trim(LEADING  a), trim( b)"),
            ("SELECT a BETWEEN SYMMETRIC 2 AND 1", "SELECT a BETWEEN !! 2 AND 1"),
            ("SELECT a FROM t ORDER BY a USING >, b using <", "SELECT a FROM t ORDER BY a DESC , b ASC "),
        ] {
            assert_eq!(parsable(sql), other);
        }
        for sql in [
            "SELECT 1 AS isnull, t.isnull, isnull(a)",
            "FETCH FORWARD 5 FROM c; FETCH ALL IN c; SELECT a AS abort FROM t FETCH FIRST 5 ROWS ONLY",
            "SELECT 'a ISNULL', \"table \" FROM t",
            "SELECT move FROM move",
            "CREATE TABLE t (a int)",
            "COPY (SELECT count(*), 2 * quote, header FROM t JOIN header ON a = b) TO STDOUT",
            "SELECT now() AT TIME ZONE 'UTC', NOT deferrable, a",
            "SELECT interval '1 day', '1 day'::interval(2), interval(1)",
            "CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION 'x'",
            "SELECT trim(LEADING 'x' FROM a), trim(a) FROM t JOIN u USING (a)",
            "SELECT a FROM t WHERE b @>- 1",
            "SELECT DISTINCT a FROM t GROUP BY ALL HAVING grouping(a) = (SELECT 1 UNION SELECT 1)",
            "INSERT INTO t VALUES (1); SELECT * FROM (VALUES (1)) v WHERE a IN (VALUES (2))",
            "SELECT ((SELECT 1)), now() FETCH FIRST 2 ROWS ONLY",
        ] {
            assert_eq!(parsable(sql), sql);
        }
    }
}
