//! The client of a store. It sends requests and repeats those that may succeed later.
//!
//! [`may_be_repeated`] is the table of repetitions. Requests of the engine are sent once. The engine repeats
//! them within the deadline of the read, and gets status and pause by the [`Answer`] in the request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use coscan_engine::{Answer, may_be_repeated};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientOptions, GetOptions, Result, RetryConfig};

use super::pause;

/// A connector whose clients repeat the requests of the inner connector's clients.
#[derive(Debug)]
pub(crate) struct Repeating<C>(pub(crate) C);

impl<C: HttpConnector> HttpConnector for Repeating<C> {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        Ok(HttpClient::new(RepeatingService(self.0.connect(options)?)))
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
struct RepeatingService(HttpClient);

#[async_trait]
impl HttpService for RepeatingService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let answer = request.extensions().get::<Answer>().cloned();
        let noted = request.extensions().get::<Noted>().cloned();
        let until = Instant::now() + pause::PATIENCE;
        let mut failures = 0;
        loop {
            let outcome = self.0.execute(request.clone()).await;
            let (again, asked) = match &outcome {
                Ok(response) => {
                    let asked = retry_after(response);
                    let status = response.status().as_u16();
                    let noting = answer.as_ref().into_iter().chain(noted.as_ref().map(|noted| &*noted.0));
                    noting.for_each(|answer| answer.note(status, asked));
                    (may_be_repeated(status), asked)
                }
                Err(error) => (is_passing(error.kind()), None),
            };
            failures += 1;
            if !again || answer.is_some() || failures >= pause::ATTEMPTS {
                return outcome;
            }
            let pause = pause::after(failures).max(asked.unwrap_or(Duration::ZERO));
            if Instant::now() + pause >= until {
                return outcome;
            }
            tracing::debug!(uri = %request.uri(), ?pause, "the store fails, asking again");
            tokio::time::sleep(pause).await;
        }
    }
}

/// Returns whether another connection may succeed. Writes do not come here, because they have a client of
/// their own.
fn is_passing(kind: HttpErrorKind) -> bool {
    matches!(
        kind,
        HttpErrorKind::Connect | HttpErrorKind::Request | HttpErrorKind::Timeout | HttpErrorKind::Interrupted
    )
}

fn retry_after(response: &HttpResponse) -> Option<Duration> {
    pause::asked_for(response.headers().get("retry-after")?.to_str().ok()?)
}
