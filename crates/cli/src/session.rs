//! A SQL session with tables: cooperative, or the plain query engine under the same limits.
//!
//! Only this module uses the interfaces of the scan engine and of the query engine, except for their settings. It
//! takes [`Settings`], never arguments, and prints nothing.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use arrow::array::RecordBatch;
use coscan_cluster::Cluster;
use coscan_datafusion::{CoscanContext, StoreRequests, default_query_memory, store_requests};
use coscan_engine::{Engine, LimitedStore, LoadSeen, TokenBucket};
use coscan_tier::{TierConfig, TierError, TierUser, Tiers, plain_addresses};
use datafusion::common::DataFusionError;
use datafusion::datasource::file_format::options::{ParquetReadOptions, ReadOptions};
use datafusion::datasource::listing::{ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use object_store::local::LocalFileSystem;
use tokio::runtime::Runtime;
use url::Url;

use crate::allocator::give_back_when_short;
use crate::counters::Counters;
use crate::failure::{squeeze, wrong_usage};
use crate::rows::{Row, rows_of};
use crate::settings::Settings;

/// Interval at which loads are fetched. It is a fraction of the time after which the engine forgets some of them.
const LOADS_FETCHED_EVERY: Duration = Duration::from_millis(100);

/// The threads that run queries. Dropping them does not wait, because a cancelled query may be in a long loop.
pub struct Threads(Option<Runtime>);

/// Stack size of a thread, of which only the used part takes memory. Plans of deep statements are dropped
/// recursively.
const STACK_BYTES: usize = 64 << 20;

impl Threads {
    /// Starts this number of threads.
    pub fn start(count: usize) -> anyhow::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let builder = builder.worker_threads(count).thread_stack_size(STACK_BYTES);
        let runtime = builder.enable_all().build().context("cannot start threads")?;
        Ok(Threads(Some(runtime)))
    }

    /// Runs a future to its end, on the calling thread and on these.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match &self.0 {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("the threads are there until they are dropped"),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A session.
pub struct Session {
    ctx: SessionContext,
    backend: Backend,
    tiers: Option<Tiers>,
}

/// The way to access tiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Restore files. No other process may have the tier.
    Restore,
    /// Restore files, or ask the process that has the tier to do so.
    Ask,
    /// Restore nothing.
    Look,
}

enum Backend {
    Cooperative(CoscanContext),
    /// The bucket counts the bytes read.
    Plain(Arc<TokenBucket>),
}

/// A load of a chunk. The time is in seconds after the beginning of [`Session::watching_loads`].
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub at_s: f64,
    pub chunk: u32,
}

impl Session {
    /// A session whose scans use an engine of its own.
    pub fn cooperative(settings: &Settings) -> anyhow::Result<Self> {
        Self::in_cluster(settings, None)
    }

    /// A session whose statements run on the workers of a cluster where they can.
    pub fn in_cluster(settings: &Settings, cluster: Option<&Arc<Cluster>>) -> anyhow::Result<Self> {
        let coscan = cooperative(settings, true, cluster)?;
        Ok(Session { ctx: coscan.ctx.clone(), backend: Backend::Cooperative(coscan), tiers: None })
    }

    /// A session of the query engine alone, with the same limit on its reads of local files.
    pub fn plain(settings: &Settings) -> anyhow::Result<Self> {
        let buffer = settings.engine_config()?.buffer_bytes;
        let memory = buffer + default_query_memory(settings.memory_bytes, buffer);
        let config = config(settings)?.with_target_partitions(settings.threads).with_information_schema(true);
        // Queries get the memory that would be coscan's buffer.
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_limit(memory as usize, 1.0)
            .build_arc()
            .map_err(sql_error)?;
        let ctx = SessionContext::new_with_config_rt(config, runtime);
        let bucket = Arc::new(TokenBucket::new(settings.engine_config()?.read_limit));
        let store = LimitedStore::new(Arc::new(LocalFileSystem::new()), bucket.clone());
        ctx.register_object_store(&Url::parse("file://")?, Arc::new(store));
        Ok(Session { ctx, backend: Backend::Plain(bucket), tiers: None })
    }

    /// Opens the tiers of these files. Tables under their roots are restored as queries need them, unless `access`
    /// is [`Access::Look`]. Must be called on the threads that run queries.
    pub fn open_tiers(&mut self, definitions: &[PathBuf], access: Access) -> anyhow::Result<()> {
        let configs = definitions.iter().map(|path| TierConfig::read(path)).collect::<Result<Vec<_>, _>>();
        let configs = configs.map_err(tier_error)?;
        if configs.is_empty() {
            return Ok(());
        }
        let tiers = match access {
            Access::Restore => Tiers::open(configs),
            Access::Ask => Tiers::open_or_look(configs),
            Access::Look => Tiers::look(configs),
        };
        let tiers = tiers.map_err(tier_error)?;
        let engine = match &self.backend {
            Backend::Cooperative(coscan) => Some(coscan.engine.clone()),
            Backend::Plain(_) => None,
        };
        tiers.attach(&self.ctx, engine).map_err(sql_error)?;
        let user = TierUser(self.tier_user());
        self.ctx.state_ref().write().config_mut().set_extension(Arc::new(user));
        self.tiers = Some(tiers);
        Ok(())
    }

    /// The files that queries wait for in tiers, as text. `None` if no query waits.
    pub fn waiting(&self) -> Option<String> {
        let waiting = self.tiers.iter().flat_map(Tiers::all).filter_map(|tier| tier.status().waiting());
        Some(waiting.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
    }

    /// Restores the files at a location once, to keep their footers. `progress` gets the number of files left and
    /// their bytes.
    pub async fn keep_footers(&self, location: &str, progress: impl FnMut(usize, u64)) -> anyhow::Result<()> {
        coscan_tier::keep_footers(&self.ctx, self.tiers()?, location, progress).await.map_err(sql_error)
    }

    /// Drops the copies and the kept footers of the files at a location.
    pub async fn forget_footers(&self, location: &str) -> anyhow::Result<()> {
        coscan_tier::forget_footers(&self.ctx, self.tiers()?, location).await.map_err(sql_error)
    }

    fn tiers(&self) -> anyhow::Result<&Tiers> {
        self.tiers.as_ref().ok_or_else(|| wrong_usage("no tier is defined: pass --tier FILE"))
    }

    /// Adds a catalog of lake tables under a name.
    pub async fn attach(&self, name: &str, address: &str) -> anyhow::Result<()> {
        coscan_lake::attach(&self.ctx, name, address).await.map_err(sql_error)
    }

    /// Registers these files as one table, and reads their metadata.
    pub async fn register_files(&self, name: &str, files: &[PathBuf]) -> anyhow::Result<()> {
        let urls = files.iter().map(|file| file_url(file)).collect::<anyhow::Result<Vec<_>>>()?;
        let state = self.ctx.state();
        let options = ParquetReadOptions::default()
            .to_listing_options(state.config(), state.default_table_options())
            .with_file_extension("");
        let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
        let config = config.infer_schema(&state).await.map_err(sql_error)?;
        let table = ListingTable::try_new(config)
            .map_err(sql_error)?
            .with_cache(self.ctx.runtime_env().cache_manager.get_file_statistic_cache());
        self.ctx.register_table(name, Arc::new(table)).map_err(sql_error)?;
        let scan = self.ctx.table(name).await.map_err(sql_error)?;
        scan.create_physical_plan().await.map_err(sql_error)?;
        Ok(())
    }

    /// Runs a statement. Its rows come as they are computed.
    pub async fn sql(&self, statement: &str) -> anyhow::Result<Rows> {
        let frame = coscan_datafusion::sql(&self.ctx, statement).await.map_err(sql_error)?;
        Ok(Rows { stream: frame.execute_stream().await.map_err(sql_error)? })
    }

    /// Runs a statement and waits for all its rows.
    pub async fn rows(&self, statement: &str) -> anyhow::Result<Vec<Row>> {
        let mut rows = self.sql(statement).await?;
        let mut all = Vec::new();
        while let Some(batch) = rows.next().await {
            all.extend(rows_of(&[batch?])?);
        }
        Ok(all)
    }

    /// Loads in flight, of all queries.
    pub fn loads_in_flight(&self) -> u64 {
        match &self.backend {
            Backend::Cooperative(coscan) => coscan.engine.loads_in_flight() as u64,
            Backend::Plain(_) => 0,
        }
    }

    /// The engine's policy and buffer.
    pub fn described(&self) -> String {
        match &self.backend {
            Backend::Cooperative(coscan) => {
                let (policy, buffer) = (coscan.engine.policy(), coscan.engine.buffer_bytes());
                format!("policy {policy}, buffer of {} MB", buffer / 1_000_000)
            }
            Backend::Plain(_) => "without a scan engine".to_owned(),
        }
    }

    /// The engine with its session, and the tiers.
    pub fn context(&self) -> anyhow::Result<(&CoscanContext, Option<&Tiers>)> {
        match &self.backend {
            Backend::Cooperative(coscan) => Ok((coscan, self.tiers.as_ref())),
            Backend::Plain(_) => Err(anyhow!("the plain query engine has no scan engine")),
        }
    }

    /// The name of this process in other processes' views of tiers.
    pub fn tier_user(&self) -> String {
        let name = user_name().unwrap_or_default();
        format!("{name} (process {})", std::process::id()).trim_start().to_owned()
    }

    /// The counters since the session was opened.
    pub fn counters(&self) -> Counters {
        match &self.backend {
            Backend::Cooperative(coscan) => counters_of(&coscan.engine),
            Backend::Plain(bucket) => {
                let granted = bucket.granted();
                Counters {
                    bytes_read: granted.bytes,
                    loads: granted.requests,
                    requests: granted.requests,
                    ..Counters::default()
                }
            }
        }
    }

    /// The use of devices with profiles and of stores, one line each.
    pub fn devices_text(&self) -> String {
        let Backend::Cooperative(coscan) = &self.backend else { return String::new() };
        let line = |device: coscan_engine::DeviceUse| {
            let ranges = device
                .range_bytes
                .map_or_else(String::new, |bytes| format!(", objects in ranges of {} KiB", bytes >> 10));
            format!(
                "\n{}: {} requests at once, gaps up to {} KiB, joined up to {} KiB{ranges}, chunks of {} MiB, another request \
                 costs as much as {} KiB, point reads late after {} ms; {} reads took {:.2} of the time in {}",
                device.device,
                device.requests,
                device.gap_bytes >> 10,
                device.request_bytes >> 10,
                device.chunk_bytes >> 20,
                device.request_cost_bytes >> 10,
                device.point_latency.as_millis(),
                device.reads,
                device.over_profile,
                device.profile
            )
        };
        let store = |store: coscan_engine::StoreUse| {
            format!(
                "\n{}: {} requests at once ({}), gaps up to {} KiB",
                store.store,
                store.requests,
                store.why.as_str(),
                store.gap_bytes >> 10
            )
        };
        let prices = &coscan.engine.config().store_prices;
        let cost = |of: StoreRequests| {
            let price =
                of.price(prices).map_or_else(String::new, |dollars| format!(", {dollars:.6} dollars"));
            let megabytes = of.bytes as f64 / 1e6;
            format!(
                "\n{}: {} reads, {} lists and writes, {megabytes:.1} MB{price}",
                of.store, of.reads, of.lists
            )
        };
        let devices = coscan.engine.devices().into_iter().map(line);
        let stores = coscan.engine.stores().into_iter().map(store);
        devices.chain(stores).chain(store_requests().into_iter().map(cost)).collect()
    }

    /// Ends a recording of events, if there is one, after all events are written.
    pub fn finish_recording(&self) -> anyhow::Result<()> {
        match &self.backend {
            Backend::Cooperative(coscan) => match coscan.engine.record(None) {
                Some(recorder) => recorder.finish().context("cannot write the recording"),
                None => Ok(()),
            },
            Backend::Plain(_) => Ok(()),
        }
    }

    /// Runs `work` and returns the loads issued in the meantime, or none on the plain engine. The engine keeps only
    /// the newest loads, so they are fetched at an interval.
    pub async fn watching_loads<T>(&self, work: impl Future<Output = T>) -> anyhow::Result<(T, Vec<Load>)> {
        let Backend::Cooperative(coscan) = &self.backend else { return Ok((work.await, Vec::new())) };
        let began = coscan.engine.observe(0).at;
        let load =
            |seen: &LoadSeen| Load { at_s: seen.at.saturating_sub(began).as_secs_f64(), chunk: seen.chunk };
        let mut next = coscan.engine.loads_since(u64::MAX).next();
        let mut loads = Vec::new();
        let mut work = pin!(work);
        loop {
            let done = tokio::time::timeout(LOADS_FETCHED_EVERY, &mut work).await.ok();
            let recent = coscan.engine.loads_since(next);
            let last_lost = recent.first.saturating_sub(1);
            ensure!(
                recent.first == next,
                "loads {next} to {last_lost} were issued faster than they are fetched: use fewer chunks (--chunks)"
            );
            next = recent.next();
            loads.extend(recent.loads.iter().map(load));
            if let Some(result) = done {
                return Ok((result, loads));
            }
        }
    }
}

/// An engine and the session that it was started with. `url_tables` lets SQL read any file by its path. Statements run on
/// the workers of the cluster, if there is one.
pub fn cooperative(
    settings: &Settings,
    url_tables: bool,
    cluster: Option<&Arc<Cluster>>,
) -> anyhow::Result<CoscanContext> {
    let mut config = config(settings)?;
    if let Some(cluster) = cluster {
        coscan_cluster::add_to_sessions(cluster, &mut config);
    }
    let mut builder = CoscanContext::builder()
        .session_config(config)
        .target_partitions(settings.threads)
        .process_memory(settings.memory_bytes)
        .url_tables(url_tables);
    for (name, value) in settings.engine.given() {
        builder = builder.set(name, value);
    }
    for (key, value) in &settings.set {
        if let Some(name) = key.strip_prefix("coscan.") {
            builder = builder.set(name, value);
        }
    }
    let coscan = builder.build().map_err(usage_or_failure)?;
    coscan_lake::install(&coscan.ctx);
    give_back_when_short(settings.memory_bytes);
    if let Some(path) = &settings.record {
        let recording = coscan.engine.record_to(path);
        recording.with_context(|| format!("cannot record to {}", path.display()))?;
    }
    Ok(coscan)
}

/// The rows of a statement.
pub struct Rows {
    stream: SendableRecordBatchStream,
}

impl Rows {
    /// The next rows. `None` after the last ones.
    pub async fn next(&mut self) -> Option<anyhow::Result<RecordBatch>> {
        Some(self.stream.next().await?.map_err(sql_error))
    }
}

/// The name of this process's user in the environment.
pub fn user_name() -> Option<String> {
    std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).ok()
}

/// The settings of the query engine.
fn config(settings: &Settings) -> anyhow::Result<SessionConfig> {
    let mut config = SessionConfig::new();
    for (key, value) in settings.set.iter().filter(|(key, _)| !key.starts_with("coscan.")) {
        config
            .options_mut()
            .set(key, value)
            .map_err(|error| wrong_usage(squeeze(&error.strip_backtrace())))?;
    }
    Ok(config)
}

fn file_url(file: &Path) -> anyhow::Result<ListingTableUrl> {
    let path = file.to_str().with_context(|| format!("{} is not valid text", file.display()))?;
    ListingTableUrl::parse(path).map_err(sql_error)
}

fn counters_of(engine: &Engine) -> Counters {
    let stats = engine.stats();
    Counters {
        bytes_read: stats.bytes_read,
        loads: stats.loads,
        requests: stats.requests,
        retries: stats.retries,
        parts_from_buffer: stats.parts_from_buffer,
        parts_loaded: stats.parts_loaded,
        evictions: stats.evictions,
        slices_decoded: stats.slices_decoded,
        slices_shared: stats.slices_shared,
        decode: Duration::from_nanos(stats.decode_ns),
        abm_wait: Duration::from_nanos(stats.abm_wait_ns),
        decision_p50: stats.decision_ns.quantile(0.5),
    }
}

/// Converts an error of the query engine. Its text repeats its causes, so only the text is kept. A tier's error is
/// complete by itself.
pub fn sql_error(error: DataFusionError) -> anyhow::Error {
    match TierError::inside(&error) {
        Some(own) => own.clone().into(),
        None => anyhow!(plain_addresses(&squeeze(&error.strip_backtrace()))),
    }
}

/// Classifies a wrong definition as wrong usage, and every other error as a failure.
fn tier_error(error: TierError) -> anyhow::Error {
    match error {
        TierError::Config { .. } => wrong_usage(squeeze(&error.to_string())),
        other => anyhow!(squeeze(&other.to_string())),
    }
}

fn usage_or_failure(error: DataFusionError) -> anyhow::Error {
    let is_setting = matches!(error.find_root(), DataFusionError::Configuration(_));
    if is_setting { wrong_usage(squeeze(&error.strip_backtrace())) } else { sql_error(error) }
}
