//! A connection to a shared engine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{Action, FlightDescriptor, IpcMessage, Ticket};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{DataFusionError, ParamValues, Result, internal_datafusion_err};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::net::UnixStream;
use tokio::runtime::Handle;
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};

use super::{ACTION, CLASS, FRAME_BYTES, Given, Request, Stream, WINDOW_BYTES, error_of};
use crate::scan::Scan;
use crate::session::{Pairs, Start};

/// The client's end. Clones are of the same connection.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    flight: FlightServiceClient<Channel>,
}

impl Client {
    /// Connects to the engine at this socket, for a client in `folder`. `None` if there is none, or if it just ends.
    ///
    /// # Errors
    /// If the engine runs with other settings, or if a setting of the session is wrong.
    pub(crate) async fn connect(socket: &Path, start: Start, folder: PathBuf) -> Result<Option<Self>> {
        let stream = match UnixStream::connect(socket).await {
            Ok(stream) => stream,
            Err(error) => {
                return match error.kind() {
                    // An engine that ends resets the connections that it has not accepted.
                    io::ErrorKind::NotFound
                    | io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::ConnectionReset => Ok(None),
                    _ => Err(error.into()),
                };
            }
        };
        // A second connection would be another session.
        let mut stream = Some(TokioIo::new(stream));
        let once = tower::service_fn(move |_: Uri| {
            let stream = stream.take();
            async move { stream.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted)) }
        });
        let endpoint = Endpoint::from_static("http://coscan")
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES);
        let Ok(channel) = endpoint.connect_with_connector(once).await else {
            return Ok(None);
        };
        let flight = FlightServiceClient::new(channel)
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let client = Client { flight };
        match client.answers(&Request::Open { start, folder }).await {
            Ok(_) => Ok(Some(client)),
            Err(status) if status.metadata().get(CLASS).is_none() => Ok(None),
            Err(status) => Err(error_of(&status)),
        }
    }

    async fn answers(&self, request: &Request) -> Result<Vec<Vec<u8>>, Status> {
        let action = Action { r#type: ACTION.to_owned(), body: json(request)?.into() };
        let answers = self.flight.clone().do_action(action).await?.into_inner();
        answers.map_ok(|answer| answer.body.to_vec()).try_collect().await
    }

    async fn ask<T: DeserializeOwned>(&self, request: &Request) -> Result<(T, Vec<Vec<u8>>)> {
        let mut answers = self.answers(request).await.map_err(|status| error_of(&status))?.into_iter();
        let first =
            answers.next().ok_or_else(|| internal_datafusion_err!("the shared engine gave no answer"))?;
        let value =
            serde_json::from_slice(&first).map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok((value, answers.collect()))
    }

    async fn tell(&self, request: &Request) -> Result<()> {
        let ((), _) = self.ask(request).await?;
        Ok(())
    }

    async fn statement(&self, request: Request) -> Result<Statement> {
        let (number, others) = self.ask(&request).await?;
        let schema = others.into_iter().next().unwrap_or_default();
        let schema = Arc::new(Schema::try_from(IpcMessage(schema.into()))?);
        Ok(Statement(Arc::new(Kept { client: self.clone(), handle: Handle::current(), number, schema })))
    }

    pub(crate) async fn plan(&self, sql: String, given: Option<ParamValues>) -> Result<Statement> {
        let given = given.map(Given::new).transpose()?;
        self.statement(Request::Plan { sql, given }).await
    }

    pub(crate) async fn register_files(
        &self,
        name: String,
        locations: Vec<String>,
        options: Pairs,
    ) -> Result<()> {
        self.tell(&Request::RegisterFiles { name, locations, options }).await
    }

    pub(crate) async fn register_store(&self, address: String, options: Pairs) -> Result<()> {
        self.tell(&Request::RegisterStore { address, options }).await
    }

    pub(crate) async fn attach(&self, name: String, address: String) -> Result<()> {
        self.tell(&Request::Attach { name, address }).await
    }

    pub(crate) async fn register_batches(
        &self,
        name: String,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
    ) -> Result<()> {
        let descriptor = FlightDescriptor::new_path(vec![name]);
        let data = FlightDataEncoderBuilder::new()
            .with_schema(schema)
            .with_flight_descriptor(Some(descriptor))
            .build(futures::stream::iter(batches.into_iter().map(Ok)));
        // The batches are in memory, so that their encoding does not fail.
        let data = data.filter_map(async |data| data.ok());
        let done = self.flight.clone().do_put(data).await.map_err(|status| error_of(&status))?;
        done.into_inner().try_collect::<Vec<_>>().await.map_err(|status| error_of(&status))?;
        Ok(())
    }

    pub(crate) async fn deregister(&self, name: String) -> Result<bool> {
        Ok(self.ask(&Request::Deregister { name }).await?.0)
    }

    pub(crate) async fn tables(&self) -> Result<Vec<String>> {
        Ok(self.ask(&Request::Tables).await?.0)
    }

    pub(crate) async fn stats(&self) -> Result<Map<String, Value>> {
        Ok(self.ask(&Request::Stats).await?.0)
    }

    pub(crate) async fn chunks(&self, cells: usize) -> Result<Value> {
        Ok(self.ask(&Request::Chunks { cells }).await?.0)
    }

    pub(crate) async fn scan(&self, scan: Scan) -> Result<SendableRecordBatchStream> {
        self.rows(&Stream::Scan(scan)).await
    }

    async fn rows(&self, wanted: &Stream) -> Result<SendableRecordBatchStream> {
        let ticket = Ticket { ticket: json(wanted).map_err(|status| error_of(&status))?.into() };
        let mut data =
            self.flight.clone().do_get(ticket).await.map_err(|status| error_of(&status))?.into_inner();
        let first = data.message().await.map_err(|status| error_of(&status))?;
        let first = first.ok_or_else(|| internal_datafusion_err!("the shared engine gave no schema"))?;
        let schema = Arc::new(Schema::try_from(&first)?);
        let data = futures::stream::iter([Ok(first)]).chain(data).map_err(FlightError::from);
        let batches = FlightRecordBatchStream::new_from_flight_data(data).map_err(|error| match error {
            FlightError::Tonic(status) => error_of(&status),
            error => DataFusionError::External(Box::new(error)),
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Status> {
    serde_json::to_vec(value).map_err(|error| Status::internal(error.to_string()))
}

/// A statement that the engine has planned. It forgets it with the last clone.
#[derive(Clone, Debug)]
pub(crate) struct Statement(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    client: Client,
    handle: Handle,
    number: u64,
    schema: SchemaRef,
}

impl Statement {
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.0.schema
    }

    pub(crate) async fn explain(&self, verbose: bool, analyze: bool) -> Result<Statement> {
        let request = Request::Explain { statement: self.0.number, verbose, analyze };
        self.0.client.statement(request).await
    }

    pub(crate) async fn limit(&self, rows: usize) -> Result<Statement> {
        self.0.client.statement(Request::Limit { statement: self.0.number, rows }).await
    }

    /// Runs it.
    pub(crate) async fn rows(&self) -> Result<SendableRecordBatchStream> {
        self.0.client.rows(&Stream::Statement(self.0.number)).await
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let (client, number) = (self.client.clone(), self.number);
        // Without the connection there is no statement either.
        drop(self.handle.spawn(async move {
            let _ = client.answers(&Request::Forget { statement: number }).await;
        }));
    }
}
