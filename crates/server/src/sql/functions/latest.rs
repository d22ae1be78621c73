//! What was made of the latest text: functions get the same pattern or template for all rows, as a rule, and read it once.

use datafusion::common::Result;

/// See the module.
pub(super) struct Latest<T>(Option<(String, T)>);

impl<T> Latest<T> {
    pub(super) fn new() -> Self {
        Latest(None)
    }

    /// What `read` makes of this text, or made of it for the row before.
    pub(super) fn of(&mut self, text: &str, read: impl FnOnce(&str) -> Result<T>) -> Result<&T> {
        let latest = match self.0.take().filter(|(of, _)| of == text) {
            Some(latest) => latest,
            None => (text.to_owned(), read(text)?),
        };
        Ok(&self.0.insert(latest).1)
    }
}
