//! The engine's one door.

use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use coscan_core::{ConfigError, Event, Policy, Usage};
use coscan_trace::{Header, Recorder, VERSION};

use crate::config::{EngineConfig, ReadLimit};
use crate::driver::{Driver, Turn};
use crate::environment::Environment;
use crate::environment::threads::Threads;
use crate::error::EngineError;
use crate::io::limit::TokenBucket;
use crate::io::{DefaultReader, RangeReader};
use crate::request::{Plan, ScanRequest};
use crate::scan::Scan;
use crate::stats::{EngineStats, LoadRecord};
use crate::table::{FileId, FileSpec, difference, part_ranges};

/// Cooperative scans over Parquet files: one buffer, one I/O queue, any number of scans.
///
/// Cheap to clone; all clones are the same engine. Its threads end when the last clone and the last scan
/// are dropped.
#[derive(Clone)]
pub struct Engine {
    pub(crate) driver: Arc<Driver>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("config", &self.driver.config).field("usage", &self.usage()).finish()
    }
}

impl Engine {
    /// Starts an engine with I/O threads of its own. Needs no runtime.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        Self::with_reader(config, |reader| reader)
    }

    /// Starts an engine whose reader is `wrap` around the real one: for injecting faults and delays.
    pub fn with_reader(
        config: EngineConfig,
        wrap: impl FnOnce(Arc<dyn RangeReader>) -> Arc<dyn RangeReader>,
    ) -> Result<Self, EngineError> {
        let reader = wrap(Arc::new(DefaultReader::new(config.direct_io)));
        Self::in_environment(config, Arc::new(Threads::new(reader)))
    }

    /// Starts an engine in a world of the caller's: for simulations.
    #[doc(hidden)]
    pub fn in_environment(
        config: EngineConfig,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, EngineError> {
        let (setting, value) = ("point_share", config.point_share_percent);
        if value > 100 {
            return Err(ConfigError::Percent { setting, value }.into());
        }
        let checked = [("io_threads", config.io_threads), ("slice_rows", config.slice_rows)];
        if let Some((setting, _)) = checked.into_iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::Zero { setting }.into());
        }
        Ok(Engine { driver: Driver::start(config, environment)? })
    }

    /// Makes a file known. The same version of a path gets the same id every time. Another version gets a
    /// new id and takes the old one's place: scans that still need the old one fail with
    /// [`EngineError::FileReplaced`].
    pub fn open_file(&self, spec: FileSpec) -> Result<FileId, EngineError> {
        if let Some(id) = self.driver.turn(|turn| known(turn, &spec)) {
            return Ok(id);
        }
        let ranges = part_ranges(&spec)?;
        self.driver.turn(|turn| {
            // Somebody else may have opened it since.
            if let Some(id) = known(turn, &spec) {
                return Ok(id);
            }
            let added = turn.state.catalog.add(spec, ranges)?;
            let (table, layout) = (added.file.table, added.layout);
            turn.event(match added.opens_table {
                true => Event::TableOpened { table, layout },
                false => Event::TableGrown { table, layout },
            });
            Ok(added.file.id)
        })
    }

    /// Registers a scan. From now on its needs count in what is read and kept.
    pub fn scan(&self, request: ScanRequest) -> Result<Scan, EngineError> {
        let files = self.driver.turn(|turn| {
            let named = request.columns.iter().filter_map(|c| turn.state.catalog.file(c.file).cloned());
            named.map(|file| (file.id, file)).collect()
        });
        let plan = Plan::new(request, &files, self.driver.config.slice_rows)?;
        self.driver.turn(|turn| {
            for (at, segment) in plan.segments.iter().enumerate() {
                if let Err(ConfigError::BufferTooSmall { needed, budget }) =
                    turn.state.abm.check(&plan.spec(at, &HashSet::new()))
                {
                    let what = format!("a scan of {}", segment.example);
                    return Err(EngineError::BufferTooSmall { needed, budget, what });
                }
            }
            Ok(())
        })?;
        Ok(Scan::new(self.driver.clone(), plan))
    }

    /// What the engine has done so far.
    pub fn stats(&self) -> EngineStats {
        let (work, io) = (&self.driver.work, self.driver.io_counters());
        EngineStats {
            requests: io.requests,
            retries: io.retries,
            loads_held_back: io.held_back,
            slices_decoded: work.slices_decoded.get(),
            slices_shared: work.slices_shared.get(),
            decode_ns: work.decode_ns.get(),
            abm_wait_ns: work.wait_ns.get(),
            ..self.driver.turn(|turn| turn.stats())
        }
    }

    /// Records every load from now on, or stops doing so, and hands over what was recorded before. The
    /// record grows without bound: for experiments.
    pub fn record_loads(&self, on: bool) -> Vec<LoadRecord> {
        self.driver.record_loads(on)
    }

    /// Records every event of the buffer manager from now on, or stops doing so, and hands back the recorder
    /// so far, to be finished. Chunks of files that were given up are in the trace as any others.
    pub fn record(&self, recorder: Option<Recorder>) -> Option<Recorder> {
        self.driver.record(recorder)
    }

    /// Begins a trace of this engine's events in a new file.
    pub fn record_to(&self, path: &Path) -> std::io::Result<()> {
        let config = self.config();
        let header = Header {
            coscan_trace: VERSION,
            policy: self.policy().as_str().to_owned(),
            buffer_bytes: self.usage().budget,
            loads_in_flight: config.loads_in_flight as u32,
            processors: config.processors as u32,
            read_limit_bytes_per_s: self.driver.bucket.limit().map_or(0, |limit| limit.bytes_per_s),
        };
        drop(self.record(Some(Recorder::create(path, &header)?)));
        Ok(())
    }

    /// The ledger in bytes.
    pub fn usage(&self) -> Usage {
        self.driver.turn(|turn| turn.state.abm.usage())
    }

    /// Encoded bytes that are in memory: what the ledger calls resident, counted anew.
    pub fn resident_bytes(&self) -> u64 {
        self.driver.turn(|turn| turn.state.store.bytes())
    }

    /// The settings the engine was started with.
    pub fn config(&self) -> &EngineConfig {
        &self.driver.config
    }

    /// The policy in force.
    pub fn policy(&self) -> Policy {
        self.driver.turn(|turn| turn.state.abm.policy().clone())
    }

    /// Switches to another policy; running scans go on under it.
    pub fn set_policy(&self, policy: impl Into<Policy>) {
        let policy = policy.into();
        self.driver.turn(|turn| {
            turn.state.abm.set_policy(policy);
            turn.event(Event::TimePassed);
        });
    }

    /// Changes the buffer's size. A smaller one is reached as chunks in use are released.
    pub fn set_buffer(&self, bytes: u64) -> Result<(), EngineError> {
        if bytes == 0 {
            return Err(ConfigError::BufferTooSmall { needed: 1, budget: 0 }.into());
        }
        self.driver.turn(|turn| turn.event(Event::BudgetChanged { bytes }));
        Ok(())
    }

    /// Changes the limit on reading, or lifts it.
    pub fn set_read_limit(&self, limit: Option<ReadLimit>) {
        self.driver.bucket.set_limit(limit);
    }

    /// The bucket behind the limit, if there is one now: for [`LimitedStore`](crate::LimitedStore), so that
    /// another engine reads under the same limit.
    pub fn read_limiter(&self) -> Option<Arc<TokenBucket>> {
        self.driver.bucket.limit().map(|_| self.driver.bucket.clone())
    }
}

/// The id of this version of the file, if it is open. Another version that is open is given up.
fn known(turn: &mut Turn<'_>, spec: &FileSpec) -> Option<FileId> {
    let known = turn.state.catalog.known(spec)?.clone();
    match difference(&known.source.meta, &spec.meta) {
        None => known.replaced.get().is_none().then_some(known.id),
        Some(detail) => {
            turn.replaced(&known, detail);
            None
        }
    }
}
