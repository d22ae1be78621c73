//! Which chunk next, and for whom? One policy, one file.
//!
//! [`normal`] and [`attach`] give every scan a position of its own ([`sequential`]); [`elevator`] has one cursor for all
//! scans of a table; [`relevance`] and [`relevance_2004`] weigh all scans against each other. What leaves the buffer
//! while scans go their own way is the question of [`replacement`](crate::replacement). What a policy is asked is in
//! [`policy`](crate::policy).

pub mod attach;
pub mod candidates;
pub mod elevator;
pub mod normal;
pub mod relevance;
pub mod relevance_2004;
pub mod sequential;
