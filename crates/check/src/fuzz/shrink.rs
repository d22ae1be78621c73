//! Shrinking of a failing world: removes, cuts and halves while the world still fails in the same way.
//!
//! Steps go first, by delta debugging (Zeller, Hildebrandt 2002: halves, quarters, ... single steps). Then
//! every part of the world is tried, one candidate after another, until no candidate is accepted.
//! `simpler.rs` defines the candidates. The result is small, not the smallest.

use super::violation::Kind;
use super::{Build, Violation, World, play, simpler};

/// Enough for every drawn world; a bound for others.
const TRIES_MAX: usize = 4_000;

struct Shrinker<'a> {
    best: World,
    violation: Violation,
    build: Build<'a>,
    tries: usize,
}

/// The smallest world found that breaks the same invariant, and its violation. A world that does not fail
/// when it is played again is returned unchanged.
pub(super) fn shrink(world: World, violation: Violation, build: Build<'_>) -> (World, Violation) {
    let mut shrinker = Shrinker { best: world.clone(), violation, build, tries: 0 };
    if shrinker.violation.kind != Kind::Repeat && shrinker.accepts(world) {
        loop {
            let before = shrinker.best.clone();
            shrinker.leave_out_steps();
            shrinker.simplify();
            if shrinker.best == before || shrinker.tries >= TRIES_MAX {
                break;
            }
        }
    }
    (shrinker.best, shrinker.violation)
}

impl Shrinker<'_> {
    /// Plays a candidate; if it fails in the same way it becomes the best.
    fn accepts(&mut self, candidate: World) -> bool {
        self.tries += 1;
        if self.tries > TRIES_MAX || candidate.check().is_err() {
            return false;
        }
        match play(&candidate, self.build) {
            Err(violation) if violation.signature() == self.violation.signature() => {
                self.best = candidate;
                self.violation = violation;
                true
            }
            _ => false,
        }
    }

    fn leave_out_steps(&mut self) {
        let mut length = self.best.steps.len().div_ceil(2);
        while length > 0 {
            let mut at = 0;
            while at < self.best.steps.len() {
                let mut candidate = self.best.clone();
                let end = (at + length).min(candidate.steps.len());
                candidate.steps.drain(at..end);
                if !self.accepts(candidate) {
                    at += length;
                }
            }
            length /= 2;
        }
    }

    /// Tries every simpler world; after an accepted one, continues with the next in the new list.
    fn simplify(&mut self) {
        let mut at = 0;
        let mut candidates = simpler::than(&self.best);
        while at < candidates.len() {
            let candidate = candidates[at].clone();
            if self.accepts(candidate) {
                candidates = simpler::than(&self.best);
            } else {
                at += 1;
            }
        }
    }
}
