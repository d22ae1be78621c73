//! The client of a store. It sends requests and repeats those that may succeed later.
//!
//! [`may_be_repeated`] is the table of repetitions. Requests of the engine are sent once. The engine repeats
//! them within the deadline of the read, and gets status and pause by the [`Answer`] in the request. All other
//! requests go through the [`Gate`]. Their waits there, and refusals while the store answers other requests,
//! count neither as attempts nor as time.
//!
//! Errors name all of their causes, such as an unknown certificate. Refusals in XML are cut to their code and message. A machine
//! that is asked for its role, because the environment has no credentials, may have none: the error says what to set.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use coscan_engine::{Answer, is_refusal_for_now, may_be_repeated};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientOptions, GetOptions, Result, RetryConfig};

use super::gate::Gate;
use super::pause;

/// The address at which a machine of a cloud is asked for its role.
const MACHINE: &str = "169.254.169.254";
/// It is asked at most this often, because most machines have none.
const MACHINE_ATTEMPTS: u32 = 2;
const NO_ACCESS: &str = "the environment has no credentials for the store, and this machine has no role: set \
                         AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket";

/// A connector whose clients repeat the requests of the inner connector's clients.
#[derive(Debug)]
pub(crate) struct Repeating<C>(pub(crate) C);

impl<C: HttpConnector> HttpConnector for Repeating<C> {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        Ok(HttpClient::new(RepeatingService::new(self.0.connect(options)?)))
    }
}

/// The retry configuration of a store whose client repeats requests: no retries.
pub(crate) fn no_other_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// The status of the last answer to a request of this store, which is repeated as usual.
#[derive(Clone, Debug, Default)]
pub(super) struct Noted(Arc<Answer>);

impl Noted {
    /// Adds a record to a request with these options.
    pub(super) fn of(options: &mut GetOptions) -> Self {
        let noted = Noted::default();
        options.extensions.insert(noted.clone());
        noted
    }

    pub(super) fn status(&self) -> Option<u16> {
        self.0.status()
    }
}

#[derive(Debug)]
struct RepeatingService {
    inner: HttpClient,
    gate: Gate,
}

impl RepeatingService {
    fn new(inner: HttpClient) -> Self {
        RepeatingService { inner, gate: Gate::new() }
    }
}

#[async_trait]
impl HttpService for RepeatingService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = request.extensions().get::<Answer>().cloned();
        let noted = request.extensions().get::<Noted>().cloned();
        let of_machine = request.uri().host() == Some(MACHINE);
        let attempts = if of_machine { MACHINE_ATTEMPTS } else { pause::ATTEMPTS };
        let (mut failures, mut taken) = (0, Duration::ZERO);
        loop {
            let pass = if answer.is_none() { Some(self.gate.enter().await) } else { None };
            let (sent, answered) = (Instant::now(), self.gate.answered());
            let outcome = self.inner.execute(request.clone()).await;
            let (again, asked, refused) = match &outcome {
                Ok(response) => {
                    let asked = retry_after(response);
                    let status = response.status().as_u16();
                    let noting = answer.as_ref().into_iter().chain(noted.as_ref().map(|noted| &*noted.0));
                    noting.for_each(|answer| answer.note(status, asked));
                    (may_be_repeated(status), asked, is_refusal_for_now(status))
                }
                Err(error) => (is_passing(error), None, false),
            };
            if refused {
                pass.iter().for_each(|pass| pass.refuse(sent));
                asked.into_iter().for_each(|asked| self.gate.close(asked));
            } else if outcome.is_ok() {
                self.gate.answer();
                pass.iter().for_each(|pass| pass.answer(sent));
            }
            drop(pass);
            let counts = !refused || self.gate.answered() == answered;
            if counts {
                failures += 1;
                taken += sent.elapsed();
            }
            let pause = pause::after(failures).max(asked.unwrap_or(Duration::ZERO));
            let is_last = answer.is_some() || failures >= attempts || taken + pause >= pause::PATIENCE;
            if !again || is_last {
                return match outcome {
                    Ok(answer) if of_machine && !answer.status().is_success() => {
                        Ok(answer.map(|_| NO_ACCESS.to_owned().into()))
                    }
                    Err(error) if of_machine => Err(with_advice(NO_ACCESS, error)),
                    Ok(answer) if answer.status().is_client_error() || answer.status().is_server_error() => {
                        in_short(answer).await
                    }
                    outcome => outcome.map_err(with_causes),
                };
            }
            tracing::debug!(uri = %request.uri(), ?pause, "the store fails, asking again");
            tokio::time::sleep(pause).await;
            taken += if counts { pause } else { Duration::ZERO };
        }
    }
}

/// Returns whether another connection may succeed. Writes do not come here, because they have a client of
/// their own.
fn is_passing(error: &HttpError) -> bool {
    use HttpErrorKind::{Connect, Interrupted, Request, Timeout};
    let is_final = |cause: &(dyn Error + 'static)| cause.downcast_ref().is_some_and(is_invalid);
    matches!(error.kind(), Connect | Request | Timeout | Interrupted) && !causes(error).any(is_final)
}

/// Whether the other side sent something invalid, such as a certificate that is not accepted. An error may be wrapped in others.
fn is_invalid(error: &io::Error) -> bool {
    let wrapped = error.get_ref().and_then(|inner| inner.downcast_ref());
    error.kind() == io::ErrorKind::InvalidData || wrapped.is_some_and(is_invalid)
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// An error that shows its causes, of which `reqwest` shows only the first, behind what to do.
#[derive(Debug)]
struct Caused {
    advice: &'static str,
    error: HttpError,
}

impl fmt::Display for Caused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let causes: Vec<String> = causes(&self.error).map(ToString::to_string).collect();
        let causes = causes.join(": ");
        match self.advice {
            "" => f.write_str(&causes),
            advice => write!(f, "{advice} ({causes})"),
        }
    }
}

impl Error for Caused {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

fn with_causes(error: HttpError) -> HttpError {
    with_advice("", error)
}

fn with_advice(advice: &'static str, error: HttpError) -> HttpError {
    HttpError::new(error.kind(), Caused { advice, error })
}

/// Cuts the XML of a refusal, which may have several kilobytes, to its code and message.
async fn in_short(response: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (head, body) = response.into_parts();
    let body = body.bytes().await.map_err(with_causes)?;
    let text = String::from_utf8_lossy(&body);
    let short = content(&text, "Code").zip(content(&text, "Message"));
    let short = short.map(|(code, message)| format!("{code}: {message}").into());
    Ok(HttpResponse::from_parts(head, short.unwrap_or(body).into()))
}

/// The content of the first element with this name.
fn content<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(content, _)| content)
}

fn retry_after(response: &HttpResponse) -> Option<Duration> {
    pause::asked_for(response.headers().get("retry-after")?.to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use object_store::client::HttpRequestBody;

    use super::*;

    /// A machine without a role: nothing answers, or an answer with this status.
    #[derive(Debug)]
    struct Nothing(Option<u16>);

    #[async_trait]
    impl HttpService for Nothing {
        async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
            let Some(status) = self.0 else {
                let refused = io::Error::new(io::ErrorKind::ConnectionRefused, "no listener");
                return Err(HttpError::new(HttpErrorKind::Connect, refused));
            };
            let mut answer =
                HttpResponse::new("<Error><Code>A</Code><Message>b</Message></Error>".to_owned().into());
            *answer.status_mut() = status.try_into().expect("a status");
            Ok(answer)
        }
    }

    async fn asked(address: &str, status: Option<u16>) -> Result<String, HttpError> {
        let service = RepeatingService::new(HttpClient::new(Nothing(status)));
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.uri_mut() = address.parse().expect(address);
        let body = service.call(request).await?.into_body().bytes().await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn missing_credentials_are_said() {
        let address = "http://169.254.169.254/latest/api/token";
        assert_eq!(asked(address, Some(404)).await.expect("an answer"), NO_ACCESS);
        let error = asked(address, None).await.expect_err("no answer").to_string();
        assert!(error.contains(NO_ACCESS) && error.contains("no listener"), "{error}");
    }

    #[tokio::test]
    async fn refusals_are_short() {
        for status in [403, 501] {
            assert_eq!(asked("http://store/bucket/file", Some(status)).await.expect("an answer"), "A: b");
        }
    }
}
