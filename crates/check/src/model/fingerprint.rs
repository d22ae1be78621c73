//! Fingerprints of states. Two states are the same if everything that decides the future is the same.
//!
//! That is the whole manager, including its policy's notes, in its `Debug` text, and the host's obligations.
//! Numbers that only ever grow are normalised. Times count from the current one, loads by their order, and
//! numbers that are only compared (`COMPARED`) by their place. The text is hashed to 128 bits while it is
//! written. States with an irrelevant difference, such as the order of a free list, count as two. The search
//! then does more than necessary, never less.

use std::fmt::{self, Write};

use coscan_core::LoadId;

use super::moves::Trouble;
use crate::fuzz::Player;

/// Numbers that count up and are only compared with each other: the loads named so far, and the stops of the
/// elevator. Their collections are printed in order.
const COMPARED: [&str; 3] = ["next_load", "stops_made", "age"];

/// A map from such numbers: its order is all that matters.
const COMPARED_KEYS: &str = "by_age";

/// The state's fingerprint.
pub(super) fn fingerprint(player: &Player<'_>, trouble: Trouble) -> u128 {
    let loads = player.books().loads.iter().map(|load| load.id).collect();
    let now = player.abm().state().now().as_nanos();
    let mut text = Canonical { hash: Hash::default(), now, loads, before: Before::Other, in_map: false };
    let scans = &player.books().scans;
    write!(text, "{:?} {trouble:?} {scans:?}", player.abm()).expect("hashing does not fail");
    text.hash.0
}

/// A 128-bit hash of pieces of text.
struct Hash(u128);

impl Default for Hash {
    fn default() -> Self {
        Hash(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Hash {
    fn word(&mut self, word: u128) {
        let mixed = (self.0 ^ word).wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645);
        self.0 = mixed ^ (mixed >> 67);
    }

    fn piece(&mut self, piece: &str) {
        for block in piece.as_bytes().chunks(15) {
            let mut bytes = [0; 16];
            bytes[..block.len()].copy_from_slice(block);
            bytes[15] = block.len() as u8;
            self.word(u128::from_le_bytes(bytes));
        }
    }
}

/// The text before the next piece of text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Instant,
    Load,
    Compared,
    Other,
}

struct Canonical {
    hash: Hash,
    now: u64,
    loads: Vec<LoadId>,
    before: Before,
    in_map: bool,
}

impl Canonical {
    fn number(&mut self, digits: &str) {
        let number = || digits.parse::<u64>().unwrap_or(u64::MAX);
        match self.before {
            Before::Instant => self.hash.word(u128::from(self.now.wrapping_sub(number()))),
            Before::Load => {
                let earlier = self.loads.iter().filter(|load| load.0 < number()).count();
                self.hash.word(earlier as u128);
            }
            Before::Compared => {}
            Before::Other => self.hash.piece(digits),
        }
        self.before = Before::Other;
    }
}

impl Write for Canonical {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        if piece.starts_with(|c: char| c.is_ascii_digit()) {
            self.number(piece);
            return Ok(());
        }
        let opens = matches!(piece, "(" | ": ");
        self.in_map = (self.in_map || piece == COMPARED_KEYS) && piece != "}";
        self.before = match piece {
            "Instant" => Before::Instant,
            "LoadId" => Before::Load,
            "{" | ", " if self.in_map => Before::Compared,
            _ if COMPARED.contains(&piece) => Before::Compared,
            _ if opens => self.before,
            _ => Before::Other,
        };
        self.hash.piece(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coscan_core::Instant;

    #[derive(Debug)]
    #[allow(dead_code, reason = "read by Debug")]
    struct Notes {
        since: Option<Instant>,
        next_load: u64,
        by_age: std::collections::BTreeMap<u64, u32>,
        chunk: u32,
    }

    fn hash(now: u64, since: u64, next_load: u64, ages: [(u64, u32); 2], chunk: u32) -> u128 {
        let since = Some(Instant::from_nanos(since));
        let notes = Notes { since, next_load, by_age: ages.into(), chunk };
        let before = Before::Other;
        let mut text = Canonical { hash: Hash::default(), now, loads: Vec::new(), before, in_map: false };
        write!(text, "{notes:?}").unwrap();
        text.hash.0
    }

    #[test]
    fn times_count_from_now_and_counters_by_their_order() {
        let first = hash(100, 90, 5, [(1, 7), (2, 8)], 3);
        assert_eq!(first, hash(50, 40, 9, [(4, 7), (6, 8)], 3));
        assert_ne!(first, hash(100, 91, 5, [(1, 7), (2, 8)], 3));
        assert_ne!(first, hash(100, 90, 5, [(1, 8), (2, 7)], 3));
        assert_ne!(first, hash(100, 90, 5, [(1, 7), (2, 8)], 4));
    }
}
