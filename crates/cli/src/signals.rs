//! Signals that end a process or tell it to read its files again.

use anyhow::Context;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Begins to listen to a signal.
pub fn told(kind: SignalKind) -> anyhow::Result<Signal> {
    signal(kind).context("cannot wait for signals")
}
