//! A set of numbers below a bound. Its greatest number is found in constant time.
//!
//! The set is a tree of words. A bit of the lowest level is a number; a bit of the next level says that a
//! word of the level below is not empty. With 64 bits per word, six levels suffice for all 32-bit numbers.
//! Memory is one bit per number plus a 63rd.

/// Numbers below a bound.
#[derive(Clone, Debug)]
pub(crate) struct Positions {
    /// From the numbers up; the last level is one word.
    levels: Vec<Vec<u64>>,
}

impl Positions {
    /// The empty set of numbers below `bound`.
    pub(crate) fn below(bound: usize) -> Self {
        let mut levels = Vec::new();
        let mut bits = bound.max(1);
        loop {
            bits = bits.div_ceil(64);
            levels.push(vec![0; bits]);
            if bits == 1 {
                return Positions { levels };
            }
        }
    }

    /// Adds a number.
    pub(crate) fn insert(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was_empty = *word == 0;
            *word |= 1 << (at % 64);
            if !was_empty {
                return;
            }
            at /= 64;
        }
    }

    /// Takes a number out.
    pub(crate) fn remove(&mut self, number: u32) {
        let mut at = number as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The greatest number.
    pub(crate) fn last(&self) -> Option<u32> {
        self.last_in(self.levels.len(), 0)
    }

    /// The greatest number below `number`.
    pub(crate) fn last_before(&self, number: u32) -> Option<u32> {
        let mut at = number as usize;
        for (height, level) in self.levels.iter().enumerate() {
            let lower = level[at / 64] & ((1_u64 << (at % 64)) - 1);
            if lower != 0 {
                return self.last_in(height, at / 64 * 64 + lower.ilog2() as usize);
            }
            at /= 64;
        }
        None
    }

    /// The greatest number below the bit `at` of a level; above the highest there is one bit.
    fn last_in(&self, height: usize, mut at: usize) -> Option<u32> {
        for level in self.levels[..height].iter().rev() {
            at = at * 64 + level[at].checked_ilog2()? as usize;
        }
        u32::try_from(at).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_a_set() {
        for bound in [0, 1, 64, 65, 5000, 300_000] {
            let (mut set, mut model) = (Positions::below(bound), BTreeSet::new());
            let mut draw = 1_u64;
            for _ in 0..2000_usize.min(bound * 20) {
                draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let number = ((draw >> 33) % bound as u64) as u32;
                if model.remove(&number) {
                    set.remove(number);
                } else {
                    model.insert(number);
                    set.insert(number);
                }
                assert_eq!(set.last(), model.last().copied());
                assert_eq!(set.last_before(number), model.range(..number).next_back().copied());
            }
            assert_eq!(set.last().is_some(), !model.is_empty());
        }
    }
}
