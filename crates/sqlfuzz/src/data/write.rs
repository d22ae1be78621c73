//! Tables as bytes of Parquet files, with every variation of a writer.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use parquet::arrow::arrow_writer::{ArrowWriterOptions, compute_leaves};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{
    BrotliLevel, Compression, Encoding, GzipLevel, Repetition, Type as PhysicalType, ZstdLevel,
};
use parquet::data_type::{Int64Type as ParquetInt64, Int96, Int96Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type, TypePtr};

use super::kind::Kind;
use super::spread::Code;
use super::{Column, DataFile, Stored, Table, values};
use crate::dice::Dice;

/// The number of values for which bloom filters are sized. The default is a million: megabytes that are
/// folded into a few bytes.
const BLOOM_FILTER_VALUES: u64 = 1_000;

/// The choices of a writer of Parquet files.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Writer {
    pub(crate) compression: Compression,
    pub(crate) dictionary: bool,
    /// Bytes of a dictionary at which the writer abandons it.
    pub(crate) dictionary_bytes: usize,
    pub(crate) page_rows: usize,
    /// With it, pages of columns with different widths have different rows.
    pub(crate) page_bytes: usize,
    pub(crate) second_version: bool,
    pub(crate) statistics: EnabledStatistics,
    pub(crate) statistics_bytes: Option<usize>,
    pub(crate) bloom_filters: bool,
    pub(crate) offset_index: bool,
    /// Whether to use encodings other than plain where a type has one.
    pub(crate) other_encodings: bool,
    /// Whether the file omits the Arrow types of its columns.
    pub(crate) types_forgotten: bool,
}

impl Default for Writer {
    fn default() -> Self {
        Writer {
            compression: Compression::UNCOMPRESSED,
            dictionary: true,
            dictionary_bytes: 1 << 20,
            page_rows: 20_000,
            page_bytes: 1 << 20,
            second_version: false,
            statistics: EnabledStatistics::Page,
            statistics_bytes: Some(64),
            bloom_filters: false,
            offset_index: true,
            other_encodings: false,
            types_forgotten: false,
        }
    }
}

impl Writer {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        let compression = dice.weighted(&[
            (4, Compression::UNCOMPRESSED),
            (4, Compression::SNAPPY),
            (2, Compression::LZ4_RAW),
            (2, Compression::ZSTD(ZstdLevel::default())),
            (1, Compression::GZIP(GzipLevel::default())),
            (1, Compression::BROTLI(BrotliLevel::default())),
        ]);
        let page_rows = *dice.pick(&[20_000, 20_000, 1, 5, 30, 100]);
        Writer {
            compression,
            dictionary: !dice.one_in(3),
            dictionary_bytes: *dice.pick(&[1 << 20, 1 << 20, 64]),
            // Decoding a page of Brotli takes a millisecond, however small it is.
            page_rows: if matches!(compression, Compression::BROTLI(_)) { 20_000 } else { page_rows },
            page_bytes: *dice.pick(&[1 << 20, 1 << 20, 1 << 20, 64, 300]),
            second_version: dice.one_in(3),
            statistics: *dice.pick(&[
                EnabledStatistics::None,
                EnabledStatistics::Chunk,
                EnabledStatistics::Page,
                EnabledStatistics::Page,
            ]),
            statistics_bytes: *dice.pick(&[Some(64), None, Some(1), Some(2)]),
            bloom_filters: dice.one_in(4),
            offset_index: !dice.one_in(4),
            other_encodings: dice.one_in(4),
            types_forgotten: dice.one_in(8),
        }
    }

    fn properties(&self, schema: &Schema) -> WriterProperties {
        let mut properties = WriterProperties::builder()
            .set_compression(self.compression)
            .set_dictionary_enabled(self.dictionary)
            .set_dictionary_page_size_limit(self.dictionary_bytes)
            .set_data_page_row_count_limit(self.page_rows)
            .set_data_page_size_limit(self.page_bytes)
            .set_write_batch_size(self.page_rows.min(256))
            .set_statistics_enabled(self.statistics)
            .set_statistics_truncate_length(self.statistics_bytes)
            .set_column_index_truncate_length(self.statistics_bytes)
            .set_bloom_filter_max_ndv(BLOOM_FILTER_VALUES)
            .set_bloom_filter_enabled(self.bloom_filters)
            .set_offset_index_disabled(!self.offset_index)
            .set_max_row_group_row_count(None);
        if self.second_version {
            properties = properties.set_writer_version(WriterVersion::PARQUET_2_0);
        }
        for field in schema.fields().iter().filter(|_| self.other_encodings) {
            let encoding = match field.data_type() {
                DataType::Int32 | DataType::Int64 | DataType::Timestamp(..) => Encoding::DELTA_BINARY_PACKED,
                DataType::Float32 | DataType::Float64 => Encoding::BYTE_STREAM_SPLIT,
                DataType::Utf8 | DataType::LargeUtf8 => Encoding::DELTA_BYTE_ARRAY,
                DataType::Binary | DataType::Utf8View => Encoding::DELTA_LENGTH_BYTE_ARRAY,
                DataType::Boolean => Encoding::RLE,
                _ => continue,
            };
            properties = properties.set_column_encoding(ColumnPath::from(field.name().as_str()), encoding);
        }
        properties.build()
    }
}

/// Returns the bytes of one file of a table.
///
/// # Errors
///
/// If the writer does not support the table.
pub(crate) fn encode(table: &Table, file: &DataFile) -> Result<Vec<u8>, ParquetError> {
    if table.columns.iter().any(|column| column.kind == Kind::Int96) {
        return encode_old(table, file);
    }
    let columns: Vec<(&Column, Kind)> = table.columns.iter().zip(&file.stored).filter_map(kept).collect();
    let fields: Vec<Field> = columns
        .iter()
        .map(|(column, kind)| Field::new(&column.name, kind.arrow(), column.nullable))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let mut options = ArrowWriterOptions::new()
        .with_properties(table.writer.properties(&schema))
        .with_skip_arrow_metadata(table.writer.types_forgotten);
    if columns.iter().any(|(_, kind)| matches!(kind, Kind::BytesDecimal(..))) {
        options = options.with_parquet_schema(with_bytes_decimals(&schema, &columns)?);
    }
    // Row groups are written one by one, because the writer of batches makes no empty ones.
    let writer = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&schema), options)?;
    let (mut writer, row_groups) = writer.into_serialized_writer()?;
    let mut row = file.first_row;
    for (number, &rows) in file.row_groups.iter().enumerate() {
        let mut leaves = row_groups.create_column_writers(number)?;
        let mut next = leaves.iter_mut();
        for ((column, kind), field) in columns.iter().zip(schema.fields()) {
            let codes: Vec<Code> = (row..row + rows as u64).map(|row| column.code(row)).collect();
            for leaf in compute_leaves(field, &values::array(&kind.arrow(), &codes))? {
                next.next().expect("a writer for each leaf").write(&leaf)?;
            }
        }
        let mut row_group = writer.next_row_group()?;
        for leaf in leaves {
            leaf.close()?.append_to_row_group(&mut row_group)?;
        }
        row_group.close()?;
        row += rows as u64;
    }
    writer.into_inner()
}

fn kept<'a>((column, stored): (&'a Column, &Stored)) -> Option<(&'a Column, Kind)> {
    match stored {
        Stored::AsDeclared => Some((column, column.kind.clone())),
        Stored::As(kind) => Some((column, kind.clone())),
        Stored::Missing => None,
    }
}

/// Returns the writer's default schema, with some decimals as bytes.
fn with_bytes_decimals(
    schema: &Schema,
    columns: &[(&Column, Kind)],
) -> Result<SchemaDescriptor, ParquetError> {
    let usual = ArrowSchemaConverter::new().convert(schema)?;
    let fields = usual.root_schema().get_fields().iter().zip(columns).map(|(field, (_, kind))| match kind {
        Kind::BytesDecimal(precision, _) => as_bytes(field, *precision),
        _ => Ok(Arc::clone(field)),
    });
    let fields = fields.collect::<Result<Vec<TypePtr>, _>>()?;
    let root = Type::group_type_builder(usual.root_schema().name()).with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

fn as_bytes(field: &TypePtr, precision: u8) -> Result<TypePtr, ParquetError> {
    let info = field.get_basic_info();
    // The bytes that a number of this many digits and a sign needs.
    let bits = f64::from(precision) * 10_f64.log2() + 1.0;
    let built = Type::primitive_type_builder(field.name(), PhysicalType::FIXED_LEN_BYTE_ARRAY)
        .with_length((bits / 8.0).ceil() as i32)
        .with_repetition(if info.repetition() == Repetition::REQUIRED {
            Repetition::REQUIRED
        } else {
            Repetition::OPTIONAL
        })
        .with_logical_type(info.logical_type_ref().cloned())
        .with_precision(field.get_precision())
        .with_scale(field.get_scale())
        .build()?;
    Ok(Arc::new(built))
}

/// Returns a file of `id` and timestamps of 96 bits, which the writer of Arrow arrays cannot make.
fn encode_old(table: &Table, file: &DataFile) -> Result<Vec<u8>, ParquetError> {
    let times: String =
        table.columns[1..].iter().map(|column| format!("OPTIONAL INT96 {};", column.name)).collect();
    let schema = parse_message_type(&format!("message m {{ REQUIRED INT64 id; {times} }}"))?;
    let properties = Arc::new(table.writer.properties(&Schema::empty()));
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?;
    let mut first = file.first_row;
    for &rows in &file.row_groups {
        let mut row_group = writer.next_row_group()?;
        for column in &table.columns {
            let codes: Vec<Code> = (first..first + rows as u64).map(|row| column.code(row)).collect();
            let values = values::array(&DataType::Int64, &codes);
            let values = values.as_primitive::<Int64Type>();
            let mut out = row_group.next_column()?.expect("as many columns as the schema has");
            if column.kind == Kind::Int96 {
                let present: Vec<i16> = codes.iter().map(|code| i16::from(*code != Code::Null)).collect();
                let times: Vec<Int96> = values.iter().flatten().map(int96).collect();
                out.typed::<Int96Type>().write_batch(&times, Some(&present), None)?;
            } else {
                out.typed::<ParquetInt64>().write_batch(values.values(), None, None)?;
            }
            out.close()?;
        }
        row_group.close()?;
        first += rows as u64;
    }
    writer.into_inner()
}

/// Returns a time in the three centuries around 2020.
fn int96(n: i64) -> Int96 {
    let mut time = Int96::new();
    time.set_data(
        (n.wrapping_mul(1_000_003) as u32) & 0x7FFF_FFFF,
        (n.rem_euclid(7)) as u32,
        2_459_000 + (n.rem_euclid(50_000)) as u32,
    );
    time
}
