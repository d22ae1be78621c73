//! Search breadth first through all states, then backwards from the ends.
//!
//! The order is breadth first so that the way to a broken invariant is a shortest one. The backward search
//! uses decisions without trouble, because a scan that ends only by cancellation does not count as ending.

use std::collections::HashMap;

use super::fingerprint::fingerprint;
use super::moves::{Move, Trouble, moves};
use super::{ModelConfig, ModelReport};
use crate::fuzz::{Build, Kind, Player, Step, Violation, World, catching};

/// The first way to a state.
struct Reached {
    from: u32,
    step: Step,
}

/// A state that has not been expanded.
struct Open<'w> {
    at: u32,
    player: Player<'w>,
    trouble: Trouble,
}

/// A broken invariant, its state, and the decision that broke it, if any.
type Broken = (Violation, u32, Option<Step>);

/// A search in progress.
pub(super) struct Search<'w> {
    config: &'w ModelConfig,
    seen: HashMap<u128, u32>,
    reached: Vec<Reached>,
    /// Decisions without trouble, as pairs of states.
    fair: Vec<(u32, u32)>,
    ends: Vec<u32>,
    transitions: usize,
    depth: usize,
    complete: bool,
}

impl<'w> Search<'w> {
    pub(super) fn new(config: &'w ModelConfig) -> Self {
        Search {
            config,
            seen: HashMap::new(),
            reached: Vec::new(),
            fair: Vec::new(),
            ends: Vec::new(),
            transitions: 0,
            depth: 0,
            complete: true,
        }
    }

    pub(super) fn run(mut self, build: Build<'_>) -> ModelReport {
        let broken = self.explore(build).and_then(|()| self.check_ends());
        let violation = broken.err().map(|(violation, at, last)| {
            let mut world = self.way_to(at);
            world.steps.extend(last);
            world.failure = Some(violation.to_string());
            (violation, world)
        });
        ModelReport {
            name: self.config.name.clone(),
            policy: self.config.world.config.policy.clone(),
            states: self.seen.len(),
            transitions: self.transitions,
            ends: self.ends.len(),
            depth: self.depth,
            complete: self.complete && violation.is_none(),
            violation,
        }
    }

    fn explore(&mut self, build: Build<'_>) -> Result<(), Broken> {
        let world = &self.config.world;
        let start = catching(|| {
            let abm = build(world).map_err(|e| Violation::new(Kind::Panic, e.to_string()))?;
            Player::new(world, abm)
        });
        let player = start.map_err(|violation| (violation, 0, None))?;
        let trouble = Trouble::default();
        self.seen.insert(fingerprint(&player, trouble), 0);
        self.reached.push(Reached { from: 0, step: Step::Deadline });
        let mut level = vec![Open { at: 0, player, trouble }];
        while !level.is_empty() {
            let mut next = Vec::new();
            for open in level {
                self.expand(open, &mut next)?;
            }
            self.depth += usize::from(!next.is_empty());
            if self.seen.len() > self.config.states_max {
                self.complete = next.is_empty();
                return Ok(());
            }
            level = next;
        }
        Ok(())
    }

    fn expand(&mut self, open: Open<'w>, next: &mut Vec<Open<'w>>) -> Result<(), Broken> {
        let Open { at, mut player, trouble } = open;
        let moves = moves(self.config, &player, trouble);
        if moves.is_empty() {
            self.ends.push(at);
            return catching(|| player.run_out()).map_err(|violation| (violation, at, None));
        }
        for Move { step, after, fair } in moves {
            self.transitions += 1;
            let mut player = player.clone();
            let applied = catching(|| player.apply(&step));
            applied.map_err(|violation| (violation, at, Some(step.clone())))?;
            let to = self.reached.len() as u32;
            let known = *self.seen.entry(fingerprint(&player, after)).or_insert(to);
            if known == to {
                self.reached.push(Reached { from: at, step });
                next.push(Open { at: to, player, trouble: after });
            }
            if fair {
                self.fair.push((at, known));
            }
        }
        Ok(())
    }

    /// Searches for states from which no end can be reached without trouble. It makes no statement if states
    /// were not expanded.
    fn check_ends(&mut self) -> Result<(), Broken> {
        if !self.complete {
            return Ok(());
        }
        let backwards = Backwards::new(self.reached.len(), &self.fair);
        match backwards.not_leading_to(&self.ends) {
            None => Ok(()),
            Some(lost) => {
                let text = "from here nothing comes to an end without a fault or a cancellation";
                Err((Violation::new(Kind::Endless, text), lost, None))
            }
        }
    }

    fn way_to(&self, state: u32) -> World {
        let mut steps = Vec::new();
        let mut at = state;
        while at != 0 {
            let reached = &self.reached[at as usize];
            steps.push(reached.step.clone());
            at = reached.from;
        }
        steps.reverse();
        World { steps, ..self.config.world.clone() }
    }
}

/// For every state the states that lead to it: those of state `s` are `from[first[s]..first[s + 1]]`.
struct Backwards {
    first: Vec<u32>,
    from: Vec<u32>,
}

impl Backwards {
    fn new(states: usize, edges: &[(u32, u32)]) -> Self {
        let mut first = vec![0; states + 1];
        for (_, to) in edges {
            first[*to as usize + 1] += 1;
        }
        for state in 0..states {
            first[state + 1] += first[state];
        }
        let mut free = first.clone();
        let mut from = vec![0; edges.len()];
        for (source, to) in edges {
            from[free[*to as usize] as usize] = *source;
            free[*to as usize] += 1;
        }
        Backwards { first, from }
    }

    /// The first state from which none of `ends` can be reached.
    fn not_leading_to(&self, ends: &[u32]) -> Option<u32> {
        let mut leads = vec![false; self.first.len() - 1];
        let mut open: Vec<u32> = ends.to_vec();
        while let Some(state) = open.pop() {
            if !std::mem::replace(&mut leads[state as usize], true) {
                let range = self.first[state as usize] as usize..self.first[state as usize + 1] as usize;
                open.extend_from_slice(&self.from[range]);
            }
        }
        leads.iter().position(|leads| !leads).map(|state| state as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_leads_nowhere_is_found() {
        let edges = [(0, 1), (1, 2), (0, 3), (3, 3)];
        assert_eq!(Backwards::new(4, &edges).not_leading_to(&[2]), Some(3));
        assert_eq!(Backwards::new(4, &edges[..3]).not_leading_to(&[2, 3]), None);
    }
}
