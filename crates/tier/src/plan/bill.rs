//! The cost check of a whole query. A query that costs too much is refused before its first restore.
//!
//! A plan has several lists: one per scan, and more for partitions that are opened late. The check takes the
//! fragments of all lists from the plan, as the dry run does. Dynamic filters can only reduce them. The journal
//! enforces the limit in every case, also when several queries spend at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use coscan_datafusion::MadeOnce;
use datafusion::common::Result;
use datafusion::execution::TaskContext;

use crate::error::TierError;
use crate::fragment::Fragment;
use crate::tier::Tier;

/// The fragments that the scans of one plan may restore.
#[derive(Debug, Default)]
pub(crate) struct Bill {
    /// By the name of the tier.
    wanted: Mutex<BTreeMap<String, (Tier, Vec<Fragment>)>>,
    /// One per execution.
    checks: Mutex<Vec<Check>>,
}

#[derive(Debug)]
struct Check {
    context: Weak<TaskContext>,
    refused: Arc<MadeOnce<Option<TierError>>>,
}

impl Bill {
    /// Adds the fragments that a scan may restore.
    pub(crate) fn enter(&self, tier: &Tier, fragments: impl IntoIterator<Item = Fragment>) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = wanted.entry(tier.config().name.clone());
        entry.or_insert_with(|| (tier.clone(), Vec::new())).1.extend(fragments);
    }

    /// Checks once per execution that all fragments together are within the limits.
    ///
    /// # Errors
    ///
    /// If they cost more than a limit has left.
    pub(crate) async fn check(&self, context: &Arc<TaskContext>) -> Result<()> {
        let wanted: Vec<_> = {
            let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
            wanted.values().filter(|(tier, _)| tier.config().cost_limit.is_some()).cloned().collect()
        };
        if wanted.is_empty() {
            return Ok(());
        }
        let check = self.of(context);
        let asked = check.get(|| async move {
            for (tier, fragments) in wanted {
                if let Err(refused) = tier.affords(fragments).await {
                    return Ok(Some(refused));
                }
            }
            Ok(None)
        });
        asked.await?.map_or(Ok(()), |refused| Err(refused.into()))
    }

    fn of(&self, context: &Arc<TaskContext>) -> Arc<MadeOnce<Option<TierError>>> {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        checks.retain(|check| check.context.strong_count() > 0);
        let same = |check: &&Check| std::ptr::eq(check.context.as_ptr(), Arc::as_ptr(context));
        if let Some(check) = checks.iter().find(same) {
            return Arc::clone(&check.refused);
        }
        let check = Check { context: Arc::downgrade(context), refused: Arc::default() };
        let refused = Arc::clone(&check.refused);
        checks.push(check);
        refused
    }
}
