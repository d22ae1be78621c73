//! A running server: start, reload, and shutdown without cutting off clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use coscan_datafusion::CoscanContext;
use futures::future::{BoxFuture, FutureExt};
use tokio::task::JoinSet;

use crate::config::ServeConfig;
use crate::error::ServeError;
use crate::listen::{Listener, Served};
use crate::sql::Stop;
use crate::state::{SharedState, State};
use crate::traces::Traces;
use crate::transport::Tls;
use crate::{flight, http};

/// Time that clients of stopped queries have to receive the error.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// A server that accepts connections. Dropping it stops it at once; [`Server::shut_down`] lets queries finish.
pub struct Server {
    state: SharedState,
    tls: Option<Arc<Tls>>,
    traces: Option<Traces>,
    addresses: Vec<SocketAddr>,
    tasks: JoinSet<()>,
}

impl Server {
    /// Opens the tables and listens.
    ///
    /// # Errors
    ///
    /// If settings, files, tables or addresses cannot be used. The server then listens on no address.
    #[inline(never)]
    pub fn start(config: ServeConfig, coscan: CoscanContext) -> BoxFuture<'static, Result<Self, ServeError>> {
        // In a box, so that the protocols are compiled here and not in every crate that starts a server.
        Server::listening(config, coscan).boxed()
    }

    async fn listening(config: ServeConfig, coscan: CoscanContext) -> Result<Self, ServeError> {
        let state = Arc::new(State::new(config, coscan).await?);
        let tls = Tls::of(state.config())?;
        let traces = state.config().traces.as_deref();
        let traces = traces.map(|address| Traces::start(address, state.registry(), state.tables()));
        let traces = traces.transpose()?;
        let flight = flight::router(state.clone());
        let http = http::router(state.clone());
        let all = Router::new().merge(flight.clone()).merge(http.clone());
        let config = state.config().clone();
        let kinds = [
            (&config.listen, true, all),
            (&config.flight_listen, false, flight),
            (&config.http_listen, false, http),
        ];
        let mut listeners = Vec::new();
        for (addresses, postgres, router) in kinds {
            for &address in addresses {
                listeners.push(Listener::bind(address, Served { postgres, http: router.clone() })?);
            }
        }
        let mut tasks = JoinSet::new();
        let addresses = listeners.iter().filter_map(Listener::address).collect();
        for listener in listeners {
            tasks.spawn(listener.accept(state.clone(), tls.clone()));
        }
        tasks.spawn(watch(state.clone()));
        Ok(Server { state, tls, traces, addresses, tasks })
    }

    /// The shared state.
    pub fn state(&self) -> &SharedState {
        &self.state
    }

    /// The bound addresses, in the order of the settings: `listen`, `flight-listen`, `http-listen`.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Takes tables and watched folders from these settings, and reads all files again like [`Server::reload`].
    /// Other settings do not change.
    ///
    /// # Errors
    ///
    /// If a file cannot be used.
    pub async fn reload_with(&self, config: &ServeConfig) -> Result<(), ServeError> {
        self.state.set_sources(config);
        self.reload().await
    }

    /// Reads users, certificates and watched folders again. A wrong file is reported, and its earlier contents stay
    /// in use.
    ///
    /// # Errors
    ///
    /// If a file cannot be used.
    #[inline(never)]
    pub fn reload(&self) -> BoxFuture<'_, Result<(), ServeError>> {
        async {
            let tls = self.tls.as_ref().map_or(Ok(()), |tls| tls.reload());
            self.state.reload().await.and(tls)
        }
        .boxed()
    }

    /// Accepts no new work, waits for running statements at most for `drain_timeout`, and stops the rest.
    pub async fn shut_down(mut self) {
        self.state.drain();
        let patience = self.state.config().drain_timeout;
        let idle = async {
            while !self.state.registry().queries().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        if tokio::time::timeout(patience, idle).await.is_err() {
            tracing::warn!(left = self.state.registry().queries().len(), "statements are stopped");
            self.state.registry().stop_all(Stop::ShuttingDown);
        }
        let closed = async {
            while self.state.connections().count() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, closed).await;
        self.tasks.shutdown().await;
        if let Some(traces) = self.traces {
            traces.shut_down().await;
        }
    }
}

/// Checks watched folders at an interval.
async fn watch(state: SharedState) {
    loop {
        tokio::time::sleep(state.config().watch_every).await;
        if !state.watches() {
            continue;
        }
        match state.look_at_tables().await {
            Ok(change) => {
                change.opened.iter().for_each(|table| tracing::info!(table, "a table was opened"));
                change.closed.iter().for_each(|table| tracing::info!(table, "a table was closed"));
            }
            Err(error) => tracing::warn!(%error, "tables cannot be looked at"),
        }
    }
}
