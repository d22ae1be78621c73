//! Sharing policies: the next chunk to read, and the scan that gets it. One policy, one file.
//!
//! Under [`normal`], [`attach`], [`attach_2004`] and [`pbm`] every scan has a position of its own ([`sequential`]). [`elevator`] has
//! one cursor for all scans of a table. [`relevance`], [`relevance_2007`] and [`relevance_2004`] compare the
//! needs of all scans.
//! Eviction while scans read independently is in [`replacement`](crate::replacement). The questions to a
//! policy are in [`policy`](crate::policy).

pub mod attach;
pub mod attach_2004;
pub mod candidates;
pub mod elevator;
pub mod normal;
pub mod pbm;
pub mod relevance;
pub mod relevance_2004;
pub mod relevance_2007;
pub mod sequential;
