//! The calls of Flight SQL, each with its authenticated user.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, CommandGetCatalogs,
    CommandGetDbSchemas, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor,
    FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage, SchemaAsIpc, Ticket,
};
use bytes::Bytes;
use coscan_upstream::execute_logical_plan;
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::arrow::ipc::writer::IpcWriteOptions;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{LogicalPlan, Statement};
use futures::{Stream, StreamExt, TryStreamExt};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use super::caller::{self, failed, refused};
use super::kept::Kept;
use super::listing;
use super::stream::{Messages, of_batch, of_results, told};
use crate::access::User;
use crate::sql::{
    Cancel, Protocol, QueryError, Results, Run, Session, Stop, parameters_of, result_columns,
    with_numbered_parameters,
};
use crate::state::SharedState;

/// Lifetime of a result that is not fetched.
const RESULT_LIFETIME: Duration = Duration::from_secs(600);
/// Lifetime of a prepared statement.
const STATEMENT_LIFETIME: Duration = Duration::from_secs(4 * 3600);
/// Maximum number of rows of parameters per execution.
const PARAMETER_ROWS_MAX: usize = 1;

/// Flight's own action that stops a statement, besides that of Flight SQL.
const CANCEL_FLIGHT_INFO: &str = "CancelFlightInfo";

/// Maximum number of variables that a connection sets.
const SETTINGS_MAX: usize = 100;

/// A planned statement. It has no session while it does not run.
#[derive(Clone)]
struct Planned {
    user: User,
    sql: Arc<str>,
    plan: Arc<LogicalPlan>,
    bound: Arc<Mutex<Option<Bound>>>,
    /// The reservation of the statement in the user's memory.
    _reserved: Arc<MemoryReservation>,
}

/// Values of a statement's parameters. Many values are reserved in the user's memory.
struct Bound {
    values: ParamValues,
    _reserved: Option<MemoryReservation>,
}

impl Planned {
    fn schema(&self) -> SchemaRef {
        told(&result_columns(&self.plan))
    }

    /// Returns true if the user was removed or changed since.
    fn is_ended(&self) -> bool {
        self.user.ended.is_ended()
    }

    /// Returns true if the statement changes a variable of its session.
    fn sets(&self) -> bool {
        variable(&self.plan).is_some()
    }

    async fn run(&self, session: &Session, run: Run) -> Result<Results, Status> {
        let values =
            self.bound.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|b| b.values.clone());
        let plan = self.plan.as_ref().clone();
        let plan = match values {
            Some(values) => plan.replace_params_with_values(&values).map_err(|error| failed(error.into()))?,
            None => plan,
        };
        session.run(&self.sql, plan, run).await.map_err(failed)
    }
}

/// The variable that a statement sets or resets.
fn variable(plan: &LogicalPlan) -> Option<&str> {
    match plan {
        LogicalPlan::Statement(Statement::SetVariable(of)) => Some(&of.variable),
        LogicalPlan::Statement(Statement::ResetVariable(of)) => Some(&of.variable),
        _ => None,
    }
}

/// The service.
pub(crate) struct FlightSql {
    state: SharedState,
    results: Kept<Planned>,
    statements: Kept<Planned>,
    /// The last statement about each variable that a connection has set, by its address.
    settings: Kept<Arc<[Arc<LogicalPlan>]>>,
    /// Cancel handles of running statements, by the name of the result or of the prepared statement.
    running: Kept<Cancel>,
}

impl FlightSql {
    pub(crate) fn new(state: SharedState) -> Self {
        FlightSql {
            state,
            results: Kept::new(RESULT_LIFETIME),
            statements: Kept::new(STATEMENT_LIFETIME),
            settings: Kept::new(STATEMENT_LIFETIME),
            running: Kept::new(STATEMENT_LIFETIME),
        }
    }

    /// A session of the caller, for one statement or listing.
    fn session<T>(&self, request: &Request<T>) -> Result<Session, Status> {
        let user = caller::of(request)?;
        let peer = caller::peer(request)?;
        self.state.open_session(user, Protocol::Flight, Some(peer), None).map_err(refused)
    }

    /// A session with the variables that the caller has set on this connection.
    async fn session_as_set<T>(&self, request: &Request<T>) -> Result<Session, Status> {
        let session = self.session(request)?;
        let place = caller::peer(request)?.to_string();
        let set = self.settings.get(&session.user().name, place.as_bytes(), Instant::now());
        for plan in set.iter().flat_map(|set| set.iter()) {
            let set = execute_logical_plan(session.context(), plan.as_ref().clone()).await;
            set.map_err(|error| failed(error.into()))?;
        }
        Ok(session)
    }

    async fn plan<T>(&self, sql: &str, request: &Request<T>) -> Result<Planned, Status> {
        let session = self.session_as_set(request).await?;
        let sql = &with_numbered_parameters(sql);
        let reserved = Arc::new(session.reserve_plan("a prepared statement", sql).map_err(failed)?);
        let plan = Arc::new(session.plan(sql).await.map_err(failed)?);
        let user = session.user().clone();
        Ok(Planned { user, sql: sql.as_str().into(), plan, bound: Arc::default(), _reserved: reserved })
    }

    /// Keeps the variable that a statement has set for later statements of the connection.
    fn keep_settings(&self, planned: &Planned, place: SocketAddr) -> Result<(), Status> {
        let Some(set) = variable(&planned.plan) else { return Ok(()) };
        let (user, place) = (&planned.user.name, Bytes::from(place.to_string()));
        let before = self.settings.get(user, &place, Instant::now());
        let others = before.iter().flat_map(|before| before.iter());
        let others: Vec<_> = others.filter(|known| variable(known) != Some(set)).cloned().collect();
        if others.len() >= SETTINGS_MAX {
            return Err(Status::resource_exhausted(format!(
                "a connection sets at most {SETTINGS_MAX} variables: open another one"
            )));
        }
        let all = others.into_iter().chain([planned.plan.clone()]).collect();
        self.settings.keep_as(place, user, all, Instant::now());
        Ok(())
    }

    fn prepared<T>(&self, handle: &[u8], request: &Request<T>) -> Result<Planned, Status> {
        let user = caller::of(request)?;
        let found = self.statements.get(&user.name, handle, Instant::now());
        // A session has the role of its login. A user whose role has changed prepares again.
        let found = found.filter(|found| found.user.role == user.role && !found.is_ended());
        found.ok_or_else(|| {
            Status::not_found("no such prepared statement, or it has expired: prepare it again")
        })
    }
}

impl FlightSql {
    /// Runs a planned statement, which can be stopped by this name.
    async fn run<T>(&self, planned: &Planned, name: Bytes, request: &Request<T>) -> Result<Messages, Status> {
        let cancel = Cancel::default();
        self.running.keep_as(name, &planned.user.name, cancel.clone(), Instant::now());
        let session = self.session_as_set(request).await?;
        let run = Run { cancel, trace_parent: caller::trace_parent(request), ..Run::default() };
        let results = planned.run(&session, run).await?;
        self.keep_settings(planned, caller::peer(request)?)?;
        Ok(of_results(session, results, planned.schema()))
    }

    /// Runs a statement that sets variables. Clients do not fetch the rows of a statement that has none.
    async fn set_at_once<T>(&self, planned: &Planned, request: &Request<T>) -> Result<(), Status> {
        match planned.sets() {
            true => {
                let session = self.session_as_set(request).await?;
                self.update(&session, planned, caller::peer(request)?).await.map(|_| ())
            }
            false => Ok(()),
        }
    }

    /// Runs a planned statement to its end and returns the number of changed rows.
    async fn update(&self, session: &Session, planned: &Planned, place: SocketAddr) -> Result<i64, Status> {
        let count = update(planned.run(session, Run::default()).await?).await?;
        self.keep_settings(planned, place)?;
        Ok(count)
    }

    /// Stops the statements that these tickets belong to, and forgets results that were not fetched.
    fn cancel<T>(&self, info: FlightInfo, request: &Request<T>) -> Result<CancelStatus, Status> {
        let user = caller::of(request)?.name;
        let mut found = false;
        for ticket in info.endpoint.into_iter().filter_map(|endpoint| endpoint.ticket) {
            let Some(name) = ticket_name(&ticket.ticket) else { continue };
            found |= self.results.take(&user, &name, Instant::now()).is_some();
            if let Some(cancel) = self.running.take(&user, &name, Instant::now()) {
                cancel.stop(Stop::User);
                found = true;
            }
        }
        match found {
            true => Ok(CancelStatus::Cancelled),
            false => Err(Status::not_found("no such statement, or it has ended already")),
        }
    }
}

/// The name in a ticket, of a result or of a prepared statement.
fn ticket_name(ticket: &[u8]) -> Option<Bytes> {
    let any = Any::decode(ticket).ok()?;
    if let Ok(Some(result)) = any.unpack::<TicketStatementQuery>() {
        return Some(result.statement_handle);
    }
    any.unpack::<CommandPreparedStatementQuery>()
        .ok()
        .flatten()
        .map(|prepared| prepared.prepared_statement_handle)
}

type Info = Result<Response<FlightInfo>, Status>;
type Get = Result<Response<Messages>, Status>;
type ActionAnswer = Result<
    Response<Pin<Box<dyn Stream<Item = Result<arrow_flight::Result, Status>> + Send + 'static>>>,
    Status,
>;

/// The location of a result: this server, with this ticket.
fn info(schema: &Schema, ticket: Bytes, request: Request<FlightDescriptor>) -> Info {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket { ticket });
    let info =
        FlightInfo::new().try_with_schema(schema).map_err(|error| Status::internal(error.to_string()))?;
    Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(request.into_inner())))
}

/// The location of a listing, whose command is its own ticket.
fn listing_info(command: &impl ProstMessageExt, schema: &Schema, request: Request<FlightDescriptor>) -> Info {
    info(schema, command.as_any().encode_to_vec().into(), request)
}

fn batch(batch: RecordBatch) -> Get {
    Ok(Response::new(of_batch(batch)))
}

/// Runs a statement to its end and returns the number of changed rows.
async fn update(mut results: Results) -> Result<i64, Status> {
    let mut count = 0;
    while let Some(batch) = results.next().await {
        let batch = batch.map_err(failed)?;
        let counted =
            batch.column_by_name("count").and_then(|column| column.as_primitive_opt::<UInt64Type>());
        count += counted.map_or(0, |counted| counted.values().iter().sum::<u64>());
    }
    Ok(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The schema in the encoding of the answer to a preparation.
fn encoded_schema(schema: &Schema) -> Result<Bytes, Status> {
    let message = IpcMessage::try_from(SchemaAsIpc::new(schema, &IpcWriteOptions::default()));
    Ok(message.map_err(|error| Status::internal(error.to_string()))?.0)
}

/// Parameters in their order, as columns.
fn parameter_schema(plan: &LogicalPlan) -> Result<Schema, QueryError> {
    let field = |(at, of): (usize, Option<DataType>)| {
        Field::new(format!("${}", at + 1), of.unwrap_or(DataType::Utf8), true)
    };
    Ok(Schema::new(parameters_of(plan)?.into_iter().map(field).collect::<Vec<_>>()))
}

/// Reads the bound parameters: one row, with one column per parameter.
async fn bound(
    session: &Session,
    request: Request<PeekableFlightDataStream>,
) -> Result<Option<Bound>, Status> {
    let messages = request.into_inner().map_err(|status| FlightError::Tonic(Box::new(status)));
    let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
    let mut values = None;
    let wrong = |error: String| Status::invalid_argument(format!("parameters: {error}"));
    while let Some(batch) = batches.try_next().await.map_err(|error| wrong(error.to_string()))? {
        if batch.num_rows() == 0 {
            continue;
        }
        if values.is_some() || batch.num_rows() > PARAMETER_ROWS_MAX {
            return Err(Status::unimplemented("only one row of parameters can be bound at a time"));
        }
        let row = batch.columns().iter().map(|column| ScalarValue::try_from_array(column, 0));
        let row = row.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(error.to_string()))?;
        let bytes = row.iter().map(ScalarValue::size).sum();
        let reserved = session.reserve_values(bytes).map_err(failed)?;
        values = Some(Bound { values: ParamValues::from(row), _reserved: reserved });
    }
    Ok(values)
}

#[tonic::async_trait]
impl FlightSqlService for FlightSql {
    type FlightService = FlightSql;

    async fn do_handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>>, Status> {
        let user = caller::of(&request)?;
        let token = self.state.give_token(&user);
        let answer = HandshakeResponse { protocol_version: 0, payload: token.clone().into() };
        let answer: Pin<Box<dyn Stream<Item = _> + Send>> = Box::pin(futures::stream::iter([Ok(answer)]));
        let mut response = Response::new(answer);
        let bearer =
            format!("Bearer {token}").parse().map_err(|_| Status::internal("the token is no text"))?;
        response.metadata_mut().insert("authorization", bearer);
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let planned = self.plan(&query.query, &request).await?;
        self.set_at_once(&planned, &request).await?;
        let schema = planned.schema();
        let user = planned.user.name.clone();
        let handle = self.results.keep(&user, planned, Instant::now());
        let ticket = TicketStatementQuery { statement_handle: handle };
        info(&schema, ticket.as_any().encode_to_vec().into(), request)
    }

    async fn do_get_statement(&self, ticket: TicketStatementQuery, request: Request<Ticket>) -> Get {
        let user = caller::of(&request)?;
        let planned = self.results.take(&user.name, &ticket.statement_handle, Instant::now());
        let planned = planned.filter(|planned| !planned.is_ended());
        let planned = planned.ok_or_else(|| {
            Status::not_found(
                "no such result: it was fetched already or has expired; run the statement again",
            )
        })?;
        Ok(Response::new(self.run(&planned, ticket.statement_handle, &request).await?))
    }

    async fn get_flight_info_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Info {
        let planned = self.prepared(&query.prepared_statement_handle, &request)?;
        self.set_at_once(&planned, &request).await?;
        info(&planned.schema(), query.as_any().encode_to_vec().into(), request)
    }

    async fn do_get_prepared_statement(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<Ticket>,
    ) -> Get {
        let planned = self.prepared(&query.prepared_statement_handle, &request)?;
        Ok(Response::new(self.run(&planned, query.prepared_statement_handle, &request).await?))
    }

    async fn do_action_create_prepared_statement(
        &self,
        query: ActionCreatePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        let planned = self.plan(&query.query, &request).await?;
        let dataset_schema = encoded_schema(&planned.schema())?;
        let parameter_schema = encoded_schema(&parameter_schema(&planned.plan).map_err(failed)?)?;
        let user = planned.user.name.clone();
        let prepared_statement_handle = self.statements.keep(&user, planned, Instant::now());
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle,
            dataset_schema,
            parameter_schema,
        })
    }

    async fn do_action_close_prepared_statement(
        &self,
        query: ActionClosePreparedStatementRequest,
        request: Request<Action>,
    ) -> Result<(), Status> {
        let user = caller::of(&request)?;
        self.statements.take(&user.name, &query.prepared_statement_handle, Instant::now());
        Ok(())
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        request: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let info = FlightInfo::decode(query.info)
            .map_err(|_| Status::invalid_argument("the request is not a FlightInfo"))?;
        // The results of both actions have the same numbers.
        Ok(ActionCancelQueryResult { result: self.cancel(info, &request)? as i32 })
    }

    async fn do_action_fallback(&self, request: Request<Action>) -> ActionAnswer {
        if request.get_ref().r#type != CANCEL_FLIGHT_INFO {
            return Err(Status::unimplemented("no such action: ListActions has those supported"));
        }
        let asked = CancelFlightInfoRequest::decode(request.get_ref().body.clone());
        let info = asked.ok().and_then(|asked| asked.info);
        let info =
            info.ok_or_else(|| Status::invalid_argument("the request is not a CancelFlightInfoRequest"))?;
        let answer = CancelFlightInfoResult::new(self.cancel(info, &request)?);
        let answer = arrow_flight::Result { body: answer.encode_to_vec().into() };
        Ok(Response::new(Box::pin(futures::stream::iter([Ok(answer)]))))
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        let description =
            "Stops a statement. Request: CancelFlightInfoRequest. Response: CancelFlightInfoResult";
        Some(vec![Ok(ActionType {
            r#type: CANCEL_FLIGHT_INFO.to_owned(),
            description: description.to_owned(),
        })])
    }

    async fn do_put_prepared_statement_query(
        &self,
        query: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let planned = self.prepared(&query.prepared_statement_handle, &request)?;
        let values = bound(&self.session(&request)?, request).await?;
        *planned.bound.lock().unwrap_or_else(PoisonError::into_inner) = values;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(query.prepared_statement_handle) })
    }

    async fn do_put_prepared_statement_update(
        &self,
        query: CommandPreparedStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let planned = self.prepared(&query.prepared_statement_handle, &request)?;
        let (session, place) = (self.session_as_set(&request).await?, caller::peer(&request)?);
        if let Some(values) = bound(&session, request).await? {
            *planned.bound.lock().unwrap_or_else(PoisonError::into_inner) = Some(values);
        }
        self.update(&session, &planned, place).await
    }

    async fn do_put_statement_update(
        &self,
        query: CommandStatementUpdate,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        let planned = self.plan(&query.query, &request).await?;
        let session = self.session_as_set(&request).await?;
        self.update(&session, &planned, caller::peer(&request)?).await
    }

    async fn get_flight_info_catalogs(
        &self,
        query: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Info {
        caller::of(&request)?;
        listing_info(&query, &query.into_builder().schema(), request)
    }

    async fn do_get_catalogs(&self, query: CommandGetCatalogs, request: Request<Ticket>) -> Get {
        batch(listing::catalogs(query, &self.session(&request)?)?)
    }

    async fn get_flight_info_schemas(
        &self,
        query: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Info {
        caller::of(&request)?;
        listing_info(&query, &query.clone().into_builder().schema(), request)
    }

    async fn do_get_schemas(&self, query: CommandGetDbSchemas, request: Request<Ticket>) -> Get {
        batch(listing::schemas(query, &self.session(&request)?)?)
    }

    async fn get_flight_info_tables(
        &self,
        query: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Info {
        caller::of(&request)?;
        listing_info(&query, &query.clone().into_builder().schema(), request)
    }

    async fn do_get_tables(&self, query: CommandGetTables, request: Request<Ticket>) -> Get {
        let session = self.session(&request)?;
        batch(listing::tables(query, &session).await?)
    }

    async fn get_flight_info_table_types(
        &self,
        query: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Info {
        caller::of(&request)?;
        listing_info(&query, &query.into_builder().schema(), request)
    }

    async fn do_get_table_types(&self, query: CommandGetTableTypes, request: Request<Ticket>) -> Get {
        caller::of(&request)?;
        batch(listing::table_types(query)?)
    }

    async fn get_flight_info_sql_info(
        &self,
        query: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Info {
        caller::of(&request)?;
        listing_info(&query, &listing::sql_info(query.clone())?.schema(), request)
    }

    async fn do_get_sql_info(&self, query: CommandGetSqlInfo, request: Request<Ticket>) -> Get {
        caller::of(&request)?;
        batch(listing::sql_info(query)?)
    }

    async fn register_sql_info(&self, _id: i32, _result: &SqlInfo) {}
}
