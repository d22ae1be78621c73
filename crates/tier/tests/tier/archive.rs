//! A server with an archive class like that of S3. Objects are listed and inspected as usual, but read only after a
//! restore. The restore takes a while, and its copy expires after the requested days.
//!
//! The answers follow S3's documentation of `RestoreObject`, `HeadObject` and "Working with archived objects".

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use coscan_tier::{Tier, TierConfig, TierError};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use object_store::aws::AmazonS3Builder;
use s3s::auth::SimpleAuth;
use s3s::dto::*;
use s3s::service::S3ServiceBuilder;
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use tokio::net::TcpListener;

/// The class of all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Restored copies expire after days.
    DeepArchive,
    /// Objects of intelligent tiering in its archive access tier: a restore moves them back permanently.
    Intelligent,
    /// No restore is needed.
    Standard,
}

/// A requested restore.
#[derive(Clone, Copy, Debug)]
struct Restore {
    at: Instant,
    /// The time for which the copy stays. `None` for intelligent tiering: it stays forever.
    stays: Option<Duration>,
}

/// The state of an object.
enum Place {
    Archived,
    OnItsWay,
    Here(Option<SystemTime>),
    Expired(SystemTime),
}

/// The server's settings, and a log of its requests.
#[derive(Debug)]
pub struct Glacier {
    restore: Duration,
    asked: Mutex<BTreeMap<String, Restore>>,
    requests: Mutex<Vec<String>>,
    answers: Mutex<Vec<u16>>,
    /// Objects whose restores never come.
    pub never: Mutex<BTreeSet<String>>,
    /// Answers to the next restore requests, the last one first.
    pub refusals: Mutex<Vec<(&'static str, u16)>>,
    /// The class of all objects.
    pub class: Mutex<Class>,
    /// The duration of a day.
    pub day: Mutex<Duration>,
    /// Deleted objects.
    pub gone: Mutex<BTreeSet<String>>,
}

impl Glacier {
    /// The restores that were begun, in order.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// The answers to restore requests. 202: a restore begins. 200: the copy is there and stays longer. 409: a
    /// restore is in progress.
    pub fn answers(&self) -> Vec<u16> {
        self.answers.lock().unwrap().clone()
    }

    /// Expires restored copies and forgets requests.
    pub fn expire(&self) {
        self.asked.lock().unwrap().clear();
        self.requests.lock().unwrap().clear();
        self.answers.lock().unwrap().clear();
    }

    fn class(&self) -> Class {
        *self.class.lock().unwrap()
    }

    fn place(&self, key: &str) -> Place {
        if self.class() == Class::Standard {
            return Place::Here(None);
        }
        let Some(restore) = self.asked.lock().unwrap().get(key).copied() else { return Place::Archived };
        let came = restore.at + self.restore;
        if Instant::now() < came || self.never.lock().unwrap().contains(key) {
            return Place::OnItsWay;
        }
        let Some(stays) = restore.stays else { return Place::Here(None) };
        let expiry = SystemTime::now() + stays - came.elapsed().min(stays);
        if came.elapsed() < stays {
            Place::Here(Some(expiry))
        } else {
            Place::Expired(SystemTime::now() + stays - came.elapsed())
        }
    }

    /// Answers a request for a restore.
    fn begin(&self, key: &str, request: RestoreRequest) -> S3Result<u16> {
        if let Some((code, status)) = self.refusals.lock().unwrap().pop() {
            let mut error =
                S3Error::with_message(S3ErrorCode::from_bytes(code.as_bytes()).unwrap(), "not now");
            error.set_status_code(status.try_into().unwrap());
            return Err(error);
        }
        let speed = request.glacier_job_parameters.map(|parameters| parameters.tier.as_str().to_owned());
        match (self.class(), request.days, speed.as_deref()) {
            (Class::Standard, ..) => {
                let text = "Restore is not allowed for the object's current storage class";
                return Err(S3Error::with_message(S3ErrorCode::InvalidObjectState, text));
            }
            (Class::Intelligent, Some(_), _) => {
                return Err(s3_error!(
                    InvalidArgument,
                    "INTELLIGENT_TIERING objects are not subject to restore expiry. Do not specify Days when restoring this object"
                ));
            }
            (Class::DeepArchive, None, _) => return Err(s3_error!(MalformedXML)),
            (Class::DeepArchive, _, Some("Expedited")) => {
                return Err(s3_error!(InvalidArgument, "Expedited is not for this storage class"));
            }
            _ => assert!(speed.is_some(), "the request says how fast"),
        }
        let stays = request.days.map(|days| *self.day.lock().unwrap() * u32::try_from(days).unwrap());
        let place = self.place(key);
        let mut asked = self.asked.lock().unwrap();
        match place {
            Place::OnItsWay => Err(s3_error!(RestoreAlreadyInProgress)),
            Place::Here(_) => {
                // The days of the copy count from this request.
                if let Some(restore) = asked.get_mut(key) {
                    restore.stays = stays.map(|stays| stays + restore.at.elapsed());
                }
                Ok(200)
            }
            Place::Archived | Place::Expired(_) => {
                self.requests.lock().unwrap().push(key.to_owned());
                asked.insert(key.to_owned(), Restore { at: Instant::now(), stays });
                Ok(202)
            }
        }
    }
}

struct Server {
    files: s3s_fs::FileSystem,
    glacier: Arc<Glacier>,
}

impl Server {
    fn is_there(&self, key: &str) -> S3Result<()> {
        match self.glacier.gone.lock().unwrap().contains(key) {
            true => Err(s3_error!(NoSuchKey)),
            false => Ok(()),
        }
    }
}

#[async_trait::async_trait]
impl S3 for Server {
    async fn get_object(&self, req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        self.is_there(&req.input.key)?;
        match self.glacier.place(&req.input.key) {
            Place::Here(_) => self.files.get_object(req).await,
            _ => Err(s3_error!(
                InvalidObjectState,
                "The operation is not valid for the object's storage class"
            )),
        }
    }

    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        self.is_there(&req.input.key)?;
        let (place, class) = (self.glacier.place(&req.input.key), self.glacier.class());
        let mut response = self.files.head_object(req).await?;
        let output = &mut response.output;
        output.storage_class = match class {
            Class::DeepArchive => Some(StorageClass::from_static(StorageClass::DEEP_ARCHIVE)),
            Class::Intelligent => Some(StorageClass::from_static(StorageClass::INTELLIGENT_TIERING)),
            Class::Standard => None,
        };
        if class == Class::Intelligent && !matches!(place, Place::Here(_)) {
            output.archive_status = Some(ArchiveStatus::from_static(ArchiveStatus::ARCHIVE_ACCESS));
        }
        let until = |expiry: SystemTime| {
            let mut text = Vec::new();
            Timestamp::from(expiry).format(TimestampFormat::HttpDate, &mut text).unwrap();
            format!("ongoing-request=\"false\", expiry-date=\"{}\"", String::from_utf8(text).unwrap())
        };
        output.restore = match place {
            Place::OnItsWay => Some("ongoing-request=\"true\"".to_owned()),
            // The header outlives the copy for a while.
            Place::Here(Some(expiry)) | Place::Expired(expiry) => Some(until(expiry)),
            Place::Here(None) if class == Class::DeepArchive => {
                Some("ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2040 00:00:00 GMT\"".to_owned())
            }
            Place::Here(None) | Place::Archived => None,
        };
        Ok(response)
    }

    async fn list_objects_v2(
        &self,
        req: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        self.files.list_objects_v2(req).await
    }

    async fn restore_object(
        &self,
        req: S3Request<RestoreObjectInput>,
    ) -> S3Result<S3Response<RestoreObjectOutput>> {
        self.is_there(&req.input.key)?;
        let request = req.input.restore_request.ok_or_else(|| s3_error!(MalformedXML))?;
        let answer = self.glacier.begin(&req.input.key, request);
        let status = match &answer {
            Ok(status) => *status,
            Err(error) => error.status_code().map_or(500, |status| status.as_u16()),
        };
        self.glacier.answers.lock().unwrap().push(status);
        answer
            .map(|status| S3Response::with_status(RestoreObjectOutput::default(), status.try_into().unwrap()))
    }
}

/// Serves `root` (its folders are buckets) until the runtime ends.
pub async fn serve(root: &Path, restore: Duration) -> (String, Arc<Glacier>) {
    let glacier = Arc::new(Glacier {
        restore,
        asked: Mutex::default(),
        requests: Mutex::default(),
        answers: Mutex::default(),
        never: Mutex::default(),
        refusals: Mutex::default(),
        class: Mutex::new(Class::DeepArchive),
        day: Mutex::new(Duration::from_secs(86_400)),
        gone: Mutex::default(),
    });
    let server = Server { files: s3s_fs::FileSystem::new(root).unwrap(), glacier: glacier.clone() };
    let mut builder = S3ServiceBuilder::new(server);
    builder.set_auth(SimpleAuth::from_single("key", "secret"));
    let service = builder.build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let server = Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(socket), service).await;
            });
        }
    });
    (endpoint, glacier)
}

/// The definition of a tier on that server.
pub fn definition(endpoint: &str, cache: &Path, more: &str, archive: &str) -> String {
    let room = if more.contains("cache_bytes") { "" } else { "cache_bytes = '1GB'" };
    let timeout = if more.contains("timeout") { "" } else { "timeout = '120s'" };
    format!(
        "name = 'glacier'\nroot = 's3://bucket/'\ncache = '{}'\n{room}\n{timeout}\n{more}\n\
         [archive]\nspeed = 'Standard'\npoll = '20ms'\nendpoint = '{endpoint}'\nregion = 'us-east-1'\n{archive}\n",
        cache.display()
    )
}

/// A tier on that server.
pub fn open(endpoint: &str, cache: &Path, more: &str, archive: &str) -> Result<Tier, TierError> {
    let config = TierConfig::parse(&definition(endpoint, cache, more, archive), cache).unwrap();
    let builder = AmazonS3Builder::new().with_access_key_id("key").with_secret_access_key("secret");
    Tier::open_s3(config, builder)
}
