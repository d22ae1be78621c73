//! A declaration of clustering: the tables with a key that matches one of this table's keys.

use std::fmt;
use std::iter::Peekable;

use datafusion::common::TableReference;
use datafusion::common::config::CatalogOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A table's declarations. They are attached to its files, because a scan does not know its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusteredWith(Vec<KeyMatch>);

/// A key by which two tables are clustered.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyMatch {
    own: String,
    table: TableReference,
    other: String,
}

impl ClusteredWith {
    /// Parses `table (column = column of the other table)`, or several of these with commas between them. As
    /// in SQL, names are folded to lower case unless they are quoted. The error states the expected form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{what}: write it as 'orders (l_orderkey = o_orderkey)'");
        let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize();
        let tokens = tokens.map_err(|error| wrong(&error.to_string()))?;
        let mut tokens = tokens.into_iter().filter(|token| !matches!(token, Token::Whitespace(_))).peekable();
        let mut matches = Vec::new();
        loop {
            let mut parts = vec![name(&mut tokens).ok_or_else(|| wrong("a table is missing"))?];
            while tokens.next_if_eq(&Token::Period).is_some() {
                parts.push(name(&mut tokens).ok_or_else(|| wrong("a name is missing after the dot"))?);
            }
            let table = reference(parts).ok_or_else(|| wrong("no table has such a name"))?;
            expect(&mut tokens, Token::LParen).map_err(|what| wrong(&what))?;
            let own = name(&mut tokens).ok_or_else(|| wrong("a column is missing"))?;
            expect(&mut tokens, Token::Eq).map_err(|what| wrong(&what))?;
            let other = name(&mut tokens).ok_or_else(|| wrong("the other table's column is missing"))?;
            expect(&mut tokens, Token::RParen).map_err(|what| wrong(&what))?;
            matches.push(KeyMatch { own, table, other });
            match tokens.next() {
                None => return Ok(ClusteredWith(matches)),
                Some(Token::Comma) => {}
                Some(token) => return Err(wrong(&format!("{token} is too much"))),
            }
        }
    }

    /// Returns the declarations of the table that `scan` reads.
    pub(crate) fn of(scan: &FileScanConfig) -> Option<&Self> {
        first_file(scan)?.extensions.get()
    }

    /// Returns whether the table that `scan` reads is declared to be clustered by this column, with any other
    /// table.
    pub(crate) fn has_key(scan: &FileScanConfig, column: &str) -> bool {
        Self::of(scan).is_some_and(|declared| declared.keys().any(|key| key == column))
    }

    /// Returns the columns of this table by which it is clustered.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|one| one.own.as_str())
    }
}

impl fmt::Display for ClusteredWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, KeyMatch { own, table, other }) in self.0.iter().enumerate() {
            write!(f, "{}{table} ({own} = {other})", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

fn name(tokens: &mut Peekable<impl Iterator<Item = Token>>) -> Option<String> {
    match tokens.next()? {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        Token::Word(word) => Some(word.value),
        _ => None,
    }
}

fn expect(tokens: &mut Peekable<impl Iterator<Item = Token>>, token: Token) -> Result<(), String> {
    tokens.next_if_eq(&token).map(drop).ok_or_else(|| format!("{token} is missing"))
}

/// Returns a table reference, with schema and catalog if these are given.
fn reference(parts: Vec<String>) -> Option<TableReference> {
    match <[String; 3]>::try_from(parts) {
        Ok([catalog, schema, table]) => Some(TableReference::full(catalog, schema, table)),
        Err(parts) => match parts.as_slice() {
            [table] => Some(TableReference::bare(table.as_str())),
            [schema, table] => Some(TableReference::partial(schema.as_str(), table.as_str())),
            _ => None,
        },
    }
}

/// All files of a scan are of one table.
fn first_file(scan: &FileScanConfig) -> Option<&PartitionedFile> {
    scan.file_groups.iter().flat_map(|group| group.iter()).next()
}

/// Returns whether a table that `scan` reads is declared to be clustered by `own`, with the table of
/// `other_scan` by `other`.
fn declares(
    (scan, own): (&FileScanConfig, &str),
    (other_scan, other): (&FileScanConfig, &str),
    catalog: &CatalogOptions,
) -> bool {
    // Queries may find tables in any case, so declarations do, too. A match with a wrong table only costs a
    // read.
    let resolved = |table: &TableReference| {
        let table = table.clone().resolve(&catalog.default_catalog, &catalog.default_schema);
        table.to_string().to_lowercase()
    };
    let other_table = first_file(other_scan).and_then(|file| file.table_reference.as_ref());
    let Some((declared, table)) = ClusteredWith::of(scan).zip(other_table) else { return false };
    let table = resolved(table);
    declared.0.iter().any(|one| one.own == own && one.other == other && resolved(&one.table) == table)
}

/// Returns whether one of the tables that these scans read is declared to be clustered by its given column,
/// with the other table by that table's column.
pub(crate) fn matches_declared(
    left: (&FileScanConfig, &str),
    right: (&FileScanConfig, &str),
    catalog: &CatalogOptions,
) -> bool {
    declares(left, right, catalog) || declares(right, left, catalog)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_shown_again() {
        for (text, shown) in [
            ("orders (l_orderkey = o_orderkey)", "orders (l_orderkey = o_orderkey)"),
            (" Shop.Orders(L_ORDERKEY=\"Key\") ", "shop.orders (l_orderkey = Key)"),
            ("a(x=y),b.c.d ( z = z )", "a (x = y), b.c.d (z = z)"),
        ] {
            assert_eq!(ClusteredWith::parse(text).map(|read| read.to_string()).as_deref(), Ok(shown));
        }
    }

    #[test]
    fn mistakes_say_what_is_missing() {
        for (text, said) in [
            ("", "a table is missing"),
            ("orders", "( is missing"),
            ("orders (a b)", "= is missing"),
            ("orders (a = )", "the other table's column is missing"),
            ("orders (a = b", ") is missing"),
            ("orders (a = b) c", "c is too much"),
            ("orders (a = b),", "a table is missing"),
            ("a.b.c.d (e = f)", "no table has such a name"),
            ("orders ('a", "Unterminated"),
        ] {
            let error = ClusteredWith::parse(text).expect_err(text);
            assert!(error.contains(said) && error.contains("write it as"), "{text}: {error}");
        }
    }
}
