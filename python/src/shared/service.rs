//! Requests and streams of a connection.

use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest,
    HandshakeResponse, IpcMessage, PollInfo, PutResult, Result as Answer, SchemaAsIpc, SchemaResult, Ticket,
};
use coscan_datafusion::CoscanContext;
use coscan_datafusion::options::CoscanOptions;
use coscan_server::sql::speak;
use datafusion::arrow::ipc::writer::IpcWriteOptions;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider};
use datafusion::common::{DataFusionError, Result, config_datafusion_err, internal_err, plan_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use futures::future::BoxFuture;
use futures::{Stream, StreamExt, TryStreamExt};
use serde::Serialize;
use tonic::{Request as Asked, Response, Status, Streaming};

use super::paths::{Tables, absolute, with_absolute_paths};
use super::{ACTION, Given, Request, Stream as Wanted, status};
use crate::core::Core;
use crate::scan::start;
use crate::session::{self, CATALOG, Planned, SCHEMA, Start, USER};

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The host's engine, and the settings with which it was started.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) core: Arc<Core>,
    pub(super) start: Start,
}

/// What requests need of the host. Without a trait object the compiler would look through the types of all plans for the
/// future of each request: see `coscan_upstream::boxed`.
pub(super) trait Host: Send + Sync {
    /// The host's engine.
    fn core(&self) -> &Core;

    /// Opens a session for a client in this folder.
    fn session(&self, start: &Start, folder: PathBuf) -> Result<Session>;
}

impl Host for Shared {
    fn core(&self) -> &Core {
        &self.core
    }

    fn session(&self, start: &Start, folder: PathBuf) -> Result<Session> {
        self.check(start)?;
        let base = self.core.coscan().map_err(|error| DataFusionError::Internal(error.to_string()))?;
        let mut config = base.ctx.copied_config();
        if let Some(options) = config.options_mut().extensions.get_mut::<CoscanOptions>() {
            options.administrator = false;
        }
        session::set_all(&mut config, &start.session)?;
        let coscan = CoscanContext { ctx: base.new_session(config), engine: base.engine.clone() };
        let by_path = base.ctx.catalog(CATALOG).and_then(|catalog| catalog.schema(SCHEMA));
        let Some(by_path) = by_path else { return internal_err!("the host has no schema") };
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(SCHEMA, Arc::new(Tables::new(by_path, folder.clone())))?;
        coscan.ctx.register_catalog(CATALOG, Arc::new(catalog));
        speak(&coscan.ctx, USER);
        Ok(Session { coscan, folder, statements: Mutex::default(), next: AtomicU64::new(1) })
    }
}

impl Shared {
    /// An engine has one set of settings.
    fn check(&self, wanted: &Start) -> Result<()> {
        let own: HashMap<_, _> = self.start.settings.iter().map(|(name, value)| (name, value)).collect();
        let differs = |name: &str, own: Option<String>, wanted: String| {
            let own = own.unwrap_or_else(|| "its default".to_owned());
            config_datafusion_err!(
                "the shared engine runs with {name} = {own}, not {wanted}: leave the setting out, end the processes that use \
                 the engine, or connect to another one by a name, as in 'shared:NAME'"
            )
        };
        for (name, value) in &wanted.settings {
            if own.get(name) != Some(&value) {
                return Err(differs(name, own.get(name).map(|own| (*own).clone()), value.clone()));
            }
        }
        let text = |value: Option<usize>| value.map(|value| value.to_string());
        if let Some(threads) = wanted.threads
            && self.start.threads != wanted.threads
        {
            return Err(differs("threads", text(self.start.threads), threads.to_string()));
        }
        if let Some(memory) = wanted.memory
            && self.start.memory != wanted.memory
        {
            return Err(differs("memory", self.start.memory.map(|own| own.to_string()), memory.to_string()));
        }
        Ok(())
    }
}

/// A connection's session, once it is opened.
pub(super) type Slot = Arc<OnceLock<Session>>;

/// A session: its tables, and statements that are planned.
pub(super) struct Session {
    coscan: CoscanContext,
    folder: PathBuf,
    statements: Mutex<HashMap<u64, Planned>>,
    next: AtomicU64,
}

impl Session {
    fn keep(&self, planned: Planned) -> Result<Vec<Answer>> {
        let schema = SchemaAsIpc::new(planned.schema(), &IpcWriteOptions::default()).try_into()?;
        let IpcMessage(schema) = schema;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).insert(number, planned);
        let mut answers = answer(&number)?;
        answers.push(Answer { body: schema });
        Ok(answers)
    }

    fn statement(&self, number: u64) -> Result<Planned> {
        let statements = self.statements.lock().unwrap_or_else(PoisonError::into_inner);
        statements.get(&number).cloned().ok_or_else(|| plan_datafusion_err!("there is no statement {number}"))
    }

    async fn planned(&self, sql: &str, given: Option<Given>) -> Result<Planned> {
        let given = given.map(|given| given.values()).transpose()?;
        session::planned(&self.coscan, &with_absolute_paths(sql, &self.folder), given).await
    }

    async fn carried_out(&self, request: Request) -> Result<Vec<Answer>> {
        let coscan = &self.coscan;
        match request {
            Request::Open { .. } => internal_err!("the session is open"),
            Request::Plan { sql, given } => self.keep(self.planned(&sql, given).await?),
            Request::Explain { statement, verbose, analyze } => {
                self.keep(self.statement(statement)?.explain(verbose, analyze)?)
            }
            Request::Limit { statement, rows } => self.keep(self.statement(statement)?.limit(rows)?),
            Request::Forget { statement } => {
                let kept = self.statements.lock().unwrap_or_else(PoisonError::into_inner).remove(&statement);
                drop(kept);
                answer(&())
            }
            Request::RegisterFiles { name, locations, options } => {
                let from = |location: &String| absolute(location, &self.folder);
                let locations: Vec<_> = locations.iter().map(from).collect();
                session::register_files(coscan, &name, &locations, &options).await?;
                answer(&())
            }
            Request::RegisterStore { address, options } => {
                session::register_store(coscan, &address, &options)?;
                answer(&())
            }
            Request::Attach { name, address } => {
                coscan_lake::attach(&coscan.ctx, &name, &address).await?;
                answer(&())
            }
            Request::Deregister { name } => answer(&session::deregister(coscan, &name)?),
            Request::Tables => answer(&session::tables(coscan)),
            Request::Stats => answer(&session::stats(coscan)),
            Request::Chunks { cells } => answer(&session::chunks(coscan, cells)),
        }
    }

    async fn opened(&self, wanted: Wanted) -> Result<SendableRecordBatchStream> {
        match wanted {
            Wanted::Statement(number) => self.statement(number)?.rows(None).await,
            Wanted::Scan(scan) => start(&self.coscan, &scan).await,
        }
    }
}

fn answer(value: &impl Serialize) -> Result<Vec<Answer>> {
    let body = serde_json::to_vec(value).map_err(|error| DataFusionError::External(Box::new(error)))?;
    Ok(vec![Answer { body: body.into() }])
}

/// The service of all connections. Each request comes with the slot of its connection.
pub(super) struct Service(pub(super) Arc<dyn Host>);

impl Service {
    /// Runs the future on the engine's threads.
    async fn on_threads<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T, Status> {
        let (receiver, _running) = self.0.core().begin(future).map_err(|error| broken(&error))?;
        let done = receiver.recv_async().await.map_err(|error| broken(&error))?;
        done.map_err(|error| status(&error))
    }

    fn act(&self, asked: Asked<Action>) -> BoxFuture<'_, Result<Response<Streamed<Answer>>, Status>> {
        Box::pin(async move {
            let slot = slot(&asked)?;
            let action = asked.into_inner();
            if action.r#type != ACTION {
                return Err(broken(&format!("there is no action {}", action.r#type)));
            }
            let asked: Request = request(&action.body)?;
            let shared = Arc::clone(&self.0);
            let answers = self
                .on_threads(async move {
                    if let Request::Open { start, folder } = asked {
                        let session = shared.session(&start, folder)?;
                        return match slot.set(session) {
                            Ok(()) => answer(&std::process::id()),
                            Err(_) => internal_err!("the session is open"),
                        };
                    }
                    session_of(&slot)?.carried_out(asked).await
                })
                .await?;
            let answers: Streamed<Answer> = Box::pin(futures::stream::iter(answers.into_iter().map(Ok)));
            Ok(Response::new(answers))
        })
    }

    fn rows(&self, asked: Asked<Ticket>) -> BoxFuture<'_, Result<Response<Streamed<FlightData>>, Status>> {
        Box::pin(async move {
            let slot = slot(&asked)?;
            let wanted: Wanted = request(&asked.into_inner().ticket)?;
            let batches = self.on_threads(async move { session_of(&slot)?.opened(wanted).await }).await?;
            let schema = batches.schema();
            let (receiver, running) =
                self.0.core().stream(async move { Ok(batches) }).map_err(|error| broken(&error))?;
            // The statement ends with the stream.
            let rows = futures::stream::unfold((receiver, Some(running)), async |(receiver, running)| {
                running.as_ref()?;
                match receiver.recv_async().await {
                    Ok(Ok(Some(batch))) => Some((Ok(batch), (receiver, running))),
                    Ok(Ok(None)) => None,
                    Ok(Err(error)) => Some((Err(FlightError::from(status(&error))), (receiver, None))),
                    Err(error) => Some((Err(FlightError::from(broken(&error))), (receiver, None))),
                }
            });
            let encoded = FlightDataEncoderBuilder::new()
                .with_schema(schema)
                .with_dictionary_handling(DictionaryHandling::Resend)
                .build(rows)
                .map_err(Status::from);
            let rows: Streamed<FlightData> = Box::pin(encoded);
            Ok(Response::new(rows))
        })
    }

    /// Registers rows as a table. The descriptor has its name.
    fn put(
        &self,
        asked: Asked<Streaming<FlightData>>,
    ) -> BoxFuture<'_, Result<Response<Streamed<PutResult>>, Status>> {
        Box::pin(async move {
            let slot = slot(&asked)?;
            let mut data = asked.into_inner().peekable();
            let first = Pin::new(&mut data).peek().await;
            let descriptor = match first {
                Some(Ok(first)) => first.flight_descriptor.clone(),
                _ => None,
            };
            let Some(FlightDescriptor { path, .. }) = descriptor else {
                return Err(broken(&"rows without a name"));
            };
            let [name] = path.as_slice() else { return Err(broken(&"rows without a name")) };
            let mut rows = FlightRecordBatchStream::new_from_flight_data(data.map_err(FlightError::from));
            let mut batches = Vec::new();
            while let Some(batch) = rows.try_next().await.map_err(|error| broken(&error))? {
                batches.push(batch);
            }
            let schema = rows.schema().cloned().ok_or_else(|| broken(&"rows without a schema"))?;
            session_of(&slot)
                .and_then(|session| session::register_batches(&session.coscan, name, schema, batches))
                .map_err(|error| status(&error))?;
            let answers: Streamed<PutResult> = Box::pin(futures::stream::empty());
            Ok(Response::new(answers))
        })
    }
}

fn broken(error: &dyn std::fmt::Display) -> Status {
    status(&DataFusionError::Internal(error.to_string()))
}

fn slot<T>(asked: &Asked<T>) -> Result<Slot, Status> {
    asked.extensions().get::<Slot>().cloned().ok_or_else(|| broken(&"a request without a connection"))
}

fn session_of(slot: &Slot) -> Result<&Session> {
    slot.get().ok_or_else(|| DataFusionError::Internal("the session is not open".to_owned()))
}

fn request<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Status> {
    serde_json::from_slice(body).map_err(|error| {
        status(&plan_datafusion_err!("the shared engine is one of another version of coscan: {error}"))
    })
}

#[tonic::async_trait]
impl FlightService for Service {
    type HandshakeStream = Streamed<HandshakeResponse>;
    type ListFlightsStream = Streamed<FlightInfo>;
    type DoGetStream = Streamed<FlightData>;
    type DoPutStream = Streamed<PutResult>;
    type DoActionStream = Streamed<Answer>;
    type ListActionsStream = Streamed<ActionType>;
    type DoExchangeStream = Streamed<FlightData>;

    async fn do_action(&self, asked: Asked<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        self.act(asked).await
    }

    async fn do_get(&self, asked: Asked<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        self.rows(asked).await
    }

    async fn do_put(
        &self,
        asked: Asked<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        self.put(asked).await
    }

    async fn handshake(
        &self,
        _: Asked<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        Err(Status::unimplemented("handshake"))
    }

    async fn list_flights(&self, _: Asked<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(Status::unimplemented("list_flights"))
    }

    async fn get_flight_info(&self, _: Asked<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        Err(Status::unimplemented("get_flight_info"))
    }

    async fn poll_flight_info(&self, _: Asked<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("poll_flight_info"))
    }

    async fn get_schema(&self, _: Asked<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        Err(Status::unimplemented("get_schema"))
    }

    async fn list_actions(&self, _: Asked<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        Err(Status::unimplemented("list_actions"))
    }

    async fn do_exchange(
        &self,
        _: Asked<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented("do_exchange"))
    }
}
