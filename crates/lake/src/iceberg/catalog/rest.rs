//! A catalog behind Iceberg's REST protocol.
//!
//! The server's answers are bounded. A request that the server refuses for a while is sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, plan_err};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::{Entries, Entry, Namespace};
use crate::catalog::address::Address;
use crate::iceberg::metadata::Metadata;

/// The longest answer.
const ANSWER_BYTES: usize = 256 << 20;

/// Pages of a list.
const PAGES: usize = 10_000;

/// The deepest namespace.
const LEVELS: usize = 16;

/// Attempts of one request, and the wait after the first one.
const ATTEMPTS: u32 = 5;
const WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(10);

const CONNECT: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(60);

/// Characters of a part of a path that are sent as they are.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A server that speaks the protocol.
pub(super) struct RestCatalog {
    client: Client,
    /// The address for people.
    shown: String,
    /// The URL before `/v1`.
    base: String,
    /// The part of paths after `/v1/`, with a slash at its end.
    prefix: String,
    /// What separates the levels of a namespace in a path, encoded.
    separator: String,
    login: Login,
    /// Settings of stores, from the address and from the server.
    of_stores: BTreeMap<String, String>,
}

impl fmt::Debug for RestCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestCatalog").field("server", &self.shown).finish_non_exhaustive()
    }
}

/// What a client shows to the server.
struct Login {
    /// `ID:SECRET` or a secret, which a server exchanges for a token.
    credential: Option<String>,
    /// The URL that exchanges it.
    server: Option<String>,
    scope: String,
    token: Mutex<Option<Token>>,
}

struct Token {
    text: String,
    /// The time after which it is exchanged again.
    until: Option<Instant>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    defaults: BTreeMap<String, Option<String>>,
    #[serde(default)]
    overrides: BTreeMap<String, Option<String>>,
}

#[derive(Deserialize)]
struct Exchanged {
    access_token: String,
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Namespaces {
    namespaces: Vec<Namespace>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Tables {
    identifiers: Vec<Named>,
    next_page_token: Option<String>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Loaded {
    metadata_location: Option<String>,
    metadata: Metadata,
    #[serde(default)]
    config: BTreeMap<String, String>,
    #[serde(default)]
    storage_credentials: Vec<Credentials>,
}

#[derive(Deserialize)]
struct Credentials {
    prefix: String,
    config: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Refused {
    error: RefusedBecause,
}

#[derive(Deserialize)]
struct RefusedBecause {
    message: String,
}

impl RestCatalog {
    /// Asks the server for its settings.
    pub(super) async fn open(mut address: Address) -> Result<Self> {
        let shown = address.shown();
        let mut headers = HeaderMap::new();
        headers.insert("X-Iceberg-Access-Delegation", HeaderValue::from_static("vended-credentials"));
        for (option, value) in address.take_all("header.") {
            let name = HeaderName::try_from(&option["header.".len()..]);
            let (Ok(name), Ok(mut value)) = (name, HeaderValue::try_from(value)) else {
                return plan_err!("{option} is no header");
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let client = Client::builder().connect_timeout(CONNECT).read_timeout(ANSWER).default_headers(headers);
        let client = client.build().map_err(|error| DataFusionError::External(Box::new(error)))?;
        let token = address.take("token").map(|text| Token { text, until: None });
        let login = Login {
            credential: address.take("credential"),
            server: address.take("oauth2-server-uri"),
            scope: address.take("scope").unwrap_or_else(|| "catalog".to_owned()),
            token: Mutex::new(token),
        };
        let warehouse = address.take("warehouse");
        let prefix = address.take("prefix");
        let mut of_stores = BTreeMap::new();
        for start in ["s3.", "client.", "adls."] {
            of_stores.append(&mut address.take_all(start));
        }
        address.end(
            "warehouse, token, credential, scope, oauth2-server-uri, prefix, refresh, and those that begin with header., s3., \
             client. and adls.",
        )?;
        let base = address.url.as_str().trim_end_matches('/').to_owned();
        let base = base.strip_suffix("/v1").unwrap_or(&base).to_owned();
        let mut catalog = RestCatalog {
            client,
            shown,
            base,
            prefix: String::new(),
            separator: "%1F".to_owned(),
            login,
            of_stores,
        };
        let query: Vec<(&str, &str)> = warehouse.iter().map(|name| ("warehouse", name.as_str())).collect();
        let config = catalog.get("config", &query).await?;
        let config: Config = catalog.read(config.as_deref())?;
        catalog.apply(config, prefix)?;
        Ok(catalog)
    }

    /// Applies the settings of the server.
    fn apply(&mut self, config: Config, prefix: Option<String>) -> Result<()> {
        let mut settings: BTreeMap<String, String> = BTreeMap::new();
        settings.extend(config.defaults.into_iter().filter_map(|(name, value)| Some((name, value?))));
        settings.append(&mut self.of_stores);
        settings.extend(prefix.map(|prefix| ("prefix".to_owned(), prefix)));
        settings.extend(config.overrides.into_iter().filter_map(|(name, value)| Some((name, value?))));
        if settings.get("rest.sigv4-enabled").is_some_and(|value| value == "true") {
            return plan_err!(
                "{} wants requests signed by AWS (rest.sigv4-enabled), which is not done yet",
                self.shown
            );
        }
        if let Some(prefix) = settings.get("prefix").filter(|prefix| !prefix.is_empty()) {
            self.prefix = format!("{}/", prefix.trim_matches('/'));
        }
        if let Some(uri) = settings.get("uri") {
            let uri = uri.trim_end_matches('/');
            self.base = uri.strip_suffix("/v1").unwrap_or(uri).to_owned();
        }
        if let Some(separator) = settings.get("namespace-separator") {
            self.separator.clone_from(separator);
        }
        self.of_stores = settings;
        Ok(())
    }

    /// Returns the answer to a GET below `/v1/`; `None` if there is no such thing.
    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Option<Bytes>> {
        let request = || self.client.get(format!("{}/v1/{path}", self.base)).query(query);
        match self.answer(request, true).await? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (status, body) if status.is_success() => Ok(Some(body)),
            (status, body) => Err(self.refused(status, &body)),
        }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> DataFusionError {
        let said = match serde_json::from_slice::<Refused>(body) {
            Ok(refused) => refused.error.message,
            Err(_) => String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned(),
        };
        exec_datafusion_err!("the catalog {} refuses ({status}): {said}", self.shown)
    }

    fn failed(&self, error: reqwest::Error) -> DataFusionError {
        DataFusionError::External(Box::new(error.without_url()))
            .context(format!("the catalog {}", self.shown))
    }

    /// Sends a request, again if the server asks for it or the connection was lost. Requests change nothing.
    async fn answer(
        &self,
        request: impl Fn() -> RequestBuilder,
        with_token: bool,
    ) -> Result<(StatusCode, Bytes)> {
        let mut wait = WAIT;
        let mut asked_again = false;
        for attempt in 1.. {
            let mut request = request();
            if with_token && let Some(token) = self.token(asked_again).await? {
                request = request.header(AUTHORIZATION, token);
            }
            let last = attempt >= ATTEMPTS;
            let answer = match request.send().await {
                Ok(answer) => answer,
                Err(error) if last || error.is_builder() => return Err(self.failed(error)),
                Err(_) => {
                    tokio::time::sleep(wait).await;
                    wait *= 2;
                    continue;
                }
            };
            let status = answer.status();
            // A token may end earlier than the server said.
            let unknown = matches!(status.as_u16(), 401 | 419);
            if unknown && with_token && !asked_again && self.login.credential.is_some() {
                asked_again = true;
                continue;
            }
            let later = matches!(status.as_u16(), 429 | 502 | 503 | 504);
            if later && !last {
                let told =
                    answer.headers().get(RETRY_AFTER).and_then(|told| told.to_str().ok()?.parse().ok());
                let told = told.map_or(wait, Duration::from_secs);
                tokio::time::sleep(told.min(LONGEST_WAIT)).await;
                wait *= 2;
                continue;
            }
            return Ok((status, self.body(answer).await?));
        }
        exec_err!("the catalog {} did not answer", self.shown)
    }

    async fn body(&self, mut answer: reqwest::Response) -> Result<Bytes> {
        let mut body = BytesMut::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.failed(error))? {
            if body.len() + chunk.len() > ANSWER_BYTES {
                return exec_err!("the catalog {} sends more than {ANSWER_BYTES} bytes", self.shown);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.freeze())
    }

    /// The value of the header, if the server wants one.
    async fn token(&self, renew: bool) -> Result<Option<HeaderValue>> {
        let mut token = self.login.token.lock().await;
        let ended = token
            .as_ref()
            .is_none_or(|token| renew || token.until.is_some_and(|until| Instant::now() >= until));
        if let Some(credential) = self.login.credential.as_ref().filter(|_| ended) {
            *token = Some(Box::pin(self.exchange(credential)).await?);
        }
        let Some(token) = &*token else { return Ok(None) };
        let mut header = HeaderValue::try_from(format!("Bearer {}", token.text))
            .map_err(|_| exec_datafusion_err!("the token for {} is no text of a header", self.shown))?;
        header.set_sensitive(true);
        Ok(Some(header))
    }

    /// Exchanges a credential for a token (OAuth 2, client credentials).
    async fn exchange(&self, credential: &str) -> Result<Token> {
        let server = self.login.server.clone().unwrap_or_else(|| format!("{}/v1/oauth/tokens", self.base));
        let (id, secret) = match credential.split_once(':') {
            Some((id, secret)) => (Some(id), secret),
            None => (None, credential),
        };
        let mut form = vec![
            ("grant_type", "client_credentials"),
            ("client_secret", secret),
            ("scope", &self.login.scope),
        ];
        form.extend(id.map(|id| ("client_id", id)));
        let (status, body) = self.answer(|| self.client.post(&server).form(&form), false).await?;
        if !status.is_success() {
            return Err(self.refused(status, &body).context("the credential is not accepted"));
        }
        let exchanged: Exchanged = self.read(Some(&body))?;
        // Renewed before its end, so that no request meets it.
        let until = exchanged.expires_in.map(|seconds| Instant::now() + Duration::from_secs(seconds) * 4 / 5);
        Ok(Token { text: exchanged.access_token, until })
    }

    fn read<'a, T: Deserialize<'a>>(&self, body: Option<&'a [u8]>) -> Result<T> {
        let Some(body) = body else {
            return exec_err!("{} has no catalog: there is nothing at {}/v1", self.shown, self.base);
        };
        serde_json::from_slice(body).map_err(|error| {
            DataFusionError::External(Box::new(error))
                .context(format!("the catalog {} gives no answer of the protocol", self.shown))
        })
    }

    fn path(&self, namespace: &Namespace) -> String {
        let levels: Vec<String> =
            namespace.iter().map(|level| utf8_percent_encode(level, PLAIN).to_string()).collect();
        format!("{}namespaces/{}", self.prefix, levels.join(&self.separator))
    }

    /// Reads all pages of a list. `read` returns the token of the next page. Returns whether the thing exists.
    async fn pages(
        &self,
        path: &str,
        query: &[(&str, &str)],
        mut read: impl FnMut(&[u8]) -> Result<Option<String>>,
    ) -> Result<bool> {
        // An empty token asks for pages.
        let mut token = String::new();
        for _ in 0..PAGES {
            let mut query = query.to_vec();
            query.push(("pageToken", &token));
            let Some(page) = self.get(path, &query).await? else { return Ok(false) };
            match read(&page)?.filter(|next| !next.is_empty()) {
                Some(next) => token = next,
                None => return Ok(true),
            }
        }
        exec_err!("the catalog {} sends more than {PAGES} pages", self.shown)
    }
}

#[async_trait]
impl Entries for RestCatalog {
    async fn namespaces(&self) -> Result<BTreeSet<Namespace>> {
        let mut found: BTreeSet<Namespace> = BTreeSet::new();
        let mut left: Vec<Namespace> = vec![Vec::new()];
        while let Some(outer) = left.pop() {
            let parent = outer.join("\u{1f}");
            let query: &[_] = if outer.is_empty() { &[] } else { &[("parent", parent.as_str())] };
            let path = format!("{}namespaces", self.prefix);
            let read = |page: &[u8]| {
                let page: Namespaces = self.read(Some(page))?;
                for inner in page.namespaces {
                    // Old servers ignore the parent.
                    let is_inner = inner.len() > outer.len() && inner.starts_with(&outer);
                    if is_inner && inner.len() <= LEVELS && found.insert(inner.clone()) {
                        left.push(inner);
                    }
                }
                Ok(page.next_page_token)
            };
            self.pages(&path, query, read).await?;
        }
        Ok(found)
    }

    async fn tables(&self, namespace: &Namespace) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let read = |page: &[u8]| {
            let page: Tables = self.read(Some(page))?;
            found.extend(page.identifiers.into_iter().map(|table| table.name));
            Ok(page.next_page_token)
        };
        self.pages(&format!("{}/tables", self.path(namespace)), &[], read).await?;
        found.sort();
        found.dedup();
        Ok(found)
    }

    async fn table(&self, namespace: &Namespace, name: &str) -> Result<Option<Entry>> {
        let name = utf8_percent_encode(name, PLAIN);
        let path = format!("{}/tables/{name}", self.path(namespace));
        let Some(body) = self.get(&path, &[]).await? else { return Ok(None) };
        let loaded: Loaded = self.read(Some(&body))?;
        let Some(location) = loaded.metadata_location else {
            return exec_err!("the table of the catalog {} has no metadata file yet", self.shown);
        };
        let mut of_store = self.of_stores.clone();
        of_store.extend(loaded.config);
        // The longest prefix is the closest one.
        let near = loaded.storage_credentials.into_iter().filter(|given| location.starts_with(&given.prefix));
        of_store.extend(
            near.max_by_key(|given| given.prefix.len()).map(|given| given.config).unwrap_or_default(),
        );
        Ok(Some(Entry { location, metadata: Some(loaded.metadata), folder: None, of_store }))
    }
}
