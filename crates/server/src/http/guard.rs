//! Authentication of requests, and protection against requests that pages of other sites cause.
//!
//! With users, every request except those for health needs a password (Basic) or a token (Bearer). A browser adds a
//! known password to every request to a server, also to requests that another site's page causes. Requests that
//! change something therefore need a header that only scripts of this page can set, and must not come from another
//! site. Without users, the host in the address has to be this machine, or one of `http-host`. Otherwise a page of another
//! site could point its own host name to this machine's address and read everything.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Http;
use crate::access::{AccessError, User};
use crate::sql::Protocol;

/// The header of requests that change something.
pub(crate) const OWN: &str = "x-coscan";

/// The path of the metrics. They have names of users, but no statements and no data, and collectors use any host name.
pub(crate) const METRICS: &str = "/metrics";

/// The user of all requests without authentication.
const ANYBODY: &str = "coscan";

/// The address of a request's client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Admits a request, with its user and its client's address as extensions.
pub(crate) async fn admit(State(http): State<Arc<Http>>, mut request: Request, next: Next) -> Response {
    let nowhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map_or(nowhere, |info| info.0);
    let asks_who = http.state.config().asks_who();
    let own_name = names_this_machine(request.headers(), &http.state.config().http_hosts);
    if !asks_who && request.uri().path() != METRICS && !own_name {
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "open the page as localhost, by the server's IP address, or by a name of --http-host: without users, other host names \
             are refused",
        );
    }
    if request.method() != Method::GET && request.method() != Method::HEAD && !is_own(request.headers()) {
        return refuse(
            StatusCode::FORBIDDEN,
            "requests that change something need the header x-coscan and must not come from a page of another origin",
        );
    }
    match who(&http, request.headers(), peer).await {
        Ok(user) => {
            if let Err(error) = http.state.admitted(&request, &user, peer, Protocol::Http) {
                return refused(&error);
            }
            request.extensions_mut().insert(user);
            request.extensions_mut().insert(Peer(peer));
            next.run(request).await
        }
        Err(error) => refused(&error),
    }
}

async fn who(http: &Http, headers: &HeaderMap, peer: SocketAddr) -> Result<User, AccessError> {
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if !http.state.config().asks_who() {
        return http.state.log_in_anonymous(ANYBODY);
    }
    let shown = shown.ok_or(AccessError::Missing)?;
    match shown.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
            http.state.log_in_by_token(token.trim(), peer)
        }
        Some((scheme, proof)) if scheme.eq_ignore_ascii_case("basic") => {
            let malformed = || {
                AccessError::Malformed(
                    "the authorization header must be: Basic base64(name:password)".to_owned(),
                )
            };
            let text = STANDARD.decode(proof.trim()).map_err(|_| malformed())?;
            let text = String::from_utf8(text).map_err(|_| malformed())?;
            let (name, password) = text.split_once(':').ok_or_else(malformed)?;
            http.state.log_in(name, Some(password), peer).await
        }
        _ => Err(AccessError::Missing),
    }
}

fn refused(error: &AccessError) -> Response {
    let status = match error {
        AccessError::TooOften(_) => StatusCode::TOO_MANY_REQUESTS,
        AccessError::ShuttingDown | AccessError::NoRoom(_) | AccessError::NoAudit => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        AccessError::TooManyConnections { .. } => StatusCode::TOO_MANY_REQUESTS,
        AccessError::Malformed(_) => StatusCode::BAD_REQUEST,
        _ => StatusCode::UNAUTHORIZED,
    };
    let mut response = refuse(status, &error.to_string());
    let headers = response.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        let asks = HeaderValue::from_static("Basic realm=\"coscan\", charset=\"UTF-8\"");
        headers.insert(header::WWW_AUTHENTICATE, asks);
    }
    if let AccessError::TooOften(seconds) = error {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
    }
    response
}

fn refuse(status: StatusCode, why: &str) -> Response {
    (status, format!("{why}\n")).into_response()
}

/// Returns true if a script of this page sent the request, as far as the browser states it. Other programs set the
/// header on purpose.
fn is_own(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text("sec-fetch-site").is_none_or(|site| site == "same-origin");
    let origin = text("origin").is_none_or(|origin| {
        let host = origin.split_once("://").map(|(_, host)| host);
        host.is_some() && host == text("host")
    });
    headers.contains_key(OWN) && site && origin
}

/// Returns true if the request's host is an IP address, this machine, or one of the server's host names.
fn names_this_machine(headers: &HeaderMap, hosts: &[String]) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let is_host = |host: &String| host.eq_ignore_ascii_case(name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok() || hosts.iter().any(is_host)
}

/// Adds headers to every answer: nothing from other sites, nothing inline, and no framing.
pub(crate) async fn harden(mut response: Response) -> Response {
    const SAID: [(header::HeaderName, &str); 5] = [
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::VARY, "Authorization"),
    ];
    for (name, value) in SAID {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if !response.headers().contains_key(header::CACHE_CONTROL) {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn pages_of_others_cannot_change_anything() {
        let own = |pairs: &[(&'static str, &str)]| is_own(&headers(pairs));
        assert!(own(&[("x-coscan", "1")]), "curl");
        assert!(own(&[
            ("x-coscan", "1"),
            ("host", "a:1"),
            ("origin", "https://a:1"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(!own(&[("host", "a:1"), ("origin", "http://a:1")]), "a form has no such header");
        assert!(!own(&[("x-coscan", "1"), ("host", "a:1"), ("origin", "http://b:1")]));
        assert!(!own(&[("x-coscan", "1"), ("host", "a:1"), ("origin", "null")]));
        assert!(!own(&[("x-coscan", "1"), ("sec-fetch-site", "same-site")]));
    }

    #[test]
    fn a_name_that_anybody_can_own_is_not_this_machine() {
        let hosts = ["Stats.example".to_owned()];
        let ours = |host: &str| names_this_machine(&headers(&[("host", host)]), &hosts);
        for host in [
            "stats.example:5433",
            "localhost",
            "LOCALHOST:5433",
            "127.0.0.1:1",
            "[::1]:5433",
            "10.1.2.3",
            "192.168.0.1:80",
        ] {
            assert!(ours(host), "{host}");
        }
        for host in ["evil.example", "evil.example:5433", "localhost.evil.example:1", "[evil]:1", ""] {
            assert!(!ours(host), "{host}");
        }
    }
}
