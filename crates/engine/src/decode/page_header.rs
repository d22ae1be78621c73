//! The fields of a Parquet page header that determine the page's memory.
//!
//! The Parquet crate keeps its reader of page headers private, and allocates the sizes that they state. This
//! reader parses the same bytes (Thrift's compact protocol), so that a size can be checked first. It does not
//! look at the data and allocates nothing.

/// The fields of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageHeader {
    /// Bytes of the header itself.
    pub(crate) len: usize,
    /// True if it is a dictionary page.
    pub(crate) dictionary: bool,
    /// Bytes of the page once it is decompressed. A negative number is an error.
    pub(crate) uncompressed: u64,
    /// Bytes of the page behind the header.
    pub(crate) compressed: u64,
    /// The encoding of a data page's values, as the format numbers it; -1 for other pages.
    pub(crate) encoding: i32,
    /// The number of values, including nulls.
    pub(crate) values: u64,
}

/// `PageType.DICTIONARY_PAGE`.
const DICTIONARY_PAGE: i32 = 2;

/// The maximum nesting of structures; valid headers have three levels.
const DEPTH_MAX: u32 = 64;

/// Types of fields, in the compact protocol.
mod field_type {
    pub(crate) const STOP: u8 = 0;
    pub(crate) const TRUE: u8 = 1;
    pub(crate) const FALSE: u8 = 2;
    pub(crate) const BYTE: u8 = 3;
    pub(crate) const I16: u8 = 4;
    pub(crate) const I32: u8 = 5;
    pub(crate) const I64: u8 = 6;
    pub(crate) const DOUBLE: u8 = 7;
    pub(crate) const BINARY: u8 = 8;
    pub(crate) const LIST: u8 = 9;
    pub(crate) const SET: u8 = 10;
    pub(crate) const MAP: u8 = 11;
    pub(crate) const STRUCT: u8 = 12;
    pub(crate) const UUID: u8 = 13;
}

impl PageHeader {
    /// The header at the beginning of `bytes`; `None` if there is none that can be read.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut input = Input { bytes, at: 0 };
        let (mut page_type, mut uncompressed, mut compressed, mut values) = (None, None, None, 0u64);
        let mut encoding = -1;
        let mut last = 0;
        while let Some((id, kind)) = input.field(last)? {
            last = id;
            match id {
                1 => page_type = Some(input.number()?),
                2 => uncompressed = Some(input.number()?),
                3 => compressed = Some(input.number()?),
                4 => drop(input.number()?),
                // The headers of data pages, dictionary pages and data pages of version 2. Their first field
                // is the number of values, and the next ones are numbers too.
                5 => {
                    let numbers = input.numbers(4)?;
                    (values, encoding) = (values.max(count(numbers[0])), numbers[1]);
                }
                6 => drop(input.numbers(0)?),
                7 => values = values.max(count(input.numbers(2)?[0])),
                8 => {
                    let numbers = input.numbers(6)?;
                    (values, encoding) = (values.max(count(numbers[0])), numbers[3]);
                }
                _ => input.skip(kind, DEPTH_MAX)?,
            }
        }
        let uncompressed = u64::try_from(uncompressed?).ok()?;
        let compressed = u64::try_from(compressed?).ok()?;
        let dictionary = page_type? == DICTIONARY_PAGE;
        Some(PageHeader { len: input.at, dictionary, uncompressed, compressed, encoding, values })
    }
}

/// A number of values, which cannot be negative.
fn count(number: i32) -> u64 {
    number.max(0) as u64
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn pass(&mut self, bytes: u64) -> Option<()> {
        let end = self.at.checked_add(usize::try_from(bytes).ok()?)?;
        (end <= self.bytes.len()).then(|| self.at = end)
    }

    fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).wrapping_shl(shift);
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift = shift.wrapping_add(7);
        }
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.unsigned()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A number of 32 bits. Of a larger one it takes the lower bits, as the decoder does.
    fn number(&mut self) -> Option<i32> {
        Some(self.signed()? as i32)
    }

    /// The number and type of the next field of a structure; `Some(None)` at the end.
    fn field(&mut self, last: i16) -> Option<Option<(i16, u8)>> {
        let byte = self.byte()?;
        let kind = byte & 0x0f;
        if kind == field_type::STOP {
            return Some(None);
        }
        let id = match byte >> 4 {
            0 => self.signed()? as i16,
            delta => last.checked_add(i16::from(delta))?,
        };
        Some(Some((id, kind)))
    }

    /// A structure whose first `fields` fields, six at most, are numbers. Missing fields are zero.
    fn numbers(&mut self, fields: i16) -> Option<[i32; 6]> {
        let (mut numbers, mut last) = ([0; 6], 0);
        while let Some((id, kind)) = self.field(last)? {
            last = id;
            match id {
                id if !(1..=fields).contains(&id) => self.skip(kind, DEPTH_MAX)?,
                id => numbers[id as usize - 1] = self.number()?,
            }
        }
        Some(numbers)
    }

    fn skip(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            field_type::TRUE | field_type::FALSE => Some(()),
            field_type::BYTE => self.pass(1),
            field_type::I16 | field_type::I32 | field_type::I64 => self.unsigned().map(drop),
            field_type::DOUBLE => self.pass(8),
            field_type::BINARY => {
                let len = self.unsigned()?;
                self.pass(len)
            }
            field_type::LIST | field_type::SET => {
                let head = self.byte()?;
                let len = if head >> 4 == 15 { self.unsigned()? } else { u64::from(head >> 4) };
                self.skip_all(len, &[head & 0x0f], depth)
            }
            field_type::MAP => {
                let len = self.unsigned()?;
                let kinds = if len > 0 { self.byte()? } else { return Some(()) };
                self.skip_all(len, &[kinds >> 4, kinds & 0x0f], depth)
            }
            field_type::STRUCT => {
                while let Some((_, kind)) = self.field(0)? {
                    self.skip(kind, depth)?;
                }
                Some(())
            }
            field_type::UUID => self.pass(16),
            _ => None,
        }
    }

    /// Skips the elements of a list or a map. Booleans take no bytes here, as in the decoder.
    fn skip_all(&mut self, len: u64, kinds: &[u8], depth: u32) -> Option<()> {
        if kinds.iter().all(|kind| matches!(*kind, field_type::TRUE | field_type::FALSE)) {
            return Some(());
        }
        for _ in 0..len {
            kinds.iter().try_for_each(|kind| self.skip(*kind, depth))?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// type 0, uncompressed 1 MiB, compressed 100, data page header with 7 values.
    const DATA: [u8; 21] = [
        0x15, 0x00, 0x15, 0x80, 0x80, 0x80, 0x01, 0x15, 0xc8, 0x01, 0x2c, 0x15, 0x0e, 0x15, 0x00, 0x15, 0x06,
        0x15, 0x06, 0x00, 0x00,
    ];

    #[test]
    fn a_header_is_read_and_a_cut_one_is_not() {
        let mut bytes = DATA.to_vec();
        bytes.extend([9, 9, 9]);
        let header = PageHeader {
            len: DATA.len(),
            dictionary: false,
            uncompressed: 1 << 20,
            compressed: 100,
            encoding: 0,
            values: 7,
        };
        assert_eq!(PageHeader::read(&bytes), Some(header));
        for end in 0..DATA.len() {
            assert_eq!(PageHeader::read(&DATA[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn headers_that_written_files_have_are_read() {
        use parquet::arrow::ArrowWriter;
        use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
        use parquet::file::reader::{FileReader, SerializedFileReader};
        use std::sync::Arc;

        let column: arrow::array::ArrayRef =
            Arc::new(arrow::array::StringArray::from_iter_values((0..5000).map(|n| (n % 700).to_string())));
        let batch = arrow::array::RecordBatch::try_from_iter([("a", column)]).unwrap();
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_data_page_row_count_limit(2000)
                .set_write_batch_size(500)
                .set_statistics_enabled(EnabledStatistics::Page)
                .set_write_page_header_statistics(true)
                .build();
            let mut file = Vec::new();
            let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            let file = bytes::Bytes::from(file);
            let reader = SerializedFileReader::new(file.clone()).unwrap();
            let (start, len) = reader.metadata().row_group(0).column(0).byte_range();
            let mut rest = &file[start as usize..(start + len) as usize];
            let mut found = Vec::new();
            while !rest.is_empty() {
                let header = PageHeader::read(rest).unwrap();
                found.push((header.dictionary, header.values));
                // Nothing is compressed.
                rest = &rest[header.len + header.uncompressed as usize..];
            }
            assert_eq!(found, [(true, 700), (false, 2000), (false, 2000), (false, 1000)], "{version:?}");
        }
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..200_000 {
            let mut bytes = DATA.to_vec();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(0..bytes.len());
                bytes[at] = random.u8(..);
            }
            let _ = PageHeader::read(&bytes);
        }
        let endless_list = [0x99, 0xf5, 0xff, 0xff, 0xff, 0xff, 0x0f];
        assert_eq!(PageHeader::read(&endless_list), None);
    }
}
