//! Comparison of `relevance-2007` with Fig. 3 and Fig. 11 of the paper.
//!
//! The reference is written from the pseudo-code. Of the state it reads only what scans need, and which pages
//! are in the buffer or being read. Parts have different sizes, neighbouring chunks share pages, and scans
//! have weights and several workers. A fault that counts mean pages instead of a chunk's own is found.

mod support;

use coscan_core::policy::{Among, LoadChoice, SharingPolicy, first_victim};
use coscan_core::scan::Scan;
use coscan_core::sharing::relevance::Relevance;
use coscan_core::sharing::relevance_2007::Relevance2007;
use coscan_core::state::State;
use coscan_core::table::Table;
use coscan_core::{ChunkNo, ColumnLayout, ColumnNo, ColumnSet, PageNo, PartKey, Storage, TableLayout};
use fastrand::Rng;
use support::{TABLE, World, stopped_world, straddling};

const CASES: u64 = 4000;

struct Paper<'a> {
    state: &'a State,
    table: &'a Table,
}

impl<'a> Paper<'a> {
    fn queries(&self) -> impl Iterator<Item = &'a Scan> {
        self.state.scans()
    }

    fn chunks(&self) -> impl Iterator<Item = ChunkNo> {
        (0..self.table.layout().chunk_count()).map(ChunkNo)
    }

    fn rows(&self) -> bool {
        self.table.layout().storage() == Storage::Row
    }

    fn shares_pages(&self) -> bool {
        let layout = self.table.layout();
        let chunks = || (1..layout.chunk_count()).map(ChunkNo);
        let before = |c: ChunkNo, column| layout.span(ChunkNo(c.0 - 1), column).end;
        (0..layout.column_count())
            .map(ColumnNo)
            .any(|column| chunks().any(|c| layout.span(c, column).start < before(c, column)))
    }

    fn pages(&self, c: ChunkNo, columns: &ColumnSet, counts: impl Fn(ColumnNo, u32) -> bool) -> f64 {
        let layout = self.table.layout();
        let of = |column: ColumnNo| {
            let pages = layout.span(c, column).filter(|page| counts(column, *page));
            pages.map(|page| layout.page_bytes(column, PageNo(page))).sum::<u64>()
        };
        columns.iter().map(of).sum::<u64>() as f64
    }

    fn cached_pages(&self, c: ChunkNo, columns: &ColumnSet) -> f64 {
        self.pages(c, columns, |column, page| self.table.is_resident(column, page))
    }

    fn pages_to_load(&self, c: ChunkNo, columns: &ColumnSet) -> f64 {
        self.pages(c, columns, |column, page| self.table.is_absent(column, page))
    }

    fn ready(&self, c: ChunkNo, q: &Scan) -> bool {
        self.cached_pages(c, &q.columns) == self.pages(c, &q.columns, |_, _| true)
    }

    /// Ready, or ready when the reads in flight are done.
    fn supplied(&self, c: ChunkNo, q: &Scan) -> bool {
        self.pages_to_load(c, &q.columns) == 0.0
    }

    fn interested(&self, c: ChunkNo) -> Vec<&'a Scan> {
        self.queries().filter(|q| q.needed().contains(c)).collect()
    }

    fn available(&self, q: &Scan) -> u32 {
        q.needed().iter().filter(|c| self.supplied(*c, q)).count() as u32
    }

    fn starved(&self, q: &Scan) -> bool {
        self.available(q) < 2 * q.workers
    }

    fn almost_starved(&self, q: &Scan) -> bool {
        self.available(q) <= 2 * q.workers
    }

    fn query_relevance(&self, q: &Scan) -> f64 {
        let waiting = q.waiting_time(self.state.now()).as_nanos() as f64 / self.state.load_time_ns() as f64;
        let weight = f64::from(q.weight);
        -f64::from(q.chunks_needed()) / weight + waiting * weight / self.queries().count() as f64
    }

    fn use_relevance(&self, c: ChunkNo, q: &Scan) -> f64 {
        let interested = self.interested(c);
        if self.rows() {
            return self.queries().count() as f64 - interested.len() as f64;
        }
        let overlapping = interested.iter().filter(|other| other.columns.intersects(&q.columns)).count();
        self.cached_pages(c, &q.columns) / overlapping as f64
    }

    fn load_relevance(&self, c: ChunkNo, q: &Scan) -> f64 {
        let interested = self.interested(c);
        let starved = || interested.iter().filter(|other| self.starved(other));
        if self.rows() {
            return (starved().count() * self.queries().count() + interested.len()) as f64;
        }
        let overlapping: Vec<_> = starved().filter(|other| other.columns.intersects(&q.columns)).collect();
        let mut columns = ColumnSet::new();
        overlapping.iter().for_each(|other| columns.union_with(&other.columns));
        overlapping.len() as f64 / self.pages_to_load(c, &columns).max(1.0)
    }

    fn keep_relevance(&self, c: ChunkNo) -> f64 {
        let interested = self.interested(c);
        let starved: Vec<_> = interested.iter().filter(|q| self.almost_starved(q)).collect();
        if self.rows() {
            return (starved.len() * self.queries().count() + interested.len()) as f64;
        }
        let mut columns = ColumnSet::new();
        starved.iter().for_each(|q| columns.union_with(&q.columns));
        starved.len() as f64 / self.cached_pages(c, &columns).max(1.0)
    }

    /// A chunk that findFreeSlot may free for the choice, as far as the paper says: not used, not interesting
    /// to the trigger, not useful for a starved query.
    fn may_be_freed(&self, c: ChunkNo, choice: &LoadChoice) -> bool {
        let trigger = self.state.scan(choice.scan);
        let resident: ColumnSet = (0..self.table.layout().column_count())
            .map(ColumnNo)
            .filter(|column| self.table.is_complete(c, *column))
            .collect();
        let key = &self.table.class_of(c).key;
        let interested = self.interested(c);
        let wanted = interested.iter().any(|q| q.columns.intersects(&resident));
        let ready_for = |q: &Scan| q.needed().contains(c) && self.ready(c, q);
        let useful = interested.iter().any(|q| self.starved(q) && ready_for(q));
        // The mechanism keeps what was read ahead and not used, and the parts of the chunk to load.
        let leaves = |column: ColumnNo| {
            let fresh = self.state.recency().is_fresh(PartKey { table: TABLE, chunk: c, column });
            let target = c == choice.chunk && trigger.columns.contains(column);
            !target && (trigger.waiting_since().is_some() || !fresh)
        };
        let idle = !key.pinned && key.arriving.is_empty() && resident.iter().any(leaves);
        wanted && idle && !ready_for(trigger) && !useful
    }
}

fn layout(rng: &mut Rng) -> TableLayout {
    let chunks = rng.u32(5..30);
    let sizes = |rng: &mut Rng| (0..chunks).map(|_| rng.u64(5..90)).collect::<Vec<u64>>();
    match rng.u32(0..3) {
        0 => TableLayout::rows(sizes(rng)).unwrap(),
        1 => {
            let columns = (0..rng.usize(2..6)).map(|_| ColumnLayout::separate(sizes(rng))).collect();
            TableLayout::columns(chunks, columns).unwrap()
        }
        _ => {
            let widths: Vec<u64> = (0..rng.usize(2..6)).map(|_| rng.u64(3..80)).collect();
            straddling(chunks, &widths, 40)
        }
    }
}

/// A random world stopped in the middle.
fn stopped(rng: &mut Rng) -> World {
    let layout = layout(rng);
    stopped_world(rng, "relevance-2007", layout, 500..1500, |rng| rng.u32(1..4))
}

fn each_state(mut test: impl FnMut(&State, &Paper<'_>)) {
    for seed in 0..CASES {
        let world = stopped(&mut Rng::with_seed(seed));
        let state = world.abm.state();
        println!("seed {seed}");
        test(state, &Paper { state, table: state.table(TABLE) });
    }
}

fn best(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.reduce(f64::max)
}

fn alike(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1e-3)
}

/// The number of states with a load, and of those where the choice is the paper's.
fn loads(policy: &mut dyn SharingPolicy) -> (u64, u64) {
    let (mut compared, mut same) = (0, 0);
    each_state(|state, paper| {
        let lacks = |q: &Scan, c: &ChunkNo| q.needed().contains(*c) && !paper.supplied(*c, q);
        let candidates: Vec<&Scan> =
            paper.queries().filter(|q| paper.starved(q) && paper.chunks().any(|c| lacks(q, &c))).collect();
        let Some(LoadChoice { scan, chunk, .. }) = policy.choose_load(state, Among::All) else {
            assert!(candidates.is_empty(), "the policy finds nothing");
            return;
        };
        compared += 1;
        let chosen = state.scan(scan);
        let query = best(candidates.iter().map(|q| paper.query_relevance(q))).unwrap();
        let chunks = paper.chunks().filter(|c| lacks(chosen, c));
        let load = best(chunks.map(|c| paper.load_relevance(c, chosen))).unwrap();
        let right =
            alike(paper.query_relevance(chosen), query) && alike(paper.load_relevance(chunk, chosen), load);
        same += u64::from(right);
    });
    (compared, same)
}

#[test]
fn loads_are_those_of_the_pseudo_code() {
    let (compared, same) = loads(&mut Relevance2007::default());
    assert!(compared > 1000, "only {compared} states had something to load");
    assert_eq!(same, compared);
}

#[test]
fn mean_pages_are_noticed() {
    let (compared, same) = loads(&mut Relevance::default());
    assert!(same < compared - compared / 20, "{same} of {compared} loads are the paper's");
}

#[test]
fn chunks_are_handed_out_as_in_the_pseudo_code() {
    let mut compared = 0;
    each_state(|state, paper| {
        for q in paper.queries() {
            let there: Vec<ChunkNo> = q.unclaimed().iter().filter(|c| paper.ready(*c, q)).collect();
            match Relevance2007::default().choose_chunk(state, q) {
                None => assert!(there.is_empty(), "{} finds nothing", q.id),
                Some(chunk) => {
                    compared += 1;
                    let most = best(there.iter().map(|c| paper.use_relevance(*c, q))).unwrap();
                    assert!(alike(paper.use_relevance(chunk, q), most), "{} gets {chunk}", q.id);
                }
            }
        }
    });
    assert!(compared > 5000, "only {compared} chunks were handed out");
}

#[test]
fn victims_are_those_of_the_pseudo_code() {
    let mut compared = 0;
    each_state(|state, paper| {
        // The mechanism decides which of several parts on one page leaves last.
        if paper.shares_pages() {
            return;
        }
        // Every chunk that some scan lacks could be the next to load.
        for q in paper.queries() {
            for chunk in q.needed().iter().filter(|c| !paper.supplied(*c, q)) {
                let choice = LoadChoice::own(q, chunk);
                let Some(first) = first_victim(state, &mut Relevance2007::default(), &choice) else {
                    continue;
                };
                if !paper.interested(first.chunk).iter().any(|q| q.columns.contains(first.column)) {
                    continue;
                }
                compared += 1;
                let free = paper.chunks().filter(|c| paper.may_be_freed(*c, &choice));
                let least = free.map(|c| paper.keep_relevance(c)).reduce(f64::min).unwrap();
                let kept = paper.keep_relevance(first.chunk);
                assert!(alike(kept, least), "{}: {first:?} has {kept}, another chunk {least}", q.id);
            }
        }
    });
    assert!(compared > 5000, "only {compared} victims were wanted by a scan");
}
