//! A cache of one parsed text. Functions usually get the same pattern or template for all rows, and parse it once.

use datafusion::common::Result;

/// See the module's documentation.
pub(super) struct Latest<T>(Option<(String, T)>);

impl<T> Latest<T> {
    pub(super) fn new() -> Self {
        Latest(None)
    }

    /// The result of `read` for this text, or the cached result if the text has not changed.
    pub(super) fn of(&mut self, text: &str, read: impl FnOnce(&str) -> Result<T>) -> Result<&T> {
        let latest = match self.0.take().filter(|(of, _)| of == text) {
            Some(latest) => latest,
            None => (text.to_owned(), read(text)?),
        };
        Ok(&self.0.insert(latest).1)
    }
}
