//! Start of a connection: version, parameters, login, session.

use std::io;
use std::net::SocketAddr;

use futures::SinkExt;
use pgwire::api::auth::sasl::{SCRAM_SHA_256_METHOD, SCRAM_SHA_256_PLUS_METHOD};
use pgwire::api::auth::{
    DefaultServerParameterProvider, finish_authentication, protocol_negotiation,
    save_startup_parameters_to_metadata,
};
use pgwire::api::{ClientInfo, PgWireConnectionState};
use pgwire::error::{PgWireError, PgWireResult};
use pgwire::messages::startup::{Authentication, PasswordMessageFamily};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};

use super::error::{error_message, fatal, info};
use super::layout;
use super::socket::{NOT_ENCRYPTED, Received, Socket, receive};
use crate::access::{AccessError, Binding, ScramExchange, User};
use crate::sql::{POSTGRES_VERSION, Protocol, Session, settings, time_zone};
use crate::state::{SharedState, State};
use crate::transport::Counted;

/// Maximum length of the name of a database. A client may ask for any name.
const NAME_CHARS_MAX: usize = 63;

/// Admits a client. `None` for a cancel request, and for a refused client, which got an error message.
pub(crate) async fn start(
    socket: &mut Socket,
    peer: SocketAddr,
    state: &SharedState,
    refused: Option<String>,
    counted: &Counted,
) -> io::Result<Option<Session>> {
    let first = match receive(socket).await {
        Some(Ok(first)) => first.message(),
        Some(Err(error @ PgWireError::UserError(_))) => Err(error),
        Some(Err(error)) => return Err(io::Error::other(error)),
        None => return Ok(None),
    };
    if let Ok(PgWireFrontendMessage::CancelRequest(request)) = &first {
        state.cancel_keys().cancel(request);
        return Ok(None);
    }
    let begun = match first {
        Ok(first) => begin(socket, first, peer, state, refused, counted).await,
        Err(error) => Err(error),
    };
    match begun {
        Ok(session) => Ok(Some(session)),
        Err(error) => {
            // As a text, so that line breaks in names are escaped.
            tracing::info!(%peer, error = error.to_string(), "a client was not let in");
            let mut info = info(error, "");
            info.severity = "FATAL".to_owned();
            socket.send(error_message(info)).await?;
            Ok(None)
        }
    }
}

async fn begin(
    socket: &mut Socket,
    first: PgWireFrontendMessage,
    peer: SocketAddr,
    state: &SharedState,
    refused: Option<String>,
    counted: &Counted,
) -> PgWireResult<Session> {
    let PgWireFrontendMessage::Startup(startup) = first else {
        return Err(fatal("08P01", "the first message must be a startup message"));
    };
    protocol_negotiation(socket, &startup).await?;
    save_startup_parameters_to_metadata(socket, &startup);
    if let Some(why) = refused {
        let not_encrypted = why == NOT_ENCRYPTED;
        return Err(fatal(if not_encrypted { "28000" } else { "53300" }, why));
    }
    let named = |key: &str| startup.parameters.get(key).filter(|name| !name.is_empty());
    let name = named("user").ok_or_else(|| fatal("28000", "the startup message has no user name"))?;
    let database = named("database").unwrap_or(name);
    if [name, database].iter().any(|name| name.chars().count() > NAME_CHARS_MAX) {
        return Err(fatal("42622", "names of users and databases can have at most 63 characters"));
    }
    if named("replication").is_some_and(|value| !matches!(value.as_str(), "false" | "off" | "0" | "no")) {
        return Err(fatal("0A000", "replication connections are not supported"));
    }
    socket.set_state(PgWireConnectionState::AuthenticationInProgress);
    let user = if state.config().asks_who() {
        proved(socket, name, peer, state).await?
    } else {
        state.log_in_anonymous(name)?
    };
    counted.log_in(&user).map_err(AccessError::NoRoom)?;
    state.audit_login(&user, peer, Protocol::Postgres)?;
    let session = state.open_session(user, Protocol::Postgres, Some(peer), Some(database))?;
    set_up(socket, &session, settings::of_startup(&startup.parameters)?).await?;
    let (number, secret) = state.cancel_keys().add(socket, session.entry());
    session.set_number(number);
    socket.set_pid_and_secret_key(number, secret);
    let mut parameters = DefaultServerParameterProvider::default();
    parameters.server_version = POSTGRES_VERSION.to_owned();
    parameters.is_superuser = session.user().role.admin;
    let shown = |variable: &str| settings::show(socket.metadata(), variable);
    parameters.time_zone = shown("timezone")?;
    parameters.date_style = shown("datestyle")?;
    parameters.interval_style = shown("intervalstyle")?;
    parameters.default_transaction_read_only = shown("default_transaction_read_only")? == "on";
    parameters.application_name = Some(shown("application_name")?);
    finish_authentication(socket, &parameters).await?;
    Ok(session)
}

/// Sets the variables of the startup message, and those about the user. Unknown time zones, which drivers send on their
/// own, are ignored.
async fn set_up(
    socket: &mut Socket,
    session: &Session,
    variables: Vec<(String, String)>,
) -> PgWireResult<()> {
    for (variable, value) in variables {
        if settings::is_of_engine(&variable) {
            // A variable of the query engine. Invalid names fail to parse.
            let set = format!("SET {variable} = '{}'", value.replace('\'', "''"));
            session.query(&set).await?;
            continue;
        }
        if variable == "timezone" {
            let Ok(zone) = time_zone(&value) else {
                socket.metadata_mut().remove(&variable);
                continue;
            };
            session.set_time_zone(&zone)?;
        }
        settings::set(socket.metadata_mut(), &variable, &value)?;
        if variable == "application_name" {
            session.entry().set_application(&value);
        }
    }
    let user = session.user();
    let is_superuser = if user.role.admin { "on" } else { "off" };
    let about_user = [("is_superuser", is_superuser), ("session_authorization", &*user.name)];
    let about_user = about_user.map(|(name, value)| (name.to_owned(), value.to_owned()));
    socket.metadata_mut().extend(about_user);
    session.variables().put(socket.metadata());
    Ok(())
}

/// The exchange that proves a password.
async fn proved(socket: &mut Socket, name: &str, peer: SocketAddr, state: &State) -> PgWireResult<User> {
    state.may_try(peer, name)?;
    let end_point = socket.get_ref().channel().end_point();
    // The better method comes first.
    let offered: &[&str] = match end_point {
        Some(_) => &[SCRAM_SHA_256_PLUS_METHOD, SCRAM_SHA_256_METHOD],
        None => &[SCRAM_SHA_256_METHOD],
    };
    let offered = Authentication::SASL(offered.iter().map(|&method| method.to_owned()).collect());
    socket.send(PgWireBackendMessage::Authentication(offered)).await?;
    let first = answer(socket).await?;
    if let PasswordMessageFamily::Raw(content) = &first {
        layout::check_first_of_scram(content)?;
    }
    let first = first.into_sasl_initial_response()?;
    let binding = match (first.auth_method.as_str(), &end_point) {
        (SCRAM_SHA_256_PLUS_METHOD, Some(hash)) => Binding::EndPoint(hash),
        (SCRAM_SHA_256_METHOD, Some(_)) => Binding::Declined,
        (SCRAM_SHA_256_METHOD, None) => Binding::NotOffered,
        (other, _) => {
            return Err(
                AccessError::Malformed(format!("the server does not offer the mechanism {other}")).into()
            );
        }
    };
    let (verifier, user) = state.users().find(name);
    let first =
        first.data.ok_or_else(|| AccessError::Malformed("the first message of SCRAM is empty".to_owned()))?;
    let (exchange, challenge) = ScramExchange::begin(verifier, &first, binding)?;
    let challenge = Authentication::SASLContinue(challenge.into());
    socket.send(PgWireBackendMessage::Authentication(challenge)).await?;
    let last = answer(socket).await?.into_sasl_response()?;
    // Checked again, so that concurrent logins cannot avoid the wait.
    state.may_try(peer, name)?;
    match (exchange.finish(&last.data)?, user) {
        (Some(proof), Some(user)) => {
            state.proved(&user, peer);
            let proof = Authentication::SASLFinal(proof.into());
            socket.feed(PgWireBackendMessage::Authentication(proof)).await?;
            Ok(user)
        }
        _ => Err(state.refused(name, peer).into()),
    }
}

async fn answer(socket: &mut Socket) -> PgWireResult<PasswordMessageFamily> {
    match receive(socket).await {
        Some(Ok(Received::Message(PgWireFrontendMessage::PasswordMessageFamily(answer)))) => Ok(answer),
        Some(Ok(_)) => Err(AccessError::Malformed("expected a password message".to_owned()).into()),
        Some(Err(error)) => Err(error),
        None => Err(PgWireError::IoError(io::ErrorKind::UnexpectedEof.into())),
    }
}
