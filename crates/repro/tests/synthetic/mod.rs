//! Trace strings made by hand after the six base queries of Chou & DeWitt 1985, for tests.
//!
//! The patterns of reference are those of the operators of Table 3 over relations of 182-byte tuples, 22 to a
//! page. Processor times, disk operations and hot sets are those of Table 2. The distribution of time inside
//! a query is invented: a query's time is spread over its references by rough weights. Results are written to
//! a separate file of the query, whose length makes up the disk operations of Table 2. Nested loops compare
//! page with page.

use coscan_pool::locality::{LocalReplacement, Pattern};
use coscan_repro::dbmin::workload::QueryKind;
use coscan_trace::pages::{PageOp, PageRecord, QueryTrace, TracedFile};

const TUPLES_PER_PAGE: u32 = 22;
/// Relations and their indexes: name, pages.
const DATABASE: [(&str, u32); 7] = [
    ("A", 455),
    ("A.clustered", 35),
    ("B", 455),
    ("B.clustered", 35),
    ("B.unclustered", 35),
    ("A'", 46),
    ("B'", 14),
];
const RESULT_PAGES_MAX: u32 = 64;

/// The trace of one execution.
pub fn trace(kind: QueryKind, seed: u64) -> QueryTrace {
    let mut t = Builder::new(seed.wrapping_mul(31) + kind as u64);
    match kind {
        QueryKind::I => t.select_clustered(100, 10, |_, _| {}),
        QueryKind::II => select_unclustered(&mut t),
        QueryKind::III => index_join(&mut t),
        QueryKind::IV => unclustered_join(&mut t),
        QueryKind::V => nested_loops(&mut t),
        QueryKind::VI => hash_join(&mut t),
    }
    t.finish(kind)
}

fn select_unclustered(t: &mut Builder) {
    let index = t.open("B.unclustered", Pattern::HierarchicalThenSequential, 1);
    let data = t.open("B", Pattern::IndependentRandom, 1);
    let result = t.result();
    t.read(index, 0, 1);
    for _ in 0..100 {
        let page = t.rng.u32(0..455);
        t.read(index, 7, 1);
        t.read(data, page, 3);
        t.write(result, 1);
        t.result_due(100, 6);
    }
    t.close_all();
}

fn index_join(t: &mut Builder) {
    let index = t.open("B.clustered", Pattern::LoopingHierarchical, 2);
    let data = t.open("B", Pattern::ClusteredSequential, 1);
    let start = t.rng.u32(0..440);
    t.select_clustered(200, 29, |t, tuple| {
        t.read(index, 0, 1);
        t.read(index, 1 + start / 14, 1);
        t.read(data, start + tuple / TUPLES_PER_PAGE, 8);
    });
}

fn unclustered_join(t: &mut Builder) {
    let scan = t.open("A'", Pattern::StraightSequential, 1);
    let index = t.open("B.unclustered", Pattern::LoopingHierarchical, 2);
    let data = t.open("B", Pattern::IndependentRandom, 1);
    let result = t.result();
    let mut page = 0;
    for tuple in 0..1000 {
        t.read(scan, tuple / TUPLES_PER_PAGE, 2);
        if tuple % 10 == 0 {
            t.read(index, 0, 1);
            t.read(index, 1 + tuple / 300, 1);
            if tuple % 50 < 30 {
                page = t.rng.u32(0..455);
            }
            t.read(data, page, 10);
            t.write(result, 2);
            t.result_due(100, 9);
        }
    }
    t.close_all();
}

fn nested_loops(t: &mut Builder) {
    const OUTER_PAGES: u32 = 14;
    let selected = t.temporary("selected", OUTER_PAGES, Pattern::StraightSequential, 1);
    t.select(300, |t, tuple| t.write_page(selected, tuple / TUPLES_PER_PAGE, 1));
    let inner = t.open_as("B'", Pattern::LoopingSequential, 14, LocalReplacement::Mru);
    let result = t.result();
    for outer in 0..OUTER_PAGES {
        t.read(selected, outer, 1);
        for page in 0..14 {
            // Each tuple of a page with those of another.
            for _ in 0..4 {
                t.read(inner, page, 6);
            }
            t.write(result, 1);
            t.result_due(OUTER_PAGES * 14, 11);
        }
    }
    t.close_all();
}

fn hash_join(t: &mut Builder) {
    const HASH_PAGES: u32 = 20;
    let hash = t.temporary("hash", HASH_PAGES, Pattern::IndependentRandom, HASH_PAGES);
    t.select(400, |t, _| {
        let page = t.rng.u32(0..HASH_PAGES);
        t.write_page(hash, page, 3);
    });
    let scan = t.open("A'", Pattern::StraightSequential, 1);
    let result = t.result();
    for tuple in 0..1000 {
        t.read(scan, tuple / TUPLES_PER_PAGE, 1);
        let page = t.rng.u32(0..HASH_PAGES);
        t.read(hash, page, 2);
        if tuple % 5 < 2 {
            t.write(result, 1);
            t.result_due(400, 51);
        }
    }
    t.close_all();
}

struct Builder {
    files: Vec<TracedFile>,
    /// The operations, each with the weight of the processor time before it.
    ops: Vec<(u64, PageOp)>,
    open: Vec<u32>,
    instances: u32,
    rng: fastrand::Rng,
    /// Result tuples and their page.
    result: (u32, u32),
}

impl Builder {
    fn new(seed: u64) -> Self {
        let files = DATABASE.map(|(name, pages)| TracedFile { name: name.into(), pages, temporary: false });
        let rng = fastrand::Rng::with_seed(seed);
        Builder { files: files.into(), ops: vec![], open: vec![], instances: 0, rng, result: (0, 0) }
    }

    fn open(&mut self, name: &str, pattern: Pattern, set_pages: u32) -> u32 {
        self.open_as(name, pattern, set_pages, LocalReplacement::Lru)
    }

    fn open_as(
        &mut self,
        name: &str,
        pattern: Pattern,
        set_pages: u32,
        replacement: LocalReplacement,
    ) -> u32 {
        let file =
            self.files.iter().position(|file| file.name == name).expect("it is in the database") as u32;
        let instance = self.instances;
        self.instances += 1;
        self.open.push(instance);
        self.ops.push((1, PageOp::Open { instance, file, pattern, set_pages, replacement }));
        instance
    }

    fn temporary(&mut self, name: &str, pages: u32, pattern: Pattern, set_pages: u32) -> u32 {
        self.files.push(TracedFile { name: name.into(), pages, temporary: true });
        self.open(name, pattern, set_pages)
    }

    fn result(&mut self) -> u32 {
        self.temporary("result", RESULT_PAGES_MAX, Pattern::StraightSequential, 1)
    }

    fn read(&mut self, instance: u32, page: u32, weight: u64) {
        self.ops.push((weight, PageOp::Read { instance, page }));
    }

    fn write_page(&mut self, instance: u32, page: u32, weight: u64) {
        self.ops.push((weight, PageOp::Write { instance, page }));
    }

    fn write(&mut self, result: u32, weight: u64) {
        self.write_page(result, self.result.1, weight);
    }

    /// Adds one of `tuples` result tuples; together they fill `pages` pages.
    fn result_due(&mut self, tuples: u32, pages: u32) {
        self.result.0 += 1;
        self.result.1 = (self.result.0 * pages / tuples).min(pages - 1);
    }

    /// Selects a range of A by the clustered index; the caller processes every tuple.
    fn select(&mut self, tuples: u32, mut each: impl FnMut(&mut Self, u32)) {
        let index = self.open("A.clustered", Pattern::HierarchicalThenSequential, 1);
        let data = self.open("A", Pattern::StraightSequential, 1);
        let start = self.rng.u32(0..430);
        self.read(index, 0, 1);
        self.read(index, 1 + start / 14, 1);
        for tuple in 0..tuples {
            self.read(data, start + tuple / TUPLES_PER_PAGE, 4);
            each(self, tuple);
        }
        for instance in [index, data] {
            self.open.retain(|open| *open != instance);
            self.ops.push((1, PageOp::Close { instance }));
        }
    }

    fn select_clustered(&mut self, tuples: u32, result_pages: u32, mut each: impl FnMut(&mut Self, u32)) {
        let result = self.result();
        self.select(tuples, |t, tuple| {
            each(t, tuple);
            t.write(result, 1);
            t.result_due(tuples, result_pages);
        });
        self.close_all();
    }

    fn close_all(&mut self) {
        for instance in std::mem::take(&mut self.open) {
            self.ops.push((1, PageOp::Close { instance }));
        }
    }

    fn finish(self, kind: QueryKind) -> QueryTrace {
        let row = kind.in_the_paper();
        let cpu_ns = row.cpu_ms * 1_000_000;
        let total: u64 = self.ops.iter().map(|(weight, _)| weight).sum();
        let mut used = 0;
        let records = self.ops.into_iter().map(|(weight, op)| {
            used += weight;
            PageRecord { cpu_ns: cpu_ns * used / total, op }
        });
        QueryTrace {
            query: kind.to_string(),
            hot_set_pages: row.hot_set_pages,
            records: records.collect(),
            files: self.files,
            cpu_ns,
        }
    }
}
