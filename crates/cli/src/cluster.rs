//! The options of a cluster, and `coscan worker`.
//!
//! SIGTERM and SIGINT let a worker drain: it takes no new work, and ends when the running statements have ended. A second
//! one ends it at once.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use coscan_cluster::config::{PORT, Security, Workers};
use coscan_cluster::worker::{Worker, WorkerConfig};
use coscan_cluster::{Cluster, ClusterError, Division, TASK_BYTES};
use coscan_server::sql::function_session;
use tokio::signal::unix::SignalKind;

use crate::failure::wrong_usage;
use crate::session::{Threads, cooperative};
use crate::settings::EngineArgs;
use crate::signals::told;

/// The options by which the processes of a cluster know each other.
#[derive(Args, Clone, Debug, Default)]
pub struct SecurityArgs {
    /// File with the token that coordinators and workers have in common
    #[arg(long, value_name = "FILE", env = "COSCAN_CLUSTER_TOKEN_FILE", help_heading = "Cluster options")]
    pub cluster_token_file: Option<PathBuf>,

    /// Certificate of the authority of the cluster, as PEM: both ends prove themselves by certificates of it
    #[arg(long, value_name = "FILE", env = "COSCAN_CLUSTER_TLS_CA", help_heading = "Cluster options")]
    pub cluster_tls_ca: Option<PathBuf>,

    /// Certificate of this process, as PEM
    #[arg(long, value_name = "FILE", env = "COSCAN_CLUSTER_TLS_CERT", help_heading = "Cluster options")]
    pub cluster_tls_cert: Option<PathBuf>,

    /// Key of the certificate, as PEM
    #[arg(long, value_name = "FILE", env = "COSCAN_CLUSTER_TLS_KEY", help_heading = "Cluster options")]
    pub cluster_tls_key: Option<PathBuf>,
}

impl SecurityArgs {
    fn security(&self) -> Result<Security, ClusterError> {
        Security::read(
            self.cluster_token_file.as_deref(),
            self.cluster_tls_ca.as_deref(),
            self.cluster_tls_cert.as_deref(),
            self.cluster_tls_key.as_deref(),
        )
    }
}

/// The options of a coordinator.
#[derive(Args, Clone, Debug, Default)]
pub struct ClusterArgs {
    /// Run statements on these workers: HOST:PORT,HOST:PORT, dns:NAME:PORT for all addresses of a name, or a file with
    /// `workers = ["HOST:PORT"]` that is read again when it changes; see docs/cluster.md
    #[arg(long, value_name = "WORKERS", env = "COSCAN_CLUSTER", help_heading = "Cluster options")]
    pub cluster: Option<String>,

    /// Bytes of a scan for which it gets another task, up to the number of workers
    #[arg(long, value_name = "BYTES", env = "COSCAN_CLUSTER_TASK_BYTES", default_value_t = TASK_BYTES, help_heading = "Cluster options")]
    pub cluster_task_bytes: u64,

    /// Divide statements as datafusion-distributed does, without sharing and without a fixed worker for each row group: for
    /// comparison
    #[arg(long, help_heading = "Cluster options")]
    pub cluster_plain: bool,

    #[command(flatten)]
    pub security: SecurityArgs,
}

impl ClusterArgs {
    /// Begins to ask the workers. `None` if there is no cluster.
    pub async fn start(&self) -> anyhow::Result<Option<Arc<Cluster>>> {
        let Some(workers) = &self.cluster else { return Ok(None) };
        let workers: Workers = workers.parse().map_err(usage_or_failure)?;
        let security = self.security.security().map_err(usage_or_failure)?;
        let division = Division { task_bytes: self.cluster_task_bytes, is_shared: !self.cluster_plain };
        let cluster = Cluster::start(workers, security, division, &function_session()).await;
        Ok(Some(cluster.map_err(usage_or_failure)?))
    }
}

/// Arguments of `coscan worker`.
#[derive(Args, Debug)]
pub struct WorkerArgs {
    /// Address at which it listens
    #[arg(long, value_name = "IP:PORT", env = "COSCAN_LISTEN", default_value_t = SocketAddr::from(([127, 0, 0, 1], PORT)))]
    listen: SocketAddr,

    /// A folder with files that plans may read; without one they may read all files of this machine. Repeatable
    #[arg(long, value_name = "FOLDER", env = "COSCAN_FOLDER", value_delimiter = ':')]
    folder: Vec<PathBuf>,

    #[command(flatten)]
    security: SecurityArgs,

    #[command(flatten)]
    engine: EngineArgs,
}

/// Serves until a signal ends it.
pub fn run(args: &WorkerArgs) -> anyhow::Result<()> {
    let settings = args.engine.resolve()?;
    let real = |folder: &PathBuf| {
        folder.canonicalize().with_context(|| format!("cannot use the folder {}", folder.display()))
    };
    let folders = args.folder.iter().map(real).collect::<anyhow::Result<_>>()?;
    let security = args.security.security().map_err(usage_or_failure)?;
    let config = WorkerConfig { listen: args.listen, security, folders };
    let threads = Threads::start(settings.threads)?;
    threads.block_on(async {
        let coscan = cooperative(&settings, false, None)?;
        let worker = Worker::start(config, coscan, &function_session()).await.map_err(usage_or_failure)?;
        eprintln!("coscan works at {}", worker.address());
        let (mut end, mut interrupt) = (told(SignalKind::terminate())?, told(SignalKind::interrupt())?);
        tokio::select! {
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
        eprintln!("coscan ends: waiting for running statements");
        tokio::select! {
            () = worker.drain() => {}
            _ = end.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// Classifies wrong settings as wrong usage.
fn usage_or_failure(error: ClusterError) -> anyhow::Error {
    match error {
        ClusterError::Setting { .. } => wrong_usage(error.to_string()),
        other => other.into(),
    }
}
