//! Completion with the tab key: commands, SQL words, tables, and columns of the tables in the line.
//!
//! Completion looks at words, not at grammar.

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::command;

const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT JOIN",
    "FULL JOIN",
    "CROSS JOIN",
    "ON",
    "USING",
    "AS",
    "AND",
    "OR",
    "NOT",
    "IN",
    "EXISTS",
    "BETWEEN",
    "LIKE",
    "ILIKE",
    "IS NULL",
    "IS NOT NULL",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "DISTINCT",
    "UNION ALL",
    "WITH",
    "VALUES",
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "DESCRIBE",
    "SHOW TABLES",
    "CREATE VIEW",
    "CREATE EXTERNAL TABLE",
    "COPY",
    "SET",
    "count(*)",
    "sum(",
    "avg(",
    "min(",
    "max(",
    "coscan.policy",
];

/// Completes names.
#[derive(Default)]
pub struct Names {
    /// Tables with their columns.
    pub tables: Vec<(String, Vec<String>)>,
}

impl Names {
    /// The possible words at `pos`, and the start of the word to replace.
    fn offers(&self, line: &str, pos: usize) -> (usize, Vec<String>) {
        let typed = &line[..pos];
        if typed.starts_with('\\') && !typed.contains(char::is_whitespace) {
            let names = command::NAMES.iter().filter(|name| name.starts_with(typed));
            return (0, names.map(|name| (*name).to_owned()).collect());
        }
        let is_part = |c: char| c.is_alphanumeric() || "_.\"".contains(c);
        let start = typed
            .rfind(|c| !is_part(c))
            .map_or(0, |at| at + typed[at..].chars().next().map_or(1, char::len_utf8));
        let word = &typed[start..];
        if let Some((table, column)) = word.rsplit_once('.') {
            let columns = self.columns_of(table, line).into_iter().filter(|name| begins(name, column));
            return (start, columns.map(|name| format!("{table}.{}", quoted(name))).collect());
        }
        let tables = self.tables.iter().map(|(name, _)| quoted_table(name));
        let any = self.tables.iter().any(|(name, _)| names(line, name));
        let chosen = self.tables.iter().filter(|(name, _)| !any || names(line, name));
        let columns = chosen.flat_map(|(_, columns)| columns).map(|name| quoted(name));
        let words = WORDS.iter().map(|word| (*word).to_owned());
        let upper = word.chars().any(char::is_uppercase);
        let words = words.map(|word| if upper { word } else { word.to_lowercase() });
        let empty = word.is_empty();
        let all = columns.chain(tables).chain(words.filter(|_| !empty));
        let mut fitting: Vec<String> = all.filter(|name| begins(name, word)).collect();
        fitting.sort();
        fitting.dedup();
        (start, fitting)
    }

    /// The columns of a table, or of an alias in the line.
    fn columns_of(&self, name: &str, line: &str) -> Vec<&str> {
        let exact = self.tables.iter().filter(|(table, _)| table.eq_ignore_ascii_case(name));
        let named = self.tables.iter().filter(|(table, _)| names(line, table));
        let chosen: Vec<_> = if exact.clone().next().is_some() { exact.collect() } else { named.collect() };
        chosen.into_iter().flat_map(|(_, columns)| columns.iter().map(String::as_str)).collect()
    }
}

/// Returns true if a line has the name of a table as a word.
fn names(line: &str, table: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word.eq_ignore_ascii_case(table))
}

fn begins(name: &str, typed: &str) -> bool {
    let mut letters = name.chars().flat_map(char::to_lowercase);
    typed.chars().flat_map(char::to_lowercase).all(|c| letters.next() == Some(c))
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// A column's name in SQL, quoted unless it is in lower case.
fn quoted(name: &str) -> String {
    if is_plain(name) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A table's name in SQL. Its case does not matter.
fn quoted_table(name: &str) -> String {
    if is_plain(&name.to_lowercase()) { name.to_owned() } else { quoted(name) }
}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, offers) = self.offers(line, pos);
        let pair = |text: String| Pair { display: text.clone(), replacement: text };
        Ok((start, offers.into_iter().map(pair).collect()))
    }
}

impl Hinter for Names {
    type Hint = String;
}

impl Highlighter for Names {}
impl Validator for Names {}
impl Helper for Names {}

#[cfg(test)]
mod tests {
    use super::*;

    fn offers(line: &str) -> Vec<String> {
        let columns = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let tables = vec![
            ("lineitem".to_owned(), columns(&["l_orderkey", "l_tax"])),
            ("Orders".to_owned(), columns(&["o_orderkey", "O Date"])),
        ];
        Names { tables }.offers(line, line.len()).1
    }

    #[test]
    fn tables_columns_words_and_commands() {
        assert_eq!(offers("SELECT * FROM li"), ["like", "limit", "lineitem"]);
        assert_eq!(offers("SELECT * FROM LIN"), ["lineitem"]);
        assert_eq!(offers("SELECT o_"), ["o_orderkey"], "no table is named yet");
        assert_eq!(offers("FROM ord"), ["Orders", "order by"]);
        assert_eq!(offers("SELECT * FROM lineitem WHERE l_t"), ["l_tax"]);
        assert_eq!(offers("SELECT * FROM lineitem l WHERE l.l_o"), ["l.l_orderkey"]);
        assert_eq!(offers("SELECT orders.\"O"), Vec::<String>::new());
        assert_eq!(offers("SELECT orders."), ["orders.o_orderkey", "orders.\"O Date\""]);
        assert_eq!(offers("\\wa"), ["\\watch"]);
        assert!(offers("SELECT * FROM lineitem WHERE x = 'é").is_empty());
    }
}
