//! The deleted rows of files: positions in Parquet files, vectors in Puffin files, and values.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, new_null_array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields, Int64Type};
use datafusion::arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, not_impl_err};
use datafusion::object_store::path::Path;
use datafusion::object_store::{ObjectStore, ObjectStoreExt};
use roaring::RoaringTreemap;
use tokio::sync::OnceCell;

use super::manifests::{Content, Entry};
use crate::field_ids::id_of;
use crate::file_columns::FileColumns;
use crate::place::Root;

/// The ids of the columns of files with positions.
const FILE_PATH: i32 = 2_147_483_546;
const POSITION: i32 = 2_147_483_545;

/// The magic number of a vector.
const VECTOR: [u8; 4] = [0xd1, 0xd3, 0x39, 0x64];

/// A file with deleted rows of others. It is read once.
pub(super) struct DeleteFile {
    pub(super) entry: Entry,
    path: Path,
    /// Whether values are deleted in files of all partitions.
    everywhere: bool,
    /// Positions by the path of the file that has them.
    positions: OnceCell<HashMap<Path, RoaringTreemap>>,
    /// Values in rows.
    values: OnceCell<Values>,
}

/// Where deletes may apply.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum Scope<'a> {
    File(&'a str),
    Partition(i32, &'a [ScalarValue]),
    Table,
}

/// Values of deleted rows.
struct Values {
    /// The types of the columns.
    types: Vec<DataType>,
    converter: RowConverter,
    rows: HashSet<OwnedRow>,
}

impl fmt::Debug for DeleteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeleteFile").field("entry", &self.entry).finish_non_exhaustive()
    }
}

impl PartialEq for DeleteFile {
    fn eq(&self, other: &Self) -> bool {
        self.entry.path == other.entry.path && self.entry.part == other.entry.part
    }
}

impl DeleteFile {
    /// A file of a partition, or of none, so that it is for all partitions.
    ///
    /// # Errors
    /// If files of its format cannot be read.
    pub(super) fn new(entry: Entry, path: Path, everywhere: bool) -> Result<Self> {
        let known = match entry.content {
            Content::Positions => ["PARQUET", "PUFFIN"].contains(&entry.format.as_str()),
            _ => entry.format == "PARQUET",
        };
        if !known {
            return not_impl_err!("the deletes in {} are of the format {}", entry.path, entry.format);
        }
        Ok(DeleteFile { entry, path, everywhere, positions: OnceCell::new(), values: OnceCell::new() })
    }

    /// The memory of the rows that were read, about.
    pub(super) fn memory(&self) -> usize {
        let positions = self.positions.get().into_iter().flat_map(HashMap::values);
        let values = self.values.get().into_iter().flat_map(|values| &values.rows);
        positions.map(RoaringTreemap::serialized_size).sum::<usize>()
            + values.map(|row| size_of::<OwnedRow>() + row.as_ref().len()).sum::<usize>()
    }

    pub(super) fn is_vector(&self) -> bool {
        self.entry.format == "PUFFIN"
    }

    /// Returns whether rows of a data file may be deleted here.
    pub(super) fn applies_to(&self, data: &Entry) -> bool {
        let deletes = &self.entry;
        let same_partition = deletes.spec == data.spec && deletes.partition == data.partition;
        match deletes.content {
            Content::Rows => false,
            Content::Positions => {
                let named =
                    match (&deletes.referenced, deletes.lower.get(&FILE_PATH), deletes.upper.get(&FILE_PATH))
                    {
                        (Some(named), ..) => *named == data.path,
                        // Bounds of the path: writers may cut them.
                        (None, Some(lower), Some(upper)) => {
                            let path = data.path.as_bytes();
                            lower.as_slice() <= path && (path <= upper.as_slice() || path.starts_with(upper))
                        }
                        _ => true,
                    };
                named && data.sequence <= deletes.sequence
            }
            Content::Values => data.sequence < deletes.sequence && (self.everywhere || same_partition),
        }
    }

    /// The only data files to which it may apply. Others need not be asked.
    pub(super) fn scope(&self) -> Scope<'_> {
        match (self.entry.content, &self.entry.referenced) {
            (Content::Positions, Some(path)) => Scope::File(path),
            (Content::Values, _) if !self.everywhere => {
                Scope::Partition(self.entry.spec, &self.entry.partition)
            }
            _ => Scope::Table,
        }
    }

    /// Adds the positions of deleted rows of a data file.
    pub(super) async fn add_positions(
        &self,
        store: &Arc<dyn ObjectStore>,
        data: &Path,
        root: &Root,
        positions: &mut RoaringTreemap,
    ) -> Result<()> {
        let read = self.positions.get_or_try_init(|| async {
            if self.is_vector() { self.vector(store, root).await } else { self.listed(store, root).await }
        });
        if let Some(deleted) = read.await?.get(data) {
            *positions |= deleted;
        }
        Ok(())
    }

    async fn vector(
        &self,
        store: &Arc<dyn ObjectStore>,
        root: &Root,
    ) -> Result<HashMap<Path, RoaringTreemap>> {
        let name = &self.entry.path;
        let (Some((offset, length)), Some(data)) = (self.entry.part, &self.entry.referenced) else {
            return exec_err!("the manifest does not say where the vector of deleted rows in {name} is");
        };
        let end = offset
            .checked_add(length)
            .ok_or_else(|| exec_datafusion_err!("the vector in {name} is too long"))?;
        let bytes = store.get_range(&self.path, offset..end).await?;
        let vector = read_vector(&bytes)
            .ok_or_else(|| exec_datafusion_err!("the vector of deleted rows in {name} is damaged"))?;
        if vector.len() != self.entry.rows {
            return exec_err!(
                "the manifest counts {} rows in the vector in {name}, and it has {}",
                self.entry.rows,
                vector.len()
            );
        }
        Ok(HashMap::from([(root.path_of(data)?, vector)]))
    }

    async fn listed(
        &self,
        store: &Arc<dyn ObjectStore>,
        root: &Root,
    ) -> Result<HashMap<Path, RoaringTreemap>> {
        let name = &self.entry.path;
        let mut found: HashMap<String, RoaringTreemap> = HashMap::new();
        let mut columns = FileColumns::open(
            store,
            &self.path,
            self.entry.bytes,
            ids(&[FILE_PATH, POSITION], &HashMap::new()),
        )
        .await?;
        while let Some(batch) = columns.next().await? {
            let [Some(paths), Some(positions)] = &batch[..] else {
                return exec_err!("{name} lacks the columns of deleted positions");
            };
            let (paths, positions) = (cast(paths, &DataType::Utf8)?, cast(positions, &DataType::Int64)?);
            let (paths, positions) = (paths.as_string::<i32>(), positions.as_primitive::<Int64Type>());
            for (path, position) in paths.iter().zip(positions) {
                let Some((path, position)) =
                    path.zip(position.and_then(|position| u64::try_from(position).ok()))
                else {
                    return exec_err!("{name} has a null or negative position");
                };
                match found.get_mut(path) {
                    Some(positions) => positions.insert(position),
                    None => found.entry(path.to_owned()).or_default().insert(position),
                };
            }
        }
        found.into_iter().map(|(path, positions)| Ok((root.path_of(&path)?, positions))).collect()
    }

    /// Adds the positions of rows of a data file whose values are deleted here.
    pub(super) async fn add_matching(
        &self,
        store: &Arc<dyn ObjectStore>,
        data: (&Path, u64),
        types: &HashMap<i32, DataType>,
        names: &HashMap<Vec<String>, i32>,
        positions: &mut RoaringTreemap,
    ) -> Result<()> {
        let wanted = &self.entry.equality;
        let deleted = self.values.get_or_try_init(|| self.read_values(store, types, names)).await?;
        let mut columns = FileColumns::open(store, data.0, data.1, ids(wanted, names)).await?;
        let mut at = 0;
        while let Some(batch) = columns.next().await? {
            let rows = columns.rows;
            let arrays = typed(batch, &deleted.types, rows)?;
            for row in deleted.converter.convert_columns(&arrays)?.iter() {
                if deleted.rows.contains(&row.owned()) {
                    positions.insert(at);
                }
                at += 1;
            }
        }
        Ok(())
    }

    async fn read_values(
        &self,
        store: &Arc<dyn ObjectStore>,
        types: &HashMap<i32, DataType>,
        names: &HashMap<Vec<String>, i32>,
    ) -> Result<Values> {
        let mut columns =
            FileColumns::open(store, &self.path, self.entry.bytes, ids(&self.entry.equality, names)).await?;
        let of = |(id, own): (&i32, &Option<FieldRef>)| match (types.get(id), own) {
            (Some(data_type), _) => Ok(data_type.clone()),
            (None, Some(own)) => Ok(own.data_type().clone()),
            (None, None) => exec_err!("{} lacks the column {id} of deleted values", self.entry.path),
        };
        let types = self.entry.equality.iter().zip(&columns.found).map(of).collect::<Result<Vec<_>>>()?;
        let converter = RowConverter::new(types.iter().cloned().map(SortField::new).collect())?;
        let mut rows = HashSet::new();
        while let Some(batch) = columns.next().await? {
            let arrays = typed(batch, &types, columns.rows)?;
            rows.extend(converter.convert_columns(&arrays)?.iter().map(|row| row.owned()));
        }
        Ok(Values { types, converter, rows })
    }
}

/// The columns of a file with these ids.
fn ids(wanted: &[i32], names: &HashMap<Vec<String>, i32>) -> impl Fn(&Fields) -> Vec<Option<usize>> {
    move |all| {
        let with_ids = all.iter().any(|field| id_of(field).is_some());
        let id = |field: &FieldRef| match with_ids {
            true => id_of(field),
            false => names.get(std::slice::from_ref(field.name())).copied(),
        };
        wanted.iter().map(|wanted| all.iter().position(|field| id(field) == Some(*wanted))).collect()
    }
}

/// Arrays of these types; null for columns that a file has not.
fn typed(batch: Vec<Option<ArrayRef>>, types: &[DataType], rows: usize) -> Result<Vec<ArrayRef>> {
    let of = |(array, data_type): (Option<ArrayRef>, &DataType)| match array {
        Some(array) => Ok(cast(&array, data_type)?),
        None => Ok(new_null_array(data_type, rows)),
    };
    batch.into_iter().zip(types).map(of).collect()
}

/// Reads a vector: length, magic number, vector and a checksum. `None` if it is damaged.
fn read_vector(bytes: &[u8]) -> Option<RoaringTreemap> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (inside, checksum) = rest.split_last_chunk::<4>()?;
    if u32::from_be_bytes(*length) as usize != inside.len()
        || crc32fast::hash(inside).to_be_bytes() != *checksum
    {
        return None;
    }
    let vector = inside.strip_prefix(&VECTOR)?;
    RoaringTreemap::deserialize_from(vector).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_vectors_are_found() {
        let vector: RoaringTreemap = [1, 5, 1 << 40].into_iter().collect();
        let mut inside = VECTOR.to_vec();
        vector.serialize_into(&mut inside).expect("memory");
        let mut bytes = (inside.len() as u32).to_be_bytes().to_vec();
        bytes.extend(&inside);
        bytes.extend(crc32fast::hash(&inside).to_be_bytes());
        assert_eq!(read_vector(&bytes), Some(vector));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(read_vector(&damaged), None, "byte {at}");
        }
        assert_eq!(read_vector(&[]), None);
    }
}
