//! The newest version of a catalog. Tables of one catalog change together, so that a statement reads all of them in one version.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use coscan_datafusion::once_in_statement;
use datafusion::common::{DataFusionError, Result};

use super::stored::version;
use crate::catalog::database::Database;
use crate::options::Wanted;

/// The newest version of a catalog, with the time at which it was looked up.
#[derive(Debug, Default)]
pub(super) struct Newest {
    last: Mutex<Option<(u64, Instant)>>,
    /// Held while the version is looked up: one statement of a burst looks.
    looking: tokio::sync::Mutex<()>,
}

impl Newest {
    /// That of the catalog at an address: tables that are made one by one have it in common, too.
    pub(super) fn of(address: &str) -> Arc<Self> {
        static KNOWN: Mutex<BTreeMap<String, Weak<Newest>>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(newest) = known.get(address).and_then(Weak::upgrade) {
            return newest;
        }
        known.retain(|_, newest| newest.strong_count() > 0);
        let newest = Arc::new(Newest::default());
        known.insert(address.to_owned(), Arc::downgrade(&newest));
        newest
    }

    fn last(&self) -> MutexGuard<'_, Option<(u64, Instant)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the version for the statement that is being planned. The first table of a statement looks it up, unless it was
    /// looked up less than `age` ago.
    pub(super) async fn version(self: &Arc<Self>, database: &Database, age: Duration) -> Result<u64> {
        let look_up = async {
            let _looking = self.looking.lock().await;
            let fresh = self.last().filter(|(_, at)| at.elapsed() < age);
            if let Some((known, _)) = fresh {
                return Ok(Arc::new(known));
            }
            let begin = Instant::now();
            let found = version(&mut database.read().await?, &Wanted::Newest).await?;
            *self.last() = Some((found, begin));
            Ok::<_, DataFusionError>(Arc::new(found))
        };
        Ok(*once_in_statement(Arc::as_ptr(self).addr(), look_up).await?)
    }

    /// Notes the version with which a table was opened: a table that is new is in no earlier one.
    pub(super) fn note(&self, found: u64) {
        let mut last = self.last();
        if last.is_none_or(|(known, _)| known < found) {
            *last = Some((found, Instant::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_has_one_newest_version() {
        let (a, again, b) = (Newest::of("sqlite:///a"), Newest::of("sqlite:///a"), Newest::of("sqlite:///b"));
        assert!(Arc::ptr_eq(&a, &again) && !Arc::ptr_eq(&a, &b));
        a.note(3);
        a.note(2);
        assert_eq!((again.last().map(|(version, _)| version), *b.last()), (Some(3), None));
        let old = Arc::downgrade(&b);
        drop(b);
        assert!(old.upgrade().is_none());
    }
}
