//! Errors of a configuration or a layout.

use thiserror::Error;

/// The reason why a configuration or a layout is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The buffer cannot hold what a single worker needs.
    #[error("a buffer of {budget} bytes is too small: at least {needed} bytes are needed for progress")]
    BufferTooSmall {
        /// The smallest buffer that guarantees progress, in bytes.
        needed: u64,
        /// The current budget, in bytes.
        budget: u64,
    },
    /// A setting that must be at least 1 is 0.
    #[error("{setting} must be at least 1")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// A time that is too long to be counted.
    #[error("{setting} is {seconds} seconds; the maximum is {max}")]
    TooLong {
        /// The setting.
        setting: &'static str,
        /// Its value, in seconds.
        seconds: u64,
        /// The maximum, in seconds.
        max: u64,
    },
    /// A percentage above 100.
    #[error("{setting} is a percentage, {value} is above 100")]
    Percent {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: u8,
    },
    /// No policy has this name and kind.
    #[error("there is no sharing policy '{name}'; there are {known}")]
    UnknownPolicy {
        /// The requested name.
        name: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// A part's run of pages goes backwards or lies outside the column.
    #[error("chunk {chunk} lies on pages {start}..{end} of {pages}: spans must ascend and stay inside")]
    BadSpan {
        /// The part's chunk.
        chunk: u32,
        /// The first page of its span.
        start: u32,
        /// The page after its span.
        end: u32,
        /// The number of pages of the column.
        pages: u32,
    },
    /// A page of zero bytes.
    #[error("page {page} has no bytes")]
    EmptyPage {
        /// The page.
        page: u32,
    },
    /// A column describes more or fewer parts than there are chunks.
    #[error("column {column} has {parts} parts for {chunks} chunks")]
    PartCount {
        /// The column.
        column: u32,
        /// The number of its parts.
        parts: u32,
        /// The number of the table's chunks.
        chunks: u32,
    },
}
