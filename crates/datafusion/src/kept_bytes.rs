//! Bytes that an engine's queries keep for each other, booked in the engine's ledger as one number.

use std::sync::{Arc, Mutex};

use coscan_engine::Engine;
use coscan_operators::Room;

use crate::lock::lock;

/// A kind of kept data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// Aggregates of the rows of slices.
    Sums,
    /// The rows of slices for which conjuncts are true.
    Answers,
}

/// The bytes in the ledger, by [`What`].
#[derive(Debug, Default)]
pub(crate) struct KeptBytes(Mutex<[u64; 2]>);

impl KeptBytes {
    /// Returns the account of one kind.
    pub(crate) fn room(engine: &Engine, of: What) -> Arc<dyn Room> {
        let all = engine.companion(KeptBytes::default);
        Arc::new(Booked { engine: engine.clone(), all, of })
    }
}

#[derive(Debug)]
struct Booked {
    engine: Engine,
    all: Arc<KeptBytes>,
    of: What,
}

impl Room for Booked {
    fn resize(&self, bytes: u64) -> bool {
        let mut all = lock(&self.all.0);
        let mut wanted = *all;
        wanted[self.of as usize] = bytes;
        let has_room = self.engine.keep(wanted.iter().sum()).unwrap_or(false);
        if has_room {
            *all = wanted;
        }
        has_room
    }
}
