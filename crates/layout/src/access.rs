//! What queries ask for: visits to tables, each a run of pages, in the order in which a plan makes them.

use crate::{Extents, Read};

/// How a query goes over its tables.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// Tables and indexes that are scanned in turns: 1 is a plain scan, more are nested joins.
    pub streams: u64,
    /// Prefetches in a row before the next one's turn.
    pub run: u64,
    /// Share of single pages at random places among all visits.
    pub random: f64,
}

/// A visit to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visit {
    /// The next pages of a stream, so many prefetches of them.
    Next {
        /// Which stream.
        stream: u64,
        /// How many prefetches.
        run: u64,
    },
    /// One page somewhere: a share of 2^32 of the volume.
    Page(u32),
}

/// How pages are prefetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// So many pages at a time, each time in one request, wherever extents end.
    Pages(u64),
    /// Extent by extent, until as many pages are read as with so many at a time.
    Extents(u64),
}

/// Visits of an access pattern, so many prefetches and single pages of them.
pub fn visits(access: &Access, count: u64, rng: &mut fastrand::Rng) -> Vec<Visit> {
    let (mut visits, mut made, mut turn) = (Vec::new(), 0, 0);
    while made < count {
        if rng.f64() < access.random {
            visits.push(Visit::Page(rng.u32(..)));
            made += 1;
        } else {
            visits.push(Visit::Next { stream: turn % access.streams, run: access.run });
            turn += 1;
            made += access.run;
        }
    }
    visits
}

/// The requests that visits become on a volume over which streams begin at equal distances.
pub fn requests(visits: &[Visit], extents: &Extents, streams: u64, prefetch: Prefetch) -> Vec<Read> {
    let pages = extents.pages();
    // Where each stream is, and how far it should be.
    let mut at: Vec<u64> = (0..streams).map(|stream| stream * (pages / streams)).collect();
    let mut wanted = at.clone();
    let mut reads = Vec::new();
    for visit in visits {
        let (stream, run) = match *visit {
            Visit::Page(share) => {
                let page = (u128::from(pages) * u128::from(share)) >> 32;
                reads.extend(extents.reads(page as u64, 1));
                continue;
            }
            Visit::Next { stream, run } => (stream as usize, run),
        };
        let (Prefetch::Pages(each) | Prefetch::Extents(each)) = prefetch;
        wanted[stream] += run * each;
        if wanted[stream] > pages {
            (at[stream], wanted[stream]) = (0, run * each);
        }
        while at[stream] < wanted[stream] {
            let first = at[stream];
            let end = match prefetch {
                Prefetch::Pages(each) => (first + each).min(pages),
                Prefetch::Extents(_) => {
                    let (start, count) = extents.pages_of(extents.locate(first).extent);
                    start + count
                }
            };
            reads.push(joined(&extents.reads(first, end - first)));
            at[stream] = end;
        }
    }
    reads
}

/// Reads that lie one behind the other, as one.
fn joined(parts: &[Read]) -> Read {
    let block = parts.first().map_or(0, |part| part.block);
    let end = parts.last().map_or(0, |part| part.block + part.blocks);
    Read { block, blocks: end - block }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_take_turns_and_prefetches_are_pages_or_extents() {
        let access = Access { streams: 2, run: 1, random: 0.0 };
        let visits = visits(&access, 4, &mut fastrand::Rng::with_seed(1));
        let fixed = Extents::fixed(0, 100, 8);
        let reads = requests(&visits, &fixed, 2, Prefetch::Pages(8));
        let at = |block| Read { block, blocks: 128 };
        assert_eq!(reads, [at(0), at(400 * 16), at(128), at(408 * 16)]);
        // Three pages fit between boundaries: after eight pages nine are read, after sixteen eighteen.
        let tracks: Vec<u64> = (0..=20).map(|nth| nth * 50).collect();
        let between = Extents::between(&tracks);
        let reads = requests(&visits, &between, 2, Prefetch::Extents(8));
        let blocks: Vec<u64> = reads.iter().map(|read| read.block).collect();
        assert_eq!(blocks, [0, 50, 100, 500, 550, 600, 150, 200, 250, 650, 700, 750]);
        assert!(reads.iter().all(|read| read.blocks == 48));
    }

    #[test]
    fn random_pages_are_single_and_anywhere() {
        let access = Access { streams: 1, run: 1, random: 1.0 };
        let visits = visits(&access, 50, &mut fastrand::Rng::with_seed(1));
        let reads = requests(&visits, &Extents::fixed(0, 1000, 8), 1, Prefetch::Pages(8));
        assert!(reads.iter().all(|read| read.blocks == 16));
        assert!(reads.iter().any(|read| read.block > 100_000));
    }
}
