//! Comparison of the fast relevance functions over interest classes with a walk over all chunks and all scans.
//! On random states both must choose equally good chunks. Both count a column's mean bytes per chunk;
//! `letter.rs` holds `relevance-2007` to the paper's pages.

mod support;

use std::collections::BTreeSet;

use coscan_core::policy::{Among, LoadChoice, SharingPolicy, first_victim};
use coscan_core::scan::Scan;
use coscan_core::sharing::relevance::Relevance;
use coscan_core::sharing::relevance_2004::Relevance2004;
use coscan_core::state::State;
use coscan_core::{ChunkNo, ColumnNo, ColumnSet, ScanId, Storage, TableLayout};
use fastrand::Rng;
use support::{TABLE, World, columns, dsm, rows, stopped_world};

/// The reference: it reads the state chunk by chunk.
struct Reference<'a> {
    state: &'a State,
}

impl<'a> Reference<'a> {
    fn scans(&self) -> Vec<&'a Scan> {
        self.state.scans().collect()
    }

    fn chunks(&self) -> impl Iterator<Item = ChunkNo> {
        (0..self.state.table(TABLE).layout().chunk_count()).map(ChunkNo)
    }

    fn resident(&self, chunk: ChunkNo) -> ColumnSet {
        let table = self.state.table(TABLE);
        (0..table.layout().column_count()).map(ColumnNo).filter(|c| table.is_complete(chunk, *c)).collect()
    }

    fn arriving(&self, chunk: ChunkNo) -> ColumnSet {
        self.state.table(TABLE).class_of(chunk).key.arriving.clone()
    }

    fn interested(&self, chunk: ChunkNo) -> Vec<&'a Scan> {
        self.scans().into_iter().filter(|q| q.needed().contains(chunk)).collect()
    }

    fn supplied(&self, q: &Scan) -> u32 {
        let there = |c: &ChunkNo| {
            let mut soon = self.resident(*c);
            soon.union_with(&self.arriving(*c));
            soon.is_superset(&q.columns)
        };
        q.needed().iter().filter(there).count() as u32
    }

    fn available(&self, q: &Scan) -> u32 {
        q.needed().iter().filter(|c| self.resident(*c).is_superset(&q.columns)).count() as u32
    }

    fn starved(&self, q: &Scan) -> bool {
        self.supplied(q) < 2 * q.workers
    }

    fn lacks(&self, q: &Scan, chunk: ChunkNo) -> bool {
        let mut soon = self.resident(chunk);
        soon.union_with(&self.arriving(chunk));
        q.needed().contains(chunk) && !soon.is_superset(&q.columns)
    }

    /// Pages of a column, in the unit that the policy states.
    fn width(&self, columns: &ColumnSet) -> u64 {
        let layout = self.state.table(TABLE).layout();
        let chunks = u64::from(layout.chunk_count());
        let mean =
            |c: ColumnNo| (self.chunks().map(|k| layout.part_bytes(k, c)).sum::<u64>() / chunks).max(1);
        columns.iter().map(mean).sum()
    }

    /// loadRelevance(c, q), 2007 Fig. 3 and Fig. 11.
    fn load(&self, chunk: ChunkNo, q: &Scan) -> f64 {
        let interested = self.interested(chunk);
        if self.state.table(TABLE).layout().storage() == Storage::Row {
            let starved = interested.iter().filter(|s| self.starved(s)).count();
            return (starved * self.scans().len() + interested.len()) as f64;
        }
        let helped: Vec<_> =
            interested.iter().filter(|s| self.starved(s) && s.columns.intersects(&q.columns)).collect();
        let mut union = q.columns.clone();
        helped.iter().for_each(|s| union.union_with(&s.columns));
        union.subtract(&self.resident(chunk));
        union.subtract(&self.arriving(chunk));
        helped.len() as f64 / self.width(&union) as f64
    }

    /// queryRelevance(q), 2007 Fig. 3.
    fn query(&self, q: &Scan) -> f64 {
        let unit = self.state.load_time_ns() as f64;
        let waiting = q.waiting_time(self.state.now()).as_nanos() as f64 / unit;
        -f64::from(q.chunks_needed()) + waiting / self.scans().len() as f64
    }

    /// useRelevance(c, q), 2007 Fig. 3 and Fig. 11.
    fn usefulness(&self, chunk: ChunkNo, q: &Scan) -> f64 {
        let interested = self.interested(chunk);
        if self.state.table(TABLE).layout().storage() == Storage::Row {
            return self.scans().len() as f64 - interested.len() as f64;
        }
        let overlapping = interested.iter().filter(|s| s.columns.intersects(&q.columns)).count();
        self.width(&q.columns) as f64 / overlapping as f64
    }

    /// fetchRelevance(c, q), 2004, section 3.1.
    fn fetch(&self, chunk: ChunkNo) -> (usize, usize) {
        let interested = self.interested(chunk);
        (interested.iter().filter(|s| self.supplied(s) == 0).count(), interested.len())
    }
}

/// A random world stopped in the middle.
fn stopped(rng: &mut Rng, policy: &str) -> World {
    let layout: TableLayout = if rng.bool() {
        rows(rng.u32(5..40), 100)
    } else {
        let widths: Vec<u64> = (0..rng.usize(2..6)).map(|_| rng.u64(5..80)).collect();
        dsm(rng.u32(5..40), &widths)
    };
    stopped_world(rng, policy, layout, 400..1500, |_| 1)
}

const CASES: u64 = 1500;

fn each_state(policy: &str, mut test: impl FnMut(&State, &Reference<'_>)) -> u64 {
    let mut looked_at = 0;
    for seed in 0..CASES {
        let mut rng = Rng::with_seed(seed);
        let world = stopped(&mut rng, policy);
        let state = world.abm.state();
        if state.scans().next().is_some() {
            println!("seed {seed}");
            looked_at += 1;
            test(state, &Reference { state });
        }
    }
    looked_at
}

fn best(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

fn assert_equal(fast: f64, slow: f64, what: &str) {
    assert!((fast - slow).abs() <= 1e-9 * slow.abs().max(1.0), "{what}: fast {fast}, slow {slow}");
}

#[test]
fn relevance_loads_as_the_pseudo_code() {
    let mut compared = 0;
    each_state("relevance", |state, slow| {
        let fast = Relevance::default().choose_load(state, Among::All);
        let candidates: Vec<&Scan> = slow
            .scans()
            .into_iter()
            .filter(|q| slow.starved(q) && slow.chunks().any(|c| slow.lacks(q, c)))
            .collect();
        let Some(LoadChoice { scan, chunk, columns, .. }) = fast else {
            assert!(candidates.is_empty(), "the fast one finds nothing");
            return;
        };
        compared += 1;
        let chosen = state.scan(scan);
        assert_equal(slow.query(chosen), best(candidates.iter().map(|q| slow.query(q))).unwrap(), "query");
        assert!(slow.lacks(chosen, chunk));
        let chunks = slow.chunks().filter(|c| slow.lacks(chosen, *c));
        assert_equal(slow.load(chunk, chosen), best(chunks.map(|c| slow.load(c, chosen))).unwrap(), "load");
        let own = chosen.columns.difference(&slow.resident(chunk)).difference(&slow.arriving(chunk));
        assert!(columns.is_superset(&own), "the trigger's columns are read");
    });
    assert!(compared > CASES / 4, "only {compared} states had something to load");
}

#[test]
fn relevance_hands_out_as_the_pseudo_code() {
    let mut compared = 0;
    each_state("relevance", |state, slow| {
        for q in slow.scans() {
            let fast = Relevance::default().choose_chunk(state, q);
            let there: Vec<ChunkNo> =
                q.unclaimed().iter().filter(|c| slow.resident(*c).is_superset(&q.columns)).collect();
            match fast {
                None => assert!(there.is_empty(), "{} finds nothing", q.id),
                Some(chunk) => {
                    compared += 1;
                    let most = best(there.iter().map(|c| slow.usefulness(*c, q))).unwrap();
                    assert_equal(slow.usefulness(chunk, q), most, "use");
                }
            }
        }
    });
    assert!(compared > CASES / 4, "only {compared} chunks were handed out");
}

#[test]
fn reach_is_what_a_walk_counts() {
    let looked_at = each_state("attach", |state, slow| {
        for q in slow.scans() {
            let reach = state.interest(q).reach;
            assert_eq!((reach.available, reach.supplied), (slow.available(q), slow.supplied(q)), "{}", q.id);
        }
    });
    assert!(looked_at > CASES / 2);
}

#[test]
fn relevance_2004_loads_as_the_report() {
    let mut compared = 0;
    each_state("relevance-2004", |state, slow| {
        let Some(LoadChoice { scan, chunk, .. }) = Relevance2004::default().choose_load(state, Among::All)
        else {
            return;
        };
        compared += 1;
        let chosen = state.scan(scan);
        let starved: BTreeSet<ScanId> = slow
            .scans()
            .into_iter()
            .filter(|q| slow.supplied(q) == 0 && slow.chunks().any(|c| slow.lacks(q, c)))
            .map(|q| q.id)
            .collect();
        assert!(starved.is_empty() || starved.contains(&scan), "starved scans come first");
        if let Some(since) = chosen.waiting_since() {
            let longest = starved.iter().filter_map(|q| state.scan(*q).waiting_since()).min();
            assert!(longest.is_none_or(|longest| since <= longest), "the longest waiting comes first");
        }
        let most = slow.chunks().filter(|c| slow.lacks(chosen, *c)).map(|c| slow.fetch(c)).max();
        assert_eq!(Some(slow.fetch(chunk)), most, "fetch relevance");
    });
    assert!(compared > CASES / 4, "only {compared} states had something to load");
}

#[test]
fn victims_are_the_least_relevant() {
    let mut compared = 0;
    each_state("relevance", |state, slow| {
        let Some(choice) = Relevance::default().choose_load(state, Among::All) else { return };
        let trigger = state.scan(choice.scan);
        let Some(first) = first_victim(state, &mut Relevance::default(), &choice) else {
            return;
        };
        let users = slow.interested(first.chunk).into_iter().filter(|s| s.columns.contains(first.column));
        if users.count() == 0 {
            return;
        }
        compared += 1;
        let eligible = |c: &ChunkNo| {
            let resident = slow.resident(*c);
            let users = slow.interested(*c);
            let wanted = users.iter().any(|s| s.columns.intersects(&resident));
            let held = state.table(TABLE).class_of(*c).key.pinned;
            let needed = trigger.needed().contains(*c) && resident.is_superset(&trigger.columns);
            let starved = users.iter().any(|s| slow.starved(s) && resident.is_superset(&s.columns));
            let fresh = trigger.waiting_since().is_none()
                && resident.iter().all(|column| {
                    let part = coscan_core::PartKey { table: TABLE, chunk: *c, column };
                    state.recency().is_fresh(part)
                });
            let target = *c == choice.chunk && trigger.columns.is_superset(&resident);
            wanted && !target && !held && !needed && !starved && !fresh && slow.arriving(*c).is_empty()
        };
        let keep = |c: ChunkNo| {
            let resident = slow.resident(c);
            let close: Vec<_> =
                slow.interested(c).into_iter().filter(|s| slow.supplied(s) <= 2 * s.workers).collect();
            if state.table(TABLE).layout().storage() == Storage::Row {
                return (close.len() * slow.scans().len() + slow.interested(c).len()) as f64;
            }
            let (mut scans, mut used) = (0, columns(&[]));
            for s in close.iter().filter(|s| s.columns.intersects(&resident)) {
                scans += 1;
                used.union_with(&s.columns.intersection(&resident));
            }
            f64::from(scans) / slow.width(&used).max(1) as f64
        };
        let least = slow.chunks().filter(eligible).map(keep).reduce(f64::min);
        assert_equal(keep(first.chunk), least.unwrap(), "keep");
    });
    assert!(compared > 20, "only {compared} states had a wanted victim");
}
