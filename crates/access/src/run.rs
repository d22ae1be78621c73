//! Execution of the six queries: selections that return tuples one after another, and joins over them.
//!
//! Each query opens its files with the locality sets of its plan, and closes them after their last use.
//! [`queries`](crate::queries) explains the queries.

use std::ops::Range;

use coscan_pool::locality::hot_set::hot_set_pages;
use coscan_pool::locality::plan::Role;
use coscan_pool::locality::set::LocalitySet;

use crate::btree::IndexScan;
use crate::database::Database;
use crate::error::AccessError;
use crate::hash::{HashFile, pages_for};
use crate::heap::{self, HeapScan, HeapWriter};
use crate::queries::{Execution, NestedLoops, Query, Settings};
use crate::tracer::{File, Instance, Tracer};
use crate::wisconsin::{Attribute, TUPLE_BYTES};

impl Query {
    /// Runs the query.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn run(self, database: &Database, settings: &Settings) -> Result<Execution, AccessError> {
        let plan = self.plan(database);
        let sets = plan.locality_sets(&settings.model);
        let mut running = Running { database, tracer: Tracer::new(settings.cpu), sets, rows: vec![] };
        let keys = self.keys(settings.seed);
        match self {
            Query::I | Query::II => running.select(self, keys)?,
            Query::III | Query::IV => running.index_join(self, keys)?,
            Query::V => running.nested_loops(keys, settings.nested_loops)?,
            Query::VI => running.hash_join(keys, self.selected())?,
        }
        let hot_set = hot_set_pages(&plan, settings.model.frames);
        Ok(Execution { trace: running.tracer.finish(&self.to_string(), hot_set), rows: running.rows })
    }
}

/// A running query.
struct Running<'a> {
    database: &'a Database,
    tracer: Tracer,
    sets: Vec<(Role, LocalitySet)>,
    rows: Vec<Vec<u8>>,
}

/// A tuple of the outer relation, and its page.
struct Outer {
    page: u32,
    tuple: Vec<u8>,
}

/// The tuples of a selection.
struct Selection {
    keys: Range<i16>,
    heap: Instance,
    by: By,
}

enum By {
    Scan(HeapScan, Attribute),
    Index { index: IndexScan, instance: Instance, clustered: bool },
}

impl Running<'_> {
    fn set(&self, role: Role) -> LocalitySet {
        let of_role = self.sets.iter().find(|(of, _)| *of == role);
        of_role.expect("the plan of a query has every file that it opens").1
    }

    fn open(&mut self, file: &File, role: Role) -> Instance {
        self.tracer.open(file, self.set(role))
    }

    fn result(&mut self) -> (Instance, HeapWriter) {
        let instance = self.tracer.create(&self.database.temporary("result"), self.set(Role::Result));
        (instance, HeapWriter::new(instance))
    }

    fn store(&mut self, result: &mut HeapWriter, row: Vec<u8>) -> Result<(), AccessError> {
        result.add(&mut self.tracer, &row)?;
        self.rows.push(row);
        Ok(())
    }

    fn close(&mut self, instances: impl IntoIterator<Item = Instance>) -> Result<(), AccessError> {
        instances.into_iter().try_for_each(|instance| self.tracer.close(instance))
    }

    /// Starts a selection through an index.
    fn by_index(
        &mut self,
        (index, heap): (&File, &File),
        clustered: bool,
        keys: Range<i16>,
    ) -> Result<Selection, AccessError> {
        let instance = self.open(index, Role::OuterIndex);
        let heap = self.open(heap, Role::Outer);
        let mut index = IndexScan::new(instance, index);
        index.seek(&mut self.tracer, keys.start)?;
        Ok(Selection { keys, heap, by: By::Index { index, instance, clustered } })
    }

    fn a_by_index(&mut self, keys: Range<i16>) -> Result<Selection, AccessError> {
        let database = self.database;
        self.by_index((&database.a_unique2, &database.a), true, keys)
    }

    fn select(&mut self, query: Query, keys: Range<i16>) -> Result<(), AccessError> {
        let database = self.database;
        let mut outer = match query {
            Query::II => self.by_index((&database.b_unique1, &database.b), false, keys)?,
            _ => self.a_by_index(keys)?,
        };
        let (instance, mut result) = self.result();
        while let Some(found) = outer.next(&mut self.tracer)? {
            self.store(&mut result, found.tuple)?;
        }
        self.close(outer.instances())?;
        self.close([instance])
    }

    /// Searches B for every selected tuple: through its clustered index with ordered keys, or through the
    /// other index with unordered keys.
    fn index_join(&mut self, query: Query, keys: Range<i16>) -> Result<(), AccessError> {
        let database = self.database;
        let (mut outer, key, file) = match query {
            Query::III => (self.a_by_index(keys)?, Attribute::Unique2, &database.b_unique2),
            _ => {
                let heap = self.open(&database.a_prime, Role::Outer);
                let by = By::Scan(HeapScan::new(heap), Attribute::Unique2);
                (Selection { keys, heap, by }, Attribute::Hundred, &database.b_unique1)
            }
        };
        let index_instance = self.open(file, Role::InnerIndex);
        let mut index = IndexScan::new(index_instance, file);
        let inner = self.open(&database.b, Role::Inner);
        let (instance, mut result) = self.result();
        while let Some(found) = outer.next(&mut self.tracer)? {
            let Some(key) = key.of(&found.tuple) else { continue };
            match query {
                Query::III => index.seek_near(&mut self.tracer, key)?,
                _ => index.seek(&mut self.tracer, key)?,
            }
            // Until the first entry with another key.
            while let Some((_, rid)) = index.next(&mut self.tracer)?.filter(|(of, _)| *of == key) {
                self.tracer.work(1, |cpu| cpu.fetch_ns);
                let partner = heap::fetch(&mut self.tracer, inner, rid)?;
                self.store(&mut result, joined(&found.tuple, &partner))?;
            }
        }
        self.close(outer.instances())?;
        self.close([index_instance, inner, instance])
    }

    /// Scans B' once for each selected tuple of A, or for each page of them.
    fn nested_loops(&mut self, keys: Range<i16>, by: NestedLoops) -> Result<(), AccessError> {
        let mut outer = self.a_by_index(keys)?;
        let inner = self.open(&self.database.b_prime, Role::Inner);
        let (instance, mut result) = self.result();
        let mut next = outer.next(&mut self.tracer)?;
        while let Some(first) = next.take() {
            let mut block = vec![first];
            if by == NestedLoops::ByPage {
                next = self.rest_of_page(&mut outer, &mut block)?;
            }
            self.inner_loop(&block, inner, &mut result)?;
            if next.is_none() {
                next = outer.next(&mut self.tracer)?;
            }
        }
        self.close(outer.instances())?;
        self.close([inner, instance])
    }

    /// Adds the tuples on the same page; returns the first tuple of another page.
    fn rest_of_page(
        &mut self,
        outer: &mut Selection,
        block: &mut Vec<Outer>,
    ) -> Result<Option<Outer>, AccessError> {
        while let Some(found) = outer.next(&mut self.tracer)? {
            if block.last().is_some_and(|last| last.page != found.page) {
                return Ok(Some(found));
            }
            block.push(found);
        }
        Ok(None)
    }

    fn inner_loop(
        &mut self,
        block: &[Outer],
        inner: Instance,
        result: &mut HeapWriter,
    ) -> Result<(), AccessError> {
        let mut scan = HeapScan::new(inner);
        while let Some(page) = scan.next_page(&mut self.tracer)? {
            for tuple in &page {
                self.tracer.work(block.len() as u64, |cpu| cpu.compare_ns);
                let key = Attribute::Unique1.of(tuple);
                for found in block.iter().filter(|found| Attribute::Hundred.of(&found.tuple) == key) {
                    self.store(result, joined(&found.tuple, tuple))?;
                }
            }
        }
        Ok(())
    }

    /// Makes a hash file of the selected tuples of A, and searches it for every tuple of A'.
    fn hash_join(&mut self, keys: Range<i16>, selected: u16) -> Result<(), AccessError> {
        let mut outer = self.a_by_index(keys)?;
        let table_instance =
            self.tracer.create(&self.database.temporary("hash file"), self.set(Role::HashTable));
        let pages = pages_for(selected.into(), TUPLE_BYTES);
        let table = HashFile::new(&mut self.tracer, table_instance, Attribute::Thousand, pages)?;
        while let Some(found) = outer.next(&mut self.tracer)? {
            let Some(key) = Attribute::Thousand.of(&found.tuple) else { continue };
            table.insert(&mut self.tracer, key, &found.tuple)?;
        }
        self.close(outer.instances())?;
        let probe = self.open(&self.database.a_prime, Role::Probe);
        let (instance, mut result) = self.result();
        let mut scan = HeapScan::new(probe);
        while let Some((_, tuple)) = scan.next(&mut self.tracer)? {
            let Some(key) = Attribute::Unique1.of(&tuple) else { continue };
            for found in table.search(&mut self.tracer, key)? {
                self.store(&mut result, joined(&found, &tuple))?;
            }
        }
        self.close([probe, table_instance, instance])
    }
}

fn joined(outer: &[u8], inner: &[u8]) -> Vec<u8> {
    [outer, inner].concat()
}

impl Selection {
    /// The next tuple whose key is in the range.
    fn next(&mut self, tracer: &mut Tracer) -> Result<Option<Outer>, AccessError> {
        match &mut self.by {
            By::Scan(scan, attribute) => {
                while let Some((rid, tuple)) = scan.next(tracer)? {
                    tracer.work(1, |cpu| cpu.test_ns);
                    if attribute.of(&tuple).is_some_and(|key| self.keys.contains(&key)) {
                        return Ok(Some(Outer { page: rid.page, tuple }));
                    }
                }
                Ok(None)
            }
            By::Index { index, clustered, .. } => {
                tracer.work(1, |cpu| cpu.next_ns + cpu.test_ns);
                let Some((_, rid)) = index.next(tracer)?.filter(|(key, _)| *key < self.keys.end) else {
                    return Ok(None);
                };
                if !*clustered {
                    tracer.work(1, |cpu| cpu.fetch_ns);
                }
                let tuple = heap::fetch(tracer, self.heap, rid)?;
                Ok(Some(Outer { page: rid.page, tuple }))
            }
        }
    }

    /// Its open instances.
    fn instances(&self) -> Vec<Instance> {
        match &self.by {
            By::Scan(..) => vec![self.heap],
            By::Index { instance, .. } => vec![*instance, self.heap],
        }
    }
}
