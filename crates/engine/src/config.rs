//! The configuration of an engine. This module reads neither the environment nor files; hosts do that.

pub(crate) mod prices;

use std::path::PathBuf;
use std::time::Duration;

use coscan_core::{ConfigError, Policy};

use self::prices::StorePrices;

/// The settings of an [`Engine`](crate::Engine).
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    /// The sharing policy: one from the registry by its name, or one of your own.
    pub policy: Policy,
    /// The byte budget of everything the ledger counts.
    pub buffer_bytes: u64,
    /// True if the buffer may exceed `buffer_bytes` while other owners offer memory
    /// ([`Engine::offer`](crate::Engine::offer)). By default true only if its size is a default, too.
    pub buffer_takes_offers: bool,
    /// The part of the buffer that is used at first. It grows by 512 MiB for each second that is spent on
    /// reading or decoding data again, up to the whole buffer. It returns to this size when the buffer is
    /// emptied.
    pub buffer_start_bytes: u64,
    /// The maximum number of loads in flight per store. If `by_profile.requests` is true, this applies to
    /// files of this machine; for other stores the number is found while they are read.
    pub loads_in_flight: usize,
    /// The number of requests for loads that run at the same time, per store. Point reads may have as many
    /// again. Found for other stores like `loads_in_flight`.
    pub io_threads: usize,
    /// The number of workers of scans that can run at the same time. Loads leave room for their workspaces.
    pub processors: usize,
    /// True if local files are read past the page cache (`O_DIRECT`), where the file system supports that.
    pub direct_io: bool,
    /// Reads of local data of at least this many bytes use data that are in the page cache: the data stay
    /// there, and decoding reads them from there. 0 for none.
    pub page_cache_bytes: u64,
    /// The limit on all reads of this engine together; none by default.
    pub read_limit: Option<ReadLimit>,
    /// Retries after transient errors.
    pub retry: RetryConfig,
    /// The maximum duration of a read, with all attempts and pauses, but without waits for the limit on
    /// reading. After that it fails, and with it the queries that need it. A minute by default. Reads of a
    /// store that answers no request have a tenth of that.
    pub read_deadline: Duration,
    /// The maximum gap in bytes between parts of one load that are read by one request.
    pub coalesce_gap_bytes: u64,
    /// Profiles of devices, as `coscan device probe` writes them. They decide how a device with a profile is
    /// read.
    pub device_profiles: Vec<PathBuf>,
    /// The maximum time to measure a device without a profile when it is first read, while its scan waits.
    /// Zero by default.
    pub device_probe: Duration,
    /// The settings that a device's profile decides.
    pub by_profile: ByProfile,
    /// Prices of stores, to show what reading them costs.
    pub store_prices: StorePrices,
    /// The target size of chunks in encoded bytes. Row groups of at least one and a half times this size are
    /// cut into chunks of about this size, at split points. Small row groups are read together, up to a
    /// sixteenth of it. They are read further ahead, up to a quarter of it per scan. With zero, none of this.
    /// For devices with profiles the profile gives the size.
    pub chunk_bytes: u64,
    /// Rows per slice, the unit of decoding and delivery.
    pub slice_rows: usize,
    /// The time that a consumer may hold a chunk without reading while others wait for its room.
    pub stall_after: Duration,
    /// The time without a scan or a point read after which the buffer is emptied and its memory given back.
    /// Zero: never.
    pub idle_release: Duration,
    /// The share of the buffer that decoded arrays may take, in percent.
    pub decoded_share_percent: u8,
    /// The maximum bytes of decoded arrays, even if their share is larger.
    pub decoded_bytes_max: u64,
    /// The share of the buffer that point reads may take, in percent. With zero there are no point reads.
    pub point_share_percent: u8,
    /// The time that a point read may wait before loads are delayed for it, for at most half of the time.
    /// Zero: never.
    pub point_latency: Duration,
}

/// The settings that a device's profile decides, or that are found while a store is read. Settings that were
/// given are not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByProfile {
    /// The number of requests and loads at the same time.
    pub requests: bool,
    /// The largest gap that one request reads.
    pub gap: bool,
    /// The size to which large row groups are cut and small ones joined.
    pub chunks: bool,
    /// The time that point reads may wait before loads are delayed for them.
    pub point_latency: bool,
}

impl Default for ByProfile {
    fn default() -> Self {
        ByProfile { requests: true, gap: true, chunks: true, point_latency: true }
    }
}

/// A limit on reading, shared by all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimit {
    /// Bytes per second over all requests together; 0 for no limit on bandwidth.
    pub bytes_per_s: u64,
    /// The latency that is added to every request.
    pub latency: Duration,
}

/// Retries after transient read errors, with pauses that double each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryConfig {
    /// The number of attempts without any data arriving, at least one.
    pub attempts: u32,
    /// The wait after the first failure. The actual wait is between half of it and all of it.
    pub base_delay: Duration,
    /// The longest wait.
    pub max_delay: Duration,
}

impl Default for RetryConfig {
    fn default() -> Self {
        RetryConfig { attempts: 5, base_delay: Duration::from_millis(20), max_delay: Duration::from_secs(2) }
    }
}

/// By default decoded arrays have no more than this per processor. Measured: twice as much takes twice the memory and
/// saves a tenth of the processor time of many scans of one table (`docs/memory.md`, "Decoded arrays").
const DECODED_BYTES_PER_PROCESSOR: u64 = 256 << 20;

/// The default start size of the buffer per processor: enough for the chunks of some scans, and as much as
/// other engines take for a few queries.
const START_BYTES_PER_PROCESSOR: u64 = 256 << 20;

/// The defaults that depend on the number of processors.
pub(crate) fn set_by_processors(config: &mut EngineConfig, processors: usize) {
    config.processors = processors;
    config.buffer_start_bytes = START_BYTES_PER_PROCESSOR.saturating_mul(processors as u64);
    config.decoded_bytes_max = DECODED_BYTES_PER_PROCESSOR.saturating_mul(processors as u64);
}

/// The default size of a chunk, in encoded bytes of all columns: see `docs/chunks.md`.
const CHUNK_BYTES: u64 = 16 << 20;

/// Long enough for a user who reads an answer before asking again, and for dashboards that refresh every
/// minute.
const IDLE_RELEASE: Duration = Duration::from_secs(300);

impl EngineConfig {
    /// The defaults for a policy and a buffer.
    pub fn new(policy: impl Into<Policy>, buffer_bytes: u64) -> Self {
        let mut config = EngineConfig {
            policy: policy.into(),
            buffer_bytes,
            buffer_takes_offers: false,
            buffer_start_bytes: 0,
            loads_in_flight: 4,
            io_threads: 4,
            processors: 1,
            direct_io: true,
            page_cache_bytes: 256 << 10,
            read_limit: None,
            retry: RetryConfig::default(),
            read_deadline: Duration::from_secs(60),
            coalesce_gap_bytes: 64 * 1024,
            device_profiles: Vec::new(),
            device_probe: Duration::ZERO,
            by_profile: ByProfile::default(),
            store_prices: StorePrices::default(),
            chunk_bytes: CHUNK_BYTES,
            slice_rows: 8192,
            stall_after: Duration::from_secs(1),
            idle_release: IDLE_RELEASE,
            decoded_share_percent: 25,
            decoded_bytes_max: 0,
            point_share_percent: 10,
            point_latency: Duration::from_millis(20),
        };
        set_by_processors(&mut config, std::thread::available_parallelism().map_or(1, |n| n.get()));
        config
    }
}

/// The longest time that may be set: a month.
const TIME_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

fn check_time(setting: &'static str, time: Duration) -> Result<(), ConfigError> {
    match time > TIME_MAX {
        true => Err(ConfigError::TooLong { setting, seconds: time.as_secs(), max: TIME_MAX.as_secs() }),
        false => Ok(()),
    }
}

impl EngineConfig {
    /// Fails on times that are too long.
    pub(crate) fn check_times(&self) -> Result<(), ConfigError> {
        check_time("stall_after", self.stall_after)?;
        check_time("idle_release", self.idle_release)?;
        check_time("device_probe", self.device_probe)?;
        check_time("point_latency", self.point_latency)?;
        check_time("retry.base_delay", self.retry.base_delay)?;
        check_time("retry.max_delay", self.retry.max_delay)?;
        self.read_limit.iter().try_for_each(ReadLimit::check)
    }
}

impl ReadLimit {
    /// Fails on a latency that is too long.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        check_time("read_latency", self.latency)
    }
}

/// The memory of a program without data.
const PROGRAM_BYTES: u64 = 96 << 20;

/// The default buffer in bytes: half of the memory that the program itself leaves. On the smallest machines
/// it is a quarter of all memory.
pub fn default_buffer_bytes(memory_bytes: u64) -> u64 {
    (memory_bytes.saturating_sub(PROGRAM_BYTES) / 2).max(memory_bytes / 4)
}

/// The memory that this process may use, in bytes. 1 GiB if the system does not tell.
pub fn memory_bytes() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|path| read(&path)?.trim().parse().ok());
    let machine = read("/proc/meminfo").as_deref().and_then(mem_total);
    limits.chain(machine).filter(|&bytes: &u64| bytes > 0).min().unwrap_or(1 << 30)
}

/// The files with the memory limits of the process's control groups (v1 and v2) and of all groups above them,
/// according to /proc/self/cgroup. Inside a container some of these files do not exist.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let places: &[(&str, &str)] = if controllers.is_empty() {
            &[("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/unified", "memory.max")]
        } else if controllers.split(',').any(|name| name == "memory") {
            &[("/sys/fs/cgroup/memory", "memory.limit_in_bytes")]
        } else {
            continue;
        };
        for (mount, file) in places {
            let group = path.trim_end_matches('/');
            let ends = group.match_indices('/').map(|(at, _)| at).chain([group.len()]);
            files.extend(ends.map(|end| format!("{mount}{}/{file}", &group[..end])));
        }
    }
    files
}

/// `MemTotal` of /proc/meminfo, in bytes.
fn mem_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_buffer_leaves_room_for_the_program() {
        assert_eq!(default_buffer_bytes(1 << 30), 464 << 20);
        assert_eq!(default_buffer_bytes(512 << 20), 208 << 20);
        assert_eq!(default_buffer_bytes(64 << 20), 16 << 20);
    }

    #[test]
    fn limits_hold_for_all_groups_below() {
        let files = limit_files("4:cpu,memory:/a/b\n2:cpuacct:/x\n0::/\n");
        assert_eq!(
            files,
            [
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory.max",
                "/sys/fs/cgroup/unified/memory.max",
            ]
        );
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(mem_total("MemFree: 1 kB\nMemTotal:       2048 kB\n"), Some(2 << 20));
        assert_eq!(mem_total("nothing"), None);
        assert!(memory_bytes() > 1 << 20);
    }
}
