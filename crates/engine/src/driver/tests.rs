//! The effects of a panic under the driver's lock.

use std::sync::{Condvar, Mutex};

use super::{Driver, EngineError, LockedDriver};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::engine::Engine;
use crate::environment::Cancel;
use crate::io::{RangeReader, ReadError, Source};
use crate::test_support::{config, open, policy, request, sample};

/// Reads wait while the gate is closed.
struct Gate {
    inner: Arc<dyn RangeReader>,
    shut: Arc<(Mutex<bool>, Condvar)>,
}

impl RangeReader for Gate {
    fn read(
        &self,
        source: &Source,
        parts: &[Range<u64>],
        cancel: &Cancel,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        let (shut, opened) = &*self.shut;
        let _open = opened.wait_while(shut.lock().unwrap(), |shut| *shut).unwrap();
        self.inner.read(source, parts, cancel, arrived)
    }
}

fn a_bug(_: &mut LockedDriver<'_>) {
    panic!("a bug");
}

/// The number of threads of engines in this process.
fn engine_threads() -> usize {
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(name);
    tasks.filter(|name| ["coscan-io", "coscan-clock"].contains(&name.trim())).count()
}

fn is_broken<T>(outcome: Result<T, EngineError>) -> bool {
    matches!(outcome, Err(EngineError::Broken(why)) if why == "a bug")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_under_the_lock_ends_everything_for_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 4, 1_500);
    let shut = Arc::new((Mutex::new(false), Condvar::new()));
    let gate = shut.clone();
    let engine =
        Engine::with_reader(config("relevance", 64 << 20), |inner| Arc::new(Gate { inner, shut: gate }));
    let engine = engine.unwrap();
    let file = open(&engine, &path).await;
    let wanted = request(std::slice::from_ref(&file), None);
    let (reading, waiting) = (engine.scan(wanted.clone()).unwrap(), engine.scan(wanted.clone()).unwrap());
    let mut reader = reading.worker();
    let mut chunk = reader.next().await.unwrap().unwrap();
    *shut.0.lock().unwrap() = true;
    let waiter = tokio::spawn({
        let mut worker = waiting.worker();
        async move {
            loop {
                worker.next().await?;
            }
        }
    });
    let driver: Arc<Driver> = engine.driver.clone();
    assert!(is_broken(driver.locked(a_bug)));

    let waited: Result<(), EngineError> =
        tokio::time::timeout(Duration::from_secs(10), waiter).await.expect("nobody hangs").unwrap();
    assert!(is_broken(waited));
    assert!(is_broken(chunk.slice(0).await));
    drop(chunk);
    assert!(is_broken(reader.next().await.map(drop)));
    assert!(is_broken(engine.scan(wanted).map(drop)));
    assert!(is_broken(engine.set_buffer(1 << 20)) && is_broken(engine.set_policy(policy("normal"))));
    assert_eq!(engine.resident_bytes(), 0, "what was in memory is freed");
    engine.stats();

    *shut.0.lock().unwrap() = false;
    shut.1.notify_all();
    drop((reader, reading, waiting));
    let deadline = Instant::now() + Duration::from_secs(10);
    while engine_threads() > 0 {
        assert!(Instant::now() < deadline, "threads are left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
