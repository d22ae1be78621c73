//! Many clients over one engine.
