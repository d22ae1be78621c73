//! The Arrow types of a file's decoded columns, and the columns of strings whose dictionaries are kept.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::{ConvertedType, Encoding, PageType, Type as PhysicalType};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats, ParquetMetaData};

/// The decoding of a file's columns to a schema.
#[derive(Debug)]
pub(crate) struct Decoding {
    plain: ArrowReaderMetadata,
    /// The same with dictionaries for strings, where Parquet's reader can make them. Made on first need.
    with_dictionaries: OnceLock<Option<ArrowReaderMetadata>>,
}

/// The minimum number of slices of a chunk with dictionaries. In smaller chunks another schema for the file
/// would cost more than the dictionaries save.
const SLICES_MIN: usize = 2;

impl Decoding {
    /// The decoding to the types of `plain`.
    pub(crate) fn new(plain: ArrowReaderMetadata) -> Self {
        Decoding { plain, with_dictionaries: OnceLock::new() }
    }

    /// The requested type.
    pub(crate) fn data_type(&self, root: usize) -> &DataType {
        self.plain.schema().field(root).data_type()
    }

    /// The reader's metadata for a root column of a row group with this many slices, and whether its arrays
    /// have dictionaries.
    pub(crate) fn of(&self, row_group: usize, root: usize, slices: usize) -> (&ArrowReaderMetadata, bool) {
        let metadata = self.plain.metadata();
        let mut leaves = leaves(metadata, root);
        let is_kept = slices >= SLICES_MIN
            && leaves.len() == 1
            && leaves.next().is_some_and(|leaf| {
                let column = metadata.row_group(row_group).column(leaf);
                strings(column, self.data_type(root)).is_some() && is_all_dictionary(column)
            });
        match is_kept.then(|| self.with_dictionaries()).flatten() {
            Some(with_dictionaries) => (with_dictionaries, true),
            None => (&self.plain, false),
        }
    }

    fn with_dictionaries(&self) -> Option<&ArrowReaderMetadata> {
        let make = || {
            let metadata = self.plain.metadata();
            let row_group = metadata.row_groups().first()?;
            let schema = self.plain.schema();
            let fields = schema.fields().iter().enumerate().map(|(root, field)| {
                let leaf = leaves(metadata, root).next();
                match leaf.and_then(|leaf| strings(row_group.column(leaf), field.data_type())) {
                    Some(strings) => {
                        let keyed = DataType::Dictionary(Box::new(DataType::Int32), Box::new(strings));
                        Arc::new(Field::clone(field).with_data_type(keyed))
                    }
                    None => Arc::clone(field),
                }
            });
            let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone());
            let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
            ArrowReaderMetadata::try_new(Arc::clone(metadata), options).ok()
        };
        self.with_dictionaries.get_or_init(make).as_ref()
    }
}

/// The leaf columns of a root column.
pub(crate) fn leaves(metadata: &ParquetMetaData, root: usize) -> Range<usize> {
    let schema = metadata.file_metadata().schema_descr();
    let first = |root: usize| {
        let (mut from, mut to) = (0, schema.num_columns());
        while from < to {
            let middle = from.midpoint(to);
            match schema.get_column_root_idx(middle) < root {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        from
    };
    first(root)..first(root + 1)
}

/// The type of Parquet's reader for the values of a dictionary of this column, if views of them are
/// requested.
fn strings(column: &ColumnChunkMetaData, asked: &DataType) -> Option<DataType> {
    let of = column.column_descr();
    if column.column_type() != PhysicalType::BYTE_ARRAY
        || of.path().parts().len() != 1
        || of.max_rep_level() > 0
    {
        return None;
    }
    match (asked, of.converted_type()) {
        (DataType::Utf8View, ConvertedType::UTF8) => Some(DataType::Utf8),
        (DataType::BinaryView, ConvertedType::NONE) => Some(DataType::Binary),
        _ => None,
    }
}

/// Returns whether the footer says that all values of the column chunk are in its dictionary.
fn is_all_dictionary(column: &ColumnChunkMetaData) -> bool {
    if column.dictionary_page_offset().is_none() {
        return false;
    }
    let is_dictionary = |encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    let is_data =
        |page: &&PageEncodingStats| matches!(page.page_type, PageType::DATA_PAGE | PageType::DATA_PAGE_V2);
    if let Some(encodings) = column.page_encoding_stats_mask() {
        return encodings.encodings().all(is_dictionary);
    }
    column
        .page_encoding_stats()
        .is_some_and(|pages| pages.iter().filter(is_data).all(|page| is_dictionary(page.encoding)))
}
