//! Errors of access methods.

use thiserror::Error;

/// An error of an access method.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AccessError {
    /// The page is beyond the end of the file.
    #[error("{file} has {pages} pages and no page {page}: was its index made for another file?")]
    NoPage {
        /// The file.
        file: String,
        /// The page asked for.
        page: u32,
        /// The number of its pages.
        pages: u32,
    },
    /// The record is missing on the page.
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
    /// A relation of the database cannot be changed.
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
    /// A hash file is full.
    #[error("the hash file {file} is full with {pages} pages: make it with more of them")]
    HashFull {
        /// The file.
        file: String,
        /// Its pages.
        pages: u32,
    },
    /// Entries of an index are not in order.
    #[error("entry {at} of the index {file} has a smaller key than the one before: sort them first")]
    Unsorted {
        /// The index.
        file: String,
        /// The position of the entry.
        at: usize,
    },
}
