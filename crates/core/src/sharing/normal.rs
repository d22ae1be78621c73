//! Normal: does every scan by itself, as database systems do.
//!
//! Every scan wants its chunks in table order, the next one prefetched while the current one is
//! processed; loads are first come first served, eviction is LRU over parts. Scans profit from each
//! other only by accident.
//!
//! Source: Zukowski et al., VLDB 2007, section 3. Choices, bound on waiting and cost are those of `sequential`.

use super::sequential::{FromBeginning, Sequential};
use crate::replacement::lru::Lru;

/// See the module's text.
pub type Normal = Sequential<FromBeginning, Lru>;
