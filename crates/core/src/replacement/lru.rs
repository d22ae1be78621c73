//! LRU: the least recently used part is evicted first. Announcements of scans are not used.
//!
//! Cost: constant per part, logarithmic in the parts for a use.

use super::Replacement;
use crate::eviction::Victims;
use crate::state::State;

/// Least recently used parts first.
#[derive(Clone, Debug, Default)]
pub struct Lru;

impl Replacement for Lru {
    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        victims.add_all(state.recency().oldest());
    }
}
