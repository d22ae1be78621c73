//! The results of the six queries compared with an evaluation without indexes, pages or join methods, and the
//! guarantees of their traces.

use std::collections::{BTreeMap, BTreeSet};

use coscan_access::heap::HeapScan;
use coscan_access::tracer::{File, Tracer};
use coscan_access::wisconsin::Attribute;
use coscan_access::{Database, Execution, Query, Settings};
use coscan_pool::locality::set::{LocalityModel, Reference};
use coscan_trace::pages::{PageOp, QueryTrace};

fn run(database: &Database, query: Query, seed: u64) -> Execution {
    query.run(database, &Settings { seed, ..Settings::default() }).unwrap()
}

/// All tuples of a relation, in the order of their pages.
fn tuples(file: &File) -> Vec<Vec<u8>> {
    let settings = Settings::default();
    let mut tracer = Tracer::new(settings.cpu);
    let set = settings.model.set(&Reference::StraightSequential);
    let mut scan = HeapScan::new(tracer.open(file, set));
    std::iter::from_fn(|| scan.next(&mut tracer).unwrap()).map(|(_, tuple)| tuple).collect()
}

/// The expected result of a query, by nested loops over lists.
fn naive(database: &Database, query: Query, seed: u64) -> Vec<Vec<u8>> {
    use Attribute::{Hundred, Thousand, Unique1, Unique2};
    let keys = query.keys(seed);
    let (outer, selected_by, join) = match query {
        Query::I => (&database.a, Unique2, None),
        Query::II => (&database.b, Unique1, None),
        Query::III => (&database.a, Unique2, Some((Unique2, &database.b, Unique2))),
        Query::IV => (&database.a_prime, Unique2, Some((Hundred, &database.b, Unique1))),
        Query::V => (&database.a, Unique2, Some((Hundred, &database.b_prime, Unique1))),
        Query::VI => (&database.a, Unique2, Some((Thousand, &database.a_prime, Unique1))),
    };
    let selected = tuples(outer).into_iter().filter(|t| keys.contains(&selected_by.of(t).unwrap()));
    let Some((outer_key, inner, inner_key)) = join else { return selected.collect() };
    let inner = tuples(inner);
    let partners = |tuple: Vec<u8>| {
        let matching = inner.iter().filter(|i| inner_key.of(i) == outer_key.of(&tuple));
        matching.map(|i| [&tuple[..], i].concat()).collect::<Vec<_>>()
    };
    selected.flat_map(partners).collect()
}

fn sorted(mut rows: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    rows.sort();
    rows
}

#[test]
fn results_are_those_of_a_naive_evaluation() {
    let database = Database::generate(3).unwrap();
    for query in Query::ALL {
        for seed in 0..5 {
            let found = run(&database, query, seed).rows;
            assert_eq!(found.len(), usize::from(query.selected()), "{query}");
            assert!(sorted(found) == sorted(naive(&database, query, seed)), "{query}, seed {seed}");
        }
    }
}

#[test]
fn clustered_selections_come_in_order() {
    let database = Database::generate(3).unwrap();
    for query in [Query::I, Query::III] {
        let rows = run(&database, query, 9).rows;
        assert!(query.keys(9).eq(rows.iter().map(|row| Attribute::Unique2.of(row).unwrap())));
    }
}

#[test]
fn the_seed_draws_ranges_inside_the_relation() {
    for query in Query::ALL {
        let tuples = if query == Query::IV { 1000 } else { 10_000 };
        let firsts: BTreeSet<i16> = (0..200).map(|seed| query.keys(seed).start).collect();
        assert!(firsts.len() > 80, "{query}");
        for seed in 0..200 {
            let keys = query.keys(seed);
            assert!(keys.start >= 0 && keys.end <= tuples && keys.len() == usize::from(query.selected()));
        }
    }
}

/// The pages of the database that a trace touches, by name.
fn touched(trace: &QueryTrace) -> BTreeSet<(String, u32)> {
    let mut files = BTreeMap::new();
    let mut pages = BTreeSet::new();
    for record in &trace.records {
        match record.op {
            PageOp::Open { instance, file, .. } => {
                files.insert(instance, &trace.files[file as usize]);
            }
            PageOp::Read { instance, page } | PageOp::Write { instance, page } => {
                if !files[&instance].temporary {
                    pages.insert((files[&instance].name.clone(), page));
                }
            }
            PageOp::Close { .. } => {}
        }
    }
    pages
}

#[test]
fn copies_share_nothing_and_the_same_copy_everything() {
    let database = Database::generate(3).unwrap();
    let (first, second) = (database.copy(1), database.copy(2));
    for query in Query::ALL {
        let a = touched(&run(&first, query, 4).trace);
        assert!(a.is_disjoint(&touched(&run(&second, query, 4).trace)), "{query}");
        assert_eq!(a, touched(&run(&first, query, 4).trace));
        assert_eq!(run(&first, query, 4).rows, run(&second, query, 4).rows);
    }
    // Another range of keys: only the header and the index above its leaves are common.
    let (one, other) = (touched(&run(&first, Query::I, 4).trace), touched(&run(&first, Query::I, 5).trace));
    assert!(one != other && one.intersection(&other).count() <= 4);
}

#[test]
fn traces_are_well_formed() {
    let database = Database::generate(3).unwrap();
    for query in Query::ALL {
        let trace = run(&database, query, 4).trace;
        let mut open = BTreeMap::new();
        let (mut made, mut last_ns, mut instances) = (BTreeSet::new(), 0, 0);
        for record in &trace.records {
            assert!(record.cpu_ns >= last_ns && record.cpu_ns <= trace.cpu_ns, "{query}");
            last_ns = record.cpu_ns;
            match record.op {
                PageOp::Open { instance, file, set_pages, .. } => {
                    assert_eq!(instance, instances, "numbered from zero");
                    assert!(set_pages > 0);
                    instances += 1;
                    open.insert(instance, file);
                }
                PageOp::Read { instance, page } => {
                    let file = open[&instance];
                    let traced = &trace.files[file as usize];
                    assert!(page < traced.pages);
                    assert!(!traced.temporary || made.contains(&(file, page)), "read before it was written");
                }
                PageOp::Write { instance, page } => {
                    let file = open[&instance];
                    assert!(trace.files[file as usize].temporary && page < trace.files[file as usize].pages);
                    made.insert((file, page));
                }
                PageOp::Close { instance } => assert!(open.remove(&instance).is_some()),
            }
        }
        assert!(open.is_empty(), "{query} leaves files open");
        assert_eq!(trace.query, query.to_string());
        let names: BTreeSet<_> = trace.files.iter().map(|f| &f.name).collect();
        assert_eq!(names.len(), trace.files.len());
        // Every page of a temporary file is written.
        let temporary: u32 = trace.files.iter().filter(|f| f.temporary).map(|f| f.pages).sum();
        assert_eq!(made.len() as u32, temporary, "{query}");
    }
}

#[test]
fn a_hash_join_closes_what_it_has_built_from() {
    // The frames of A and its index are free for other files while A' is scanned.
    let trace = run(&Database::generate(3).unwrap(), Query::VI, 4).trace;
    let (mut open, mut while_scanning) = (BTreeMap::new(), BTreeSet::new());
    for record in &trace.records {
        match record.op {
            PageOp::Open { instance, file, .. } => {
                open.insert(instance, trace.files[file as usize].name.as_str());
            }
            PageOp::Close { instance } => {
                open.remove(&instance);
            }
            PageOp::Read { instance, .. } if open[&instance] == "copy0/A'" => {
                while_scanning.extend(open.values().copied());
            }
            PageOp::Read { .. } | PageOp::Write { .. } => {}
        }
    }
    assert!(while_scanning.into_iter().eq(["copy0/A'", "copy0/hash file", "copy0/result"]));
}

#[test]
fn traces_survive_saving() {
    let database = Database::generate(3).unwrap().copy(5);
    let traces = Query::ALL.map(|query| run(&database, query, 4).trace);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("six.pages");
    coscan_trace::pages::save(&path, &traces).unwrap();
    assert!(coscan_trace::pages::load(&path).unwrap() == traces);
}

#[test]
fn instances_are_opened_as_the_plan_says() {
    let database = Database::generate(3).unwrap();
    let model = LocalityModel::with_frames(12);
    for query in Query::ALL {
        let trace = query.run(&database, &Settings { model, ..Settings::default() }).unwrap().trace;
        // The header of each file is a separate instance: one page, one frame, closed before the next opens.
        let mut sets: Vec<_> =
            query.plan(&database).locality_sets(&model).into_iter().map(|(_, s)| s).collect();
        for record in &trace.records {
            if let PageOp::Open { pattern, set_pages, replacement, .. } = record.op
                && let Some(at) = sets
                    .iter()
                    .position(|s| (s.pattern, s.pages, s.replacement) == (pattern, set_pages, replacement))
            {
                sets.remove(at);
            }
        }
        assert_eq!(sets, [], "{query}");
        assert!(trace.hot_set_pages <= 12, "{query}");
    }
}
