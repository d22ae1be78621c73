//! Copies a Parquet file with its column chunks at other positions.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, bail};
use parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataReader,
    ParquetMetaDataWriter, ParquetOffsetIndex, RowGroupMetaData,
};
use parquet::file::writer::TrackedWrite;

use super::place::Units;
use crate::partial::Partial;

/// The first bytes of a file.
const MAGIC: &[u8] = b"PAR1";

/// The result of a layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Laid {
    /// Number of column chunks.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of gaps between them.
    pub room: u64,
    /// Boundaries inside chunks of the new file.
    pub crossings: u64,
    /// Boundaries inside chunks of the old file.
    pub crossings_before: u64,
}

/// Copies a file with its column chunks aligned to boundaries.
///
/// # Errors
/// If it is not a Parquet file, is encrypted or corrupt, or cannot be read or written.
pub fn lay_out(from: &Path, to: &Path, units: &Units) -> anyhow::Result<Laid> {
    let shown = from.display();
    let mut source = File::open(from).with_context(|| format!("cannot open {shown}"))?;
    let metadata = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Optional)
        .parse_and_finish(&source)
        .with_context(|| format!("cannot read the footer of {shown}"))?;
    let partial = Partial::create(to).with_context(|| format!("cannot write {}", to.display()))?;
    let mut out = TrackedWrite::new(BufWriter::new(&partial.file));
    out.write_all(MAGIC)?;
    let mut mover = Mover { source: &mut source, units, laid: Laid::default(), shifts: Vec::new() };
    let groups = metadata.row_groups().iter().enumerate();
    let groups: Vec<RowGroupMetaData> = groups
        .map(|(nth, group)| {
            mover.row_group(nth, group, &mut out).with_context(|| format!("{shown}, row group {nth}"))
        })
        .collect::<anyhow::Result<_>>()?;
    let Mover { laid, shifts, .. } = mover;
    let metadata = with_places(metadata, groups, &shifts)?;
    ParquetMetaDataWriter::new_with_tracked(out, &metadata).finish()?;
    // The last bytes need no check of their own: they were written if there is a footer.
    let written = File::open(&partial.at)?;
    ParquetMetaDataReader::new()
        .parse_and_finish(&written)
        .with_context(|| format!("{} was not written completely", to.display()))?;
    partial.publish().with_context(|| format!("cannot write {}", to.display()))?;
    Ok(laid)
}

struct Mover<'a> {
    source: &'a mut File,
    units: &'a Units,
    laid: Laid,
    /// Distance by which each chunk was moved, by row group.
    shifts: Vec<Vec<i64>>,
}

impl Mover<'_> {
    fn row_group(
        &mut self,
        nth: usize,
        group: &RowGroupMetaData,
        out: &mut TrackedWrite<impl Write>,
    ) -> anyhow::Result<RowGroupMetaData> {
        self.shifts.push(Vec::new());
        let mut columns = Vec::with_capacity(group.num_columns());
        for column in group.columns() {
            let name = column.column_path().string();
            let moved = self.column(nth, column, out).with_context(|| format!("column '{name}'"))?;
            columns.push(moved);
        }
        let first = columns.iter().map(|column| column.byte_range().0).min();
        let mut builder = group.clone().into_builder().set_column_metadata(columns);
        if let Some(first) = first.filter(|_| group.file_offset().is_some()) {
            builder = builder.set_file_offset(i64::try_from(first)?);
        }
        Ok(builder.build()?)
    }

    /// Copies a chunk, and its Bloom filter after it.
    fn column(
        &mut self,
        group: usize,
        column: &ColumnChunkMetaData,
        out: &mut TrackedWrite<impl Write>,
    ) -> anyhow::Result<ColumnChunkMetaData> {
        if column.file_path().is_some() {
            bail!("its data is in another file, which is not supported");
        }
        let (start, bytes) = range(column)?;
        let at = out.bytes_written() as u64;
        let place = self.units.place(at, bytes, self.laid.room, self.laid.bytes);
        io::copy(&mut io::repeat(0).take(place - at), out)?;
        self.copy(start, bytes, out)?;
        let shift = i64::try_from(place)? - i64::try_from(start)?;
        self.laid.chunks += 1;
        self.laid.room += place - at;
        self.laid.bytes += bytes;
        self.laid.crossings += self.units.crossings(place, bytes);
        self.laid.crossings_before += self.units.crossings(start, bytes);
        self.shifts[group].push(shift);
        let moved = |offset: i64| {
            offset.checked_add(shift).context("the footer says an impossible place for one of its pages")
        };
        // Some writers use 0 for a missing page.
        let dictionary = column.dictionary_page_offset().filter(|at| *at > 0);
        // Indexes are written again after everything else.
        let mut builder = column
            .clone()
            .into_builder()
            .set_data_page_offset(moved(column.data_page_offset())?)
            .set_dictionary_page_offset(dictionary.map(moved).transpose()?)
            .set_index_page_offset(column.index_page_offset().map(moved).transpose()?)
            .set_offset_index_offset(None)
            .set_offset_index_length(None)
            .set_column_index_offset(None)
            .set_column_index_length(None);
        // A filter without a length in the footer has the length in its own header, which this program does not
        // read.
        let filter = column.bloom_filter_offset().zip(column.bloom_filter_length());
        builder = match filter {
            Some((offset, length)) => {
                let at = i64::try_from(out.bytes_written())?;
                self.copy(u64::try_from(offset)?, u64::try_from(length)?, out)?;
                builder.set_bloom_filter_offset(Some(at))
            }
            None => builder.set_bloom_filter_offset(None).set_bloom_filter_length(None),
        };
        Ok(builder.build()?)
    }

    fn copy(&mut self, start: u64, bytes: u64, out: &mut impl Write) -> anyhow::Result<()> {
        self.source.seek(SeekFrom::Start(start))?;
        let copied = io::copy(&mut Read::by_ref(self.source).take(bytes), out)?;
        if copied != bytes {
            bail!("the file ends after {copied} of the {bytes} bytes at {start}");
        }
        Ok(())
    }
}

/// The position of a chunk, checked because a footer can contain anything.
fn range(column: &ColumnChunkMetaData) -> anyhow::Result<(u64, u64)> {
    let first = column.dictionary_page_offset().filter(|at| *at > 0).unwrap_or(column.data_page_offset());
    let range = u64::try_from(first).ok().zip(u64::try_from(column.compressed_size()).ok());
    let range = range.filter(|(start, bytes)| start.checked_add(*bytes).is_some_and(|end| end < 1 << 62));
    range.context("the footer says an impossible place for it")
}

/// The metadata with the new positions of chunks and of the pages in offset indexes.
fn with_places(
    metadata: ParquetMetaData,
    groups: Vec<RowGroupMetaData>,
    shifts: &[Vec<i64>],
) -> anyhow::Result<ParquetMetaData> {
    let mut builder = ParquetMetaDataBuilder::new_from_metadata(metadata).set_row_groups(groups);
    if let Some(mut index) = builder.take_offset_index() {
        shift_pages(&mut index, shifts);
        builder = builder.set_offset_index(Some(index));
    }
    Ok(builder.build())
}

fn shift_pages(index: &mut ParquetOffsetIndex, shifts: &[Vec<i64>]) {
    for (columns, shifts) in index.iter_mut().zip(shifts) {
        for (column, shift) in columns.iter_mut().zip(shifts) {
            column
                .page_locations
                .iter_mut()
                .for_each(|page| page.offset = page.offset.saturating_add(*shift));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
    use parquet::file::properties::WriterProperties;

    use super::*;

    fn sample(path: &Path) -> Vec<RecordBatch> {
        let batch = |from: i64| {
            let numbers = Int64Array::from_iter_values(
                (from..from + 3000).map(|n| n.wrapping_mul(0x1E37_79B9_7F4A_7C15)),
            );
            let texts =
                StringArray::from_iter_values((from..from + 3000).map(|n| format!("text {}", n % 17)));
            let columns: [(_, arrow::array::ArrayRef); 2] =
                [("number", Arc::new(numbers)), ("text", Arc::new(texts))];
            RecordBatch::try_from_iter(columns).unwrap()
        };
        let batches: Vec<_> = (0..6).map(|nth| batch(3000 * nth)).collect();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(3000))
            .set_data_page_row_count_limit(500)
            .set_write_batch_size(500)
            .set_bloom_filter_enabled(true)
            .set_bloom_filter_max_ndv(3000)
            .build();
        let file = File::create(path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batches[0].schema(), Some(properties)).unwrap();
        batches.iter().for_each(|batch| writer.write(batch).unwrap());
        writer.close().unwrap();
        batches
    }

    /// Rows of some pages, found through the offset index.
    fn read(path: &Path) -> Vec<RecordBatch> {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
        let builder =
            ParquetRecordBatchReaderBuilder::try_new_with_options(File::open(path).unwrap(), options);
        let reader =
            builder.unwrap().with_batch_size(3000).with_offset(100).with_limit(15_000).build().unwrap();
        reader.map(|batch| batch.unwrap()).collect()
    }

    #[test]
    fn the_rows_are_the_same_and_chunks_do_not_cross_boundaries_needlessly() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.parquet"), dir.path().join("b.parquet"));
        sample(&from);
        let units = Units { unit: 40_000, offset: 1000, waste_percent: 100 };
        let laid = lay_out(&from, &to, &units).unwrap();
        assert_eq!((laid.chunks, laid.crossings), (12, 0), "{laid:?}");
        assert!(laid.crossings_before > 0 && laid.room > 0, "{laid:?}");
        assert_eq!(read(&from), read(&to));
        // Bloom filters are at the positions in the footer.
        let bytes = |path: &Path| {
            let file = std::fs::read(path).unwrap();
            let footer = ParquetMetaDataReader::new().parse_and_finish(&File::open(path).unwrap()).unwrap();
            let column = footer.row_group(3).column(0).clone();
            let at = column.bloom_filter_offset().unwrap() as usize;
            file[at..at + column.bloom_filter_length().unwrap() as usize].to_vec()
        };
        assert_eq!(bytes(&from), bytes(&to));
        // The second layout changes nothing.
        let again = lay_out(&to, &from, &units).unwrap();
        assert_eq!((again.crossings, again.crossings_before), (0, 0));
    }

    #[test]
    fn broken_files_are_refused_and_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("a.parquet"), dir.path().join("b.parquet"));
        std::fs::write(&from, b"PAR1 nothing").unwrap();
        let units = Units { unit: 100, offset: 0, waste_percent: 10 };
        let error = lay_out(&from, &to, &units).unwrap_err();
        assert!(format!("{error:#}").contains("a.parquet"), "{error:#}");
        assert!(!to.exists());
    }
}
