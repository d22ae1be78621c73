//! LRU: the part that has not been used for longest is evicted first. What scans announce is not used.
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
