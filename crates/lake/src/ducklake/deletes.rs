//! Deleted rows of a file: positions in a file of their own, positions in the database, and rows of later versions.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Fields, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use roaring::RoaringTreemap;

use crate::file_columns::FileColumns;

/// The column of positions in a file of deletes.
const POSITION: &str = "pos";
/// The column with the version of a row, in files that have rows of several versions.
const VERSION: &str = "_ducklake_internal_snapshot_id";

/// Where the deleted rows of a file are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeletedRows {
    /// A file of positions with its size. Of those of several versions, the ones until this version count.
    pub(super) listed: Option<(Path, u64, Option<u64>)>,
    /// Positions in the database.
    pub(super) inlined: Vec<u64>,
    /// The last version whose rows in the data file are of the snapshot.
    pub(super) until: Option<u64>,
}

impl DeletedRows {
    /// Reads the positions for a data file.
    pub(super) async fn read(
        &self,
        store: &Arc<dyn ObjectStore>,
        data: &ObjectMeta,
    ) -> Result<RoaringTreemap> {
        let mut positions: RoaringTreemap = self.inlined.iter().copied().collect();
        if let Some((path, bytes, until)) = &self.listed {
            let mut columns = FileColumns::open(store, path, *bytes, named(&[POSITION, VERSION])).await?;
            while let Some(batch) = columns.next().await? {
                let [Some(listed), versions] = &batch[..] else {
                    return exec_err!("{path} lacks the column of deleted positions");
                };
                let listed = cast(listed, &DataType::Int64)?;
                let versions =
                    versions.as_ref().map(|versions| cast(versions, &DataType::Int64)).transpose()?;
                for (row, position) in listed.as_primitive::<Int64Type>().iter().enumerate() {
                    let Some(position) = position.and_then(|position| u64::try_from(position).ok()) else {
                        return exec_err!("{path} has a null or negative position");
                    };
                    let version =
                        versions.as_ref().map(|versions| versions.as_primitive::<Int64Type>().value(row));
                    if until.zip(version).is_none_or(|(until, version)| version as u64 <= until) {
                        positions.insert(position);
                    }
                }
            }
        }
        if let Some(until) = self.until {
            let mut columns = FileColumns::open(store, &data.location, data.size, named(&[VERSION])).await?;
            let mut at = 0;
            while let Some(batch) = columns.next().await? {
                let [Some(versions)] = &batch[..] else {
                    return exec_err!(
                        "{} has rows of several versions, and does not say which",
                        data.location
                    );
                };
                let versions = cast(versions, &DataType::Int64)?;
                for version in versions.as_primitive::<Int64Type>() {
                    if version.is_none_or(|version| version as u64 > until) {
                        positions.insert(at);
                    }
                    at += 1;
                }
            }
        }
        Ok(positions)
    }
}

/// The columns of these names.
fn named<const N: usize>(names: &[&'static str; N]) -> impl Fn(&Fields) -> Vec<Option<usize>> {
    let names = *names;
    move |all| names.iter().map(|name| all.iter().position(|field| field.name() == name)).collect()
}
