//! LRU: what has not been used for longest leaves first. It knows nothing of what scans announce.
//!
//! Cost: constant per part, logarithmic in the parts for a use.

use crate::sharing::Victims;
use crate::state::State;

/// Least recently used parts first.
pub(crate) fn lru(state: &State, victims: &mut Victims<'_>) {
    victims.add_all(state.recency().oldest());
}
