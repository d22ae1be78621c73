//! Tests of a server through its protocols.

mod access;
mod bounds;
mod changes;
mod clustered;
mod http;
mod postgres;
mod replaced;
mod support;
mod tiers;
