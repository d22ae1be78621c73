//! Paths in the statements of a client, which are relative to its folder and not to that of the host.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use coscan_datafusion::AnyCaseSchema;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::words;

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
    words::replaced(sql, |tokens| {
        let words = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
        let words: Vec<_> = words.collect();
        let is_word = |token: &Token, word: &str| matches!(token, Token::Word(of) if of.value.eq_ignore_ascii_case(word));
        let begins = |word: &str| words.first().is_some_and(|first| is_word(&first.token, word));
        let introduced_by = match (begins("COPY"), begins("CREATE")) {
            (true, _) => "TO",
            (_, true) => "LOCATION",
            _ => return Vec::new(),
        };
        let literal = |pair: &[&TokenWithSpan]| match pair {
            [before, TokenWithSpan { token: Token::SingleQuotedString(location), span }]
                if is_word(&before.token, introduced_by) =>
            {
                Some((*span, format!("'{}'", absolute(location, folder).replace('\'', "''"))))
            }
            _ => None,
        };
        words.windows(2).filter_map(literal).collect()
    })
}
