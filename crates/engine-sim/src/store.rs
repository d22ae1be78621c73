//! A simulated object store: it answers late, wrongly, in part or not at all, as the world decides.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::executor::served;
use crate::plan::Fault;
use crate::world::{World, slice};

/// A thousandth of the duration of a stall.
pub(crate) const STALL: Duration = Duration::from_secs(3600);

/// A simulated store.
pub struct SimStore {
    /// Its number.
    pub store: usize,
    /// The world it is in.
    pub world: Arc<World>,
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStore({})", self.store)
    }
}

impl fmt::Display for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

fn broken(message: &'static str) -> Error {
    Error::Generic { store: "sim", source: message.into() }
}

/// Lets time pass. Aborted work does not continue.
async fn pass(world: &World, time: Duration) {
    let Some((task, aborted)) = served() else { return };
    world.executor.sleep(task, time);
    if aborted.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

async fn never(world: &World) {
    for _ in 0..1000 {
        pass(world, STALL).await;
    }
}

/// A body in pieces, which breaks off after `breaks_at` bytes, if given.
fn body(world: Arc<World>, bytes: Bytes, breaks_at: Option<usize>) -> BoxStream<'static, Result<Bytes>> {
    let pieces = stream::unfold((world, bytes, 0usize), move |(world, rest, sent)| async move {
        if rest.is_empty() {
            return None;
        }
        let some = world.executor.draw(|random| random.usize(1..=rest.len().max(2) / 2 + 1)).min(rest.len());
        let delay = world.draw_delay();
        pass(&world, delay).await;
        if breaks_at.is_some_and(|at| sent + some > at) {
            return Some((Err(broken("connection reset")), (world, Bytes::new(), sent)));
        }
        let (piece, rest) = (rest.slice(..some), rest.slice(some..));
        Some((Ok(piece), (world, rest, sent + some)))
    });
    pieces.boxed()
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let world = &self.world;
        pass(world, world.draw_delay()).await;
        let not_found = || Error::NotFound { path: location.to_string(), source: "no such object".into() };
        let file = world.file_named(location.as_ref()).ok_or_else(not_found)?;
        let fault = world.draw_fault(self.store);
        if let Some(fault) = fault {
            world.blame(file, self.store, fault);
        }
        match fault {
            Some(Fault::Transient) => return Err(broken("503 Slow Down")),
            Some(Fault::Permanent) => {
                return Err(Error::PermissionDenied { path: location.to_string(), source: "403".into() });
            }
            Some(Fault::Stall) => never(world).await,
            Some(Fault::Slow) => pass(world, world.plan.config.read_deadline / 3 * 2).await,
            Some(Fault::Panic) => {
                return Err(Error::NotImplemented { operation: "get".into(), implementer: "sim".into() });
            }
            _ => {}
        }
        let version = world.files()[file].current().clone();
        options.check_preconditions(&version.meta)?;
        let size = version.bytes.len() as u64;
        let range = match &options.range {
            Some(GetRange::Bounded(range)) if fault != Some(Fault::WholeBody) => {
                range.start.min(size)..range.end.min(size)
            }
            _ => 0..size,
        };
        let mut bytes = slice(&version.bytes, &range);
        let half = bytes.len() / 2;
        match fault {
            Some(Fault::Corrupt) => bytes = world.corrupted(&bytes),
            Some(Fault::Short | Fault::WrongLength) => bytes = bytes.slice(..half),
            _ => {}
        }
        let breaks_at = (fault == Some(Fault::Reset)).then_some(half);
        let payload = GetResultPayload::Stream(body(world.clone(), bytes, breaks_at));
        Ok(GetResult { payload, meta: version.meta, range, attributes: Attributes::default() })
    }

    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(Error::NotSupported { source: "reads only".into() })
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotSupported { source: "reads only".into() })
    }

    fn delete_stream(&self, _: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        stream::empty().boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        stream::empty().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        Ok(ListResult { common_prefixes: Vec::new(), objects: Vec::new() })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(Error::NotSupported { source: "reads only".into() })
    }
}
