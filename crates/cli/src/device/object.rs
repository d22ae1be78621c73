//! Ranges of an object in a store as a target.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use coscan_datafusion::store_for;
use coscan_device::probe::{ProbeError, Run, Sample, Target};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::{Builder, Runtime};
use url::Url;

use super::budget::Budget;

/// Ranges are multiples of this size. It is small enough for parts, and large enough for a bounded search.
const BLOCK: u64 = 64 << 10;

/// An object and its store.
pub struct ObjectTarget {
    store: Arc<dyn ObjectStore>,
    path: Path,
    bytes: u64,
    budget: Budget,
    runtime: Runtime,
}

impl ObjectTarget {
    /// Finds the object.
    pub fn open(url: &Url, budget: Budget) -> anyhow::Result<Self> {
        let store = store_for(url)?;
        let path =
            Path::from_url_path(url.path()).with_context(|| format!("{url} is no address of an object"))?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let head = runtime.block_on(store.head(&path)).with_context(|| format!("cannot find {url}"))?;
        Ok(ObjectTarget { store, path, bytes: head.size / BLOCK * BLOCK, budget, runtime })
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.budget.bytes()
    }
}

impl Target for ObjectTarget {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_bytes(&self) -> u64 {
        BLOCK
    }

    fn read(&mut self, samples: &[Sample], depth: usize) -> Result<Run, ProbeError> {
        let ObjectTarget { store, path, budget, runtime, .. } = self;
        let one = async |(nth, sample): (usize, Sample)| {
            budget.spend(sample.bytes)?;
            let begun = Instant::now();
            let range = sample.offset..sample.offset + sample.bytes;
            let failed = |error| ProbeError::Target(format!("cannot read {path}: {error}"));
            let bytes = store.get_range(path, range).await.map_err(failed)?;
            if bytes.len() as u64 != sample.bytes {
                return Err(ProbeError::Target(format!("{path} is shorter than its store says")));
            }
            Ok((nth, begun.elapsed().as_secs_f64()))
        };
        let begun = Instant::now();
        let asked: Vec<(usize, Sample)> = samples.iter().copied().enumerate().collect();
        let limited = async {
            let all = stream::iter(asked).map(one).buffer_unordered(depth).try_collect::<Vec<_>>();
            tokio::time::timeout(budget.left(), all).await.unwrap_or(Err(ProbeError::LimitReached))
        };
        let times = runtime.block_on(limited)?;
        let elapsed = begun.elapsed();
        self.budget.rest(elapsed);
        let mut latency_s = vec![0.0; samples.len()];
        times.into_iter().for_each(|(nth, time)| latency_s[nth] = time);
        Ok(Run { latency_s, elapsed_s: elapsed.as_secs_f64() })
    }
}
