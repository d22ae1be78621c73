//! The stated sizes of a page of delta-encoded strings: the number of strings, and their bytes once they are
//! assembled.
//!
//! The decoder allocates as many lengths as the page states before it reads one, and every string may repeat
//! the previous one. So a page of a few bytes can stand for gigabytes. This module sums lengths without
//! storing them, and makes no string.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

/// Returns whether a page of this column in this encoding (its number in the format) has delta-encoded
/// strings.
pub(crate) fn are_delta_strings(column: &ColumnChunkMetaData, encoding: i32) -> bool {
    const DELTA_LENGTH_BYTE_ARRAY: i32 = 6;
    const DELTA_BYTE_ARRAY: i32 = 7;
    let strings = [PhysicalType::BYTE_ARRAY, PhysicalType::FIXED_LEN_BYTE_ARRAY];
    strings.contains(&column.column_type()) && [DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY].contains(&encoding)
}

/// The bytes of all strings of a page, given with its header.
///
/// # Errors
/// If there are more strings than the page's header says, or their lengths cannot be read.
pub(crate) fn string_bytes(column: &ColumnChunkMetaData, header_and_page: Bytes) -> Result<u64> {
    let alone = ColumnChunkMetaData::builder(column.column_descr_ptr())
        .set_compression(column.compression())
        .set_data_page_offset(0)
        .set_total_compressed_size(header_and_page.len() as i64)
        .build()?;
    let mut pages = SerializedPageReader::new(Arc::new(header_and_page), &alone, 0, None)?;
    let descriptor = column.column_descr();
    let (buf, values, encoding, start) = match pages.get_next_page()? {
        Some(Page::DataPage {
            buf, num_values, encoding, def_level_encoding, rep_level_encoding, ..
        }) => {
            let mut start = 0;
            for (levels, most) in [
                (rep_level_encoding, descriptor.max_rep_level()),
                (def_level_encoding, descriptor.max_def_level()),
            ] {
                start += level_bytes(&buf, start, levels, most, num_values)?;
            }
            (buf, num_values, encoding, start)
        }
        Some(Page::DataPageV2 {
            buf,
            num_values,
            encoding,
            def_levels_byte_len,
            rep_levels_byte_len,
            ..
        }) => (buf, num_values, encoding, def_levels_byte_len as usize + rep_levels_byte_len as usize),
        _ => return Ok(0),
    };
    let data = buf.get(start..).ok_or_else(|| broken("levels reach beyond the page"))?;
    let lengths = Lengths::read(data, u64::from(values))?;
    if encoding != Encoding::DELTA_BYTE_ARRAY {
        return Ok(lengths.sum);
    }
    let suffixes = data.get(lengths.end..).ok_or_else(|| broken("lengths reach beyond the page"))?;
    let suffixes = Lengths::read(suffixes, u64::from(values))?;
    Ok(lengths.sum.saturating_add(suffixes.sum))
}

fn broken(what: &str) -> ParquetError {
    ParquetError::EOF(format!("delta-encoded strings: {what}"))
}

/// The bytes of levels before the values of a page of version 1.
fn level_bytes(buf: &[u8], start: usize, encoding: Encoding, most: i16, values: u32) -> Result<usize> {
    if most == 0 {
        return Ok(0);
    }
    #[allow(deprecated, reason = "old files have it")]
    if encoding == Encoding::BIT_PACKED {
        let bits = u64::from(16 - (most as u16).leading_zeros());
        return Ok((bits * u64::from(values)).div_ceil(8) as usize);
    }
    let len = buf.get(start..).and_then(|rest| rest.first_chunk::<4>());
    let len = len.ok_or_else(|| broken("there is no length of levels"))?;
    Ok(4 + u32::from_le_bytes(*len) as usize)
}

/// A list of lengths, in Parquet's DELTA_BINARY_PACKED encoding of 32-bit numbers.
#[derive(Debug, PartialEq, Eq)]
struct Lengths {
    /// The sum of the lengths that are not negative.
    sum: u64,
    /// The end of the list.
    end: usize,
}

impl Lengths {
    /// Reads a list of at most this many lengths, as the decoder does.
    fn read(bytes: &[u8], most: u64) -> Result<Self> {
        let mut input = Input { bytes, at: 0 };
        let (block, minis) = (input.unsigned()?, input.unsigned()?);
        let values = input.unsigned()?;
        let first = input.signed()?;
        if values > most {
            return Err(ParquetError::EOF(format!("a page of {most} values claims {values} strings")));
        }
        if minis == 0 || block % minis != 0 || (block / minis) % 32 != 0 {
            return Err(broken("impossible sizes of blocks"));
        }
        let in_mini = block / minis;
        let mut last = first as i32;
        let mut sum = if values > 0 { last.max(0) as u64 } else { 0 };
        let mut left = values.saturating_sub(1);
        while left > 0 {
            let min_delta = input.signed()? as i32;
            let widths = input.take(minis as usize)?;
            for &width in widths {
                if left == 0 {
                    break;
                }
                if width > 32 {
                    return Err(broken("numbers of more than 32 bits"));
                }
                let packed = (u128::from(width) * u128::from(in_mini) / 8) as u64;
                let here = left.min(in_mini);
                // The last miniblock may be cut where its values end.
                let needed = (u64::from(width) * here).div_ceil(8);
                let rest = &input.bytes[input.at..];
                if needed > rest.len() as u64 {
                    return Err(broken("deltas reach beyond the page"));
                }
                for value in 0..here {
                    let delta = bits(rest, value * u64::from(width), u32::from(width));
                    last = last.wrapping_add(min_delta).wrapping_add(delta as i32);
                    sum = sum.saturating_add(last.max(0) as u64);
                }
                left -= here;
                input.at = input.at.saturating_add(packed as usize).min(bytes.len());
            }
        }
        Ok(Lengths { sum, end: input.at })
    }
}

/// This many bits, at most 32, from a position on.
fn bits(bytes: &[u8], from: u64, width: u32) -> u32 {
    let at = (from / 8) as usize;
    let mut window = [0; 8];
    let there = bytes.len().saturating_sub(at).min(8);
    window[..there].copy_from_slice(&bytes[at..at + there]);
    let value = u64::from_le_bytes(window) >> (from % 8);
    (value & ((1u64 << width) - 1)) as u32
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    fn unsigned(&mut self) -> Result<u64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = *self.bytes.get(self.at).ok_or_else(|| broken("a number is cut"))?;
            self.at += 1;
            if shift > 63 {
                return Err(broken("a number of more than 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    fn signed(&mut self) -> Result<i64> {
        let value = self.unsigned()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.saturating_add(bytes));
        let taken = taken.ok_or_else(|| broken("widths are cut"))?;
        self.at += bytes;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use arrow::array::{ArrayRef, BinaryArray, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::{WriterProperties, WriterVersion};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    /// The pages of a file with one column of these strings, and its metadata.
    fn written(
        strings: &[Option<Vec<u8>>],
        encoding: Encoding,
        version: WriterVersion,
    ) -> (ColumnChunkMetaData, Vec<Bytes>) {
        let array: ArrayRef = Arc::new(strings.iter().map(|s| s.as_deref()).collect::<BinaryArray>());
        let batch = RecordBatch::try_from_iter_with_nullable([("s", array, true)]).unwrap();
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(false)
            .set_encoding(encoding)
            .set_writer_version(version)
            .set_compression(Compression::SNAPPY)
            .set_data_page_row_count_limit(700)
            .set_write_batch_size(100)
            .build();
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let bytes = Bytes::from(bytes);
        let reader = SerializedFileReader::new(bytes.clone()).unwrap();
        let column = reader.metadata().row_group(0).column(0).clone();
        let (mut at, len) = column.byte_range();
        let end = at + len;
        let mut pages = Vec::new();
        while at < end {
            let header = crate::decode::page_header::PageHeader::read(&bytes[at as usize..]).unwrap();
            let next = at + header.len as u64 + header.compressed;
            pages.push(bytes.slice(at as usize..next as usize));
            at = next;
        }
        (column, pages)
    }

    #[test]
    fn the_bytes_of_random_strings_are_counted_as_the_decoder_has_them() {
        for seed in 0..60 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (most, alike) = ([1, 4, 40, 3000][rng.usize(0..4)], rng.bool());
            let strings: Vec<Option<Vec<u8>>> = (0..rng.usize(1..3000))
                .map(|_| {
                    let byte = if alike { 7 } else { rng.u8(..) };
                    (rng.u8(0..9) > 0).then(|| vec![byte; rng.usize(0..most)])
                })
                .collect();
            let total: usize = strings.iter().flatten().map(Vec::len).sum();
            for encoding in [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY] {
                for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
                    let (column, pages) = written(&strings, encoding, version);
                    let counted: u64 =
                        pages.iter().map(|page| string_bytes(&column, page.clone()).unwrap()).sum();
                    assert_eq!(counted, total as u64, "seed {seed}: {encoding} {version:?}");
                }
            }
        }
    }

    #[test]
    fn a_page_of_nulls_has_no_block_and_may_be_shorter_than_the_widths_of_one() {
        // As DuckDB writes it: blocks of 2048 in 8, no value, the first of them 0.
        let nulls = [0x80, 0x10, 8, 0, 0];
        assert_eq!(Lengths::read(&nulls, 2048).unwrap(), Lengths { sum: 0, end: nulls.len() });
        // One string of a byte.
        let single = [0x80, 0x10, 8, 1, 2, b'a'];
        assert_eq!(Lengths::read(&single, 2048).unwrap(), Lengths { sum: 1, end: 5 });
        // Two strings need a block, and its widths are cut.
        let two = [0x80, 0x10, 8, 2, 2, 0, 0];
        let error = Lengths::read(&two, 2048).unwrap_err().to_string();
        assert!(error.contains("widths are cut"), "{error}");
    }

    #[test]
    fn more_strings_than_values_are_an_error_however_many() {
        // Blocks of 128 in 4, 2^40 values, the first of them 0.
        let claim = [0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0];
        let error = Lengths::read(&claim, 1000).unwrap_err().to_string();
        assert!(error.contains("a page of 1000 values claims 1099511627776 strings"), "{error}");
        for end in 0..claim.len() {
            assert!(Lengths::read(&claim[..end], 1 << 41).is_err(), "cut at {end}");
        }
    }
}
