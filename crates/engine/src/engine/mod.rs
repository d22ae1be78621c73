//! The engine's interface: [`Engine`].

pub(crate) mod observe;
pub(crate) mod point_read;
pub(crate) mod traffic;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coscan_core::{ConfigError, Event, Policy, Usage};
use coscan_trace::{Header, Recorder, VERSION};
use object_store::ObjectMeta;
use object_store::path::Path as Location;
use parquet::file::metadata::ParquetMetaData;

use crate::buffer::budget::files_share;
use crate::config::{EngineConfig, ReadLimit};
use crate::driver::Driver;
use crate::environment::Environment;
use crate::environment::threads::Threads;
use crate::error::EngineError;
use crate::files::catalog::CatalogSize;
use crate::files::chunks::{bundles, chunks, cut_parts};
use crate::files::table::{FileHandle, FileSpec, address};
use crate::io::identity::{LocalFile, StoreId};
use crate::io::limit::TokenBucket;
use crate::io::usage::{DeviceUse, StoreUse};
use crate::io::{DefaultReader, RangeReader};
use crate::monitor::account::QueryAccount;
use crate::monitor::load_log::RecentLoads;
use crate::monitor::stats::EngineStats;
use crate::request::ScanRequest;
use crate::request::checked::CheckedRequest;
use crate::scan::ScanHandle;

/// The divisor of the budget that limits footers which were read past other caches. They are counted beside
/// the budget.
const FOOTERS_SHARE: u64 = 32;

/// Matching chunks are announced if the largest chunk, together with its matching chunks, needs at most 1/N
/// of the buffer.
const MATCHING_SHARE: u64 = 4;

/// Cooperative scans over Parquet files: one buffer, one I/O queue, any number of scans.
///
/// Cheap to clone; all clones are the same engine. Its threads end when the last clone and the last scan are
/// dropped.
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
    /// Starts an engine with its own I/O threads. Needs no async runtime.
    ///
    /// # Errors
    /// If a setting is impossible, or the system refuses a thread.
    pub fn new(config: EngineConfig) -> Result<Self, EngineError> {
        Self::with_reader(config, |reader| reader)
    }

    /// Starts an engine whose reader is `wrap` around the real one, to inject faults and delays.
    ///
    /// # Errors
    /// If a setting is impossible, or the system refuses a thread.
    pub fn with_reader(
        config: EngineConfig,
        wrap: impl FnOnce(Arc<dyn RangeReader>) -> Arc<dyn RangeReader>,
    ) -> Result<Self, EngineError> {
        let reader = wrap(Arc::new(DefaultReader::new(config.direct_io)));
        Self::in_environment(config, Arc::new(Threads::new(reader)))
    }

    /// Starts an engine in an environment of the caller, for simulations.
    ///
    /// # Errors
    /// If a setting is impossible, or the system refuses a thread.
    #[doc(hidden)]
    pub fn in_environment(
        config: EngineConfig,
        environment: Arc<dyn Environment>,
    ) -> Result<Self, EngineError> {
        let (setting, value) = ("point_share", config.point_share_percent);
        if value > 100 {
            return Err(ConfigError::Percent { setting, value }.into());
        }
        config.check_times()?;
        let checked = [("io_threads", config.io_threads), ("slice_rows", config.slice_rows)];
        if let Some((setting, _)) = checked.into_iter().find(|(_, value)| *value == 0) {
            return Err(ConfigError::Zero { setting }.into());
        }
        Ok(Engine { driver: Driver::start(config, environment)? })
    }

    /// Adds a file. The same version of a path has the same id at least while it is in use. Another version
    /// is another file. Scans of either version continue until a read finds that theirs was replaced.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`] if the footer is inconsistent, [`EngineError::FileReplaced`] if the listing
    /// and the file on this machine differ, [`EngineError::Broken`].
    pub fn open_file(&self, spec: FileSpec) -> Result<FileHandle, EngineError> {
        spec.check()?;
        if let Some(handle) = self.driver.locked(|locked| locked.state.catalog.reopen(&spec))? {
            return Ok(handle);
        }
        let (target, range_bytes) = self.driver.fit(&spec.name(), spec.local.as_ref());
        let mut chunks = chunks(&spec, target)?;
        let bundles = bundles(&chunks, target);
        if let Some(bytes) = range_bytes {
            cut_parts(&mut chunks, &spec.metadata, bytes);
        }
        self.driver.locked(|locked| locked.add_file(spec, chunks, bundles))?
    }

    /// Returns whether a read has found that a store has replaced this version of a file. Versions that no
    /// scan uses may be forgotten.
    pub fn is_replaced(&self, store: &StoreId, meta: &ObjectMeta) -> bool {
        self.driver.look(|state| state.catalog.is_replaced(store, meta))
    }

    /// Returns the footer, including the page index, of the version of a local file that `local` describes.
    /// For callers that cannot use a cache by size and modification time. Blocks. Footers are kept for some
    /// time.
    ///
    /// # Errors
    /// [`EngineError::FileReplaced`] if the path has another version, [`EngineError::Footer`].
    pub fn local_footer(&self, local: &LocalFile) -> Result<Arc<ParquetMetaData>, EngineError> {
        let bytes_max = self.usage().budget / FOOTERS_SHARE;
        self.driver.footers.read(local, bytes_max)
    }

    /// The encoded bytes to which row groups of a file are cut: by the profile of the file's device, or as
    /// configured. With zero they are not cut. `store_url` is the store's address, `location` the path there,
    /// and `local` the file if it is on this machine.
    pub fn chunk_bytes(&self, store_url: &str, location: &Location, local: Option<&LocalFile>) -> u64 {
        self.driver.fit(&address(store_url, location), local).0
    }

    /// The number of known files and tables, and their bytes.
    pub fn catalog_size(&self) -> CatalogSize {
        self.driver.look(|state| state.catalog.size())
    }

    /// Registers a scan. Its needs count in decisions from this call on.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    /// # use object_store::{ObjectStore, ObjectStoreExt, memory::InMemory, path::Path};
    /// # use parquet::arrow::{ArrowWriter, arrow_reader::ArrowReaderMetadata};
    /// use coscan_engine::{
    ///     ChunkRequest, DeliveryOrder, Engine, EngineConfig, FileColumns, FileSpec, PolicyName, ScanRequest, StoreId,
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    /// # let batch = RecordBatch::try_from_iter([("number", numbers)])?;
    /// # let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None)?;
    /// # writer.write(&batch)?;
    /// # let bytes = bytes::Bytes::from(writer.into_inner()?);
    /// # let footer = ArrowReaderMetadata::load(&bytes, Default::default())?;
    /// # let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    /// # store.put(&Path::from("numbers.parquet"), bytes.into()).await?;
    /// let engine = Engine::new(EngineConfig::new("relevance".parse::<PolicyName>()?, 64 << 20))?;
    /// let file = engine.open_file(FileSpec {
    ///     store_url: "memory:///".into(),
    ///     store_id: StoreId::instance(&store),
    ///     local: None,
    ///     meta: store.head(&Path::from("numbers.parquet")).await?,
    ///     metadata: footer.metadata().clone(),
    ///     table_root: String::new(),
    ///     store,
    /// })?;
    /// let scan = engine.scan(ScanRequest {
    ///     chunks: vec![ChunkRequest { columns: 0, chunk: 0, key: 0 }],
    ///     columns: vec![FileColumns { file, roots: vec![0], schema: footer.schema().clone() }],
    ///     workers: 1,
    ///     order: DeliveryOrder::Any,
    ///     weight: 1,
    ///     reader: None,
    ///     matching: Vec::new(),
    /// })?;
    /// let (mut worker, mut rows) = (scan.worker(), 0);
    /// while let Some(mut chunk) = worker.next().await? {
    ///     for slice in 0..chunk.slices() {
    ///         rows += chunk.slice(slice).await?[0].len();
    ///     }
    /// }
    /// assert_eq!(rows, 1000);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the request is inconsistent, its files were replaced or do not fit the schema, or the buffer is too
    /// small for it.
    pub fn scan(&self, request: ScanRequest) -> Result<ScanHandle, EngineError> {
        self.begin(request, None)
    }

    /// As [`Self::scan`], counted under a query's account.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub fn scan_for(
        &self,
        account: Arc<QueryAccount>,
        request: ScanRequest,
    ) -> Result<ScanHandle, EngineError> {
        self.begin(request, Some(account))
    }

    fn begin(
        &self,
        request: ScanRequest,
        account: Option<Arc<QueryAccount>>,
    ) -> Result<ScanHandle, EngineError> {
        self.driver.locked(|locked| locked.check_handles(request.files()))??;
        let mut checked = CheckedRequest::new(request, self.driver.config.slice_rows)?;
        let needed = self.driver.locked(|locked| {
            let mut most = locked.needed_by(&checked);
            let share = locked.state.budget.wanted() / MATCHING_SHARE;
            if !checked.matching.is_empty() && most.is_some_and(|(needed, _)| needed > share) {
                checked.matching.clear();
                most = locked.needed_by(&checked);
            }
            let (needed, what) =
                most.map_or((0, ""), |(needed, at)| (needed, checked.segments[at].example.as_str()));
            locked.admit(needed, || format!("a scan of {what}")).map(|()| {
                locked.state.stats.bytes_wanted += checked.bytes();
                needed
            })
        })??;
        ScanHandle::new(self.driver.clone(), checked, needed, account)
    }

    /// The counters of the engine.
    pub fn stats(&self) -> EngineStats {
        let (work, io) = (&self.driver.work, self.driver.io_counters());
        EngineStats {
            requests: io.requests,
            retries: io.retries,
            hedged: io.hedged,
            loads_held_back: io.held_back,
            slices_decoded: work.slices_decoded.get(),
            slices_shared: work.slices_shared.get(),
            decode_ns: work.decode_ns.get(),
            abm_wait_ns: work.wait_ns.get(),
            ..self.driver.look(|state| state.stats.clone())
        }
    }

    /// The time since the engine started, on the clock of [`LoadSeen::at`](crate::LoadSeen::at).
    pub fn since_start(&self) -> Duration {
        self.driver.since_start()
    }

    /// The devices with profiles, and the reads from them.
    pub fn devices(&self) -> Vec<DeviceUse> {
        self.driver.devices()
    }

    /// The stores whose number of requests is found while they are read.
    pub fn stores(&self) -> Vec<StoreUse> {
        self.driver.stores(None)
    }

    /// The use of a file's store, if the number of its requests is found.
    pub fn store_of(&self, file: &FileHandle) -> Option<StoreUse> {
        self.driver.stores(Some(&file.file().source)).pop()
    }

    /// Measures the device of a file if it has no profile and is read for the first time, for as long as
    /// `device_probe` allows. Other callers wait meanwhile. Does nothing by default.
    ///
    /// # Errors
    /// [`EngineError::Broken`].
    pub async fn know_device(&self, file: &FileHandle) -> Result<(), EngineError> {
        self.driver.know_device(&file.file().source).await
    }

    /// The use of a file's device, if it has a profile.
    pub fn device_of(&self, file: &FileHandle) -> Option<DeviceUse> {
        self.driver.device_of(&file.file().source)
    }

    /// The newest loads from number `from` on, for repeated calls. A caller that comes too late misses the
    /// oldest loads, and sees the gap by their numbers.
    pub fn loads_since(&self, from: u64) -> RecentLoads {
        self.driver.look(|state| state.recent_loads.since(from))
    }

    /// Returns whether the engine has ended because of a bug: see [`EngineError::Broken`].
    pub fn is_broken(&self) -> bool {
        self.driver.look(|state| state.broken().is_some())
    }

    /// The number of loads in flight.
    pub fn loads_in_flight(&self) -> usize {
        self.driver.look(|state| state.abm.loads_in_flight())
    }

    /// Starts to record every event of the buffer manager, or stops recording. Returns the previous recorder,
    /// which the caller has to finish. Chunks of forgotten files are in the trace like all others.
    pub fn record(&self, recorder: Option<Recorder>) -> Option<Recorder> {
        self.driver.record(recorder)
    }

    /// Begins a trace of this engine's events in a new file.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn record_to(&self, path: &Path) -> std::io::Result<()> {
        let config = self.config();
        let header = Header {
            coscan_trace: VERSION,
            policy: self.policy().as_str().to_owned(),
            buffer_bytes: self.buffer_bytes(),
            loads_in_flight: config.loads_in_flight as u32,
            processors: config.processors as u32,
            read_limit_bytes_per_s: self.driver.bucket.limit().map_or(0, |limit| limit.bytes_per_s),
        };
        drop(self.record(Some(Recorder::create(path, &header)?)));
        Ok(())
    }

    /// The ledger in bytes. Its budget exceeds the size that was set while scans run that were admitted when
    /// it was larger. It exceeds the default while other owners offer memory.
    pub fn usage(&self) -> Usage {
        self.driver.look(|state| state.abm.usage())
    }

    /// The size of the buffer that was set last.
    pub fn buffer_bytes(&self) -> u64 {
        self.driver.look(|state| state.budget.wanted())
    }

    /// Returns whether the buffer takes offered memory: its size is a default.
    pub(crate) fn takes_offers(&self) -> bool {
        self.driver.look(|state| state.budget.takes_offers())
    }

    /// The bytes that the records of known files may take beside the buffer: footers, positions of parts. A
    /// cache of footers for queries should not keep more.
    pub fn files_bytes_max(&self) -> u64 {
        files_share(self.buffer_bytes())
    }

    /// Encoded bytes in memory: the ledger's resident bytes, counted independently.
    pub fn resident_bytes(&self) -> u64 {
        self.driver.look(|state| state.store.bytes())
    }

    /// The settings with which the engine was started.
    pub fn config(&self) -> &EngineConfig {
        &self.driver.config
    }

    /// The current policy.
    pub fn policy(&self) -> Policy {
        self.driver.look(|state| state.abm.policy().clone())
    }

    /// Switches to another policy. Running scans continue under it.
    ///
    /// # Errors
    /// [`EngineError::Broken`].
    pub fn set_policy(&self, policy: impl Into<Policy>) -> Result<(), EngineError> {
        let policy = policy.into();
        self.driver.locked(|locked| {
            locked.state.abm.set_policy(policy);
            locked.event(Event::TimePassed);
        })
    }

    /// Changes the buffer's size. A smaller size is reached as chunks in use are released. Running scans that
    /// need more keep it until they end. After this call the buffer takes no offered memory.
    ///
    /// # Errors
    /// If it is zero; [`EngineError::Broken`].
    pub fn set_buffer(&self, bytes: u64) -> Result<(), EngineError> {
        if bytes == 0 {
            return Err(ConfigError::BufferTooSmall { needed: 1, budget: 0 }.into());
        }
        self.driver.locked(|locked| locked.set_budget(bytes))
    }

    /// Lends this much of the buffer to others, in place of the previous loan. The buffer shrinks as chunks
    /// in use are released, and scans that need more keep it. Returns how much of the loan is free.
    ///
    /// # Errors
    /// [`EngineError::Broken`].
    pub fn lend(&self, bytes: u64) -> Result<u64, EngineError> {
        self.driver.locked(|locked| locked.lend(bytes))
    }

    /// Offers the buffer this much memory of other owners beyond its size, in place of the previous offer.
    /// Returns how much the buffer takes: nothing if its size was set ([`EngineConfig::buffer_takes_offers`],
    /// [`Self::set_buffer`]). When the offer decreases, the buffer shrinks as chunks in use are released.
    ///
    /// # Errors
    /// [`EngineError::Broken`].
    pub fn offer(&self, bytes: u64) -> Result<u64, EngineError> {
        self.driver.locked(|locked| locked.offer(bytes))
    }

    /// Sets the bytes that users of the engine keep for all scans, in place of the previous number. The
    /// buffer shrinks by them. Returns false and changes nothing if they are more than a 64th of the buffer's
    /// size and more than the previous number.
    ///
    /// # Errors
    /// [`EngineError::Broken`].
    pub fn keep(&self, bytes: u64) -> Result<bool, EngineError> {
        self.driver.locked(|locked| locked.keep(bytes))
    }

    /// An extension: a value of each type that all users of the engine share. The first call makes it with
    /// `make`.
    pub fn companion<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        self.driver.companions.get(make)
    }

    /// Changes or removes the limit on reading.
    ///
    /// # Errors
    /// If the latency is too long.
    pub fn set_read_limit(&self, limit: Option<ReadLimit>) -> Result<(), EngineError> {
        limit.iter().try_for_each(ReadLimit::check)?;
        self.driver.bucket.set_limit(limit);
        Ok(())
    }

    /// The bucket of the read limit, if there is a limit. For [`LimitedStore`](crate::LimitedStore), so that
    /// another engine reads under the same limit.
    pub fn read_limiter(&self) -> Option<Arc<TokenBucket>> {
        self.driver.bucket.limit().map(|_| self.driver.bucket.clone())
    }
}
