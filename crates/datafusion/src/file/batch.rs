//! Planning of a scan's files in batches. A batch takes one task, and looks up the versions of all its files
//! together, before and after planning. With a task per file, handing files from thread to thread would cost
//! more than planning a small file.
//!
//! This module decides nothing about a file; `plan.rs` does.

use std::sync::Arc;

use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::object_store::ObjectMeta;
use futures::{StreamExt, TryStreamExt};

use crate::file::plan::{FilePlan, FilePlanner, Planned};
use crate::file::request::FileRequest;
use crate::file::version::Version;

/// Files of a batch whose metadata is fetched at the same time.
const FILES_AT_ONCE: usize = 8;
const FILES_IN_BATCH: usize = 32;
/// Batches that are planned at the same time.
const BATCHES_AT_ONCE: usize = 4;

/// The number of files that are planned at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Together {
    /// One after the other, because any of them may reach a limit.
    One,
    /// All, by the task that needs the plan.
    Few,
    /// Batches, each in a task of its own, because the metadata of many files is work for all processors.
    Many,
}

impl Together {
    /// Chooses for `files` files.
    pub(crate) fn of(files: usize) -> Self {
        if files > FILES_AT_ONCE { Together::Many } else { Together::Few }
    }

    pub(crate) fn files_in_batch(self) -> usize {
        match self {
            Together::One => 1,
            Together::Few => FILES_AT_ONCE,
            Together::Many => FILES_IN_BATCH,
        }
    }

    pub(crate) fn batches_at_once(self) -> usize {
        match self {
            Together::One | Together::Few => 1,
            Together::Many => BATCHES_AT_ONCE,
        }
    }
}

/// Plans a batch of files in their order. Files without needed rows are left out.
pub(crate) async fn plan_files(
    planner: Arc<FilePlanner>,
    batch: Vec<FileRequest>,
    together: Together,
) -> Result<Vec<FilePlan>> {
    let planned = plan_batch(planner, batch);
    if together != Together::Many {
        return planned.await;
    }
    let joined = SpawnedTask::spawn(planned).join_unwind().await;
    joined.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

async fn plan_batch(planner: Arc<FilePlanner>, batch: Vec<FileRequest>) -> Result<Vec<FilePlan>> {
    let described: Vec<ObjectMeta> = batch.iter().map(|request| request.file.object_meta.clone()).collect();
    let versions = planner.versions.find(&described).await?;
    let each = |(request, version): (FileRequest, Version)| {
        let planner = Arc::clone(&planner);
        async move { planner.plan(request, version).await }
    };
    let with_versions = batch.into_iter().zip(versions.clone());
    let planned = futures::stream::iter(with_versions).map(each).buffered(FILES_AT_ONCE);
    let planned: Vec<Planned> = planned.try_collect().await?;
    // Footer, page index and bloom filters must all be of the version that is read.
    let read = versions.into_iter().zip(&planned).filter(|(version, of)| of.read && version.local.is_some());
    planner.versions.look_again(read.map(|(version, _)| version).collect()).await?;
    Ok(planned.into_iter().filter_map(|planned| planned.file).collect())
}
