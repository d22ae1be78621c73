//! An engine whose reads wait at a gate that the test opens. So the test decides what happens before the
//! reads, however slow the machine is.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use coscan_engine::{Cancel, Engine, EngineConfig, RangeReader, ReadError, Source};

type Shut = Arc<(Mutex<bool>, Condvar)>;

/// The gate. Dropping it opens it.
pub struct Gate(Shut);

impl Gate {
    /// An engine behind a closed gate.
    pub fn engine(config: EngineConfig) -> (Engine, Gate) {
        let shut: Shut = Arc::new((Mutex::new(true), Condvar::new()));
        let gate = Gate(Arc::clone(&shut));
        (Engine::with_reader(config, |inner| Arc::new(Gated { inner, shut })).unwrap(), gate)
    }

    /// Opens the gate for all reads.
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = false;
        self.0.1.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

struct Gated {
    inner: Arc<dyn RangeReader>,
    shut: Shut,
}

impl RangeReader for Gated {
    fn read(
        &self,
        source: &Source,
        parts: &[Range<u64>],
        cancel: &Cancel,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        let (shut, opened) = &*self.shut;
        drop(opened.wait_while(shut.lock().unwrap(), |shut| *shut).unwrap());
        self.inner.read(source, parts, cancel, arrived)
    }
}

/// Waits until a condition holds that must hold eventually on any machine.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), waited).await.unwrap_or_else(|_| panic!("never: {what}"));
}
