//! Limits on the depth of a statement, checked before it is parsed.
//!
//! Parser, planner and operators are recursive, and `1 + 1 + 1 ...` has as many levels as operators. Without a
//! limit, some kilobytes of text would overflow the stack and end the process. The parser limits parentheses. This
//! module limits the forms that the parser reads in loops: operators and words between values, and lists of
//! relations. The limit is an upper bound computed from the tokens alone. The threads in [`super::work`] have a
//! stack that is large enough for every accepted statement.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::QueryError;

/// Maximum number of operators in one expression.
const OPERATORS_MAX: usize = 5000;
/// Maximum number of relations of one statement: queries, joins, set operations, tables in a list.
const RELATIONS_MAX: usize = 1000;
/// Maximum number of statements of one text. All are parsed before the first one runs.
const STATEMENTS_MAX: usize = 10_000;

/// Refuses statements that are too deep, and texts of too many statements.
///
/// # Errors
///
/// If one is too deep, with PostgreSQL's code for it.
pub(crate) fn check(sql: &str) -> Result<(), QueryError> {
    // A shorter text has fewer tokens than that.
    if sql.len() < RELATIONS_MAX {
        return Ok(());
    }
    // The parser reports invalid tokens.
    let Ok(tokens) = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize() else { return Ok(()) };
    let statements = tokens.iter().filter(|token| **token == Token::SemiColon).count();
    if statements > STATEMENTS_MAX {
        let text =
            format!("the text has {statements} statements; {STATEMENTS_MAX} are allowed: send fewer at once");
        return Err(QueryError::other("54001", text));
    }
    let (operators, relations) = measured(&tokens);
    let too_many = |what: &str, count: usize, most: usize| {
        let text = format!(
            "the statement has {count} {what}; {most} are allowed: split it, or use IN (...) or VALUES"
        );
        Err(QueryError::other("54001", text))
    };
    match (operators > OPERATORS_MAX, relations > RELATIONS_MAX) {
        (true, _) => too_many("operators in one expression", operators, OPERATORS_MAX),
        (_, true) => too_many("queries, joins and tables", relations, RELATIONS_MAX),
        _ => Ok(()),
    }
}

/// The state between two parentheses.
#[derive(Clone, Copy, Default)]
struct Level {
    operators: usize,
    /// Set while commas separate relations.
    in_from: bool,
}

/// Upper bounds on the operators of the deepest expression and the relations of the largest statement.
fn measured(tokens: &[Token]) -> (usize, usize) {
    let (mut levels, mut top) = (Vec::<Level>::new(), Level::default());
    let (mut below, mut relations) = (0, 0);
    let (mut most_operators, mut most_relations) = (0, 0);
    let mut before = &Token::EOF;
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        match token {
            Token::SemiColon => {
                (levels, top, below, relations) = (Vec::new(), Level::default(), 0, 0);
            }
            Token::LParen | Token::LBrace | Token::LBracket => {
                below += top.operators;
                levels.push(std::mem::take(&mut top));
            }
            Token::RParen | Token::RBrace | Token::RBracket => {
                top = levels.pop().unwrap_or_default();
                below -= top.operators.min(below);
                // Elements of elements of an array.
                top.operators += usize::from(*token == Token::RBracket);
            }
            // A comma ends an expression, so operators before it do not count further.
            Token::Comma => {
                top.operators = 0;
                relations += usize::from(top.in_from);
            }
            Token::Word(word) => match word.keyword {
                Keyword::SELECT => {
                    relations += 1;
                    top.in_from = false;
                }
                Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::JOIN => relations += 1,
                Keyword::FROM => top.in_from = true,
                // In the place of a relation these words are names.
                Keyword::WHERE | Keyword::GROUP | Keyword::HAVING | Keyword::ORDER
                    if !is_before_relation(before) =>
                {
                    top.in_from = false;
                }
                Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::NOTNULL
                | Keyword::BETWEEN
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::OPERATOR
                | Keyword::OVERLAPS
                | Keyword::REGEXP
                | Keyword::RLIKE
                | Keyword::DIV
                | Keyword::XOR => top.operators += 1,
                _ => {}
            },
            Token::Number(..) | Token::Char(_) | Token::Period | Token::Placeholder(_) | Token::EOF => {}
            token if is_text(token) => {}
            _ => top.operators += 1,
        }
        most_operators = most_operators.max(below + top.operators);
        most_relations = most_relations.max(relations);
        before = token;
    }
    (most_operators, most_relations)
}

fn is_before_relation(token: &Token) -> bool {
    match token {
        Token::Comma | Token::LParen | Token::Period => true,
        Token::Word(word) => matches!(word.keyword, Keyword::FROM | Keyword::JOIN | Keyword::AS),
        _ => false,
    }
}

fn is_text(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
            | Token::DoubleQuotedByteStringLiteral(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> (usize, usize) {
        measured(&Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize().unwrap())
    }

    #[test]
    fn what_is_deep_is_counted_and_what_is_long_is_not() {
        let list = |n: usize, element: &str| vec![element; n].join(", ");
        for (sql, operators, relations) in [
            ("SELECT 1 + 1 + 1".to_owned(), 2, 1),
            ("SELECT (1 + (2 * 3)) - 4".to_owned(), 2, 1),
            (format!("SELECT * FROM t WHERE x IN ({})", list(9000, "-1")), 3, 1),
            (format!("SELECT {} FROM t GROUP BY {}", list(3000, "a + 1"), list(3000, "a + 1")), 1, 1),
            ("SELECT 1 FROM a, b, c WHERE a.x = b.x ORDER BY 1, 2, 3".to_owned(), 1, 3),
            ("SELECT 1 UNION ALL SELECT 2; SELECT 3 FROM a JOIN b ON a.x = b.x".to_owned(), 1, 3),
            ("SELECT x[1][2] || 'a + b' || \"c + d\" -- 1 + 1".to_owned(), 4, 1),
            ("WITH \"where\" AS (SELECT 1) SELECT 1 FROM where, where, t".to_owned(), 0, 4),
            (vec!["SELECT 1"; 2000].join(";"), 0, 1),
        ] {
            let (found, among) = of(&sql);
            assert!(
                found >= operators && found <= operators + 1,
                "{found} operators: {}",
                &sql[..60.min(sql.len())]
            );
            assert!(
                among >= relations && among <= relations + 2,
                "{among} relations: {}",
                &sql[..60.min(sql.len())]
            );
        }
    }

    #[test]
    fn what_is_too_deep_is_refused() {
        let deep = |n: usize| format!("SELECT 1{}", " + 1".repeat(n));
        assert!(check(&deep(OPERATORS_MAX)).is_ok());
        assert_eq!(check(&deep(OPERATORS_MAX + 1)).unwrap_err().sqlstate(), "54001");
        assert!(check(&vec!["SELECT 1"; RELATIONS_MAX].join(" UNION ")).is_err());
        assert!(check(&format!("SELECT 1 FROM {}", vec!["t"; RELATIONS_MAX].join(", "))).is_ok());
        // Words that are names here hide no operators.
        assert!(check(&format!("SELECT 1{}", " + when + else".repeat(OPERATORS_MAX))).is_err());
    }
}
