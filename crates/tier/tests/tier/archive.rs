//! A server with an archive class: objects are listed and looked at as always, but read only after a restore, which takes
//! a while.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coscan_tier::{Tier, TierConfig, TierError};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use object_store::aws::AmazonS3Builder;
use s3s::auth::SimpleAuth;
use s3s::dto::*;
use s3s::service::S3ServiceBuilder;
use s3s::{S3, S3Request, S3Response, S3Result, s3_error};
use tokio::net::TcpListener;

/// What the server does and what it was asked for.
#[derive(Debug)]
pub struct Glacier {
    restore: Duration,
    /// When each object was asked for.
    asked: Mutex<BTreeMap<String, Instant>>,
    requests: Mutex<Vec<String>>,
    /// Objects whose restores never come.
    pub never: Mutex<BTreeSet<String>>,
    /// What restore requests are answered with instead of a restore.
    pub refuse: Mutex<bool>,
}

impl Glacier {
    /// The restores that were asked for, in their order.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Restored copies are gone.
    pub fn expire(&self) {
        self.asked.lock().unwrap().clear();
        self.requests.lock().unwrap().clear();
    }

    fn place(&self, key: &str) -> Option<bool> {
        let asked = *self.asked.lock().unwrap().get(key)?;
        Some(asked.elapsed() >= self.restore && !self.never.lock().unwrap().contains(key))
    }
}

struct Server {
    files: s3s_fs::FileSystem,
    glacier: Arc<Glacier>,
}

#[async_trait::async_trait]
impl S3 for Server {
    async fn get_object(&self, req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        if self.glacier.place(&req.input.key) != Some(true) {
            return Err(s3_error!(
                InvalidObjectState,
                "The operation is not valid for the object's storage class"
            ));
        }
        self.files.get_object(req).await
    }

    async fn head_object(&self, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let place = self.glacier.place(&req.input.key);
        let mut response = self.files.head_object(req).await?;
        response.output.storage_class = Some(StorageClass::from_static(StorageClass::DEEP_ARCHIVE));
        response.output.restore = place.map(|there| match there {
            true => "ongoing-request=\"false\", expiry-date=\"Fri, 21 Dec 2040 00:00:00 GMT\"".to_owned(),
            false => "ongoing-request=\"true\"".to_owned(),
        });
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
        let key = req.input.key;
        if *self.glacier.refuse.lock().unwrap() {
            return Err(s3_error!(AccessDenied, "no"));
        }
        let parameters = req.input.restore_request.and_then(|request| request.glacier_job_parameters);
        assert_eq!(
            parameters.map(|p| p.tier.as_str().to_owned()).as_deref(),
            Some("Standard"),
            "the request says how fast"
        );
        let mut asked = self.glacier.asked.lock().unwrap();
        if asked.contains_key(&key) {
            return Err(s3_error!(RestoreAlreadyInProgress));
        }
        self.glacier.requests.lock().unwrap().push(key.clone());
        asked.insert(key, Instant::now());
        Ok(S3Response::new(RestoreObjectOutput::default()))
    }
}

/// Serves `root` (its folders are buckets) until the runtime ends.
pub async fn serve(root: &Path, restore: Duration) -> (String, Arc<Glacier>) {
    let glacier = Arc::new(Glacier {
        restore,
        asked: Mutex::default(),
        requests: Mutex::default(),
        never: Mutex::default(),
        refuse: Mutex::default(),
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
    let timeout = if more.contains("timeout") { "" } else { "timeout = '30s'" };
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
