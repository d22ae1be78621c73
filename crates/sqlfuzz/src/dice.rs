//! Random choices. All of them come from a seed through [`Dice`], so a seed always draws the same.

use fastrand::Rng;

/// A seeded source of choices.
#[derive(Clone, Debug)]
pub(crate) struct Dice(Rng);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not draw alike.
        Dice(Rng::with_seed(mix(seed ^ 0x5157_1a55)))
    }

    /// Returns independent dice. Their number of draws does not shift later draws.
    pub(crate) fn fork(&mut self) -> Self {
        Dice(Rng::with_seed(self.0.u64(..)))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number below `n`, which must not be zero.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n)
    }

    /// Returns a number from `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        self.0.usize(low..=high)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Returns one of these words.
    pub(crate) fn word(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }

    /// Returns one of the choices with the probability of its weight.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let total = choices.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        for &(weight, choice) in choices {
            if at < weight {
                return choice;
            }
            at -= weight;
        }
        choices[0].1
    }
}

/// Returns a pseudo-random value that follows from `x`.
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
