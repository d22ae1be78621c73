//! Statistics, page indexes and orders that are left of metadata after untrusted ones are removed.

use std::sync::Arc;

use coscan_parquet::{believed, with_believed_pages};
use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnIndexBuilder, FileMetaData, ParquetMetaData, RowGroupMetaData, SortingColumn,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::SchemaDescriptor;

const ROWS: i64 = 10;

/// A file whose row groups have ten rows each and these statistics for each column.
struct File {
    schema: Arc<SchemaDescriptor>,
    created_by: &'static str,
    declares_order: bool,
    row_groups: Vec<Vec<Option<Statistics>>>,
    sorted_by: Vec<SortingColumn>,
}

fn file(columns: &str, row_groups: Vec<Vec<Option<Statistics>>>) -> File {
    let message = parse_message_type(&format!("message file {{ {columns} }}")).unwrap();
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(message)));
    File {
        schema,
        created_by: "parquet-mr version 1.15.0 (build x)",
        declares_order: true,
        row_groups,
        sorted_by: Vec::new(),
    }
}

impl File {
    fn metadata(self) -> ParquetMetaData {
        let row_group = |columns: Vec<Option<Statistics>>| {
            let of = columns.into_iter().enumerate().map(|(at, statistics)| {
                let column = ColumnChunkMetaData::builder(self.schema.column(at)).set_num_values(ROWS);
                let column = match statistics {
                    Some(statistics) => column.set_statistics(statistics),
                    None => column,
                };
                column.build().unwrap()
            });
            let sorted_by = (!self.sorted_by.is_empty()).then(|| self.sorted_by.clone());
            let row_group = RowGroupMetaData::builder(Arc::clone(&self.schema)).set_num_rows(ROWS);
            row_group.set_column_metadata(of.collect()).set_sorting_columns(sorted_by).build().unwrap()
        };
        let row_groups: Vec<_> = self.row_groups.iter().cloned().map(row_group).collect();
        let orders = self.declares_order.then(|| {
            let order = |column: &Arc<_>| -> ColumnOrder {
                let column: &parquet::schema::types::ColumnDescriptor = column;
                ColumnOrder::TYPE_DEFINED_ORDER(column.sort_order())
            };
            self.schema.columns().iter().map(order).collect()
        });
        let rows = ROWS * row_groups.len() as i64;
        let created_by = Some(self.created_by.to_owned());
        ParquetMetaData::new(FileMetaData::new(2, rows, created_by, None, self.schema, orders), row_groups)
    }

    /// The statistics of the first column that are left in each row group.
    fn left(self) -> Vec<Option<Statistics>> {
        let metadata = believed(self.metadata());
        let again = format!("{:?}", believed(metadata.clone()));
        assert_eq!(again, format!("{metadata:?}"), "a second time changes nothing");
        metadata.row_groups().iter().map(|row_group| row_group.column(0).statistics().cloned()).collect()
    }

    fn order(mut self, sorted_by: Vec<SortingColumn>) -> Vec<i32> {
        self.sorted_by = sorted_by;
        let metadata = believed(self.metadata());
        let order = |row_group: &RowGroupMetaData| -> Vec<i32> {
            let columns = row_group.sorting_columns().cloned().unwrap_or_default();
            columns.iter().map(|by| by.column_idx).collect()
        };
        let orders: Vec<_> = metadata.row_groups().iter().map(order).collect();
        assert!(orders.windows(2).all(|pair| pair[0] == pair[1]), "all row groups claim the same");
        orders.into_iter().next().unwrap()
    }
}

fn ints(min: i32, max: i32, nulls: Option<u64>) -> Option<Statistics> {
    Some(Statistics::int32(Some(min), Some(max), None, nulls, false))
}

fn bytes(min: &str, max: &str, deprecated: bool) -> Option<Statistics> {
    Some(Statistics::byte_array(
        Some(ByteArray::from(min)),
        Some(ByteArray::from(max)),
        None,
        Some(0),
        deprecated,
    ))
}

fn has_bounds(statistics: &Option<Statistics>) -> bool {
    statistics.as_ref().is_some_and(|of| of.min_bytes_opt().is_some() || of.max_bytes_opt().is_some())
}

/// Returns whether bounds of one column, from a writer, are left.
fn bounds_are_left(column: &str, statistics: Option<Statistics>, created_by: &'static str) -> bool {
    let of = File { created_by, ..file(column, vec![vec![statistics]]) };
    has_bounds(&of.left()[0])
}

const NEW: &str = "parquet-rs version 59.3.2";

#[test]
fn statistics_of_today_stay_as_they_are() {
    let row_groups = || vec![vec![ints(1, 5, Some(0))], vec![ints(1, 5, Some(3))], vec![None]];
    assert_eq!(file("optional int32 a;", row_groups()).left(), row_groups().concat());
    let texts = || vec![vec![bytes("a", "b", false)]];
    assert_eq!(file("optional binary a (UTF8);", texts()).left(), texts().concat());
}

#[test]
fn a_missing_or_impossible_count_of_nulls_leaves_nothing() {
    let row_groups = vec![vec![ints(1, 5, None)], vec![ints(1, 5, Some(11))], vec![ints(1, 5, Some(10))]];
    let left = file("optional int32 a;", row_groups).left();
    assert_eq!(left[..2], [None, None]);
    assert_eq!(
        left[2],
        Some(Statistics::int32(None, None, None, Some(10), false)),
        "nothing but nulls has no bounds"
    );
    let empty = Some(Statistics::int32(None, None, None, None, false));
    assert_eq!(file("optional int32 a;", vec![vec![empty]]).left(), [None]);
}

#[test]
fn a_required_column_has_no_nulls() {
    let left = file("required int32 a;", vec![vec![ints(1, 5, None)], vec![ints(1, 5, Some(2))]]).left();
    assert_eq!(left, [ints(1, 5, Some(0)), ints(1, 5, Some(0))]);
}

#[test]
fn a_number_of_values_that_is_not_that_of_rows_leaves_nothing() {
    let mut metadata = file("optional int32 a;", vec![vec![ints(1, 5, Some(0))]]).metadata().into_builder();
    let row_group = metadata.take_row_groups().remove(0).into_builder().set_num_rows(9).build().unwrap();
    let metadata = believed(metadata.add_row_group(row_group).build());
    assert_eq!(metadata.row_group(0).column(0).statistics(), None);
}

#[test]
fn bounds_that_contradict_each_other_are_none() {
    assert!(!bounds_are_left("optional int32 a;", ints(5, 1, Some(0)), NEW));
    assert!(bounds_are_left("optional int32 a;", ints(-1, 1, Some(0)), NEW));
    // As an unsigned number, -1 is the greatest.
    assert!(!bounds_are_left("optional int32 a (UINT_32);", ints(-1, 1, Some(0)), NEW));
    assert!(bounds_are_left("optional int32 a (UINT_32);", ints(1, -1, Some(0)), NEW));
    assert!(!bounds_are_left("optional binary a (UTF8);", bytes("b", "a", false), NEW));
}

#[test]
fn deprecated_bounds_are_those_of_signed_numbers() {
    let old = |value| Some(Statistics::int32(Some(1), Some(value), None, Some(0), true));
    assert!(bounds_are_left("optional int32 a;", old(5), NEW));
    assert!(bounds_are_left("optional int32 a (DECIMAL(5, 2));", old(5), NEW));
    assert!(!bounds_are_left("optional int32 a (UINT_32);", old(5), NEW));
    assert!(!bounds_are_left("optional binary a (UTF8);", bytes("a", "b", true), NEW));
    assert!(!bounds_are_left("optional binary a (UTF8);", bytes("a", "a", true), NEW));
}

#[test]
fn bounds_without_a_declared_order_are_those_of_signed_numbers() {
    let of = |column, statistics| {
        has_bounds(&File { declares_order: false, ..file(column, vec![vec![statistics]]) }.left()[0])
    };
    assert!(of("optional int32 a;", ints(1, 5, Some(0))));
    assert!(!of("optional int32 a (UINT_32);", ints(1, 5, Some(0))));
    assert!(!of("optional binary a (UTF8);", bytes("a", "b", false)));
}

#[test]
fn types_without_an_order_have_no_bounds() {
    let fixed = |deprecated| {
        let of = |byte: u8| Some(FixedLenByteArray::from(ByteArray::from(vec![byte; 12])));
        Some(Statistics::fixed_len_byte_array(of(0), of(1), None, Some(0), deprecated))
    };
    assert!(!bounds_are_left("optional fixed_len_byte_array(12) a (INTERVAL);", fixed(false), NEW));
    assert!(bounds_are_left("optional fixed_len_byte_array(12) a;", fixed(false), NEW));
    assert!(!bounds_are_left("optional fixed_len_byte_array(12) a;", fixed(true), NEW));
    let decimal = bytes("a", "b", false);
    assert!(!bounds_are_left("optional binary a (DECIMAL(5, 2));", decimal, NEW));
}

#[test]
fn writers_with_known_errors_are_not_believed() {
    let text = || bytes("a", "b", false);
    let decimal = || {
        let of = |byte: u8| Some(FixedLenByteArray::from(ByteArray::from(vec![0, byte])));
        Some(Statistics::fixed_len_byte_array(of(1), of(2), None, Some(0), false))
    };
    let decimals = "optional fixed_len_byte_array(2) a (DECIMAL(4, 2));";
    let texts = "optional binary a (UTF8);";
    for (created_by, text_left, decimal_left) in [
        ("parquet-cpp-arrow version 4.0.1", false, true),
        ("parquet-cpp-arrow version 3.0.0", false, false),
        ("parquet-cpp-arrow version 6.0.0", true, true),
        ("parquet-mr version 1.9.1 (build x)", false, false),
        ("parquet-mr version 1.10.0 (build x)", true, true),
        ("parquet-cpp version 1.5.1-SNAPSHOT", true, false),
        ("Polars", true, false),
        ("ClickHouse v24.8.14.39", true, false),
        ("Arrow2 - Native Rust implementation of Arrow", false, false),
        ("DuckDB version v1.4.0 (build x)", true, true),
        ("", true, true),
    ] {
        assert_eq!(bounds_are_left(texts, text(), created_by), text_left, "texts of {created_by}");
        assert_eq!(
            bounds_are_left(decimals, decimal(), created_by),
            decimal_left,
            "decimals of {created_by}"
        );
    }
    // A count that is not zero does not come from the error.
    let counted = Some(Statistics::byte_array(Some("a".into()), Some("b".into()), None, Some(3), false));
    assert!(bounds_are_left(texts, counted, "parquet-cpp-arrow version 4.0.1"));
    assert!(bounds_are_left("required binary a (UTF8);", text(), "parquet-cpp-arrow version 4.0.1"));
}

#[test]
fn nan_is_the_greatest_number_and_no_bound() {
    let doubles = |min: f64, max: f64| Some(Statistics::double(Some(min), Some(max), None, Some(0), false));
    let left = |statistics| match file("optional double a;", vec![vec![statistics]]).left().remove(0) {
        Some(Statistics::Double(of)) => of,
        other => panic!("{other:?}"),
    };
    let of: ValueStatistics<f64> = left(doubles(1.0, 2.0));
    assert!(of.min_opt() == Some(&1.0) && of.min_is_exact());
    assert!(of.max_opt().unwrap().is_nan() && !of.max_is_exact());
    let zeros = left(doubles(0.0, 0.0));
    assert!(zeros.min_opt().unwrap().is_sign_negative() && !zeros.min_is_exact());
    for (min, max) in [(f64::NAN, f64::NAN), (f64::NAN, 1.0), (1.0, f64::NAN), (1.0, -f64::NAN)] {
        let of = left(doubles(min, max));
        assert!(
            of.min_opt().is_none() && of.max_opt().is_none() && of.null_count_opt() == Some(0),
            "{min} {max}"
        );
    }
    let halves = |min: u16, max: u16| {
        let of = |bits: u16| Some(FixedLenByteArray::from(ByteArray::from(bits.to_le_bytes().to_vec())));
        Some(Statistics::fixed_len_byte_array(of(min), of(max), None, Some(0), false))
    };
    let left = |statistics| {
        let column = "optional fixed_len_byte_array(2) a (FLOAT16);";
        let of = file(column, vec![vec![statistics]]).left().remove(0).unwrap();
        (of.min_bytes_opt().map(<[u8]>::to_vec), of.max_bytes_opt().map(<[u8]>::to_vec))
    };
    let (min, max) = left(halves(0, 0x3c00));
    assert_eq!(min, Some(0x8000u16.to_le_bytes().to_vec()));
    assert!(u16::from_le_bytes(max.unwrap().try_into().unwrap()) > 0x7c00);
    assert_eq!(left(halves(0x7e00, 0x7e00)), (None, None));
}

#[test]
fn one_bound_alone_is_believed() {
    let lower = Some(Statistics::int32(Some(1), None, None, Some(0), false));
    assert_eq!(file("optional int32 a;", vec![vec![lower.clone()]]).left(), [lower]);
}

fn by(column_idx: i32, descending: bool, nulls_first: bool) -> SortingColumn {
    SortingColumn { column_idx, descending, nulls_first }
}

#[test]
fn an_order_holds_for_a_file_if_row_groups_follow_each_other() {
    let of = |ranges: &[(i32, i32, u64)]| {
        file(
            "optional int32 a;",
            ranges.iter().map(|&(min, max, nulls)| vec![ints(min, max, Some(nulls))]).collect(),
        )
    };
    let up = || vec![by(0, false, false)];
    assert_eq!(of(&[(1, 5, 0), (6, 9, 0), (9, 12, 0)]).order(up()), [0]);
    assert!(of(&[(1, 9, 0), (2, 4, 0)]).order(up()).is_empty(), "they overlap");
    assert!(of(&[(6, 9, 0), (1, 5, 0)]).order(up()).is_empty(), "the wrong way round");
    assert_eq!(of(&[(6, 9, 0), (1, 5, 0)]).order(vec![by(0, true, false)]), [0]);
    assert_eq!(of(&[(6, 9, 0)]).order(up()), [0], "of one row group the claim is believed");
    // Nulls are at the end that the stated order names.
    assert!(of(&[(1, 5, 1), (6, 9, 0)]).order(up()).is_empty());
    assert_eq!(of(&[(1, 5, 0), (6, 9, 1)]).order(up()), [0]);
    assert_eq!(of(&[(1, 5, 1), (6, 9, 10), (1, 1, 10)]).order(up()), [0], "row groups of nothing but nulls");
    assert_eq!(of(&[(1, 5, 1), (6, 9, 0)]).order(vec![by(0, false, true)]), [0]);
    assert!(of(&[(1, 5, 0), (6, 9, 1)]).order(vec![by(0, false, true)]).is_empty());
    assert!(of(&[(1, 5, 10), (6, 9, 0)]).order(up()).is_empty(), "all nulls come first, and are to be last");
}

#[test]
fn an_order_without_bounds_or_counts_is_not_proven() {
    let unknown = |statistics| file("optional int32 a;", vec![vec![ints(1, 5, Some(0))], vec![statistics]]);
    assert!(unknown(None).order(vec![by(0, false, false)]).is_empty());
    assert!(unknown(ints(6, 9, None)).order(vec![by(0, false, false)]).is_empty());
}

#[test]
fn the_longest_order_that_is_proven_is_left() {
    let columns = "optional int32 a; optional int32 b;";
    let of = |ranges: &[[(i32, i32); 2]]| {
        let row_group = |[a, b]: &[(i32, i32); 2]| vec![ints(a.0, a.1, Some(0)), ints(b.0, b.1, Some(0))];
        file(columns, ranges.iter().map(row_group).collect())
    };
    let both = || vec![by(0, false, false), by(1, true, false)];
    assert_eq!(of(&[[(1, 5), (1, 9)], [(6, 9), (1, 9)]]).order(both()), [0, 1]);
    assert_eq!(
        of(&[[(1, 5), (1, 9)], [(5, 9), (1, 9)]]).order(both()),
        [0],
        "rows of 5 may be out of order by b"
    );
    assert_eq!(of(&[[(1, 5), (7, 9)], [(5, 9), (1, 7)]]).order(both()), [0, 1]);
    assert_eq!(
        of(&[[(1, 5), (1, 9)], [(6, 9), (1, 9)]]).order(vec![by(0, false, false), by(7, false, false)]),
        [0]
    );
    assert!(of(&[[(1, 5), (1, 9)]]).order(vec![by(-1, false, false)]).is_empty());
}

#[test]
fn an_order_by_numbers_that_may_be_nan_or_by_a_part_of_a_column_is_none() {
    let double = Some(Statistics::double(Some(1.0), Some(2.0), None, Some(0), false));
    assert!(file("optional double a;", vec![vec![double]]).order(vec![by(0, false, false)]).is_empty());
    let nested = "optional group s { optional int32 a; }";
    assert!(file(nested, vec![vec![ints(1, 2, Some(0))]]).order(vec![by(0, false, false)]).is_empty());
}

/// The page index of one column with a page for each of these bounds.
fn with_pages(column: &str, of: Type, pages: &[Option<(Vec<u8>, Vec<u8>)>]) -> ColumnIndexMetaData {
    let mut index = ColumnIndexBuilder::new(of);
    for page in pages {
        match page {
            Some((min, max)) => index.append(false, min.clone(), max.clone(), 0),
            None => index.append(true, Vec::new(), Vec::new(), 5),
        }
    }
    let metadata = file(column, vec![vec![None]]).metadata().into_builder();
    let metadata = metadata.set_column_index(Some(vec![vec![index.build().unwrap()]])).build();
    let once = with_believed_pages(metadata);
    let twice = with_believed_pages(once.clone());
    let (ours, again) = (once.column_index().unwrap(), twice.column_index().unwrap());
    assert_eq!(format!("{ours:?}"), format!("{again:?}"), "a second time changes nothing");
    ours[0][0].clone()
}

#[test]
fn pages_of_floating_point_numbers_may_have_nan() {
    let page = |min: f64, max: f64| Some((min.to_le_bytes().to_vec(), max.to_le_bytes().to_vec()));
    let column = "optional double a;";
    let ColumnIndexMetaData::DOUBLE(index) =
        with_pages(column, Type::DOUBLE, &[page(0.0, 2.0), None, page(3.0, 4.0)])
    else {
        panic!("no index is left");
    };
    assert!(index.min_value(0).unwrap().is_sign_negative() && index.max_value(0).unwrap().is_nan());
    assert!(index.is_null_page(1) && index.max_value(1).is_none());
    assert!(index.min_value(2) == Some(&3.0) && index.max_value(2).unwrap().is_nan());
    let left = with_pages(column, Type::DOUBLE, &[page(f64::NAN, f64::NAN)]);
    assert!(matches!(left, ColumnIndexMetaData::NONE));
}

#[test]
fn pages_without_an_order_or_out_of_it_have_no_index() {
    let page = |min: i32, max: i32| Some((min.to_le_bytes().to_vec(), max.to_le_bytes().to_vec()));
    let is_left =
        |column, pages: &[_]| !matches!(with_pages(column, Type::INT32, pages), ColumnIndexMetaData::NONE);
    assert!(is_left("optional int32 a;", &[page(-1, 5), None]));
    assert!(!is_left("optional int32 a;", &[page(5, -1)]));
    assert!(!is_left("optional int32 a (UINT_32);", &[page(-1, 5)]));
    let interval = "optional fixed_len_byte_array(12) a (INTERVAL);";
    let left = with_pages(interval, Type::FIXED_LEN_BYTE_ARRAY, &[Some((vec![0; 12], vec![1; 12]))]);
    assert!(matches!(left, ColumnIndexMetaData::NONE));
    assert_eq!(SortOrder::UNDEFINED, file(interval, Vec::new()).schema.column(0).sort_order());
}
