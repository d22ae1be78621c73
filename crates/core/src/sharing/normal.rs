//! Normal: every scan reads for itself, as database systems do.
//!
//! Every scan reads its chunks in table order and prefetches the next one while it processes the current one.
//! Loads are first come first served, eviction is LRU over parts. Scans share a chunk only by accident.
//!
//! Source: Zukowski et al., VLDB 2007, section 3. Choices, bound on waiting and cost are those of
//! `sequential`.

use super::sequential::{FromBeginning, Sequential};
use crate::replacement::lru::Lru;

/// Independent scans that start at their first chunk, with LRU.
pub type Normal = Sequential<FromBeginning, Lru>;
