//! Objects of an archive class of S3: `HEAD` returns the state of an object, `POST ?restore` requests its restore.
//!
//! <https://docs.aws.amazon.com/AmazonS3/latest/userguide/restoring-objects.html>. Requests are signed with the
//! store's credentials. A restored copy expires after some days; the response states its expiry date. An object of
//! intelligent tiering is moved back permanently, and S3 refuses a request that names days for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use object_store::ClientOptions;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer};
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpRequestBody, HttpResponse, ReqwestConnector,
};
use object_store::signer::Signer;
use tokio::sync::Semaphore;

use crate::config::{Archive, TierConfig};
use crate::driver::{Driver, Ledger, Opened};
use crate::error::TierError;
use crate::fragment::Fragment;

/// Classes whose objects have to be restored. An object of intelligent tiering may also have to be; its archive
/// status says so.
const OFFLINE_CLASSES: [&str; 2] = ["GLACIER", "DEEP_ARCHIVE"];

/// Maximum number of requests in flight, for any number of restores: each may need a connection.
const REQUESTS_AT_ONCE: usize = 64;

#[derive(Debug)]
struct S3Archive {
    requests: Semaphore,
    store: AmazonS3,
    http: HttpClient,
    region: String,
    archive: Archive,
}

/// The store of `builder`, which has the credentials, at the tier's root.
pub(crate) fn open(
    config: &TierConfig,
    archive: &Archive,
    builder: AmazonS3Builder,
) -> Result<Opened, TierError> {
    let wrong = |error: object_store::Error| TierError::Config {
        tier: config.name.clone(),
        setting: "[archive]".to_owned(),
        problem: format!("names a store that cannot be set up: {error}"),
    };
    let mut builder = builder.with_url(config.root.as_str());
    if let Some(endpoint) = &archive.endpoint {
        builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
    }
    if let Some(region) = &archive.region {
        builder = builder.with_region(region);
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region);
    let store = builder.build().map_err(wrong)?;
    // The timeout of one request, not of a restore.
    let options = ClientOptions::new().with_allow_http(true).with_timeout(Duration::from_secs(30));
    let http = ReqwestConnector::default().connect(&options).map_err(wrong)?;
    let driver = S3Archive {
        requests: Semaphore::new(REQUESTS_AT_ONCE),
        store: store.clone(),
        http,
        region: region.unwrap_or_else(|| "us-east-1".to_owned()),
        archive: archive.clone(),
    };
    Ok((Arc::new(store), Arc::new(driver)))
}

/// The state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Online,
    /// The object has to be restored. `for_days`: the restored copy expires after the requested days.
    Archived {
        for_days: bool,
    },
    OnItsWay,
}

#[async_trait]
impl Driver for S3Archive {
    async fn is_online(&self, fragment: &Fragment) -> Result<bool, TierError> {
        Ok(self.place(fragment).await? == Place::Online)
    }

    fn looks_again(&self) -> Option<Duration> {
        None
    }

    async fn has_begun(&self, fragment: &Fragment) -> Result<bool, TierError> {
        Ok(!matches!(self.place(fragment).await?, Place::Archived { .. }))
    }

    async fn restore(
        &self,
        fragment: &Fragment,
        timeout: Duration,
        ledger: &dyn Ledger,
    ) -> Result<(), TierError> {
        let started = Instant::now();
        let mut last = String::from("nothing was heard");
        loop {
            // A store that sometimes does not answer is no reason to give up a restore that is paid for.
            match self.place(fragment).await {
                Ok(Place::Online) => return Ok(()),
                Ok(Place::OnItsWay) => "the restore is under way".clone_into(&mut last),
                Ok(Place::Archived { for_days }) => {
                    ledger.asks()?;
                    match self.ask(fragment, for_days).await {
                        Ok(taken) => {
                            "the restore was asked for".clone_into(&mut last);
                            if taken {
                                ledger.taken();
                            }
                        }
                        Err(error @ TierError::RestoreRefused { .. }) => return Err(error),
                        Err(error) => last = error.to_string(),
                    }
                }
                Err(error @ TierError::Replaced { .. }) => return Err(error),
                Err(error) => last = error.to_string(),
            }
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(TierError::RestoreTimeout { file: fragment.to_string(), after: timeout, last });
            }
            tokio::time::sleep(self.archive.poll.min(left)).await;
        }
    }

    async fn release(&self, _: &Fragment) {
        // A restored copy expires by itself after the days that were paid for.
    }

    fn tags_survive(&self) -> bool {
        true
    }
}

impl S3Archive {
    async fn place(&self, fragment: &Fragment) -> Result<Place, TierError> {
        let response = self.send(fragment, "HEAD", None, String::new()).await?;
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        match (status, header("x-amz-bucket-region")) {
            (200, _) => {}
            (404, _) => {
                return Err(TierError::Replaced {
                    file: fragment.to_string(),
                    planned: fragment.version(),
                    found: "it was deleted".to_owned(),
                });
            }
            (_, Some(region)) if region != self.region => {
                let region = format!("the bucket is in region {region}: set 'archive.region' to it");
                return Err(other(fragment, format!("HEAD was answered by {status}: {region}")));
            }
            _ => return Err(other(fragment, format!("HEAD was answered by {status}"))),
        }
        let (length, tag) = (header("content-length"), header("etag"));
        let other_length = length.is_some_and(|length| length.parse() != Ok(fragment.bytes));
        if other_length || fragment.tag.as_deref().zip(tag).is_some_and(|(planned, found)| planned != found) {
            return Err(TierError::Replaced {
                file: fragment.to_string(),
                planned: fragment.version(),
                found: format!("{} bytes, {}", length.unwrap_or("?"), tag.unwrap_or("?")),
            });
        }
        let (class, archive) = (header("x-amz-storage-class"), header("x-amz-archive-status"));
        Ok(place(class, archive, header("x-amz-restore"), Utc::now()))
    }

    /// Asks for a restore. Returns true if S3 took up this request, and false if an earlier request is in progress.
    async fn ask(&self, fragment: &Fragment, for_days: bool) -> Result<bool, TierError> {
        let days = if for_days { format!("<Days>{}</Days>", self.archive.days) } else { String::new() };
        let body = format!(
            "<RestoreRequest xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{days}<GlacierJobParameters>\
             <Tier>{}</Tier></GlacierJobParameters></RestoreRequest>",
            self.archive.speed
        );
        let response = self.send(fragment, "POST", Some("restore"), body).await?;
        let status = response.status().as_u16();
        let text = response.into_body().bytes().await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let refused = |advice| TierError::RestoreRefused {
            file: fragment.to_string(),
            answer: format!("{status} {}", reason(&text)),
            advice,
        };
        match (status, tagged(&text, "Code")) {
            // 202: the restore begins. 200: the copy is there, and its days count from this request. 409: a restore
            // is in progress.
            (200 | 202, _) => Ok(true),
            (409, Some("RestoreAlreadyInProgress")) => Ok(false),
            // The object has changed its class. The next `HEAD` returns its state.
            (403, Some("InvalidObjectState")) => {
                Err(other(fragment, format!("POST ?restore was answered by {status} {}", reason(&text))))
            }
            (_, Some("GlacierExpeditedRetrievalNotAvailable")) => {
                Err(refused("there is no capacity for Expedited now; set 'speed' to Standard or Bulk"))
            }
            (401 | 403, _) => Err(refused("the credentials need s3:RestoreObject on this bucket")),
            (400 | 404 | 405 | 501, _) => {
                Err(refused("check 'speed' and 'days' of the tier against what the store offers"))
            }
            _ => Err(other(fragment, format!("POST ?restore was answered by {status} {}", reason(&text)))),
        }
    }

    async fn send(
        &self,
        fragment: &Fragment,
        method: &str,
        query: Option<&str>,
        body: String,
    ) -> Result<HttpResponse, TierError> {
        let failed = |error: &dyn std::fmt::Display| other(fragment, error.to_string());
        let _turn = self.requests.acquire().await.map_err(|closed| failed(&closed))?;
        // Only the object's address, as the store writes it, is needed. The signature is not used.
        let get = HttpRequest::new(HttpRequestBody::empty()).method().clone();
        let path = fragment.path();
        let address = self.store.signed_url(get, &path, Duration::from_secs(60));
        let mut url = address.await.map_err(TierError::store(fragment))?;
        url.set_query(query);
        let mut request = HttpRequest::new(HttpRequestBody::from(body));
        *request.uri_mut() = url.as_str().parse().map_err(|_| failed(&format!("{url} is no address")))?;
        *request.method_mut() = method.parse().map_err(|_| failed(&format!("{method} is no method")))?;
        let credential =
            self.store.credentials().get_credential().await.map_err(TierError::store(fragment))?;
        AwsAuthorizer::new(&credential, "s3", &self.region).authorize(&mut request, None);
        self.http.execute(request).await.map_err(|error| failed(&error))
    }
}

/// The state of an object, from the headers of its class, its archive status and its restore.
fn place(
    class: Option<&str>,
    archive_status: Option<&str>,
    restore: Option<&str>,
    now: DateTime<Utc>,
) -> Place {
    let archived = archive_status.is_some() || class.is_some_and(|class| OFFLINE_CLASSES.contains(&class));
    let for_days = archive_status.is_none();
    match restore {
        Some(restore) if restore.contains("ongoing-request=\"true\"") => Place::OnItsWay,
        _ if !archived => Place::Online,
        // The header outlives the copy for a while. An object that was moved back has no archive status.
        Some(restore) if for_days && expiry(restore).is_none_or(|expiry| expiry > now) => Place::Online,
        _ => Place::Archived { for_days },
    }
}

/// The expiry time of a restored copy.
fn expiry(restore: &str) -> Option<DateTime<Utc>> {
    let date = restore.split_once("expiry-date=\"")?.1.split_once('"')?.0;
    DateTime::parse_from_rfc2822(date).ok().map(|date| date.to_utc())
}

/// The code and the message of an error of S3.
fn reason(text: &str) -> String {
    let (code, message) = (tagged(text, "Code"), tagged(text, "Message"));
    match (code, message) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        _ => code.unwrap_or("without a reason").to_owned(),
    }
}

/// The text of the first element of that name.
fn tagged<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.split_once(&format!("<{name}>"))?.1;
    rest.split_once(&format!("</{name}>")).map(|(inner, _)| inner)
}

fn other(fragment: &Fragment, text: String) -> TierError {
    TierError::store(fragment)(object_store::Error::Generic { store: "S3", source: text.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_where_an_object_is() {
        let ongoing = Some("ongoing-request=\"true\"");
        let there = Some("ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2012 00:00:00 GMT\"");
        let (before, after) =
            ("2012-12-20T23:59:59Z".parse().unwrap(), "2012-12-21T00:00:01Z".parse().unwrap());
        let archived = Place::Archived { for_days: true };
        for (class, status, restore, expected) in [
            (None, None, None, Place::Online),
            (Some("STANDARD_IA"), None, None, Place::Online),
            (Some("GLACIER_IR"), None, None, Place::Online),
            (Some("GLACIER"), None, None, archived),
            (Some("DEEP_ARCHIVE"), None, ongoing, Place::OnItsWay),
            (Some("DEEP_ARCHIVE"), None, there, Place::Online),
            (Some("INTELLIGENT_TIERING"), None, None, Place::Online),
            (Some("INTELLIGENT_TIERING"), Some("ARCHIVE_ACCESS"), None, Place::Archived { for_days: false }),
            (Some("INTELLIGENT_TIERING"), Some("DEEP_ARCHIVE_ACCESS"), ongoing, Place::OnItsWay),
        ] {
            assert_eq!(place(class, status, restore, before), expected, "{class:?} {status:?} {restore:?}");
        }
        assert_eq!(place(Some("GLACIER"), None, there, after), archived, "the copy has expired");
        let without_date = Some("ongoing-request=\"false\"");
        assert_eq!(place(Some("GLACIER"), None, without_date, after), Place::Online);
    }

    #[test]
    fn the_reason_of_an_error_is_found() {
        let text = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>";
        assert_eq!(
            (tagged(text, "Code"), reason(text)),
            (Some("AccessDenied"), "AccessDenied: no".to_owned())
        );
        assert_eq!(reason("gateway timeout"), "without a reason");
    }
}
