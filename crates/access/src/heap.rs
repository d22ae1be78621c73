//! Heap files: records on pages in the order of insertion. A relation is a heap file. It is sorted before it
//! is stored if it has a clustered index. The result of a query is a heap file too.
//!
//! A scan returns one record at a time and reads the page again for each, like the interface of a record
//! storage system. Nested loops read a page at a time.

use coscan_pool::locality::set::FileSize;

use crate::error::AccessError;
use crate::page::Page;
use crate::tracer::{File, Instance, Tracer};

/// The address of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rid {
    /// The page in its file.
    pub page: u32,
    /// The slot on its page.
    pub slot: u16,
}

/// Stores records in a new file; returns the file and the address of each record.
///
/// # Errors
/// If a record does not fit a page.
pub fn load<'a>(
    name: &str,
    records: impl Iterator<Item = &'a [u8]>,
) -> Result<(File, Vec<Rid>), AccessError> {
    let mut pages = vec![Page::empty()];
    let mut rids = Vec::new();
    for record in records {
        let on_last =
            if pages.len() > 1 { pages.last_mut().and_then(|page| page.insert(record)) } else { None };
        let slot = match on_last {
            Some(slot) => slot,
            None => {
                let mut page = Page::empty();
                let too_long = || AccessError::RecordTooLong { file: name.to_owned(), bytes: record.len() };
                let slot = page.insert(record).ok_or_else(too_long)?;
                pages.push(page);
                slot
            }
        };
        rids.push(Rid { page: pages.len() as u32 - 1, slot });
    }
    pages[0].set_u32(0, rids.len() as u32);
    Ok((File::new(name, pages), rids))
}

/// The records of a heap file and their pages, from its header.
pub fn size(file: &File) -> FileSize {
    let records = file.header().map_or(0, |header| header.get_u32(0));
    FileSize { records: records.into(), pages: file.pages().saturating_sub(1) }
}

/// The record at an address. The caller adds its cost besides the page.
///
/// # Errors
/// If there is no such page, or the file is not open.
pub fn fetch(tracer: &mut Tracer, instance: Instance, at: Rid) -> Result<Vec<u8>, AccessError> {
    match tracer.read(instance, at.page)?.record(at.slot) {
        Some(record) => Ok(record.to_vec()),
        None => {
            let file = tracer.name(instance)?.to_owned();
            Err(AccessError::NoRecord { file, page: at.page, slot: at.slot })
        }
    }
}

/// A scan of a heap file from front to back.
#[derive(Debug)]
pub struct HeapScan {
    instance: Instance,
    at: Rid,
}

impl HeapScan {
    /// A scan that begins at the first record.
    pub fn new(instance: Instance) -> Self {
        HeapScan { instance, at: Rid { page: 1, slot: 0 } }
    }

    /// The next record and its address.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next(&mut self, tracer: &mut Tracer) -> Result<Option<(Rid, Vec<u8>)>, AccessError> {
        let at = self.at;
        if at.page >= tracer.pages(self.instance)? {
            return Ok(None);
        }
        let page = tracer.read(self.instance, at.page)?;
        let Some(record) = page.record(at.slot).map(<[u8]>::to_vec) else {
            let file = tracer.name(self.instance)?.to_owned();
            return Err(AccessError::NoRecord { file, page: at.page, slot: at.slot });
        };
        // The scan leaves a full page after its last record, without another access that finds none.
        self.at = if at.slot + 1 < page.slots() {
            Rid { slot: at.slot + 1, ..at }
        } else {
            Rid { page: at.page + 1, slot: 0 }
        };
        tracer.work(1, |cpu| cpu.next_ns);
        Ok(Some((at, record)))
    }

    /// The remaining records of a page. The caller adds their cost.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_page(&mut self, tracer: &mut Tracer) -> Result<Option<Vec<Vec<u8>>>, AccessError> {
        if self.at.page >= tracer.pages(self.instance)? {
            return Ok(None);
        }
        let page = tracer.read(self.instance, self.at.page)?;
        let records = page.records().skip(self.at.slot.into()).map(<[u8]>::to_vec).collect();
        self.at = Rid { page: self.at.page + 1, slot: 0 };
        Ok(Some(records))
    }
}

/// A writer of records to a temporary heap file.
#[derive(Debug)]
pub struct HeapWriter {
    instance: Instance,
    /// The page being filled, and the longest record that still fits. Full pages are not accessed.
    last: Option<(u32, usize)>,
}

impl HeapWriter {
    /// A writer for a new file.
    pub fn new(instance: Instance) -> Self {
        HeapWriter { instance, last: None }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If the record does not fit a page, or the file is not a temporary one that is open.
    pub fn add(&mut self, tracer: &mut Tracer, record: &[u8]) -> Result<(), AccessError> {
        tracer.work(1, |cpu| cpu.store_ns + cpu.byte_ns * record.len() as u64);
        if let Some((last, _)) = self.last.filter(|(_, room)| record.len() <= *room) {
            let room = tracer.update(self.instance, last, |page| page.insert(record).map(|_| page.room()))?;
            self.last = room.map(|room| (last, room));
            return Ok(());
        }
        let mut page = Page::empty();
        if page.insert(record).is_none() {
            let file = tracer.name(self.instance)?.to_owned();
            return Err(AccessError::RecordTooLong { file, bytes: record.len() });
        }
        let room = page.room();
        self.last = Some((tracer.append(self.instance, page)?, room));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use coscan_pool::locality::{LocalReplacement, Pattern, set::LocalitySet};
    use coscan_trace::pages::PageOp;

    use super::*;
    use crate::cpu::CpuModel;

    const ONE: LocalitySet =
        LocalitySet { pattern: Pattern::StraightSequential, pages: 1, replacement: LocalReplacement::Lru };

    fn records(count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|n| vec![n as u8; 100 + n * 37 % 900]).collect()
    }

    #[test]
    fn a_scan_gives_back_what_was_stored() {
        let stored = records(200);
        let (file, rids) = load("heap", stored.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(size(&file).records, 200);
        assert_eq!(size(&file).pages, file.pages() - 1);
        let mut tracer = Tracer::new(CpuModel::default());
        let instance = tracer.open(&file, ONE);
        let mut scan = HeapScan::new(instance);
        for (rid, record) in rids.iter().zip(&stored) {
            assert_eq!(scan.next(&mut tracer), Ok(Some((*rid, record.clone()))));
            assert_eq!(fetch(&mut tracer, instance, *rid).as_ref(), Ok(record));
        }
        assert_eq!(scan.next(&mut tracer), Ok(None));
        let mut scan = HeapScan::new(instance);
        let pages: Vec<_> = std::iter::from_fn(|| scan.next_page(&mut tracer).unwrap()).collect();
        assert_eq!(pages.len() as u32, size(&file).pages);
        assert_eq!(pages.concat(), stored);
    }

    #[test]
    fn a_writer_makes_the_same_pages() {
        let stored = records(200);
        let (file, _) = load("heap", stored.iter().map(Vec::as_slice)).unwrap();
        let mut tracer = Tracer::new(CpuModel::default());
        let instance = tracer.create("result", ONE);
        let mut writer = HeapWriter::new(instance);
        for record in &stored {
            writer.add(&mut tracer, record).unwrap();
        }
        assert_eq!(tracer.pages(instance), Ok(file.pages()));
        let mut scan = HeapScan::new(instance);
        for record in &stored {
            assert_eq!(scan.next(&mut tracer).unwrap().unwrap().1, *record);
        }
        // One write for each record, and one for the header; pages only grow.
        let trace = tracer.finish("test", 1);
        let writes = trace.records.iter().filter_map(|r| match r.op {
            PageOp::Write { page, .. } => Some(page),
            _ => None,
        });
        let writes: Vec<u32> = writes.collect();
        assert_eq!(writes.len(), 201);
        assert!(writes[..200].is_sorted() && writes[200] == 0);
    }

    #[test]
    fn what_is_not_there() {
        let (file, _) = load("heap", [&b"one"[..]].into_iter()).unwrap();
        let mut tracer = Tracer::new(CpuModel::default());
        let instance = tracer.open(&file, ONE);
        let at = |page, slot| Rid { page, slot };
        let no_record = AccessError::NoRecord { file: "heap".to_owned(), page: 1, slot: 1 };
        assert_eq!(fetch(&mut tracer, instance, at(1, 1)), Err(no_record));
        let no_page = AccessError::NoPage { file: "heap".to_owned(), page: 2, pages: 2 };
        assert_eq!(fetch(&mut tracer, instance, at(2, 0)), Err(no_page));
        let (empty, rids) = load("empty", std::iter::empty()).unwrap();
        assert!(rids.is_empty());
        let instance = tracer.open(&empty, ONE);
        assert_eq!(HeapScan::new(instance).next(&mut tracer), Ok(None));
        let long = vec![0; 5000];
        let too_long = |file: &str| AccessError::RecordTooLong { file: file.to_owned(), bytes: 5000 };
        assert_eq!(load("long", [&long[..]].into_iter()).unwrap_err(), too_long("long"));
        let result = tracer.create("result", ONE);
        assert_eq!(HeapWriter::new(result).add(&mut tracer, &long), Err(too_long("result")));
    }
}
