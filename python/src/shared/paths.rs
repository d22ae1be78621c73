//! Paths in the statements of a client, which are relative to its folder and not to that of the host.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use coscan_datafusion::AnyCaseSchema;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// A path or URL as it is from any folder.
pub(super) fn absolute(location: &str, folder: &Path) -> String {
    let is_url = location.contains("://");
    if is_url { location.to_owned() } else { folder.join(location).display().to_string() }
}

/// The tables of a session, and those named by the paths of their files.
#[derive(Debug)]
pub(super) struct Tables {
    own: AnyCaseSchema,
    /// The schema of the host's first session, which has no tables of its own and finds those named by paths.
    by_path: Arc<dyn SchemaProvider>,
    folder: PathBuf,
}

impl Tables {
    pub(super) fn new(by_path: Arc<dyn SchemaProvider>, folder: PathBuf) -> Self {
        Tables { own: AnyCaseSchema::default(), by_path, folder }
    }
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        self.own.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.own.table(name).await? {
            Some(table) => Ok(Some(table)),
            None if name.contains(['/', '.', '*']) => self.by_path.table(&absolute(name, &self.folder)).await,
            None => Ok(None),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.own.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.own.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.own.table_exist(name)
    }
}

/// The statement with absolute paths in `COPY .. TO '..'` and `LOCATION '..'`. Other texts stay.
pub(super) fn with_absolute_paths(sql: &str, folder: &Path) -> String {
    // What cannot be split into words is reported when it is planned.
    let Ok(tokens) = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location() else {
        return sql.to_owned();
    };
    let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let words: Vec<_> = words.collect();
    let is_word =
        |token: &Token, word: &str| matches!(token, Token::Word(of) if of.value.eq_ignore_ascii_case(word));
    let begins = |word: &str| words.first().is_some_and(|first| is_word(&first.token, word));
    let introduced_by = match (begins("COPY"), begins("CREATE")) {
        (true, _) => "TO",
        (_, true) => "LOCATION",
        _ => return sql.to_owned(),
    };
    let mut lines: Vec<Vec<char>> = sql.split('\n').map(|line| line.chars().collect()).collect();
    for pair in words.windows(2).rev() {
        let ([before, text], true) = (pair, pair.len() == 2) else { continue };
        let Token::SingleQuotedString(location) = &text.token else { continue };
        if !is_word(&before.token, introduced_by) || text.span.start.line != text.span.end.line {
            continue;
        }
        let (Ok(line), Ok(start), Ok(end)) = (
            usize::try_from(text.span.start.line),
            usize::try_from(text.span.start.column),
            usize::try_from(text.span.end.column),
        ) else {
            continue;
        };
        let literal = format!("'{}'", absolute(location, folder).replace('\'', "''"));
        lines[line - 1].splice(start - 1..end - 1, literal.chars());
    }
    lines.into_iter().map(String::from_iter).collect::<Vec<_>>().join("\n")
}
