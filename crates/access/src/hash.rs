//! Hash files of a fixed number of pages. Each record is on the page of its key or, if that is full, on
//! another one with room. A full page is marked, so that a search knows when to continue.
//!
//! A file is temporary and made for a known number of records: it does not grow.

use crate::error::AccessError;
use crate::page::{Page, records_per_page};
use crate::tracer::{Instance, Tracer};
use crate::wisconsin::Attribute;

/// Maximum fill of a hash file, in percent: in fuller ones a search reads several pages per key.
const FILL_PERCENT_MAX: usize = 92;

/// The mark of a page on which a record did not fit.
const OVERFLOWN: u16 = 1;

/// The pages of a hash file for `records` records of `record_bytes` bytes, without its header.
pub fn pages_for(records: u64, record_bytes: usize) -> u32 {
    let on_page = (records_per_page(record_bytes) * FILL_PERCENT_MAX / 100).max(1);
    u32::try_from(records.div_ceil(on_page as u64).max(1)).unwrap_or(u32::MAX)
}

/// A hash file on an integer attribute.
#[derive(Debug)]
pub struct HashFile {
    instance: Instance,
    key: Attribute,
    pages: u32,
}

impl HashFile {
    /// Writes the empty pages of a new file.
    ///
    /// # Errors
    /// If the file is not open.
    pub fn new(
        tracer: &mut Tracer,
        instance: Instance,
        key: Attribute,
        pages: u32,
    ) -> Result<Self, AccessError> {
        for _ in 0..pages {
            tracer.append(instance, Page::empty())?;
        }
        Ok(HashFile { instance, key, pages })
    }

    /// Adds a record under its key.
    ///
    /// # Errors
    /// If the file is full, or not open.
    pub fn insert(&self, tracer: &mut Tracer, key: i16, record: &[u8]) -> Result<(), AccessError> {
        tracer.work(1, |cpu| cpu.hash_ns + cpu.store_ns + cpu.byte_ns * record.len() as u64);
        for page in self.pages_of(key) {
            let inserted = tracer.update(self.instance, page, |page| match page.insert(record) {
                Some(_) => Some(true),
                None if page.mark() == OVERFLOWN => None,
                None => {
                    page.set_mark(OVERFLOWN);
                    Some(false)
                }
            })?;
            if inserted == Some(true) {
                return Ok(());
            }
        }
        let file = tracer.name(self.instance)?.to_owned();
        Err(AccessError::HashFull { file, pages: self.pages })
    }

    /// All records with a key.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn search(&self, tracer: &mut Tracer, key: i16) -> Result<Vec<Vec<u8>>, AccessError> {
        let mut found = Vec::new();
        for page in self.pages_of(key) {
            tracer.work(1, |cpu| cpu.hash_ns);
            let page = tracer.read(self.instance, page)?;
            found.extend(page.records().filter(|r| self.key.of(r) == Some(key)).map(<[u8]>::to_vec));
            if page.mark() != OVERFLOWN {
                break;
            }
        }
        Ok(found)
    }

    /// Every page, in the order in which a key tries them; the first page of the file is its header. Keys
    /// with the same first page have different orders (double hashing). With a step of one, full pages would
    /// be adjacent, and searches would become long.
    fn pages_of(&self, key: i16) -> impl Iterator<Item = u32> + use<> {
        // Multiplicative hashing, with 2^64 divided by the golden ratio.
        let hash = u64::from(key as u16).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let pages = u64::from(self.pages.max(1));
        let mut step = 1 + (hash & 0xffff_ffff) % pages;
        // A step that shares a factor with the number of pages would miss some of them.
        while common_divisor(step, pages) != 1 {
            step += 1;
        }
        let tries = u64::from(self.pages);
        (0..tries).map(move |n| 1 + (((hash >> 32) + n * step) % pages) as u32)
    }
}

fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use coscan_pool::locality::{LocalReplacement, Pattern, set::LocalitySet};

    use super::*;
    use crate::cpu::CpuModel;
    use crate::wisconsin::{TUPLE_BYTES, generate};

    const SET: LocalitySet =
        LocalitySet { pattern: Pattern::IndependentRandom, pages: 20, replacement: LocalReplacement::Lru };

    fn table(pages: u32, key: Attribute) -> (Tracer, HashFile) {
        let mut tracer = Tracer::new(CpuModel::default());
        let instance = tracer.create("table", SET);
        let table = HashFile::new(&mut tracer, instance, key, pages).unwrap();
        (tracer, table)
    }

    #[test]
    fn pages_for_the_query_of_the_paper() {
        assert_eq!(pages_for(400, TUPLE_BYTES), 20);
        assert_eq!(pages_for(401, TUPLE_BYTES), 21);
        assert_eq!(pages_for(0, TUPLE_BYTES), 1);
        assert_eq!(pages_for(3, 4000), 3);
    }

    #[test]
    fn finds_all_records_with_a_key_and_no_others() {
        // Unique keys, and keys that fill several pages each.
        for key in [Attribute::Unique1, Attribute::Ten] {
            let tuples = generate(400, 5);
            let (mut tracer, table) = table(20, key);
            for tuple in &tuples {
                table.insert(&mut tracer, key.of(tuple).unwrap(), tuple).unwrap();
            }
            for value in -1..401 {
                let mut found = table.search(&mut tracer, value).unwrap();
                let mut expected: Vec<_> = tuples.iter().filter(|t| key.of(&t[..]) == Some(value)).collect();
                found.sort();
                expected.sort();
                assert!(found.iter().map(Vec::as_slice).eq(expected.iter().map(|t| &t[..])), "{value}");
            }
        }
    }

    #[test]
    fn every_page_is_used_before_it_is_full() {
        // 22 tuples on a page; pages whose number has factors, one page, and a prime number of pages.
        for pages in [1, 6, 7, 20] {
            let (mut tracer, table) = table(pages, Attribute::Two);
            let tuple = generate(1, 1)[0];
            for _ in 0..pages * 22 {
                table.insert(&mut tracer, 0, &tuple).unwrap();
            }
            let full = AccessError::HashFull { file: "table".to_owned(), pages };
            assert_eq!(table.insert(&mut tracer, 0, &tuple), Err(full));
            assert_eq!(table.search(&mut tracer, 0).unwrap().len() as u32, pages * 22);
        }
    }

    #[test]
    fn each_key_tries_each_page_once() {
        let (_, table) = table(20, Attribute::Unique1);
        for key in [i16::MIN, -1, 0, 1, 999, i16::MAX] {
            let mut tried: Vec<u32> = table.pages_of(key).collect();
            tried.sort_unstable();
            assert!(tried.into_iter().eq(1..=20), "{key}");
        }
    }
}
