//! Files and block devices as targets: direct reads, with one thread per read in flight.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Context, bail};
use coscan_device::Transfer;
use coscan_device::probe::{ProbeError, Run, Sample, Target};
use rustix::fs::OFlags;

use super::budget::Budget;

/// Alignment of addresses, offsets and lengths for direct reads on common devices.
const BLOCK: u64 = 4096;

/// An open file or block device.
pub struct FileTarget {
    file: File,
    path: PathBuf,
    bytes: u64,
    budget: Budget,
    may_write: bool,
    /// Set if reads bypass the page cache.
    pub direct: bool,
}

impl FileTarget {
    /// Opens the target for reading, and with `may_write` also for writing.
    pub fn open(path: &Path, budget: Budget, may_write: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        let kind = fs::metadata(path).with_context(|| format!("cannot open {shown}"))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            bail!(
                "{shown} is neither a file nor a block device: name one of these, or the address of an object"
            );
        }
        let flags = OFlags::DIRECT.bits() as i32;
        let options = || OpenOptions::new().read(true).write(may_write).clone();
        let direct = options().custom_flags(flags).open(path);
        let (mut file, direct) = match direct {
            Ok(file) => (file, true),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                (options().open(path).with_context(|| format!("cannot open {shown}"))?, false)
            }
            Err(error) => return Err(error).with_context(|| format!("cannot open {shown}")),
        };
        let bytes =
            file.seek(SeekFrom::End(0)).with_context(|| format!("cannot tell the size of {shown}"))?;
        let bytes = bytes / BLOCK * BLOCK;
        Ok(FileTarget { file, path: path.to_owned(), bytes, budget, direct, may_write })
    }

    /// The number of the file's device, or of the block device itself: `major:minor`.
    pub fn device_id(&self) -> Option<String> {
        let metadata = self.file.metadata().ok()?;
        let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
        Some(format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device)))
    }

    /// The kernel's description of the device.
    pub fn declared(&self) -> BTreeMap<String, String> {
        let Some(device) = self.device_id() else { return BTreeMap::new() };
        let folder = PathBuf::from(format!("/sys/dev/block/{device}"));
        // A partition has no queue of its own.
        let queues = [folder.join("queue"), folder.join("../queue")];
        let Some(queue) = queues.iter().find(|queue| queue.is_dir()) else { return BTreeMap::new() };
        let wanted = [
            "chunk_sectors",
            "logical_block_size",
            "max_sectors_kb",
            "minimum_io_size",
            "nr_requests",
            "optimal_io_size",
            "rotational",
        ];
        let value = |name: &&str| {
            let text = fs::read_to_string(queue.join(name)).ok()?;
            Some(((*name).to_owned(), text.trim().to_owned()))
        };
        wanted.iter().filter_map(value).collect()
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.budget.bytes()
    }

    fn failed(&self, error: &io::Error) -> ProbeError {
        ProbeError::Target(format!("cannot read {}: {error}", self.path.display()))
    }

    fn read_one(&self, buffer: &mut Aligned, sample: &Sample) -> Result<f64, ProbeError> {
        self.budget.spend(sample.bytes)?;
        let buffer = buffer.of(sample.bytes as usize);
        let begun = Instant::now();
        self.file.read_exact_at(buffer, sample.offset).map_err(|error| self.failed(&error))?;
        Ok(begun.elapsed().as_secs_f64())
    }

    fn write_one(&self, contents: &mut Aligned, sample: &Sample) -> Result<f64, ProbeError> {
        self.budget.spend(sample.bytes)?;
        let contents = contents.of(sample.bytes as usize);
        let begun = Instant::now();
        let failed = |error| ProbeError::Target(format!("cannot write {}: {error}", self.path.display()));
        self.file.write_all_at(contents, sample.offset).map_err(failed)?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Carries out requests in `depth` threads, one for each request in flight. Each thread takes the next request.
    fn together<T: Sync>(
        &self,
        requests: &[T],
        depth: usize,
        one: impl Fn(&mut Aligned, &T) -> Result<f64, ProbeError> + Sync,
    ) -> Result<Vec<f64>, ProbeError> {
        let next = AtomicUsize::new(0);
        let times = Mutex::new(vec![0.0; requests.len()]);
        let work = || -> Result<(), ProbeError> {
            let mut buffer = Aligned::default();
            while let Some((nth, request)) = {
                let nth = next.fetch_add(1, Ordering::Relaxed);
                requests.get(nth).map(|request| (nth, request))
            } {
                let time = one(&mut buffer, request)?;
                times.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[nth] = time;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..depth.min(requests.len())).map(|_| scope.spawn(work)).collect();
            let ended = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(ProbeError::Target("a reading thread failed".to_owned())))
            });
            ended.collect::<Vec<_>>().into_iter().collect::<Result<Vec<()>, _>>()
        })?;
        Ok(times.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }
}

impl Target for FileTarget {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_bytes(&self) -> u64 {
        BLOCK
    }

    fn read(&mut self, samples: &[Sample], depth: usize) -> Result<Run, ProbeError> {
        let begun = Instant::now();
        if depth == 1 {
            let mut buffer = Aligned::default();
            let mut latency_s = Vec::with_capacity(samples.len());
            for sample in samples {
                let one = Instant::now();
                latency_s.push(self.read_one(&mut buffer, sample)?);
                self.budget.rest(one.elapsed());
            }
            return Ok(Run { latency_s, elapsed_s: begun.elapsed().as_secs_f64() });
        }
        let latency_s = self.together(samples, depth, |buffer, sample| self.read_one(buffer, sample))?;
        let elapsed = begun.elapsed();
        self.budget.rest(elapsed);
        Ok(Run { latency_s, elapsed_s: elapsed.as_secs_f64() })
    }

    fn mixed(&mut self, samples: &[(Sample, Transfer)], depth: usize) -> Result<Run, ProbeError> {
        if !self.may_write {
            return Err(ProbeError::ReadOnly);
        }
        // The bytes to write back are read before the measurement starts.
        let mut requests = Vec::with_capacity(samples.len());
        for (sample, kind) in samples {
            let mut contents = Aligned::default();
            if *kind == Transfer::Write {
                self.read_one(&mut contents, sample)?;
            }
            requests.push((*sample, *kind, Mutex::new(contents)));
        }
        let begun = Instant::now();
        let latency_s = self.together(&requests, depth, |buffer, (sample, kind, contents)| match kind {
            Transfer::Read => self.read_one(buffer, sample),
            Transfer::Write => {
                self.write_one(&mut contents.lock().unwrap_or_else(|poisoned| poisoned.into_inner()), sample)
            }
        })?;
        let elapsed = begun.elapsed();
        self.budget.rest(elapsed);
        Ok(Run { latency_s, elapsed_s: elapsed.as_secs_f64() })
    }
}

/// Memory for direct reads.
#[derive(Default)]
struct Aligned {
    bytes: Vec<u8>,
}

impl Aligned {
    /// The first `length` bytes of it that begin at a multiple of the block size.
    fn of(&mut self, length: usize) -> &mut [u8] {
        let block = BLOCK as usize;
        if self.bytes.len() < length + block {
            self.bytes = vec![0; length + block];
        }
        let start = self.bytes.as_ptr().align_offset(block);
        &mut self.bytes[start..start + length]
    }
}
