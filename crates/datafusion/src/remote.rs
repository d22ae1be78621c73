//! Scans of files that another process runs.
//!
//! DataFusion's encoding of a plan leaves out parts of a scan without an error: entity tags, the adapter of types, the
//! reader of footers. Without them the other process returns other rows. [`Unencoded`] holds these parts, and refuses
//! scans with parts that cannot be sent.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::parquet::file::metadata::RowGroupMetaData;
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;
use datafusion::physical_plan::ExecutionPlan;

use crate::eligibility::reads_files_only;
use crate::file::footers::{FooterReaders, metadata};
use crate::table::adapter::{WideningAdapters, promotions_of};

/// The reason why a scan cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsendable {
    /// It reads something else than Parquet files.
    Format,
    /// The reader makes some of its columns, such as row numbers.
    VirtualColumns,
    /// Its files are encrypted, or its reader is not known.
    Reader,
    /// It translates columns in a way that is not known, as scans of lake tables do.
    Adapter,
    /// A file has notes of its provider, such as rows to leave out.
    FileNotes,
    /// Its partitions are groups of keys, which other tasks would have, too.
    Partitioning,
}

impl fmt::Display for Unsendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unsendable::Format => "a scan reads no Parquet files",
            Unsendable::VirtualColumns => "a scan has columns that its reader makes",
            Unsendable::Reader => "a scan has a reader or encryption of its own",
            Unsendable::Adapter => "a scan translates the columns of its files, as for lake tables",
            Unsendable::FileNotes => "a file has notes of its table, such as deleted rows",
            Unsendable::Partitioning => "the partitions of a scan are groups of keys",
        })
    }
}

/// The parts of a scan that DataFusion's encoding leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Unencoded {
    /// Entity tag and version of each file, in the order of groups and files.
    tags: Vec<(Option<String>, Option<String>)>,
    /// The adapter of types, if the scan has one: the sources of promoted types; none for declared columns.
    widening: Option<Option<HashMap<String, String>>>,
    preserve_order: bool,
}

impl Unencoded {
    /// Returns the parts of a scan.
    ///
    /// # Errors
    /// If a part cannot be sent.
    pub fn of(scan: &FileScanConfig) -> Result<Self, Unsendable> {
        let source = scan.file_source().downcast_ref::<ParquetSource>().ok_or(Unsendable::Format)?;
        if !source.table_schema().virtual_columns().is_empty() {
            return Err(Unsendable::VirtualColumns);
        }
        reads_files_only(source).map_err(|_| Unsendable::Reader)?;
        if scan.output_partitioning.is_some() {
            return Err(Unsendable::Partitioning);
        }
        let widening = scan.expr_adapter_factory.as_ref().map(widening).transpose()?;
        let mut tags = Vec::new();
        for file in scan.file_groups.iter().flat_map(|group| group.iter()) {
            if !file.extensions.is_empty() || file.arrow_schema.is_some() {
                return Err(Unsendable::FileNotes);
            }
            tags.push((file.object_meta.e_tag.clone(), file.object_meta.version.clone()));
        }
        Ok(Unencoded { tags, widening, preserve_order: scan.preserve_order })
    }

    /// Adds the parts to a decoded scan, whose files are read in the stores of `runtime`.
    ///
    /// # Errors
    /// If the plan is no scan of as many files, or its store is unknown.
    pub fn add_to(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        runtime: &RuntimeEnv,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(exec) = plan.downcast_ref::<DataSourceExec>() else {
            return internal_err!("{} is no scan of files", plan.name());
        };
        let Some((scan, source)) = exec.downcast_to_file_source::<ParquetSource>() else {
            return internal_err!("a scan reads no Parquet files");
        };
        let mut scan = scan.clone();
        let files = scan.file_groups.iter().map(|group| group.len()).sum::<usize>();
        if files != self.tags.len() {
            return internal_err!("a scan of {files} files has {} tags", self.tags.len());
        }
        let mut tags = self.tags.iter().cloned();
        let tagged = |mut file: PartitionedFile| {
            (file.object_meta.e_tag, file.object_meta.version) = tags.next().unwrap_or_default();
            file
        };
        let mut tagged = tagged;
        for group in &mut scan.file_groups {
            *group = group.iter().cloned().map(&mut tagged).collect::<Vec<_>>().into();
        }
        let store = runtime.object_store(&scan.object_store_url)?;
        let readers = FooterReaders::new(store, runtime.cache_manager.get_file_metadata_cache());
        let source = source.clone().with_parquet_file_reader_factory(Arc::new(readers));
        let adapters = self.widening.as_ref().map(|promotions| {
            let shared = |types: &HashMap<String, String>| {
                types.iter().map(|(name, types)| (name.clone(), Arc::from(types.as_str()))).collect()
            };
            let promotions = promotions.as_ref().map(shared);
            Arc::new(WideningAdapters { promotions }) as Arc<dyn PhysicalExprAdapterFactory>
        });
        let preserve_order = self.preserve_order;
        let mut scan: FileScanConfig = FileScanConfigBuilder::from(scan)
            .with_source(Arc::new(source))
            .with_expr_adapter(adapters)
            .build();
        scan.preserve_order = preserve_order;
        Ok(DataSourceExec::from_data_source(scan))
    }
}

fn widening(
    factory: &Arc<dyn PhysicalExprAdapterFactory>,
) -> Result<Option<HashMap<String, String>>, Unsendable> {
    promotions_of(factory.as_ref()).ok_or(Unsendable::Adapter)
}

/// A row group of a scan, with the bytes of the file that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The group of files.
    pub group: usize,
    /// The file in its group.
    pub file: usize,
    /// The first byte of the range. The ranges of a file's pieces touch, and each contains the beginning of one row
    /// group.
    pub start: u64,
    /// The end of the range.
    pub end: u64,
}

impl Piece {
    /// The bytes of the range.
    pub fn bytes(&self) -> u64 {
        self.end - self.start
    }
}

/// Returns the row groups of a scan. Reads footers that the session has not cached.
///
/// # Errors
/// If a footer cannot be read.
pub async fn pieces(scan: &FileScanConfig, session: &dyn Session) -> Result<Vec<Piece>> {
    let store = session.runtime_env().object_store(&scan.object_store_url)?;
    let mut pieces = Vec::new();
    for (group, files) in scan.file_groups.iter().enumerate() {
        for (file, about) in files.iter().enumerate() {
            let range = about.range.as_ref();
            let first = range.map_or(0, |range| u64::try_from(range.start).unwrap_or(0));
            let last = range.map_or(about.object_meta.size, |range| u64::try_from(range.end).unwrap_or(0));
            let footer = metadata(session, &store, &about.object_meta, about.metadata_size_hint).await?;
            let starts = footer.row_groups().iter().map(start_of);
            let mut starts: Vec<u64> = starts.filter(|start| (first..last).contains(start)).collect();
            starts.sort_unstable();
            starts.dedup();
            // The first range begins with that of the file, so that no row group is between ranges.
            if let Some(start) = starts.first_mut() {
                *start = first;
            }
            let ends = starts.iter().skip(1).copied().chain([last]);
            let of_file =
                starts.iter().copied().zip(ends).map(|(start, end)| Piece { group, file, start, end });
            pieces.extend(of_file);
        }
    }
    Ok(pieces)
}

/// The byte by which DataFusion assigns a row group to a range.
fn start_of(row_group: &RowGroupMetaData) -> u64 {
    let offset = match row_group.columns() {
        [first, ..] => first.dictionary_page_offset().unwrap_or_else(|| first.data_page_offset()),
        [] => 0,
    };
    u64::try_from(offset).unwrap_or(0)
}

/// Returns the scan of some of a scan's pieces. Groups of files keep their number and their order.
///
/// # Errors
/// If a piece is not of the scan.
pub fn of_pieces(scan: &FileScanConfig, pieces: &[&Piece]) -> Result<FileScanConfig> {
    let mut groups: Vec<Vec<PartitionedFile>> = vec![Vec::new(); scan.file_groups.len()];
    let mut last: Option<(usize, usize)> = None;
    for piece in pieces {
        let files = scan.file_groups.get(piece.group);
        let Some(file) = files.and_then(|files| files.iter().nth(piece.file)) else {
            return internal_err!("a scan has no file {} in group {}", piece.file, piece.group);
        };
        let (start, end) = (piece.start as i64, piece.end as i64);
        let group = &mut groups[piece.group];
        match group.last_mut().and_then(|file| file.range.as_mut()) {
            Some(range) if last == Some((piece.group, piece.file)) && range.end == start => range.end = end,
            _ => {
                let mut part = file.clone().with_range(start, end);
                // Counts of a whole file are not those of a part.
                part.statistics = part.statistics.map(|of| Arc::new(of.as_ref().clone().to_inexact()));
                group.push(part);
            }
        }
        last = Some((piece.group, piece.file));
    }
    let groups = groups.into_iter().map(Into::into).collect();
    let unknown = Statistics::new_unknown(scan.file_source().table_schema().table_schema());
    let preserve_order = scan.preserve_order;
    let mut part: FileScanConfig =
        FileScanConfigBuilder::from(scan.clone()).with_file_groups(groups).with_statistics(unknown).build();
    part.preserve_order = preserve_order;
    Ok(part)
}
