//! Worlds that are one step simpler than a given one: an item less (scan, table, chunk, column), a smaller
//! number, or a default.
//!
//! When an item is removed, the positions behind it are decremented, in scans and in steps. `shrink.rs`
//! checks whether a simpler world still fails.

use std::any::Any;
use std::ops::SubAssign;

use coscan_trace::{Column, Columns, Layout, Runs};

use super::step::Step;
use super::world::{Config, World, WorldScan};

/// All worlds one step simpler, those that remove most first.
pub(super) fn than(world: &World) -> Vec<World> {
    let mut found = Vec::new();
    found.extend((0..world.scans.len()).map(|at| without_scan(world, at)));
    found.extend((0..world.additions.len()).map(|at| without_addition(world, at)));
    found.extend((0..world.tables.len()).filter_map(|at| without_table(world, at)));
    for (at, table) in world.tables.iter().enumerate() {
        let (chunks, columns) = extent(table);
        found.extend((0..chunks).rev().map(|chunk| without_chunk(world, at, chunk)));
        found.extend((0..columns).rev().filter_map(|column| without_column(world, at, column)));
    }
    found.extend(configs(&world.config).into_iter().map(|config| World { config, ..world.clone() }));
    for (at, scan) in world.scans.iter().enumerate() {
        found.extend(scans(scan).into_iter().map(|scan| with(world, |w| w.scans[at] = scan)));
    }
    for (at, step) in world.steps.iter().enumerate() {
        found.extend(steps(step).into_iter().map(|step| with(world, |w| w.steps[at] = step)));
    }
    for at in 0..world.tables.len() {
        found.extend(smaller(&world.tables[at]).into_iter().map(|t| with(world, |w| w.tables[at] = t)));
    }
    for at in 0..world.additions.len() {
        let layouts = smaller(&world.additions[at].layout).into_iter();
        found.extend(layouts.map(|layout| with(world, |w| w.additions[at].layout = layout)));
    }
    found.retain(|candidate| candidate != world);
    found
}

fn with(world: &World, change: impl FnOnce(&mut World)) -> World {
    let mut world = world.clone();
    change(&mut world);
    world
}

fn extent(layout: &Layout) -> (u32, u32) {
    match layout {
        Layout::Rows(bytes) => (bytes.len() as u32, 1),
        Layout::Columns { chunks, columns } => (*chunks, columns.len() as u32),
    }
}

/// Decrements a position if it is behind the removed one; returns false if it is the removed one.
fn move_up<T: Copy + Ord + SubAssign + From<bool>>(at: Option<&mut T>, gone: T) -> bool {
    let Some(at) = at else { return true };
    let kept = *at != gone;
    *at -= T::from(*at > gone);
    kept
}

fn without_scan(world: &World, gone: usize) -> World {
    let mut world = world.clone();
    world.scans.remove(gone);
    world.steps.retain_mut(|step| move_up(step.argument_mut("q"), gone));
    world
}

fn without_addition(world: &World, gone: usize) -> World {
    let mut world = world.clone();
    world.additions.remove(gone);
    world.steps.retain_mut(|step| move_up(step.argument_mut("a"), gone));
    world
}

/// The world without a table that no scan and no addition uses.
fn without_table(world: &World, gone: usize) -> Option<World> {
    let mut names =
        world.scans.iter().flat_map(WorldScan::tables).chain(world.additions.iter().map(|a| a.table));
    if names.any(|table| table == gone) {
        return None;
    }
    let mut world = world.clone();
    world.tables.remove(gone);
    for scan in &mut world.scans {
        scan.table -= usize::from(scan.table > gone);
        scan.matching.iter_mut().for_each(|m| m.table -= usize::from(m.table > gone));
    }
    world.additions.iter_mut().for_each(|a| a.table -= usize::from(a.table > gone));
    world.steps.retain_mut(|step| move_up(step.argument_mut("t"), gone));
    Some(world)
}

fn without_chunk(world: &World, table: usize, gone: u32) -> World {
    let mut world = world.clone();
    match &mut world.tables[table] {
        Layout::Rows(bytes) => {
            bytes.remove(gone as usize);
        }
        Layout::Columns { chunks, columns } => {
            *chunks -= 1;
            for column in columns {
                match column {
                    Column::Parts(bytes) => {
                        bytes.remove(gone as usize);
                    }
                    Column::Pages { spans, .. } => {
                        spans.remove(gone as usize);
                    }
                }
            }
        }
    }
    let of_table: Vec<bool> = world.scans.iter().map(|scan| scan.table == table).collect();
    for scan in &mut world.scans {
        if scan.table == table {
            close_gap(&mut scan.chunks, gone);
            for matching in &mut scan.matching {
                matching.with.retain_mut(|(own, _)| move_up(Some(own), gone));
            }
        }
        for matching in scan.matching.iter_mut().filter(|matching| matching.table == table) {
            matching.with.retain_mut(|(_, with)| close_gap(with, gone));
        }
    }
    world.steps.retain_mut(|step| {
        let of_scan = step.argument_mut::<usize>("q").is_some_and(|scan| of_table.get(*scan) == Some(&true));
        let of_matching = step.argument_mut::<u32>("m").is_some();
        if of_matching || (!of_scan && !is_of(step, table)) {
            return true;
        }
        let runs_left = step.argument_mut("c").is_none_or(|runs| close_gap(runs, gone));
        runs_left && move_up(step.argument_mut("c"), gone)
    });
    world
}

/// True if a step concerns this table.
fn is_of(step: &mut Step, table: usize) -> bool {
    step.argument_mut("t").is_some_and(|at: &mut usize| *at == table)
}

/// Moves runs behind a removed chunk; returns true if any run is left.
fn close_gap(runs: &mut Runs, gone: u32) -> bool {
    for (from, to) in runs.iter_mut() {
        *from -= u32::from(*from > gone);
        *to -= u32::from(*to > gone);
    }
    runs.retain(|(from, to)| from < to);
    !runs.is_empty()
}

fn without_column(world: &World, table: usize, gone: u32) -> Option<World> {
    let mut world = world.clone();
    let Layout::Columns { columns, .. } = &mut world.tables[table] else { return None };
    columns.remove(gone as usize);
    let close = |columns: &mut Vec<u32>| {
        columns.retain(|column| *column != gone);
        columns.iter_mut().for_each(|column| *column -= u32::from(*column > gone));
    };
    for scan in &mut world.scans {
        if scan.table == table {
            close(&mut scan.columns);
        }
        let matching = scan.matching.iter_mut().filter(|matching| matching.table == table);
        matching.for_each(|matching| close(&mut matching.columns));
    }
    world.steps.retain_mut(|step| !is_of(step, table) || move_up(step.argument_mut("col"), gone));
    Some(world)
}

/// Numbers to try instead of `n`: the simplest, half, one less.
fn lower(n: u64, simplest: u64) -> Vec<u64> {
    let mut tries = vec![simplest, n / 2, n.saturating_sub(1)];
    tries.retain(|t| *t >= simplest && *t < n);
    tries.dedup();
    tries
}

fn configs(config: &Config) -> Vec<Config> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut Config)| {
        let mut config = config.clone();
        change(&mut config);
        found.push(config);
    };
    add(&|c| c.policy = "normal".to_owned());
    add(&|c| c.loads_in_flight_max = 1);
    add(&|c| c.starved_below = 2);
    add(&|c| c.starved_below = 1);
    add(&|c| c.ahead_bytes = 0);
    add(&|c| c.workspace_share_percent = 25);
    add(&|c| c.decoded_share_percent = 25);
    add(&|c| c.processors = 1);
    add(&|c| c.tick_ns = 0);
    lower(config.buffer_bytes, 1).into_iter().for_each(|n| add(&|c| c.buffer_bytes = n));
    lower(config.stall_after_ns, 1).into_iter().for_each(|n| add(&|c| c.stall_after_ns = n));
    found
}

fn scans(scan: &WorldScan) -> Vec<WorldScan> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut WorldScan)| {
        let mut scan = scan.clone();
        change(&mut scan);
        found.push(scan);
    };
    add(&|s| s.stops = false);
    add(&|s| s.in_order = false);
    add(&|s| s.weight = 1);
    lower(u64::from(scan.workers), 1).into_iter().for_each(|n| add(&|s| s.workers = n as u32));
    lower(scan.workspace_bytes, 0).into_iter().for_each(|n| add(&|s| s.workspace_bytes = n));
    for at in 0..scan.columns.len() {
        add(&|s| {
            s.columns.remove(at);
        });
    }
    fewer(&scan.chunks).into_iter().for_each(|runs| add(&|s| s.chunks = runs.clone()));
    for (at, matching) in scan.matching.iter().enumerate() {
        add(&|s| {
            s.matching.remove(at);
        });
        for column in 0..matching.columns.len() {
            add(&|s| {
                s.matching[at].columns.remove(column);
            });
        }
        for (own, (_, with)) in matching.with.iter().enumerate() {
            add(&|s| {
                s.matching[at].with.remove(own);
            });
            fewer(with).into_iter().for_each(|runs| add(&|s| s.matching[at].with[own].1 = runs.clone()));
        }
    }
    found
}

/// Runs with one removed, or with one cut to a half or by one at either end.
fn fewer(runs: &Runs) -> Vec<Runs> {
    let mut found = Vec::new();
    for (at, (from, to)) in runs.iter().copied().enumerate() {
        let mut rest = runs.clone();
        rest.remove(at);
        found.push(rest);
        let middle = from + (to - from) / 2;
        for cut in [(from, middle), (middle, to), (from + 1, to), (from, to - 1)] {
            if cut.0 < cut.1 && cut != (from, to) {
                let mut runs = runs.clone();
                runs[at] = cut;
                found.push(runs);
            }
        }
    }
    found
}

fn steps(step: &Step) -> Vec<Step> {
    let mut read = step.clone();
    let mut found = Vec::new();
    if read.argument_mut::<Columns>("col").is_some_and(|columns| !columns.is_empty()) {
        found.push(changed(step, "col", Columns::new()));
    }
    if let Some(runs) = read.argument_mut::<Runs>("c") {
        found.extend(fewer(runs).into_iter().map(|runs| changed(step, "c", runs)));
    }
    if let Some(number) = read.argument_mut::<u64>("") {
        found.extend(lower(*number, 0).into_iter().map(|number| changed(step, "", number)));
    }
    if let Some(ns) = read.argument_mut::<i64>("").filter(|ns| ns.abs() > 1) {
        found.push(changed(step, "", *ns / 2));
    }
    found
}

/// The step with another argument.
fn changed<T: Any>(step: &Step, prefix: &str, to: T) -> Step {
    let mut step = step.clone();
    *step.argument_mut(prefix).expect("the step has this argument") = to;
    step
}

/// The table with smaller pages: all of them, then one at a time.
fn smaller(layout: &Layout) -> Vec<Layout> {
    let count = numbers(&mut layout.clone()).len();
    let mut found = Vec::new();
    for simplest in [1, 0] {
        found.push(rewritten(layout, |_, n| if n > simplest { simplest } else { n }));
    }
    found.push(rewritten(layout, |_, n| n.div_ceil(2)));
    for at in 0..count {
        found.push(rewritten(layout, |i, n| if i == at { n.min(1) } else { n }));
        found.push(rewritten(layout, |i, n| if i == at { n.div_ceil(2) } else { n }));
    }
    found.extend((0..count).map(|at| rewritten(layout, |i, n| if i == at { n - n.min(1) } else { n })));
    found
}

/// The bytes of all pages of a layout.
fn numbers(layout: &mut Layout) -> Vec<&mut u64> {
    match layout {
        Layout::Rows(bytes) => bytes.iter_mut().collect(),
        Layout::Columns { columns, .. } => columns
            .iter_mut()
            .flat_map(|column| match column {
                Column::Parts(bytes) | Column::Pages { bytes, .. } => bytes.iter_mut(),
            })
            .collect(),
    }
}

fn rewritten(layout: &Layout, change: impl Fn(usize, u64) -> u64) -> Layout {
    let mut layout = layout.clone();
    numbers(&mut layout).into_iter().enumerate().for_each(|(at, bytes)| *bytes = change(at, *bytes));
    layout
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_move_up_behind_what_is_gone() {
        let file = include_str!("../../tests/regressions/dropped-table-leaves-shared-page.toml");
        let two_columns = Layout::Columns { chunks: 3, columns: vec![Column::Parts(vec![1; 3]); 2] };
        let world = World {
            tables: vec![Layout::Rows(vec![1]), two_columns],
            additions: Vec::new(),
            scans: Vec::new(),
            steps: vec![Step::Waiting(1, 2, 1, 1), Step::Invalidate(1, vec![(0, 3)]), Step::Budget(7)],
            ..World::parse(file).unwrap()
        };
        let steps = |world: World| world.steps.iter().map(Step::to_string).collect::<Vec<_>>();
        let without = steps(without_table(&world, 0).unwrap());
        assert_eq!(without, ["waiting t0 c2 col1 1", "invalidate t0 c0..3", "budget 7"]);
        let without = steps(without_chunk(&world, 1, 0));
        assert_eq!(without, ["waiting t1 c1 col1 1", "invalidate t1 c0..2", "budget 7"]);
        assert_eq!(steps(without_chunk(&world, 1, 2)), ["invalidate t1 c0..2", "budget 7"]);
        let without = steps(without_column(&world, 1, 0).unwrap());
        assert_eq!(without, ["waiting t1 c2 col0 1", "invalidate t1 c0..3", "budget 7"]);
    }
}
