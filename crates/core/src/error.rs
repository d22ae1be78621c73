//! Why a configuration or a layout is impossible.

use thiserror::Error;

/// Why a configuration or a layout is impossible.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The buffer cannot hold what a single worker needs.
    #[error("a buffer of {budget} bytes is too small: at least {needed} bytes are needed for progress")]
    BufferTooSmall {
        /// The smallest buffer that guarantees progress, in bytes.
        needed: u64,
        /// The budget there is, in bytes.
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
        /// What it is, in seconds.
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
    /// No policy of that name and kind.
    #[error("there is no sharing policy '{name}'; there are {known}")]
    UnknownPolicy {
        /// The name asked for.
        name: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// A part's run of pages is not within the column or goes backwards.
    #[error("chunk {chunk} lies on pages {start}..{end} of {pages}: spans must ascend and stay inside")]
    BadSpan {
        /// The chunk.
        chunk: u32,
        /// The first page of its span.
        start: u32,
        /// The page after its span.
        end: u32,
        /// The pages of the column.
        pages: u32,
    },
    /// A page of zero bytes.
    #[error("page {page} has no bytes")]
    EmptyPage {
        /// The page.
        page: u32,
    },
    /// A column does not describe one part per chunk.
    #[error("column {column} has {parts} parts for {chunks} chunks")]
    PartCount {
        /// The column.
        column: u32,
        /// Its parts.
        parts: u32,
        /// The table's chunks.
        chunks: u32,
    },
}
