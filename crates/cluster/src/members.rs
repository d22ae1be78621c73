//! The workers of a cluster and their state.
//!
//! Each worker is asked for its [`Status`] every [`ASK_EVERY`]. It takes new work if it answered, runs the same
//! version and does not drain. A connection that fails ends this at once, until the worker answers again.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use datafusion::common::{DataFusionError, Result};
use datafusion_distributed::WorkerResolver;
use futures::future::join_all;
use http_body_util::{BodyExt, Limited};
use tonic::body::Body;
use tower::ServiceExt;
use url::Url;

use crate::channels::{Channels, VERSION, with_causes};
use crate::config::{Security, Workers, read_workers};
use crate::error::ClusterError;
use crate::status::{PATH, Status};

const ASK_EVERY: Duration = Duration::from_secs(1);
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The largest answer that is read.
const ANSWER_BYTES: usize = 64 << 10;

/// A worker's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It takes work.
    Ready,
    /// It finishes its work and takes no more.
    Draining,
    /// It has not answered, for this reason.
    Gone(String),
    /// It runs this other version.
    OtherVersion(String),
}

impl State {
    /// The name in `coscan_workers`.
    pub fn name(&self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Draining => "draining",
            State::Gone(_) => "gone",
            State::OtherVersion(_) => "other version",
        }
    }

    /// The reason why it takes no work.
    pub fn reason(&self) -> Option<String> {
        match self {
            State::Gone(reason) => Some(reason.clone()),
            State::OtherVersion(version) => Some(format!("it has {version}, this process {VERSION}")),
            State::Ready | State::Draining => None,
        }
    }
}

/// A worker of the cluster.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its address.
    pub address: String,
    /// Its state.
    pub state: State,
    /// Its last answer.
    pub status: Option<Status>,
    url: Url,
    /// The time of the last question that it answered.
    answered: Instant,
}

/// The workers of a cluster.
#[derive(Debug)]
pub(crate) struct Members {
    workers: Workers,
    scheme: &'static str,
    channels: Arc<Channels>,
    known: RwLock<BTreeMap<String, Member>>,
}

impl Members {
    /// Begins to ask the workers, on the current runtime.
    ///
    /// # Errors
    /// If the file of workers cannot be read.
    pub(crate) async fn start(
        workers: Workers,
        security: &Security,
        channels: Arc<Channels>,
    ) -> Result<Arc<Self>, ClusterError> {
        let scheme = security.scheme();
        let members = Arc::new(Members { workers, scheme, channels, known: RwLock::default() });
        if let Workers::File(path) = &members.workers {
            read_workers(path)?;
        }
        members.ask_all().await;
        tokio::spawn(ask_again(Arc::downgrade(&members)));
        Ok(members)
    }

    /// All workers, in the order of their addresses.
    pub(crate) fn all(&self) -> Vec<Member> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.values().map(|member| self.with_failures(member.clone())).collect()
    }

    /// The workers that take work, in the order of their addresses.
    pub(crate) fn ready(&self) -> Vec<Url> {
        let ready = |member: Member| (member.state == State::Ready).then_some(member.url);
        self.all().into_iter().filter_map(ready).collect()
    }

    /// Notes that another process could not reach a worker.
    pub(crate) fn suspect(&self, authority: &str, reason: &str) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(member) = known.values().find(|member| member.url.authority() == authority) {
            self.channels.failed(&member.url, reason);
        }
    }

    fn with_failures(&self, mut member: Member) -> Member {
        if member.state == State::Ready && self.channels.has_failed(&member.url, member.answered) {
            member.state = State::Gone("a connection failed".to_owned());
        }
        member
    }

    async fn ask_all(&self) {
        let addresses = match self.addresses().await {
            Ok(addresses) => addresses,
            Err(error) => {
                // Those that are known stay.
                tracing::warn!(%error, "cannot find the workers");
                let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
                known.keys().cloned().collect()
            }
        };
        let asked = Instant::now();
        let answers = join_all(addresses.iter().map(|address| self.ask(address))).await;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        for member in known.values().filter(|member| !addresses.contains(&member.address)) {
            self.channels.close(&member.url);
        }
        known.retain(|address, _| addresses.contains(address));
        for (address, (url, answer)) in addresses.into_iter().zip(answers) {
            let before = known.get(&address);
            let (state, status) = match answer {
                Ok(status) if status.version != VERSION => {
                    (State::OtherVersion(status.version.clone()), Some(status))
                }
                Ok(status) if status.draining => (State::Draining, Some(status)),
                Ok(status) => (State::Ready, Some(status)),
                Err(reason) => (State::Gone(reason), before.and_then(|member| member.status.clone())),
            };
            if before.is_none_or(|member| member.state != state) {
                let reason = state.reason();
                tracing::info!(worker = address, state = state.name(), reason, "the state of a worker");
            }
            let answered = if matches!(state, State::Gone(_)) {
                before.map_or(asked, |member| member.answered)
            } else {
                asked
            };
            let member = Member { address: address.clone(), state, status, url, answered };
            known.insert(address, member);
        }
    }

    async fn addresses(&self) -> Result<Vec<String>, ClusterError> {
        let mut addresses = match &self.workers {
            Workers::List(addresses) => addresses.clone(),
            Workers::File(path) => read_workers(path)?,
            Workers::Dns(name) => {
                let found = tokio::net::lookup_host(name).await;
                let wrong =
                    |error| ClusterError::setting("cluster", format!("cannot resolve {name}: {error}"));
                found.map_err(wrong)?.map(|address| address.to_string()).collect()
            }
        };
        addresses.sort();
        addresses.dedup();
        Ok(addresses)
    }

    async fn ask(&self, address: &str) -> (Url, Result<Status, String>) {
        let url = match Url::parse(&format!("{}://{address}", self.scheme)) {
            Ok(url) => url,
            Err(error) => unreachable!("addresses are checked, and {address} is none: {error}"),
        };
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.answer(&url)).await;
        let late = || Err(format!("no answer within {} s", ANSWER_WITHIN.as_secs()));
        let answer = answer.unwrap_or_else(|_| late());
        (url, answer)
    }

    async fn answer(&self, url: &Url) -> Result<Status, String> {
        let channel = self.channels.to(url).map_err(|error| error.to_string())?;
        let request = http::Request::get(format!("{url}{}", PATH.trim_start_matches('/')));
        let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
        let answer = channel.oneshot(request).await.map_err(|error| with_causes(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| with_causes(error.as_ref()))?.to_bytes();
        match status {
            http::StatusCode::OK => {
                serde_json::from_slice(&body).map_err(|error| format!("it is no worker: {error}"))
            }
            http::StatusCode::UNAUTHORIZED => {
                Err("it refused the token: give both processes the same".to_owned())
            }
            status => Err(format!("it answered {status}")),
        }
    }
}

async fn ask_again(members: Weak<Members>) {
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        match members.upgrade() {
            Some(members) => members.ask_all().await,
            None => return,
        }
    }
}

/// The workers, for the planner of distributed plans.
#[derive(Clone, Debug)]
pub(crate) struct Ready(pub(crate) Arc<Members>);

impl WorkerResolver for Ready {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        Ok(self.0.ready())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers as a worker of this version.
    async fn worker(version: &'static str, draining: bool) -> String {
        let status = Status { version: version.to_owned(), draining, ..Status::default() };
        let router = axum::Router::new().route(PATH, axum::routing::get(async move || axum::Json(status)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let routes = tonic::service::Routes::from(router);
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        tokio::spawn(tonic::transport::Server::builder().add_routes(routes).serve_with_incoming(incoming));
        address
    }

    #[tokio::test]
    async fn only_workers_of_this_version_that_do_not_drain_get_work() {
        let (same, other) = (worker(VERSION, false).await, worker("9.9.9/other", false).await);
        let (draining, gone) = (worker(VERSION, true).await, "127.0.0.1:1".to_owned());
        let addresses = [&same, &other, &draining, &gone].map(Clone::clone).to_vec();
        let security = Security::default();
        let channels = Channels::new(security.clone());
        let members = Members::start(Workers::List(addresses), &security, channels).await.expect("members");
        let state = |address: &String| {
            let all = members.all();
            all.into_iter().find(|member| member.address == *address).map(|member| member.state)
        };
        assert_eq!(state(&same), Some(State::Ready));
        assert_eq!(state(&other), Some(State::OtherVersion("9.9.9/other".to_owned())));
        assert_eq!(state(&draining), Some(State::Draining));
        assert!(matches!(state(&gone), Some(State::Gone(_))));
        assert_eq!(members.ready().iter().map(Url::authority).collect::<Vec<_>>(), [same.as_str()]);
        // Another process could not reach it. It gets no work until it has answered again.
        members.suspect(&same, "a broken pipe");
        assert_eq!(members.ready(), Vec::<Url>::new());
        members.ask_all().await;
        assert_eq!(state(&same), Some(State::Ready));
    }
}
