//! The database of the six queries: relations A and B of 10,000 tuples, A' of 1000 and B' of 300 (Chou &
//! DeWitt 1985, Table 3). They are stored in heap files with the queries' indexes.
//!
//! Copies have the same pages under other names. The paper replicated its database on different parts of the
//! disk (section 4.1.1); for a buffer pool, pages of different copies are different pages.

use fastrand::Rng;

use crate::error::AccessError;
use crate::tracer::File;
use crate::wisconsin::{Attribute, Tuple, generate};
use crate::{btree, heap};

/// The tuples of A and of B.
pub const A_TUPLES: u16 = 10_000;
/// The tuples of A'.
pub const A_PRIME_TUPLES: u16 = 1000;
/// The tuples of B'.
pub const B_PRIME_TUPLES: u16 = 300;

/// A database, or a copy of one.
#[derive(Clone, Debug)]
pub struct Database {
    /// Relation A, in the order of `unique2`.
    pub a: File,
    /// The clustered index of A on `unique2`.
    pub a_unique2: File,
    /// Relation B, in the order of `unique2`.
    pub b: File,
    /// The clustered index of B on `unique2`.
    pub b_unique2: File,
    /// The non-clustered index of B on `unique1`.
    pub b_unique1: File,
    /// Relation A', in no order.
    pub a_prime: File,
    /// Relation B', in no order.
    pub b_prime: File,
    /// The prefix of the names of its files.
    prefix: String,
}

impl Database {
    /// Generates the relations and stores them. The same seed gives the same database.
    ///
    /// # Errors
    /// If a record does not fit a page.
    pub fn generate(seed: u64) -> Result<Self, AccessError> {
        let mut rng = Rng::with_seed(seed);
        let mut tuples = |count| generate(count, rng.u64(..));
        let (mut a, mut b) = (tuples(A_TUPLES), tuples(A_TUPLES));
        let (a_prime, b_prime) = (tuples(A_PRIME_TUPLES), tuples(B_PRIME_TUPLES));
        for clustered in [&mut a, &mut b] {
            clustered.sort_by_key(|tuple| Attribute::Unique2.of(tuple));
        }
        let (a, a_rids) = store("A", &a)?;
        let (b, b_rids) = store("B", &b)?;
        let database = Database {
            a_unique2: a_rids.index("A.unique2", Attribute::Unique2)?,
            b_unique2: b_rids.index("B.unique2", Attribute::Unique2)?,
            b_unique1: b_rids.index("B.unique1", Attribute::Unique1)?,
            a,
            b,
            a_prime: store("A'", &a_prime)?.0,
            b_prime: store("B'", &b_prime)?.0,
            prefix: String::new(),
        };
        Ok(database.copy(0))
    }

    /// The copy of the database with this number: the same pages, in files whose names begin with
    /// `copy<number>/`. A generated database is copy 0. A copy takes no memory for pages.
    pub fn copy(&self, number: u32) -> Self {
        let prefix = format!("copy{number}/");
        let renamed = |file: &File| {
            let own = file.name().strip_prefix(&self.prefix).unwrap_or(file.name());
            file.renamed(&format!("{prefix}{own}"))
        };
        Database {
            a: renamed(&self.a),
            a_unique2: renamed(&self.a_unique2),
            b: renamed(&self.b),
            b_unique2: renamed(&self.b_unique2),
            b_unique1: renamed(&self.b_unique1),
            a_prime: renamed(&self.a_prime),
            b_prime: renamed(&self.b_prime),
            prefix,
        }
    }

    /// The name of a temporary file of a query on this copy.
    pub(crate) fn temporary(&self, what: &str) -> String {
        format!("{}{what}", self.prefix)
    }

    /// All files.
    pub fn files(&self) -> [&File; 7] {
        let Database { a, a_unique2, b, b_unique2, b_unique1, a_prime, b_prime, prefix: _ } = self;
        [a, a_unique2, b, b_unique2, b_unique1, a_prime, b_prime]
    }
}

/// The tuples of a stored relation with their addresses.
struct Stored<'a>(Vec<(&'a Tuple, heap::Rid)>);

fn store<'a>(name: &str, tuples: &'a [Tuple]) -> Result<(File, Stored<'a>), AccessError> {
    let (file, rids) = heap::load(name, tuples.iter().map(|tuple| &tuple[..]))?;
    Ok((file, Stored(tuples.iter().zip(rids).collect())))
}

impl Stored<'_> {
    fn index(&self, name: &str, key: Attribute) -> Result<File, AccessError> {
        let entries = self.0.iter().filter_map(|(tuple, rid)| Some((key.of(&tuple[..])?, *rid)));
        let mut entries: Vec<btree::Entry> = entries.collect();
        entries.sort_unstable();
        btree::load(name, &entries)
    }
}

#[cfg(test)]
mod tests {
    use coscan_pool::locality::set::FileSize;

    use super::*;

    #[test]
    fn sizes_in_pages() {
        let database = Database::generate(1).unwrap();
        let size = |file: &File| heap::size(file);
        assert_eq!(size(&database.a), FileSize { records: 10_000, pages: 455 });
        assert_eq!(size(&database.b), FileSize { records: 10_000, pages: 455 });
        assert_eq!(size(&database.a_prime), FileSize { records: 1000, pages: 46 });
        assert_eq!(size(&database.b_prime), FileSize { records: 300, pages: 14 });
        for index in [&database.a_unique2, &database.b_unique2, &database.b_unique1] {
            assert_eq!(btree::size(index).level_pages, [1, 29]);
            assert_eq!(btree::size(index).entries, 10_000);
        }
    }

    #[test]
    fn copies_differ_in_names_only() {
        let database = Database::generate(1).unwrap();
        let copy = database.copy(3).copy(12);
        for (original, copied) in database.files().into_iter().zip(copy.files()) {
            let own = original.name().strip_prefix("copy0/").unwrap();
            assert_eq!(copied.name(), format!("copy12/{own}"));
            assert_eq!(copied.pages(), original.pages());
        }
        let names: std::collections::BTreeSet<_> = database.files().map(File::name).into_iter().collect();
        assert_eq!(names.len(), 7);
    }
}
