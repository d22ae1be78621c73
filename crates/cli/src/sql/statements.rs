//! Splits text into SQL statements at semicolons outside strings, names and comments.
//!
//! SQL is not parsed beyond that.

/// The statements in `text`, without their semicolons and without empty ones, and the text after the last semicolon.
pub fn split(text: &str) -> (Vec<&str>, &str) {
    let mut statements = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let length = skip(rest);
        if rest.starts_with(';') {
            push(&mut statements, &text[start..at]);
            start = at + 1;
        }
        at += length;
    }
    (statements, &text[start..])
}

/// The statements in `text`; the last one needs no semicolon.
pub fn all(text: &str) -> Vec<&str> {
    let (mut statements, rest) = split(text);
    push(&mut statements, rest);
    statements
}

/// The text before the first backslash outside strings, names and comments, and the text from it on.
pub fn command_in(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with('\\') {
            return Some(text.split_at(at));
        }
        at += skip(&text[at..]);
    }
    None
}

/// Returns true if `text` has nothing to run, but at most white space and comments.
pub fn is_blank(text: &str) -> bool {
    let mut rest = text.trim_start();
    while rest.starts_with("--") || rest.starts_with("/*") {
        rest = rest[skip(rest)..].trim_start();
    }
    rest.is_empty()
}

fn push<'a>(statements: &mut Vec<&'a str>, text: &'a str) {
    if !is_blank(text) {
        statements.push(text.trim());
    }
}

/// The length in bytes of the token at the beginning of `rest`: a string, a quoted name, a comment or one character.
/// An unclosed token goes to the end.
fn skip(rest: &str) -> usize {
    let until =
        |from: usize, end: &str| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    match rest.as_bytes() {
        // A doubled quote is read as two strings, with the same result.
        [b'\'', ..] => until(1, "'"),
        [b'"', ..] => until(1, "\""),
        [b'-', b'-', ..] => until(2, "\n"),
        [b'/', b'*', ..] => until(2, "*/"),
        _ => rest.chars().next().map_or(rest.len(), char::len_utf8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_in_strings_names_and_comments_do_not_cut() {
        let text = "SELECT ';', 'it''s;' ; -- a; comment\n SELECT \"x;y\" /* ; */ FROM t; rest ;";
        let (statements, rest) = split(text);
        assert_eq!(statements.len(), 3);
        assert_eq!(statements[0], "SELECT ';', 'it''s;'");
        assert!(statements[1].ends_with("FROM t"));
        assert_eq!(statements[2], "rest");
        assert_eq!(rest, "");
    }

    #[test]
    fn what_is_not_finished_is_left_over() {
        assert_eq!(split("SELECT 1; SELECT 'a;").1, " SELECT 'a;");
        assert_eq!(all("SELECT 1; SELECT 2"), ["SELECT 1", "SELECT 2"]);
        assert_eq!(split("é;ü"), (vec!["é"], "ü"));
    }

    #[test]
    fn a_command_ends_a_statement() {
        assert_eq!(command_in("SELECT 1 \\watch 2"), Some(("SELECT 1 ", "\\watch 2")));
        assert_eq!(command_in("SELECT '\\d' -- \\q"), None);
    }

    #[test]
    fn comments_alone_are_no_statement() {
        assert!(is_blank(" -- nothing\n /* at all */ "));
        assert!(!is_blank("-- something\nSELECT 1"));
        assert!(all("; ;-- x\n;").is_empty());
    }
}
