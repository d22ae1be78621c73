//! Delta tables that the tests write action by action, and answers that follow from what was written.
//! `written.rs` has tables of another writer.

mod log;
#[path = "../support/mod.rs"]
mod support;
mod written;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coscan_datafusion::{CoscanContext, Versions, is_gone};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, ListArray, StringArray, StructArray,
    TimestampMillisecondArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::Result;
use log::{Log, column, mapped, metadata, plain, remove, with_id, without};
use serde_json::json;
use support::{context, rows};

async fn declare(coscan: &CoscanContext, name: &str, location: &str, options: &str) -> Result<()> {
    let sql = format!("CREATE EXTERNAL TABLE {name} STORED AS DELTA LOCATION '{location}' {options}");
    coscan.sql(&sql).await?.collect().await.map(|_| ())
}

async fn error(coscan: &CoscanContext, sql: &str) -> String {
    rows(coscan, sql).await.expect_err(sql).to_string()
}

fn numbers(range: std::ops::Range<i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(range))
}

/// A table of numbers with a file of each range, and the actions that added the files.
fn table_of(ranges: &[std::ops::Range<i64>], features: &[&str]) -> (Log, Vec<serde_json::Value>) {
    let mut log = Log::new(&[plain("n", "long")], &[], features, json!({}));
    let adds: Vec<_> = ranges
        .iter()
        .enumerate()
        .map(|(at, range)| {
            let bounds = json!({"minValues": {"n": range.start}, "maxValues": {"n": range.end - 1}, "nullCount": {"n": 0}});
            log.file_with(&format!("part-{at}.parquet"), &[("n", numbers(range.clone()))], json!({}), bounds)
        })
        .collect();
    log.commit(&adds);
    (log, adds)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_a_log_is_what_the_log_says() {
    let (mut log, adds) = table_of(&[0..10, 10..30], &[]);
    let more = log.file("part-2.parquet", &[("n", numbers(100..103))]);
    log.commit(&[remove(&adds[0]), more]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    coscan.register_parquet("folder", &log.location()).await.expect("a table");
    coscan.register_parquet("named", &format!("delta:{}", log.location())).await.expect("a table");
    coscan.register_parquet("all", &format!("{}/*.parquet", log.location())).await.expect("a table");
    coscan.register_parquet("before", &format!("{}@v1", log.location())).await.expect("a table");
    assert_eq!(rows(&coscan, "SELECT count(*), sum(n) FROM before").await.expect("rows"), ["30 | 435"]);
    let error = error(&coscan, "INSERT INTO t VALUES (1)").await;
    assert!(error.contains("is only read"), "{error}");
    for table in ["t", "folder", "named"] {
        let sql = format!("SELECT count(*), sum(n), min(n), max(n) FROM {table}");
        assert_eq!(rows(&coscan, &sql).await.expect("rows"), ["23 | 693 | 10 | 102"], "{table}");
    }
    assert_eq!(rows(&coscan, "SELECT count(*) FROM \"all\"").await.expect("rows"), ["33"]);

    // Without the format, a folder with a log is an error.
    let without = CoscanContext::builder().build().expect("a context");
    let error = without.register_parquet("t", &log.location()).await.expect_err("no format").to_string();
    assert!(error.contains("is a Delta table") && error.contains("coscan_lake::install"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_and_times() {
    let (mut log, adds) = table_of(&[0..10, 10..30], &[]);
    log.commit(&[remove(&adds[0])]);
    let coscan = context();
    for (name, version) in [("none", 0), ("first", 1), ("second", 2)] {
        let options = format!("OPTIONS ('delta.version' '{version}')");
        declare(&coscan, name, &log.location(), &options).await.expect("a version");
    }
    declare(&coscan, "now", &log.location(), "OPTIONS ('timestamp' '2100-01-01T00:00:00Z')")
        .await
        .expect("a time");
    declare(&coscan, "named", &format!("{}@v1", log.location()), "").await.expect("a version");
    assert_eq!(rows(&coscan, "SELECT count(n) FROM named").await.expect("rows"), ["30"]);
    let sql = "SELECT (SELECT count(n) FROM none), (SELECT count(n) FROM first), (SELECT count(n) FROM second), \
               (SELECT count(n) FROM now)";
    assert_eq!(rows(&coscan, sql).await.expect("rows"), ["0 | 30 | 20 | 20"]);
    for (options, said) in [
        ("OPTIONS ('delta.version' '9')", "no version 9: the newest is 2"),
        ("OPTIONS ('delta.version' 'x')", "delta.version"),
        ("OPTIONS ('delta.timestamp' '1980-01-01')", log.location().as_str()),
        ("OPTIONS ('delta.timestamp' '1980-01-01', 'delta.version' '1')", "one version"),
        ("OPTIONS ('delta.versions' '1')", "delta.versions"),
    ] {
        let error = declare(&coscan, "wrong", &log.location(), options).await.expect_err(options).to_string();
        assert!(error.contains(said), "{options}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_rows_are_gone_in_each_version() {
    let (mut log, adds) = table_of(&[0..3000, 3000..3010, 3010..3020], &["deletionVectors"]);
    let third: Vec<u64> = (0..3000).filter(|row| row % 3 == 0).collect();
    let all: Vec<u64> = (0..10).collect();
    log.commit(&[remove(&adds[0]), without(&adds[0], &third), remove(&adds[1]), without(&adds[1], &all)]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    declare(&coscan, "before", &log.location(), "OPTIONS ('delta.version' '1')").await.expect("a table");
    coscan
        .sql("CREATE VIEW expected AS SELECT n FROM before WHERE n < 3000 AND n % 3 <> 0 OR n >= 3010")
        .await
        .expect("a view");
    for (query, of) in [
        ("SELECT n FROM t", "SELECT n FROM expected"),
        (
            "SELECT n FROM t WHERE n BETWEEN 990 AND 1020",
            "SELECT n FROM expected WHERE n BETWEEN 990 AND 1020",
        ),
        ("SELECT n FROM t WHERE n % 2 = 0", "SELECT n FROM expected WHERE n % 2 = 0"),
        (
            "SELECT n % 7, count(*), sum(n) FROM t GROUP BY 1",
            "SELECT n % 7, count(*), sum(n) FROM expected GROUP BY 1",
        ),
        (
            "SELECT count(*), count(n), min(n), max(n) FROM t",
            "SELECT count(*), count(n), min(n), max(n) FROM expected",
        ),
        (
            "SELECT a.n FROM t a JOIN before b ON a.n = b.n + 1",
            "SELECT a.n FROM expected a JOIN before b ON a.n = b.n + 1",
        ),
    ] {
        let (mut found, mut expected) =
            (rows(&coscan, query).await.expect(query), rows(&coscan, of).await.expect(of));
        found.sort();
        expected.sort();
        assert!(!expected.is_empty());
        assert_eq!(found, expected, "{query}");
    }
    let plan = rows(&coscan, "EXPLAIN SELECT n FROM t").await.expect("a plan").join("\n");
    assert!(plan.contains("CScan"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_deletes_are_errors() {
    let coscan = context();
    type Damage = fn(&mut serde_json::Value);
    let damage: [(&str, Damage); 3] = [
        ("counts 3 deleted rows", |add| add["add"]["deletionVector"]["cardinality"] = json!(3)),
        ("exceeds the file's 5 rows", |add| add["add"]["stats"] = json!("{\"numRecords\": 5}")),
        ("part-0.parquet", |add| add["add"]["stats"] = json!("{\"numRecords\": 50}")),
    ];
    for (at, (said, damage)) in damage.into_iter().enumerate() {
        let (mut log, adds) = table_of(&[0..10], &["deletionVectors"]);
        let mut damaged = without(&adds[0], &[2, 7]);
        damage(&mut damaged);
        log.commit(&[remove(&adds[0]), damaged]);
        declare(&coscan, &format!("t{at}"), &log.location(), "").await.expect("a table");
        let error = error(&coscan, &format!("SELECT n FROM t{at}")).await;
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_constants_and_prune_files() {
    let columns =
        [plain("day", "date"), plain("n", "long"), plain("place", "string"), plain("code", "integer")];
    let mut log = Log::new(&columns, &["day", "place", "code"], &[], json!({}));
    let keys = [
        json!({"day": "2024-02-29", "place": "a b/ü", "code": "7"}),
        json!({"day": "2024-03-01", "place": null, "code": "-3"}),
        json!({"day": null, "place": "", "code": null}),
    ];
    let adds: Vec<_> = keys
        .into_iter()
        .enumerate()
        .map(|(at, keys)| log.file_with(&format!("k/{at}.parquet"), &[("n", numbers(0..2))], keys, json!({})))
        .collect();
    log.commit(&adds);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    let all = rows(&coscan, "SELECT * FROM t WHERE n = 1 ORDER BY code NULLS LAST").await.expect("rows");
    // Delta writes an empty text and a missing one alike.
    assert_eq!(all, ["2024-03-01 | 1 | NULL | -3", "2024-02-29 | 1 | a b/ü | 7", "NULL | 1 | NULL | NULL"]);
    let files = |condition: &'static str| {
        let coscan = &coscan;
        async move {
            let plan =
                rows(coscan, &format!("EXPLAIN SELECT n FROM t WHERE {condition}")).await.expect("a plan");
            plan.join("\n").matches(".parquet").count()
        }
    };
    assert_eq!(files("n >= 0").await, 3);
    assert_eq!(files("code = 7").await, 1);
    assert_eq!(files("day > '2024-02-29' AND n > 0").await, 1);
    assert_eq!(files("place IS NULL").await, 2);
    assert_eq!(files("code = 8").await, 0);
    let counts =
        rows(&coscan, "SELECT place IS NULL, count(*) FROM t GROUP BY 1 ORDER BY 1").await.expect("rows");
    assert_eq!(counts, ["false | 2", "true | 4"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_of_the_log_prune_files_and_their_rows_are_counted() {
    let (log, _) = table_of(&[0..1000, 1000..2000, 2000..2500], &[]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    let plan = rows(&coscan, "EXPLAIN SELECT n FROM t WHERE n > 1990").await.expect("a plan").join("\n");
    assert_eq!(plan.matches(".parquet").count(), 2, "{plan}");
    let plan = rows(&coscan, "EXPLAIN SELECT count(*) FROM t").await.expect("a plan").join("\n");
    assert!(!plan.contains(".parquet"), "{plan}");
    assert_eq!(rows(&coscan, "SELECT count(*) FROM t").await.expect("rows"), ["2500"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_are_renamed_added_and_widened() {
    let properties = json!({"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "4"});
    let first = [mapped("n", 1, "integer", "col-1"), mapped("a", 2, "string", "col-2")];
    let features = ["columnMapping", "typeWidening"];
    let mut log = Log::new(&first, &[], &features, properties.clone());
    let texts = |values: &[&str]| -> ArrayRef { Arc::new(StringArray::from(values.to_vec())) };
    let small: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let add = log.file("x.parquet", &[("col-1", small), ("col-2", texts(&["p", "q"]))]);
    log.commit(&[add]);
    let mut widened = mapped("n", 1, "long", "col-1");
    widened["metadata"]["delta.typeChanges"] = json!([{"fromType": "integer", "toType": "long"}]);
    let later = [mapped("a", 3, "string", "col-3"), widened, mapped("b", 2, "string", "col-2")];
    let add = log.file(
        "y.parquet",
        &[("col-1", numbers(1 << 40..(1 << 40) + 1)), ("col-2", texts(&["r"])), ("col-3", texts(&["new"]))],
    );
    log.commit(&[metadata(&later, &[], properties), add]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    let all = rows(&coscan, "SELECT * FROM t ORDER BY n").await.expect("rows");
    assert_eq!(all, ["NULL | 1 | p", "NULL | 2 | q", "new | 1099511627776 | r"]);
    let some = rows(&coscan, "SELECT n, a FROM t WHERE b >= 'q' AND a IS NULL").await.expect("rows");
    assert_eq!(some, ["2 | NULL"]);
    let groups = rows(&coscan, "SELECT b, sum(n) FROM t GROUP BY b ORDER BY b").await.expect("rows");
    assert_eq!(groups, ["p | 1", "q | 2", "r | 1099511627776"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_by_field_id() {
    let properties = json!({"delta.columnMapping.mode": "id", "delta.columnMapping.maxColumnId": "5"});
    let pair = json!({"type": "struct", "fields": [mapped("new", 4, "long", "inner-4")]});
    let notes = json!({"delta.columnMapping.id": 3, "delta.columnMapping.physicalName": "col-3"});
    let columns = [
        mapped("n", 1, "long", "col-1"),
        mapped("k", 2, "integer", "col-2"),
        column("pair", pair, notes),
        mapped("later", 5, "string", "col-5"),
    ];
    let mut log = Log::new(&columns, &["k"], &["columnMapping"], properties);
    // Names in files mean nothing: the first one is that of another column.
    let inner = with_id(4, "anything", DataType::Int64);
    let nested = StructArray::from(vec![(Arc::new(inner.clone()), numbers(7..9))]);
    let fields = vec![
        with_id(3, "col-1", nested.data_type().clone()),
        with_id(9, "n", DataType::Int64),
        with_id(1, "x", DataType::Int64),
    ];
    let values: Vec<ArrayRef> = vec![Arc::new(nested), numbers(100..102), numbers(0..2)];
    let bounds = json!({"minValues": {"col-1": 0}, "maxValues": {"col-1": 1}, "nullCount": {"col-1": 0}});
    let add = log.file_of("x.parquet", fields, values, json!({"col-2": "5"}), bounds);
    // A file of a writer without ids has the names of the table.
    let named = StructArray::from(vec![(
        Arc::new(inner.with_name("inner-4").with_metadata(HashMap::new())),
        numbers(20..21),
    )]);
    let without_ids = log.file_with(
        "y.parquet",
        &[("col-1", numbers(2..3)), ("col-3", Arc::new(named))],
        json!({"col-2": "6"}),
        json!({}),
    );
    log.commit(&[add, without_ids]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    let all = rows(&coscan, "SELECT * FROM t ORDER BY n").await.expect("rows");
    assert_eq!(all, ["0 | 5 | {new: 7} | NULL", "1 | 5 | {new: 8} | NULL", "2 | 6 | {new: 20} | NULL"]);
    let some = rows(&coscan, "SELECT pair['new'] FROM t WHERE n >= 1 AND k = 5").await.expect("rows");
    assert_eq!(some, ["8"]);
    assert_eq!(rows(&coscan, "SELECT count(*) FROM t WHERE later IS NULL").await.expect("rows"), ["3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_inside_of_columns_are_renamed_added_and_dropped() {
    let properties = json!({"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "6"});
    let columns = |inner: &[serde_json::Value]| {
        let item = json!({"type": "struct", "fields": inner});
        let list = json!({"type": "array", "elementType": item, "containsNull": true});
        let notes = json!({"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"});
        [column("items", list, notes), mapped("n", 2, "long", "col-2")]
    };
    let first = columns(&[mapped("a", 3, "long", "in-3"), mapped("b", 4, "long", "in-4")]);
    let mut log = Log::new(&first, &[], &["columnMapping"], properties.clone());
    // Ids in files are not those of the table, and the writer has another word for items.
    let list = |word: &str, inner: Vec<(Field, ArrayRef)>| -> ArrayRef {
        let inner: Vec<_> = inner.into_iter().map(|(field, values)| (Arc::new(field), values)).collect();
        let values = StructArray::from(inner);
        let item = Arc::new(Field::new(word, values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, values.len()));
        Arc::new(ListArray::new(item, offsets, Arc::new(values), None))
    };
    let old = list(
        "array",
        vec![
            (with_id(4, "in-3", DataType::Int64), numbers(0..2)),
            (with_id(3, "in-4", DataType::Int64), numbers(10..12)),
        ],
    );
    let add = log.file("x.parquet", &[("col-1", old), ("col-2", numbers(0..2))]);
    log.commit(&[add]);
    let later = columns(&[mapped("b", 5, "long", "in-5"), mapped("z", 4, "long", "in-4")]);
    let new = list(
        "element",
        vec![
            (Field::new("in-4", DataType::Int64, true), numbers(12..13)),
            (Field::new("in-5", DataType::Int64, true), numbers(5..6)),
        ],
    );
    let add = log.file("y.parquet", &[("col-1", new), ("col-2", numbers(2..3))]);
    log.commit(&[metadata(&later, &[], properties), add]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    declare(&coscan, "before", &log.location(), "OPTIONS ('delta.version' '1')").await.expect("a table");
    let found = rows(&coscan, "SELECT * FROM t ORDER BY n").await.expect("rows");
    assert_eq!(found, ["[{b: NULL, z: 10}] | 0", "[{b: NULL, z: 11}] | 1", "[{b: 5, z: 12}] | 2"]);
    let found = rows(&coscan, "SELECT * FROM before ORDER BY n").await.expect("rows");
    assert_eq!(found, ["[{a: 0, b: 10}] | 0", "[{a: 1, b: 11}] | 1"]);
    let found = rows(&coscan, "SELECT n FROM t WHERE items[1]['z'] > 10 ORDER BY n").await.expect("rows");
    assert_eq!(found, ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variants_are_refused_by_name() {
    let columns = [plain("n", "long"), plain("v", "variant")];
    let mut log = Log::new(&columns, &[], &["variantType"], json!({}));
    let add = log.file("x.parquet", &[("n", numbers(0..3))]);
    log.commit(&[add]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    assert_eq!(rows(&coscan, "SELECT sum(n) FROM t").await.expect("rows"), ["3"]);
    let error = error(&coscan, "SELECT v FROM t").await;
    assert!(error.contains("the column v") && error.contains("variant"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constants_between_two_times_of_a_file_are_not_cut() {
    let mut log = Log::new(&[plain("at", "timestamp")], &[], &[], json!({}));
    let times = TimestampMillisecondArray::from(vec![999, -1001]).with_timezone("UTC");
    let add = log.file("x.parquet", &[("at", Arc::new(times))]);
    log.commit(&[add]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    for (condition, microseconds, count) in
        [("<", 999_001, 2), ("=", 999_001, 0), ("=", 999_000, 1), (">", -1_001_001, 2), ("<>", 999_001, 2)]
    {
        let time = format!("arrow_cast({microseconds}, 'Timestamp(Microsecond, Some(\"UTC\"))')");
        let sql = format!("SELECT count(*) FROM t WHERE at {condition} {time}");
        assert_eq!(rows(&coscan, &sql).await.expect("rows"), [count.to_string()], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn characters_that_are_escaped_as_two_halves() {
    let mut log = Log::new(&[plain("k", "string"), plain("x", "string")], &["k"], &[], json!({}));
    let text: ArrayRef = Arc::new(StringArray::from(vec!["𠮷"]));
    let bounds = json!({"minValues": {"x": "𠮷"}, "maxValues": {"x": "𠮷"}, "nullCount": {"x": 0}});
    let mut add = log.file_with("x.parquet", &[("x", text)], json!({"k": "𠮷"}), bounds);
    let escaped = |text: &str| text.replace('𠮷', "\\ud842\\udfb7");
    let statistics = escaped(add["add"]["stats"].as_str().expect("statistics"));
    add["add"]["stats"] = json!(statistics);
    log.commit(&[add]);
    let commit = log.path().join(format!("_delta_log/{:020}.json", 1));
    let written = std::fs::read_to_string(&commit).expect("a commit");
    std::fs::write(&commit, escaped(&written)).expect("a commit");
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    let found = rows(&coscan, "SELECT k, x FROM t WHERE k = '𠮷' AND x = '𠮷'").await.expect("rows");
    assert_eq!(found, ["𠮷 | 𠮷"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_of_the_log_is_named() {
    let (log, _) = table_of(&[0..10], &[]);
    let commit = log.path().join(format!("_delta_log/{:020}.json", 1));
    std::fs::write(commit, "{\"add\" x}\n").expect("a commit");
    let error = declare(&context(), "t", &log.location(), "").await.expect_err("damaged").to_string();
    assert!(error.contains("00000000000000000001.json is damaged: restore it"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn newer_versions_are_seen_with_the_columns_of_the_table() {
    let (mut log, _) = table_of(&[0..10], &[]);
    let coscan = context();
    let location = log.location();
    declare(&coscan, "t", &location, "OPTIONS ('delta.refresh' '0')").await.expect("a table");
    declare(&coscan, "kept", &location, "OPTIONS ('delta.refresh' '1000000')").await.expect("a table");
    let more = log.file("more.parquet", &[("n", numbers(10..15))]);
    log.commit(&[more]);
    let sum = |table: &'static str| format!("SELECT sum(n) FROM {table}");
    assert_eq!(rows(&coscan, &sum("t")).await.expect("rows"), ["105"]);
    assert_eq!(rows(&coscan, &sum("kept")).await.expect("rows"), ["45"]);

    // A column before n: statements that were planned before it read n, not m.
    rows(&coscan, "PREPARE early AS SELECT sum(n) FROM t").await.expect("a statement");
    let planned = coscan.sql("SELECT sum(n) FROM t").await.expect("a plan");
    let add = log.file("other.parquet", &[("n", numbers(0..1)), ("m", numbers(700..701))]);
    log.commit(&[metadata(&[plain("m", "long"), plain("n", "long")], &[], json!({})), add]);
    for sql in ["SELECT sum(n) FROM t", "EXECUTE early", "SELECT count(*) + 89 FROM t"] {
        assert_eq!(rows(&coscan, sql).await.expect("rows"), ["105"], "{sql}");
    }
    assert_eq!(planned.collect().await.expect("rows")[0].column(0).as_primitive::<Int64Type>().value(0), 105);
    let unknown = error(&coscan, "SELECT m FROM t").await;
    assert!(unknown.contains("No field named m"), "{unknown}");
    declare(&coscan, "again", &location, "").await.expect("a table");
    assert_eq!(rows(&coscan, "SELECT sum(n), sum(m) FROM again").await.expect("rows"), ["105 | 700"]);

    // A column with another type cannot be read, and the others can.
    log.commit(&[metadata(&[plain("m", "long"), plain("n", "string")], &[], json!({}))]);
    let error = error(&coscan, "EXECUTE early").await;
    assert!(
        error.contains("the column n") && error.contains("in version 4: make the table again"),
        "{error}"
    );
    assert_eq!(rows(&coscan, "SELECT count(*) FROM t").await.expect("rows"), ["16"]);
    assert_eq!(rows(&coscan, "SELECT sum(m) FROM again").await.expect("rows"), ["700"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_looked_up_on_demand() {
    let (mut log, _) = table_of(&[0..10], &[]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "OPTIONS ('delta.refresh' '3600')").await.expect("a table");
    declare(&coscan, "before", &log.location(), "OPTIONS ('delta.version' '1')").await.expect("a table");
    let more = log.file("more.parquet", &[("n", numbers(10..12))]);
    log.commit(&[more]);
    assert_eq!(rows(&coscan, "SELECT count(n) FROM t").await.expect("rows"), ["10"]);
    let found = rows(&coscan, "SELECT * FROM coscan_refresh('public.t')").await.expect("a version");
    assert_eq!(found, ["public.t | 2"]);
    assert_eq!(rows(&coscan, "SELECT count(n) FROM t").await.expect("rows"), ["12"]);
    let found = rows(&coscan, "SELECT version FROM coscan_refresh('before')").await.expect("a version");
    assert_eq!(found, ["1"]);
    coscan.sql("CREATE VIEW v AS SELECT 1").await.expect("a view");
    for (argument, said) in [("'v'", "lake format"), ("'nothing'", "not found"), ("7", "name of a table")] {
        let error = error(&coscan, &format!("SELECT * FROM coscan_refresh({argument})")).await;
        assert!(error.contains(said), "{argument}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_that_was_dropped_and_added_again_is_another_one() {
    let settings = json!({"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"});
    let mut log = Log::new(
        &[mapped("a", 1, "long", "x"), mapped("b", 2, "long", "y")],
        &[],
        &["columnMapping"],
        settings.clone(),
    );
    let add = log.file("one.parquet", &[("x", numbers(0..3)), ("y", numbers(10..13))]);
    log.commit(&[add]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "OPTIONS ('delta.refresh' '0')").await.expect("a table");
    assert_eq!(rows(&coscan, "SELECT sum(a), sum(b) FROM t").await.expect("rows"), ["3 | 33"]);
    log.commit(&[metadata(&[mapped("a", 3, "long", "z"), mapped("b", 2, "long", "y")], &[], settings)]);
    let error = error(&coscan, "SELECT sum(a) FROM t").await;
    assert!(error.contains("the column a") && error.contains("make the table again"), "{error}");
    assert_eq!(rows(&coscan, "SELECT sum(b) FROM t").await.expect("rows"), ["33"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_sees_one_version() {
    let (mut log, _) = table_of(&[0..10], &[]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "OPTIONS ('delta.refresh' '0')").await.expect("a table");
    let ended = Arc::new(AtomicBool::new(false));
    let writer = {
        let ended = Arc::clone(&ended);
        std::thread::spawn(move || {
            for at in 0.. {
                if ended.load(Ordering::Relaxed) {
                    return at;
                }
                let add = log.file(&format!("more-{at}.parquet"), &[("n", numbers(0..1))]);
                log.commit(&[add]);
                std::thread::sleep(Duration::from_millis(10));
            }
            0
        })
    };
    let parts: Vec<String> = (0..12).map(|_| "SELECT count(*) AS rows FROM t".to_owned()).collect();
    let sql = format!("SELECT count(DISTINCT rows) FROM ({})", parts.join(" UNION ALL "));
    for _ in 0..20 {
        assert_eq!(rows(&coscan, &sql).await.expect("rows"), ["1"]);
    }
    ended.store(true, Ordering::Relaxed);
    assert!(writer.join().expect("a writer") > 10, "versions were written meanwhile");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_vacuumed_file_is_an_error_that_names_it() {
    let (log, _) = table_of(&[0..10, 10..20], &[]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    std::fs::remove_file(log.path().join("part-1.parquet")).expect("a file less");
    let error = error(&coscan, "SELECT sum(n) FROM t").await;
    assert!(error.contains("part-1.parquet"), "{error}");
    assert_eq!(rows(&coscan, "SELECT sum(n) FROM t WHERE n < 10").await.expect("rows"), ["45"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_runs_again_reads_the_newest_version() {
    let (mut log, adds) = table_of(&[0..10, 10..20], &[]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "OPTIONS ('delta.refresh' '3600')").await.expect("a table");
    declare(&coscan, "before", &log.location(), "OPTIONS ('delta.version' '1')").await.expect("a table");
    let compacted = log.file("part-2.parquet", &[("n", numbers(0..20))]);
    log.commit(&[remove(&adds[0]), remove(&adds[1]), compacted]);
    for old in ["part-0.parquet", "part-1.parquet"] {
        std::fs::remove_file(log.path().join(old)).expect("a file less");
    }
    let run = async |table: &str, versions: Arc<Versions>| {
        versions.during(rows(&coscan, &format!("SELECT sum(n) FROM {table}"))).await
    };
    for (table, may_change) in [("t", true), ("before", false)] {
        let versions = Arc::new(Versions::default());
        let error = run(table, Arc::clone(&versions)).await.expect_err("no file");
        assert!(is_gone(&error) && error.to_string().contains("part-"), "{error}");
        assert_eq!(versions.may_change(), may_change, "{table}");
    }
    assert_eq!(run("t", Arc::new(Versions::from_now())).await.expect("rows"), ["190"]);
    assert_eq!(rows(&coscan, "SELECT sum(n) FROM t").await.expect("rows"), ["190"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshots_and_deleted_rows_are_in_the_memory_pool() {
    let (mut log, adds) = table_of(&[0..20_000], &["deletionVectors"]);
    let coscan = context();
    let pool = Arc::clone(&coscan.ctx.runtime_env().memory_pool);
    let before = pool.reserved();
    declare(&coscan, "t", &log.location(), "OPTIONS ('delta.refresh' '0')").await.expect("a table");
    let opened = pool.reserved();
    assert!(opened > before, "{opened}");
    let even: Vec<u64> = (0..20_000).filter(|row| row % 2 == 0).collect();
    log.commit(&[remove(&adds[0]), without(&adds[0], &even)]);
    assert_eq!(rows(&coscan, "SELECT count(n) FROM t").await.expect("rows"), ["10000"]);
    // Two selectors for each deleted row.
    assert!(pool.reserved() > opened + 2 * 16 * even.len() - 1000, "{}", pool.reserved());
    coscan.sql("DROP TABLE t").await.expect("a table less");
    assert!(pool.reserved() <= before, "{}", pool.reserved());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_and_the_plain_folder_share_one_read() {
    let (mut log, adds) = table_of(&[0..20_000, 20_000..40_000], &["deletionVectors"]);
    log.commit(&[remove(&adds[0]), without(&adds[0], &[5, 6, 700, 19_999])]);
    let coscan = context();
    declare(&coscan, "t", &log.location(), "").await.expect("a table");
    declare(&coscan, "before", &log.location(), "OPTIONS ('delta.version' '1')").await.expect("a table");
    coscan.register_parquet("files", &format!("{}/*.parquet", log.location())).await.expect("a table");
    let once = rows(&coscan, "SELECT sum(n) FROM files").await.expect("rows");
    assert_eq!(once, ["799980000"]);
    let bytes = coscan.engine.stats().bytes_read;
    assert!(bytes > 0);
    assert_eq!(rows(&coscan, "SELECT sum(n) FROM before").await.expect("rows"), ["799980000"]);
    assert_eq!(rows(&coscan, "SELECT sum(n) FROM t").await.expect("rows"), ["799959290"]);
    assert_eq!(coscan.engine.stats().bytes_read, bytes, "all versions are in the buffer");
}
