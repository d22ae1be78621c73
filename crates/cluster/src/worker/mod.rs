//! The process of a worker: an engine, and a server that takes plans from coordinators.
//!
//! One port serves plans and rows (gRPC), and over HTTP `/healthz` and `/readyz`, `/metrics` for Prometheus and
//! `/status` for coordinators. All but `/healthz` and `/readyz` need the token, if the cluster has one. A worker reads
//! what its own configuration lets it read: stores and credentials never come with a plan.

mod metrics;
mod stage;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{Request, State as Extract};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use coscan_datafusion::{CoscanContext, CoscanOptions, rewrite_plan};
use coscan_engine::QueryAccount;
use coscan_upstream::with_guards;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::execution::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DistributedExt, DistributedTaskContext, Worker as PlanServer, WorkerPlanRewriteEvent,
    WorkerPlanRewriteEventResponse, WorkerQueryContext, WorkerSessionBuilder,
};
use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::channels::{Channels, Resolver, VERSION, VERSION_HEADER};
use crate::codec::Codec;
use crate::config::Security;
use crate::error::{ClusterError, SentError};
use crate::functions::Functions;
use crate::scan::file_scan;
use crate::sent::Sent;
use crate::status::{PATH, Status};

/// A statement has this time to end when a worker drains.
const DRAIN_WITHIN: Duration = Duration::from_secs(60);

/// Settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// The address at which it listens.
    pub listen: SocketAddr,
    /// How it knows its coordinators.
    pub security: Security,
    /// The folders whose files plans may read; none for all. Stores are not limited by it: those that have
    /// credentials or are public can be read.
    pub folders: Vec<PathBuf>,
}

/// The tasks of a worker.
#[derive(Debug)]
pub(crate) struct Tasks {
    running: AtomicU64,
    started: AtomicU64,
    draining: AtomicBool,
    channels: Arc<Channels>,
}

/// A part of a task that runs.
pub(crate) struct RunningTask(Arc<Tasks>);

impl Tasks {
    fn begin(self: &Arc<Self>) -> RunningTask {
        self.running.fetch_add(1, Ordering::Relaxed);
        RunningTask(Arc::clone(self))
    }

    /// Returns the error with the worker that failed since `begun`, if one did.
    fn blamed(&self, error: DataFusionError, begun: Instant) -> DataFusionError {
        if SentError::in_error(&error).is_some() {
            return error;
        }
        match self.channels.failure_since(begun) {
            Some(failure) => {
                let worker = failure.worker.authority().to_owned();
                SentError::Gone { worker, reason: failure.reason }.to_error()
            }
            None => error,
        }
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A running worker.
pub struct Worker {
    address: SocketAddr,
    tasks: Arc<Tasks>,
    stop: watch::Sender<bool>,
    served: tokio::task::JoinHandle<Result<(), tonic::transport::Error>>,
}

impl Worker {
    /// Begins to serve on the current runtime. Scans use the engine of `coscan`. `functions` is a session with the
    /// functions that coordinators have.
    ///
    /// # Errors
    /// If the address is not allowed or not free.
    pub async fn start(
        config: WorkerConfig,
        coscan: CoscanContext,
        functions: &SessionState,
    ) -> Result<Self, ClusterError> {
        config.security.check(config.listen)?;
        let failed = |reason: &dyn std::fmt::Display| ClusterError::Listen {
            address: config.listen.to_string(),
            reason: reason.to_string(),
        };
        let listener = TcpListener::bind(config.listen).await.map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let channels = Channels::new(config.security.clone());
        let tasks = Arc::new(Tasks {
            running: AtomicU64::default(),
            started: AtomicU64::default(),
            draining: AtomicBool::default(),
            channels: Arc::clone(&channels),
        });
        let sessions = Sessions {
            coscan: coscan.clone(),
            functions: Functions::of(functions),
            channels,
            tasks: Arc::clone(&tasks),
            folders: config.folders.clone().into(),
            numbers: Arc::default(),
        };
        let plans = PlanServer::from_session_builder(sessions)
            .with_runtime_env(coscan.ctx.runtime_env())
            .with_version(VERSION);
        let about = About { coscan, tasks: Arc::clone(&tasks), begun: Instant::now() };
        let guard = Arc::new(Guard { security: config.security.clone(), tasks: Arc::clone(&tasks) });
        let router = Routes::new(plans.into_worker_server())
            .into_axum_router()
            .route(PATH, get(status))
            .route("/metrics", get(metrics::metrics))
            .layer(axum::middleware::from_fn_with_state(guard, allowed))
            .route("/healthz", get(async || "ok\n"))
            .route("/readyz", get(ready))
            .layer(axum::Extension(about));
        let (stop, mut stopped) = watch::channel(false);
        let mut server = Server::builder().accept_http1(true).tcp_nodelay(true);
        if let Some(tls) = config.security.server() {
            server = server.tls_config(tls).map_err(|error| ClusterError::Setting {
                setting: "cluster-tls-cert",
                wanted: crate::channels::with_causes(&error),
            })?;
        }
        let server =
            server.http2_keepalive_interval(Some(Duration::from_secs(10))).add_routes(Routes::from(router));
        let served =
            tokio::spawn(server.serve_with_incoming_shutdown(TcpIncoming::from(listener), async move {
                let _ = stopped.wait_for(|stopped| *stopped).await;
            }));
        Ok(Worker { address, tasks, stop, served })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no new work, and ends when the running statements have ended, or after a minute.
    pub async fn drain(self) {
        self.tasks.draining.store(true, Ordering::Relaxed);
        let begun = Instant::now();
        // Coordinators see the state with their next question.
        let asked = Duration::from_secs(2);
        while begun.elapsed() < DRAIN_WITHIN
            && (begun.elapsed() < asked || self.tasks.running.load(Ordering::Relaxed) > 0)
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        self.end().await;
    }

    /// Ends, whatever runs.
    pub async fn end(self) {
        let _ = self.stop.send(true);
        let mut served = self.served;
        if tokio::time::timeout(Duration::from_secs(1), &mut served).await.is_err() {
            served.abort();
        }
    }
}

/// Makes the session of each task.
struct Sessions {
    coscan: CoscanContext,
    functions: Functions,
    channels: Arc<Channels>,
    tasks: Arc<Tasks>,
    folders: Arc<[PathBuf]>,
    numbers: Arc<AtomicU64>,
}

#[async_trait::async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(
        &self,
        context: WorkerQueryContext,
    ) -> Result<SessionState, DataFusionError> {
        self.tasks.started.fetch_add(1, Ordering::Relaxed);
        let sent = Sent::from_headers(&context.headers)?;
        let mut builder = self.functions.with(&sent)?.add_to(context.builder);
        let config = builder.config().get_or_insert_default();
        let mut own = CoscanOptions::default();
        sent.set(config.options_mut(), &mut own)?;
        own.attach(self.coscan.engine.clone());
        config.options_mut().extensions.insert(own);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        config.set_extension(Arc::new(QueryAccount::new(number + 1, 1)));
        config.set_distributed_user_codec(Codec);
        config.set_distributed_channel_resolver(Resolver(Arc::clone(&self.channels)));
        let (engine, tasks) = (self.coscan.engine.clone(), Arc::clone(&self.tasks));
        let (folders, as_it_is) = (Arc::clone(&self.folders), sent.as_it_is);
        config.set_distributed_worker_plan_rewrite_handler(move |event: WorkerPlanRewriteEvent<'_>| {
            check_files(&event.plan, &folders)?;
            if as_it_is {
                return Ok(WorkerPlanRewriteEventResponse::new(with_guards(event.plan)?));
            }
            let mut options = event.session_config.options().as_ref().clone();
            let tasks_of_stage = event.session_config.get_extension::<DistributedTaskContext>();
            if let Some(own) = options.extensions.get_mut::<CoscanOptions>() {
                // A table is not small because each task reads a part.
                own.small_table_bytes /= tasks_of_stage.map_or(1, |stage| stage.task_count.max(1)) as u64;
            }
            let plan = stage::stage(&event.plan, &tasks, |plan| {
                rewrite_plan(with_guards(plan)?, &engine, &options)
            })?;
            Ok(WorkerPlanRewriteEventResponse::new(plan))
        });
        Ok(builder.build())
    }
}

/// Refuses plans that read local files outside of the folders.
fn check_files(plan: &Arc<dyn ExecutionPlan>, folders: &[PathBuf]) -> Result<()> {
    if folders.is_empty() {
        return Ok(());
    }
    plan.apply(|node| {
        let Some(scan) = file_scan(node) else { return Ok(TreeNodeRecursion::Continue) };
        if scan.object_store_url.as_str().starts_with("file:") {
            for file in scan.file_groups.iter().flat_map(|group| group.iter()) {
                let path = PathBuf::from(format!("/{}", file.object_meta.location));
                let real = path.canonicalize().unwrap_or(path);
                if !folders.iter().any(|folder| real.starts_with(folder)) {
                    return exec_err!(
                        "the worker may not read {}: add its folder with --folder",
                        real.display()
                    );
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// What the server tells about itself.
#[derive(Clone)]
struct About {
    coscan: CoscanContext,
    tasks: Arc<Tasks>,
    begun: Instant,
}

impl About {
    fn status(&self) -> Status {
        let engine = &self.coscan.engine;
        let stats = engine.stats();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Status {
            version: VERSION.to_owned(),
            draining: self.tasks.draining.load(Ordering::Relaxed),
            processors: engine.config().processors,
            tasks: count(&self.tasks.running),
            tasks_started: count(&self.tasks.started),
            buffer_bytes: engine.current_config().buffer_bytes,
            query_memory_bytes: self.coscan.ctx.runtime_env().memory_pool.reserved() as u64,
            bytes_read: stats.bytes_read,
            parts_read: stats.parts_loaded,
            parts_shared: stats.parts_from_buffer,
            uptime_s: self.begun.elapsed().as_secs_f64(),
        }
    }
}

async fn status(axum::Extension(about): axum::Extension<About>) -> axum::Json<Status> {
    axum::Json(about.status())
}

async fn ready(axum::Extension(about): axum::Extension<About>) -> Response {
    match about.tasks.draining.load(Ordering::Relaxed) {
        false => "ready\n".into_response(),
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response(),
    }
}

/// The conditions of a request.
struct Guard {
    security: Security,
    tasks: Arc<Tasks>,
}

/// The method that brings a new task.
const NEW_TASK: &str = "/CoordinatorChannel";

async fn allowed(Extract(guard): Extract<Arc<Guard>>, request: Request, next: Next) -> Response {
    if let Some(token) = guard.security.token() {
        let given =
            request.headers().get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        if !given.is_some_and(|given| is_same(given, token.as_bytes())) {
            return (StatusCode::UNAUTHORIZED, "the token is missing or wrong\n").into_response();
        }
    }
    let path = request.uri().path();
    if path.ends_with(NEW_TASK) {
        let version = request.headers().get(VERSION_HEADER).and_then(|value| value.to_str().ok());
        if version != Some(VERSION) {
            let sender = version.unwrap_or("no version");
            let text = format!("the coordinator has {sender}, this worker {VERSION}: run one version");
            return tonic::Status::failed_precondition(text).into_http::<axum::body::Body>().into_response();
        }
        if guard.tasks.draining.load(Ordering::Relaxed) {
            return tonic::Status::unavailable("the worker is draining")
                .into_http::<axum::body::Body>()
                .into_response();
        }
    }
    next.run(request).boxed().await
}

/// Compares in a time that does not depend on the position of the first difference.
fn is_same(given: &[u8], wanted: &[u8]) -> bool {
    given.len() == wanted.len() && given.iter().zip(wanted).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}
