//! B+-trees over heap files. Leaves hold keys and addresses of records, and a link to the next leaf.
//! Clustered and other indexes have the same trees. The heap file behind a clustered index is in the order of
//! its keys, so neighbouring entries lead to neighbouring records.
//!
//! A tree is built at once from sorted entries, as full as after random insertions. It cannot be changed,
//! because the queries do not change it.

use coscan_pool::locality::set::IndexSize;

use crate::error::AccessError;
use crate::heap::Rid;
use crate::page::{PAGE_BYTES, Page};
use crate::tracer::{File, Instance, Tracer};

/// Random insertions leave nodes full by the natural logarithm of 2.
const FILL_PERCENT: usize = 69;

/// A node: its entries (16 bits), its level above the leaves (16 bits), the next leaf (32 bits; 0 after the last).
const NODE_HEADER_BYTES: usize = 8;
/// An entry of a leaf: key (16 bits), page (32), slot (16).
const LEAF_ENTRY_BYTES: usize = 8;
/// An entry of another node: the first key below (16 bits), the page of the node below (32).
const INNER_ENTRY_BYTES: usize = 6;

const LEAF_ENTRIES: usize = (PAGE_BYTES - NODE_HEADER_BYTES) / LEAF_ENTRY_BYTES * FILL_PERCENT / 100;
const INNER_ENTRIES: usize = (PAGE_BYTES - NODE_HEADER_BYTES) / INNER_ENTRY_BYTES * FILL_PERCENT / 100;
const _: () = assert!(LEAF_ENTRIES > 1 && INNER_ENTRIES > 1);

/// An entry of an index.
pub type Entry = (i16, Rid);

/// Builds an index from entries in the order of their keys.
///
/// # Errors
/// If the entries are not in the order of their keys.
pub fn load(name: &str, entries: &[Entry]) -> Result<File, AccessError> {
    if let Some(at) = entries.windows(2).position(|pair| pair[1].0 < pair[0].0) {
        return Err(AccessError::Unsorted { file: name.to_owned(), at: at + 1 });
    }
    let mut pages = vec![Page::empty()];
    let mut level: Vec<(i16, u32)> = Vec::new();
    // An empty index is an empty leaf.
    let chunks = if entries.is_empty() { vec![entries] } else { entries.chunks(LEAF_ENTRIES).collect() };
    for (n, chunk) in chunks.iter().enumerate() {
        let number = pages.len() as u32;
        let next = if n + 1 < chunks.len() { number + 1 } else { 0 };
        pages.push(leaf(chunk, next));
        level.push((chunk.first().map_or(0, |entry| entry.0), number));
    }
    let mut level_pages = vec![level.len() as u32];
    while level.len() > 1 {
        let above = level_pages.len() as u16;
        let mut next_level = Vec::new();
        for chunk in level.chunks(INNER_ENTRIES) {
            next_level.push((chunk[0].0, pages.len() as u32));
            pages.push(inner(chunk, above));
        }
        level_pages.push(next_level.len() as u32);
        level = next_level;
    }
    level_pages.reverse();
    write_header(&mut pages[0], entries.len() as u32, level[0].1, &level_pages);
    Ok(File::new(name, pages))
}

fn leaf(entries: &[Entry], next: u32) -> Page {
    let mut page = Page::empty();
    page.set_u16(0, entries.len() as u16);
    page.set_u32(4, next);
    for (n, (key, rid)) in entries.iter().enumerate() {
        let at = NODE_HEADER_BYTES + n * LEAF_ENTRY_BYTES;
        page.set_u16(at, *key as u16);
        page.set_u32(at + 2, rid.page);
        page.set_u16(at + 6, rid.slot);
    }
    page
}

fn inner(entries: &[(i16, u32)], level: u16) -> Page {
    let mut page = Page::empty();
    page.set_u16(0, entries.len() as u16);
    page.set_u16(2, level);
    for (n, (key, child)) in entries.iter().enumerate() {
        let at = NODE_HEADER_BYTES + n * INNER_ENTRY_BYTES;
        page.set_u16(at, *key as u16);
        page.set_u32(at + 2, *child);
    }
    page
}

/// The header of an index: entries, root, number of levels, pages of each level from the root.
fn write_header(page: &mut Page, entries: u32, root: u32, level_pages: &[u32]) {
    for (n, value) in [entries, root, level_pages.len() as u32].iter().chain(level_pages).enumerate() {
        page.set_u32(n * 4, *value);
    }
}

/// The entries of an index and the pages of its levels, from its header.
pub fn size(file: &File) -> IndexSize {
    let Some(header) = file.header() else { return IndexSize::default() };
    // A tree of 16-bit keys and 32-bit pages has few levels.
    let levels = header.get_u32(8).min(16) as usize;
    IndexSize {
        entries: header.get_u32(0).into(),
        level_pages: (0..levels).map(|level| header.get_u32(12 + level * 4)).collect(),
    }
}

fn root(file: &File) -> u32 {
    file.header().map_or(0, |header| header.get_u32(4))
}

/// Reads a leaf or another node from its page.
struct Node<'a>(&'a Page);

impl Node<'_> {
    fn entries(&self) -> u16 {
        self.0.get_u16(0)
    }

    fn is_leaf(&self) -> bool {
        self.0.get_u16(2) == 0
    }

    fn next_leaf(&self) -> Option<u32> {
        Some(self.0.get_u32(4)).filter(|&next| next != 0)
    }

    fn key(&self, entry: u16) -> i16 {
        let bytes = if self.is_leaf() { LEAF_ENTRY_BYTES } else { INNER_ENTRY_BYTES };
        self.0.get_u16(NODE_HEADER_BYTES + usize::from(entry) * bytes) as i16
    }

    fn rid(&self, entry: u16) -> Rid {
        let at = NODE_HEADER_BYTES + usize::from(entry) * LEAF_ENTRY_BYTES + 2;
        Rid { page: self.0.get_u32(at), slot: self.0.get_u16(at + 4) }
    }

    fn child(&self, entry: u16) -> u32 {
        self.0.get_u32(NODE_HEADER_BYTES + usize::from(entry) * INNER_ENTRY_BYTES + 2)
    }

    /// The first entry whose key is at least `key`.
    fn first_from(&self, key: i16) -> u16 {
        let (mut low, mut high) = (0, self.entries());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The child with the first entry of the key, or with its place. Entries with the first key of a node may
    /// begin at the end of the previous node.
    fn child_for(&self, key: i16) -> u32 {
        self.child(self.first_from(key).saturating_sub(1))
    }

    /// True if the first entry with the key, if there is one, is certainly in this leaf.
    fn surely_holds(&self, key: i16) -> bool {
        let last = self.entries().checked_sub(1);
        last.is_some_and(|last| self.key(0) < key && key <= self.key(last))
    }
}

/// A position in an index. Entries follow from it in the order of their keys.
#[derive(Debug)]
pub struct IndexScan {
    instance: Instance,
    root: u32,
    /// The leaf and the next entry; `None` at the end, and before the first search.
    at: Option<(u32, u16)>,
}

impl IndexScan {
    /// A position in an index that was just opened: undefined until [`IndexScan::seek`].
    pub fn new(instance: Instance, file: &File) -> Self {
        IndexScan { instance, root: root(file), at: None }
    }

    /// Goes from the root to the first entry whose key is at least `key`.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn seek(&mut self, tracer: &mut Tracer, key: i16) -> Result<(), AccessError> {
        tracer.work(1, |cpu| cpu.search_ns);
        self.descend(tracer, key)
    }

    /// Seeks as [`IndexScan::seek`] does, but stays on the leaf if the entry is there. It is meant for keys
    /// in ascending order; the references are then H/CS instead of LH.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn seek_near(&mut self, tracer: &mut Tracer, key: i16) -> Result<(), AccessError> {
        tracer.work(1, |cpu| cpu.search_ns);
        let Some((leaf, _)) = self.at else { return self.descend(tracer, key) };
        tracer.work(1, |cpu| cpu.node_ns);
        let node = Node(tracer.read(self.instance, leaf)?);
        if node.surely_holds(key) {
            self.at = Some((leaf, node.first_from(key)));
            return Ok(());
        }
        self.descend(tracer, key)
    }

    /// The next entry. Every call reads the leaf again.
    ///
    /// # Errors
    /// If the index cannot be read.
    pub fn next(&mut self, tracer: &mut Tracer) -> Result<Option<Entry>, AccessError> {
        while let Some((leaf, entry)) = self.at {
            let node = Node(tracer.read(self.instance, leaf)?);
            if entry < node.entries() {
                let found = (node.key(entry), node.rid(entry));
                self.at = Some((leaf, entry + 1));
                return Ok(Some(found));
            }
            self.at = node.next_leaf().map(|next| (next, 0));
        }
        Ok(None)
    }

    fn descend(&mut self, tracer: &mut Tracer, key: i16) -> Result<(), AccessError> {
        let mut page = self.root;
        loop {
            tracer.work(1, |cpu| cpu.node_ns);
            let node = Node(tracer.read(self.instance, page)?);
            if node.is_leaf() {
                self.at = Some((page, node.first_from(key)));
                return Ok(());
            }
            page = node.child_for(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use coscan_pool::locality::{LocalReplacement, Pattern, set::LocalitySet};
    use coscan_trace::pages::PageOp;

    use super::*;
    use crate::cpu::CpuModel;

    const ONE: LocalitySet =
        LocalitySet { pattern: Pattern::LoopingHierarchical, pages: 1, replacement: LocalReplacement::Lifo };

    /// Entries with the keys, each with its own address.
    fn entries(keys: impl IntoIterator<Item = i16>) -> Vec<Entry> {
        keys.into_iter()
            .enumerate()
            .map(|(n, key)| (key, Rid { page: n as u32, slot: n as u16 % 7 }))
            .collect()
    }

    fn open(entries: &[Entry]) -> (File, Tracer, Instance) {
        let file = load("index", entries).unwrap();
        let mut tracer = Tracer::new(CpuModel::default());
        let instance = tracer.open(&file, ONE);
        (file, tracer, instance)
    }

    /// The expected result of a search: all entries from the first whose key is at least `key`.
    fn from(entries: &[Entry], key: i16) -> &[Entry] {
        &entries[entries.partition_point(|entry| entry.0 < key)..]
    }

    #[test]
    fn searches_find_the_first_entry_of_a_key() {
        // Three leaves of every kind: keys with gaps, with repetitions over several leaves, from the ends.
        for keys in [
            (-500..500).map(|n| n * 3).collect::<Vec<i16>>(),
            (0..1000).map(|n| n / 900).collect(),
            (0..30_000).map(|n| n / 13).collect(),
            vec![i16::MIN, -1, i16::MAX],
            vec![],
        ] {
            let entries = entries(keys.iter().copied());
            let (file, mut tracer, instance) = open(&entries);
            let mut scan = IndexScan::new(instance, &file);
            let ends = [i16::MIN, -1501, -1500, -1, 0, 1, 2, 899, 2306, 2307, i16::MAX];
            for key in keys.iter().step_by(97).copied().chain(ends) {
                scan.seek(&mut tracer, key).unwrap();
                for expected in from(&entries, key).iter().take(800) {
                    assert_eq!(scan.next(&mut tracer), Ok(Some(*expected)), "from {key}");
                }
            }
            scan.seek(&mut tracer, i16::MIN).unwrap();
            let all: Vec<_> = std::iter::from_fn(|| scan.next(&mut tracer).unwrap()).collect();
            assert!(all == entries);
        }
    }

    #[test]
    fn a_search_nearby_finds_the_same() {
        // Three entries for each key: those of some keys lie on two leaves.
        let entries = entries((0..20_000).map(|n| n / 3));
        let (file, mut tracer, instance) = open(&entries);
        let (mut near, mut far) = (IndexScan::new(instance, &file), IndexScan::new(instance, &file));
        for n in 0..3000i32 {
            // Mostly forward, sometimes far away, and beyond both ends.
            let key = if n % 50 == 0 { n * 7919 % 7000 - 200 } else { n * 2 } as i16;
            near.seek_near(&mut tracer, key).unwrap();
            far.seek(&mut tracer, key).unwrap();
            assert_eq!(near.next(&mut tracer), far.next(&mut tracer), "{key}");
        }
        // In the other direction the first entry of a leaf may be the second of its key.
        for key in (0..6667).rev() {
            near.seek_near(&mut tracer, key).unwrap();
            assert_eq!(near.next(&mut tracer), Ok(from(&entries, key).first().copied()));
        }
    }

    #[test]
    fn keys_in_order_rarely_need_the_root() {
        let entries = entries(0..10_000);
        let (file, mut tracer, instance) = open(&entries);
        assert_eq!(size(&file), IndexSize { entries: 10_000, level_pages: vec![1, 29] });
        let mut scan = IndexScan::new(instance, &file);
        for key in 0..1000 {
            scan.seek_near(&mut tracer, key).unwrap();
        }
        let root = root(&file);
        let reads = tracer.finish("test", 1).records.into_iter();
        let of_root = reads.filter(|r| matches!(r.op, PageOp::Read { page, .. } if page == root)).count();
        // The first key, and the first two of each leaf after the first: 1000 keys are on three.
        assert!((1..=7).contains(&of_root), "{of_root}");
    }

    #[test]
    fn three_levels() {
        // Keys repeat: more entries than there are keys.
        let entries = entries((0..300_000).map(|n| (n / 10 - 15_000) as i16));
        let (file, mut tracer, instance) = open(&entries);
        assert_eq!(size(&file).level_pages, [1, 2, 853]);
        let mut scan = IndexScan::new(instance, &file);
        for key in [-15_001, -15_000, -7, 0, 14_999] {
            scan.seek(&mut tracer, key).unwrap();
            assert_eq!(scan.next(&mut tracer), Ok(from(&entries, key).first().copied()));
        }
        scan.seek(&mut tracer, 15_000).unwrap();
        assert_eq!(scan.next(&mut tracer), Ok(None));
    }

    #[test]
    fn entries_must_be_sorted() {
        let error = load("index", &entries([1, 1, 3, 2])).unwrap_err();
        assert_eq!(error, AccessError::Unsorted { file: "index".to_owned(), at: 3 });
        let empty = load("index", &[]).unwrap();
        assert_eq!(size(&empty), IndexSize { entries: 0, level_pages: vec![1] });
    }
}
