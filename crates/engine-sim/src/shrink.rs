//! Shrinks a failing world: leaves out everything that is not needed for the failure.

use crate::plan::{Habit, WorldPlan};
use crate::sim::{Outcome, play};

/// The maximum number of worlds that are tried.
const TRIES: usize = 400;

/// The number of executor seeds with which each smaller world is tried, because the draws happen at other
/// points in it.
const DRAWS: u64 = 6;

/// The kind of a violation: its text without numbers.
fn kind(violation: &str) -> String {
    violation.chars().filter(|c| !c.is_ascii_digit()).take(40).collect()
}

/// The smallest world found that fails in the same way, and its outcome.
pub fn shrink(plan: &WorldPlan) -> (WorldPlan, Outcome) {
    let mut best = (plan.clone(), play(plan, true));
    let Some(wanted) = best.1.violation.as_deref().map(kind) else { return best };
    let mut tries = 0;
    let mut changed = true;
    while changed && tries < TRIES {
        changed = false;
        for smaller in smaller(&best.0) {
            let found = (0..DRAWS).find_map(|draw| {
                tries += 1;
                let plan = WorldPlan { seed: best.0.seed.wrapping_add(draw << 40), ..smaller.clone() };
                let outcome = play(&plan, true);
                let same = outcome.violation.as_deref().map(kind).as_ref() == Some(&wanted);
                same.then_some((plan, outcome))
            });
            if let Some(found) = found {
                best = found;
                changed = true;
                break;
            }
            if tries >= TRIES {
                break;
            }
        }
    }
    best
}

fn leave_out<T>(list: &mut Vec<T>, at: usize) {
    list.remove(at);
}

/// Worlds with one element less.
fn smaller(plan: &WorldPlan) -> Vec<WorldPlan> {
    let mut plans = Vec::new();
    let mut add = |change: &dyn Fn(&mut WorldPlan)| {
        let mut smaller = plan.clone();
        change(&mut smaller);
        plans.push(smaller);
    };
    if plan.consumers.len() > 1 {
        (0..plan.consumers.len()).for_each(|at| add(&|plan| leave_out(&mut plan.consumers, at)));
    }
    (0..plan.controls.len()).for_each(|at| add(&|plan| leave_out(&mut plan.controls, at)));
    for (at, store) in plan.stores.iter().enumerate() {
        if store.one_in > 0 {
            add(&|plan| plan.stores[at].one_in = 0);
            (0..store.faults.len())
                .for_each(|fault| add(&|plan| leave_out(&mut plan.stores[at].faults, fault)));
        }
        if store.dead_from.is_some() && !plan.isolation {
            add(&|plan| plan.stores[at].dead_from = None);
        }
    }
    for (at, consumer) in plan.consumers.iter().enumerate() {
        if consumer.files.len() > 1 {
            (0..consumer.files.len())
                .for_each(|file| add(&|plan| leave_out(&mut plan.consumers[at].files, file)));
        }
        if consumer.habit != Habit::Reads {
            add(&|plan| plan.consumers[at].habit = Habit::Reads);
        }
        if consumer.times > 1 {
            add(&|plan| plan.consumers[at].times = 1);
        }
        if consumer.workers > 1 {
            add(&|plan| plan.consumers[at].workers = 1);
        }
        if consumer.think_ms > 0 {
            add(&|plan| plan.consumers[at].think_ms = 0);
        }
    }
    if plan.stale_one_in > 0 {
        add(&|plan| plan.stale_one_in = 0);
    }
    if plan.yields.spurious > 0 {
        add(&|plan| plan.yields.spurious = 0);
    }
    if plan.yields.jumps > 0 {
        add(&|plan| plan.yields.jumps = 0);
    }
    if !plan.config.idle_release.is_zero() {
        add(&|plan| plan.config.idle_release = std::time::Duration::ZERO);
    }
    if plan.config.read_limit.is_some() {
        add(&|plan| plan.config.read_limit = None);
    }
    plans
}
