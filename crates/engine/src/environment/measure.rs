//! Measurement of a device, by reading a file on it the way the engine reads. It finds the cost of a request
//! and the number of requests that suffice, within a given time. Boundaries are left to `coscan device
//! probe`, which has more time.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the real environment")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use coscan_device::probe::{ProbeError, ProbeOptions, Profile, Run, Sample, Target, first_look};

use super::Cancel;
use crate::io::{RangeReader, Source};

/// Block sizes of reads of files on this machine, and of objects.
const FILE_BLOCK: u64 = 4096;
const OBJECT_BLOCK: u64 = 64 << 10;
/// The number of reads of each kind. There are few, and none is large, to save time.
const SAMPLES: usize = 10;
const BYTES_MAX: u64 = 1 << 20;
const DEPTH_MAX: usize = 16;

/// A profile of the file's device, which lacks the properties that were not found in time. `None` if the file
/// is too small or cannot be read. Blocks.
pub(super) fn measure(reader: &dyn RangeReader, source: &Arc<Source>, time: Duration) -> Option<Profile> {
    let mut file = Measured { reader, source, until: Instant::now() + time };
    let options = ProbeOptions {
        samples: SAMPLES,
        bytes_max: BYTES_MAX,
        depth_max: DEPTH_MAX,
        ..ProbeOptions::default()
    };
    match first_look(&mut file, &options) {
        Ok(profile) => Some(profile),
        Err(error) => {
            tracing::debug!(file = %source.name, %error, "not measured");
            None
        }
    }
}

struct Measured<'a> {
    reader: &'a dyn RangeReader,
    source: &'a Arc<Source>,
    until: Instant,
}

impl Measured<'_> {
    fn one(&self, sample: &Sample) -> Result<f64, ProbeError> {
        let begun = Instant::now();
        if begun >= self.until {
            return Err(ProbeError::LimitReached);
        }
        let range = sample.offset..sample.offset + sample.bytes;
        let read = self.reader.read(self.source, &[range], &Cancel::default(), &mut |_, _| ());
        read.map_err(|error| ProbeError::Target(error.to_string()))?;
        Ok(begun.elapsed().as_secs_f64())
    }
}

impl Target for Measured<'_> {
    fn bytes(&self) -> u64 {
        self.source.meta.size / FILE_BLOCK * FILE_BLOCK
    }

    fn block_bytes(&self) -> u64 {
        if self.source.local.is_some() { FILE_BLOCK } else { OBJECT_BLOCK }
    }

    fn read(&mut self, samples: &[Sample], depth: usize) -> Result<Run, ProbeError> {
        let (begun, next, this) = (Instant::now(), AtomicUsize::new(0), &*self);
        let times = Mutex::new(vec![0.0; samples.len()]);
        let work = || -> Result<(), ProbeError> {
            loop {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                let Some(sample) = samples.get(nth) else { return Ok(()) };
                let time = this.one(sample)?;
                times.lock().unwrap_or_else(PoisonError::into_inner)[nth] = time;
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..depth.min(samples.len())).map(|_| scope.spawn(work)).collect();
            let failed = || Err(ProbeError::Target("a reading thread failed".to_owned()));
            let ended: Vec<_> =
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect();
            ended.into_iter().collect::<Result<(), _>>()
        })?;
        let latency_s = times.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Run { latency_s, elapsed_s: begun.elapsed().as_secs_f64() })
    }
}
