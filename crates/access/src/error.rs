//! Errors of access methods.

use thiserror::Error;

/// Why an access failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AccessError {
    /// A file has no such page.
    #[error("{file} has {pages} pages and no page {page}: was its index made for another file?")]
    NoPage {
        /// The file.
        file: String,
        /// The page asked for.
        page: u32,
        /// The pages it has.
        pages: u32,
    },
    /// A page has no such record.
    #[error("page {page} of {file} has no record {slot}: was its index made for another file?")]
    NoRecord {
        /// The file.
        file: String,
        /// The page.
        page: u32,
        /// The slot asked for.
        slot: u16,
    },
    /// A file instance is not open.
    #[error("file instance {instance} is not open: open it before its pages are used, and close it last")]
    NotOpen {
        /// Its number.
        instance: u32,
    },
    /// A relation of the database was to be changed.
    #[error("{file} belongs to the database, which all copies share: only temporary files can be changed")]
    ReadOnly {
        /// The file.
        file: String,
    },
    /// A record is longer than a page.
    #[error("a record of {bytes} bytes does not fit on a page of {file}: store shorter records")]
    RecordTooLong {
        /// The file.
        file: String,
        /// Its length.
        bytes: usize,
    },
    /// A hash file has no room left.
    #[error("the hash file {file} is full with {pages} pages: make it with more of them")]
    HashFull {
        /// The file.
        file: String,
        /// Its pages.
        pages: u32,
    },
    /// Entries of an index do not come in order.
    #[error("entry {at} of the index {file} has a smaller key than the one before: sort them first")]
    Unsorted {
        /// The index.
        file: String,
        /// The position of the entry.
        at: usize,
    },
}
