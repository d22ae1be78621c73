//! Connections to workers, with a token, a version and an end for those that do not answer.
//!
//! A connection is kept per worker. It sends a ping every [`PING_EVERY`] while a request waits, so that a machine that
//! was cut off or stopped is noticed. A failed connection is noted with its time: a statement that fails after a note
//! may run again on the other workers.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result, config_datafusion_err};
use datafusion_distributed::{ChannelResolver, WorkerChannel, grpc};
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use http_body_util::BodyExt;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint, Error};
use tower::Service;
use url::Url;

use crate::config::Security;

/// The header with the version of the sender. Plans are sent between processes of one version only.
pub(crate) const VERSION_HEADER: HeaderName = HeaderName::from_static("coscan-version");

/// The version of plans between processes: that of the program, of the query engine and of the form of plans.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "/datafusion-55.2/1");

const CONNECT_WITHIN: Duration = Duration::from_secs(2);
const PING_EVERY: Duration = Duration::from_secs(2);
const PONG_WITHIN: Duration = Duration::from_secs(4);
/// Failures are remembered for this time. Statements that failed for one are classified at once.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The connections of a process.
#[derive(Debug)]
pub(crate) struct Channels {
    security: Security,
    open: Mutex<HashMap<Url, Channel>>,
    failures: Mutex<Vec<Failure>>,
}

/// A connection that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) worker: Url,
    pub(crate) at: Instant,
    pub(crate) reason: String,
}

impl Channels {
    pub(crate) fn new(security: Security) -> Arc<Self> {
        Arc::new(Channels { security, open: Mutex::default(), failures: Mutex::default() })
    }

    /// The connection to a worker. It connects with the first request.
    pub(crate) fn to(self: &Arc<Self>, worker: &Url) -> Result<Watched> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let channel = match open.get(worker) {
            Some(channel) => channel.clone(),
            None => {
                let channel = self.endpoint(worker)?.connect_lazy();
                open.insert(worker.clone(), channel.clone());
                channel
            }
        };
        Ok(Watched { channel, worker: worker.clone(), channels: Arc::clone(self) })
    }

    fn endpoint(&self, worker: &Url) -> Result<Endpoint> {
        let wrong = |error: &dyn std::fmt::Display| config_datafusion_err!("the worker {worker}: {error}");
        let endpoint = Endpoint::from_shared(worker.to_string()).map_err(|error| wrong(&error))?;
        let endpoint = endpoint
            .connect_timeout(CONNECT_WITHIN)
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PONG_WITHIN)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        match self.security.client(worker.host_str().unwrap_or_default()) {
            Some(tls) => endpoint.tls_config(tls).map_err(|error| wrong(&error)),
            None => Ok(endpoint),
        }
    }

    /// Closes the connection to a worker that is not part of the cluster any more.
    pub(crate) fn close(&self, worker: &Url) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(worker);
    }

    /// Notes that a connection failed.
    pub(crate) fn failed(&self, worker: &Url, reason: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        failures.retain(|failure| now.duration_since(failure.at) < REMEMBERED);
        tracing::debug!(%worker, reason, "a connection failed");
        failures.push(Failure { worker: worker.clone(), at: now, reason: reason.to_owned() });
    }

    /// The newest failure since a time.
    pub(crate) fn failure_since(&self, since: Instant) -> Option<Failure> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().rev().find(|failure| failure.at >= since).cloned()
    }

    /// Whether a connection to a worker failed since a time.
    pub(crate) fn has_failed(&self, worker: &Url, since: Instant) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.iter().any(|failure| failure.worker == *worker && failure.at >= since)
    }
}

/// Resolves the workers of a plan to connections.
#[derive(Clone, Debug)]
pub(crate) struct Resolver(pub(crate) Arc<Channels>);

#[async_trait]
impl ChannelResolver for Resolver {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let watched = self.0.to(url)?;
        Ok(grpc::create_worker_client(grpc::BoxCloneSyncChannel::new(watched)))
    }
}

/// A connection whose failures are noted.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    channel: Channel,
    worker: Url,
    channels: Arc<Channels>,
}

impl Service<http::Request<Body>> for Watched {
    type Response = http::Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        let headers = request.headers_mut();
        headers.insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
        if let Some(token) = self.channels.security.token()
            && let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {token}"))
        {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let answer = self.channel.call(request);
        let (worker, channels) = (self.worker.clone(), Arc::clone(&self.channels));
        Box::pin(async move {
            let answer = answer.await.inspect_err(|error| channels.failed(&worker, &with_causes(error)))?;
            Ok(answer.map(|body| {
                Body::new(body.map_err(move |status| {
                    channels.failed(&worker, &with_causes(&status));
                    status
                }))
            }))
        })
    }
}

/// The text of an error and its causes. Transport errors show only "transport error".
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
