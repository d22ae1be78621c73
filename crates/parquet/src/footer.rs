//! Decoding of a footer's bytes, with repairs of writers' errors.
//!
//! The decoder of the parquet crate reads the bytes as they are. It may fail, or the schema or the number of
//! row groups may show that it would fail or misread. Then the bytes are written again without the faults,
//! and decoded. This module does not judge statistics; see [`crate::believed`].

use std::sync::Arc;

use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{
    ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataOptions, ParquetMetaDataReader, RowGroupMetaData,
};

use crate::intervals::with_intervals;
use crate::schema::{Bad, DEPTH_MAX, Element};
use crate::shape::{COLUMN_ORDERS, KEY_VALUES, ROW_GROUP, Rewriter};
use crate::thrift::{Input, put_binary, put_field, put_int, put_list, wire};

/// The maximum number of row groups: the decoder numbers them in 16 bits.
const GROUPS_MAX: usize = i16::MAX as usize;

/// Decodes the bytes of a footer, without the length and the magic after them.
pub(crate) fn decode(bytes: &[u8]) -> Result<ParquetMetaData> {
    let look = look(bytes)?;
    let error = if look.is_plain {
        match ParquetMetaDataReader::decode_metadata(bytes) {
            Ok(metadata) if look.has_intervals && !says_arrow_types(&metadata) => None,
            Ok(metadata) => return Ok(metadata),
            Err(error) => Some(error),
        }
    } else {
        None
    };
    for without_hints in [false, true] {
        let repaired = Footer::read(bytes, Rewriter { without_hints });
        if let Some(metadata) = repaired.and_then(|footer| footer.decode().ok()) {
            return Ok(metadata);
        }
    }
    // The decoder's error for the bytes as they are, if the bytes were not too many for it.
    error.map_or_else(|| Err(ParquetError::General("the footer is malformed".into())), Err)
}

struct Look {
    /// True if the decoder can read the footer, provided that it is well-formed.
    is_plain: bool,
    has_intervals: bool,
}

/// Returns whether the writer states the Arrow types of columns. Then intervals have months, or days and
/// milliseconds.
fn says_arrow_types(metadata: &ParquetMetaData) -> bool {
    let mut pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    pairs.any(|pair| pair.key == ARROW_SCHEMA_META_KEY)
}

/// Inspects the schema and the number of row groups. Fails where a decoder would need unbounded memory or
/// stack.
fn look(bytes: &[u8]) -> Result<Look> {
    let malformed =
        || ParquetError::General("the footer is malformed: its lists are longer than its bytes".into());
    let (mut input, mut last) = (Input::new(bytes), 0);
    let (mut is_plain, mut has_intervals) = (true, false);
    while let Some(Some((id, kind))) = input.field(last) {
        last = id;
        match (id, kind) {
            (2, wire::LIST) => {
                let (_, count) = input.list().ok_or_else(malformed)?;
                match Element::read(&mut input, count) {
                    Ok(root) => (is_plain, has_intervals) = (is_plain && !root.is_odd(), root.has_interval()),
                    // The decoder reports the fault, or it is repaired.
                    Err(Bad::Malformed) => return Ok(Look { is_plain, has_intervals }),
                    Err(Bad::TooDeep) => {
                        let text = format!("columns are nested in more than {DEPTH_MAX} groups");
                        return Err(ParquetError::General(text));
                    }
                }
            }
            (4, wire::LIST) => {
                let (_, count) = input.list().ok_or_else(malformed)?;
                return Ok(Look { is_plain: is_plain && count <= GROUPS_MAX, has_intervals });
            }
            _ if input.skip(kind).is_none() => break,
            _ => {}
        }
    }
    Ok(Look { is_plain, has_intervals })
}

/// A footer to be written again, in parts.
#[derive(Default)]
struct Footer {
    version: i64,
    /// The list of the schema's elements.
    schema: Vec<u8>,
    /// Positions of columns that are intervals and are not annotated as such.
    intervals: Vec<usize>,
    rows: i64,
    /// The row groups, one after the other, and the end of each.
    groups: Vec<u8>,
    ends: Vec<usize>,
    /// Other fields, with their numbers and types.
    others: Vec<(i16, u8, Vec<u8>)>,
}

impl Footer {
    /// `None` if the bytes are malformed or lack fields that every reader needs.
    fn read(bytes: &[u8], rewriter: Rewriter) -> Option<Footer> {
        let (mut input, mut last) = (Input::new(bytes), 0);
        let mut footer = Footer { version: 1, ..Footer::default() };
        let (mut root, mut has_groups) = (None, false);
        while let Some((id, kind)) = input.field(last)? {
            last = id;
            let is_int = (wire::I16..=wire::I64).contains(&kind);
            match (id, kind) {
                (1, _) if is_int => footer.version = input.int()?,
                (2, wire::LIST) => {
                    let (_, count) = input.list()?;
                    root = Some(Element::read(&mut input, count).ok()?.repaired());
                }
                (3, _) if is_int => footer.rows = input.int()?,
                (4, wire::LIST) => {
                    has_groups = true;
                    footer.read_groups(&mut input, rewriter)?;
                }
                (5, wire::LIST) => {
                    let mut pairs = Vec::new();
                    if rewriter.value(kind, &KEY_VALUES, &mut input, &mut pairs)? {
                        footer.others.push((id, wire::LIST, pairs));
                    }
                }
                (6, wire::BINARY) => {
                    let mut writer = Vec::new();
                    put_binary(String::from_utf8_lossy(input.binary()?).as_bytes(), &mut writer);
                    footer.others.push((id, kind, writer));
                }
                (7, wire::LIST) => {
                    let mut orders = Vec::new();
                    let fits = rewriter.value(kind, &COLUMN_ORDERS, &mut input, &mut orders)?;
                    if fits && !rewriter.without_hints {
                        footer.others.push((id, wire::LIST, orders));
                    }
                }
                // Columns may be encrypted.
                (8, _) => return None,
                _ => drop(input.skip(kind)?),
            }
        }
        if !has_groups {
            return None;
        }
        let mut root = root?;
        let says_arrow_types = |pairs: &[u8]| contains(pairs, ARROW_SCHEMA_META_KEY.as_bytes());
        if !footer.others.iter().any(|(id, _, pairs)| *id == 5 && says_arrow_types(pairs)) {
            footer.intervals = root.take_intervals();
        }
        root.write_list(&mut footer.schema);
        Some(footer)
    }

    fn read_groups(&mut self, input: &mut Input, rewriter: Rewriter) -> Option<()> {
        let (kind, count) = input.list()?;
        for _ in 0..count {
            if !rewriter.value(kind, &ROW_GROUP, input, &mut self.groups)? {
                return None;
            }
            self.ends.push(self.groups.len());
        }
        Some(())
    }

    fn decode(&self) -> Result<ParquetMetaData> {
        let first = self.ends.len().min(GROUPS_MAX);
        let first = ParquetMetaDataReader::decode_metadata(&self.with_groups(0, first))?;
        let first = with_intervals(first, &self.intervals)?;
        if self.ends.len() <= GROUPS_MAX {
            return Ok(first);
        }
        let schema = first.file_metadata().schema_descr_ptr();
        let options = ParquetMetaDataOptions::new().with_schema(Arc::clone(&schema));
        let mut first = ParquetMetaDataBuilder::new_from_metadata(first);
        let mut groups = first.take_row_groups();
        for start in (GROUPS_MAX..self.ends.len()).step_by(GROUPS_MAX) {
            let bytes = self.with_groups(start, self.ends.len().min(start + GROUPS_MAX));
            let part = ParquetMetaDataReader::decode_metadata_with_options(&bytes, Some(&options))?;
            groups.extend(ParquetMetaDataBuilder::new_from_metadata(part).take_row_groups());
        }
        // Their numbers are those within a part, so they are left out.
        let groups = groups.into_iter().map(unnumbered).collect::<Result<_>>()?;
        Ok(first.set_row_groups(groups).build())
    }

    /// A footer with these row groups.
    fn with_groups(&self, start: usize, end: usize) -> Vec<u8> {
        let mut out = Vec::new();
        put_field(0, 1, wire::I32, &mut out);
        put_int(self.version, &mut out);
        put_field(1, 2, wire::LIST, &mut out);
        out.extend_from_slice(&self.schema);
        put_field(2, 3, wire::I64, &mut out);
        put_int(self.rows, &mut out);
        put_field(3, 4, wire::LIST, &mut out);
        put_list(wire::STRUCT, end - start, &mut out);
        let end_of = |group: usize| if group == 0 { 0 } else { self.ends[group - 1] };
        out.extend_from_slice(&self.groups[end_of(start)..end_of(end)]);
        let mut last = 4;
        for (id, kind, value) in &self.others {
            put_field(last, *id, *kind, &mut out);
            out.extend_from_slice(value);
            last = *id;
        }
        out.push(0);
        out
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn unnumbered(group: RowGroupMetaData) -> Result<RowGroupMetaData> {
    let (rows, bytes) = (group.num_rows(), group.total_byte_size());
    let sorting = group.sorting_columns().cloned();
    let offset = group.file_offset();
    let schema = group.schema_descr_ptr();
    let columns = group.into_builder().take_columns();
    let mut builder = RowGroupMetaData::builder(schema)
        .set_num_rows(rows)
        .set_total_byte_size(bytes)
        .set_sorting_columns(sorting)
        .set_column_metadata(columns);
    if let Some(offset) = offset {
        builder = builder.set_file_offset(offset);
    }
    builder.build()
}
