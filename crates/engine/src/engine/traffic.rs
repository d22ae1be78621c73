//! The traffic on some chunks: the number of queries that read their tables, and their bytes in the buffer.
//! For a query planner that may choose how to read.

use std::collections::HashSet;

use coscan_core::{ChunkNo, TableId};

use crate::driver::registered::RegisteredSegment;
use crate::engine::Engine;
use crate::files::table::FileHandle;

/// Some root columns of a chunk, by its position among the chunks of the file.
#[derive(Clone, Copy, Debug)]
pub struct ChunkColumns<'a> {
    /// The file.
    pub file: &'a FileHandle,
    /// The chunk.
    pub chunk: usize,
    /// The root columns.
    pub roots: &'a [usize],
}

/// The result of [`Engine::traffic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The number of queries that read the chunks' tables, in any columns. Scans of one
    /// [`QueryAccount`](crate::QueryAccount) are one query. Scans without an account are one query if they
    /// share a [`Reader`](crate::Reader).
    pub queries: usize,
    /// The number of these queries with a scan of one of the tables only: one that names no matching chunks
    /// ([`ScanRequest::matching`](crate::ScanRequest)) and reads none that were named.
    pub apart: usize,
    /// Encoded bytes of the columns of the chunks.
    pub bytes: u64,
    /// The bytes of these that are in the buffer.
    pub resident_bytes: u64,
}

impl Engine {
    /// Returns the current traffic on these chunks. It changes nothing, and the traffic may change at any
    /// time. Holds the engine's lock for a time linear in the columns of the chunks and in the scans.
    pub fn traffic(&self, chunks: &[ChunkColumns<'_>]) -> Traffic {
        let mut traffic = Traffic::default();
        let resident = self.driver.look(|state| {
            let core = state.abm.state();
            // Chunks of another engine have no traffic here.
            let known = |file: &FileHandle| state.catalog.has(file);
            let mut tables: Vec<TableId> =
                chunks.iter().filter(|of| known(of.file)).map(|of| of.file.file().table).collect();
            tables.sort_unstable();
            tables.dedup();
            let here = || state.scans.values().filter(|scan| tables.binary_search(&scan.table).is_ok());
            traffic.queries = here().map(|scan| Asker::of(scan)).collect::<HashSet<_>>().len();
            let apart = here().filter(|scan| !scan.is_joined());
            traffic.apart = apart.map(|scan| Asker::of(scan)).collect::<HashSet<_>>().len();
            let mut resident = Vec::new();
            for of in chunks.iter().filter(|of| known(of.file)) {
                let file = of.file.file();
                let Some(bundle): Option<ChunkNo> = file.bundle_of(of.chunk) else { continue };
                let here = &core.table(file.table).class_of(bundle).key.resident;
                let roots = of.roots.iter().filter(|&&root| here.contains(file.columns[root].no));
                resident.extend(roots.map(|&root| (of.file, of.chunk, root)));
            }
            resident
        });
        traffic.bytes = chunks.iter().map(|of| of.file.chunk_bytes(of.chunk, of.roots)).sum();
        traffic.resident_bytes =
            resident.into_iter().map(|(file, chunk, root)| file.chunk_bytes(chunk, &[root])).sum();
        traffic
    }
}

/// The query or reader of a scan.
#[derive(PartialEq, Eq, Hash)]
enum Asker {
    /// The query of its account.
    Query(u64),
    Reader(usize),
}

impl Asker {
    fn of(scan: &RegisteredSegment) -> Self {
        match scan.counters.query {
            Some(query) => Asker::Query(query),
            None => Asker::Reader(scan.reader.number()),
        }
    }
}
