//! What queries on an engine keep for each other is in the engine's ledger, all of it as one number.

use std::sync::{Arc, Mutex};

use coscan_engine::Engine;
use coscan_operators::Room;

use crate::lock::lock;

/// What is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// What the rows of slices add up to.
    Sums,
    /// For which rows of slices conjuncts are true.
    Answers,
}

/// By [`What`]: the bytes that are in the ledger.
#[derive(Debug, Default)]
pub(crate) struct KeptBytes(Mutex<[u64; 2]>);

impl KeptBytes {
    /// Where the bytes of one of them are booked.
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
