//! The files of a table, and the keys that their folders state.
//!
//! Expected values are those of DuckDB 2.0, pyarrow 26 and polars 2.1, which agree except where noted.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use coscan_datafusion::CoscanContext;
use coscan_upstream::PlainSql;
use datafusion::arrow::array::{ArrayRef, Int32Array, StringArray};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tempfile::TempDir;
use url::Url;

use crate::support::{self, Variant, rows};
use crate::tables::{declare, expect, expect_error, rows_of, sessions, write};

/// Writes a file with the one column `v`.
fn file(folder: &TempDir, name: &str, v: i32) {
    write(&folder.path().join(name), &[("v", number(v))], &[]);
}

fn number(v: i32) -> ArrayRef {
    Arc::new(Int32Array::from(vec![v]))
}

fn files(names: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (at, name) in names.iter().enumerate() {
        file(&folder, name, at as i32 + 1);
    }
    folder
}

const ALL: &str = "SELECT v FROM t ORDER BY v";

#[tokio::test]
async fn names_with_an_equals_sign_are_files() {
    let days = files(&["date=2024-01-01.parquet", "date=2024-01-02.parquet", "x.parquet"]);
    expect(days.path(), ALL, &["1", "2", "3"]).await;
    expect(&days.path().join("*.parquet"), ALL, &["1", "2", "3"]).await;
    expect(&days.path().join("date=*.parquet"), ALL, &["1", "2"]).await;
    let only = files(&["date=2024-01-01.parquet"]);
    expect(only.path(), "SELECT * FROM t", &["1"]).await;
    expect(&only.path().join("date=2024-01-01.parquet"), "SELECT * FROM t", &["1"]).await;
    let keyed = files(&["p=1/date=2024-01-01.parquet", "p=2/x.parquet"]);
    expect(keyed.path(), "SELECT * FROM t ORDER BY v", &["1 | 1", "2 | 2"]).await;
    expect(&keyed.path().join("*.parquet"), "SELECT * FROM t ORDER BY v", &["1 | 1", "2 | 2"]).await;
}

#[tokio::test]
async fn a_path_that_exists_is_no_pattern() {
    let odd =
        files(&["a?b.parquet", "axb.parquet", "r[1].parquet", "r1.parquet", "s*.parquet", "st.parquet"]);
    for (name, v) in [("a?b", "1"), ("r[1]", "3"), ("s*", "5")] {
        expect(&odd.path().join(format!("{name}.parquet")), ALL, &[v]).await;
    }
    expect(&odd.path().join("a?b*.parquet"), ALL, &["1", "2"]).await;
    expect(&odd.path().join("r[12].parquet"), ALL, &["4"]).await;
    let folder = files(&["f[1]/a.parquet", "f1/a.parquet", "g %20é/a b%41.parquet"]);
    expect(&folder.path().join("f[1]"), ALL, &["1"]).await;
    expect(&folder.path().join("f[1]/a.parquet"), ALL, &["1"]).await;
    expect(&folder.path().join("f[1]/"), ALL, &["1"]).await;
    expect(&folder.path().join("g %20é"), ALL, &["3"]).await;
    expect(&folder.path().join("g %20é/a b%41.parquet"), ALL, &["3"]).await;
    expect(&folder.path().join("*/a.parquet"), ALL, &["1", "2"]).await;
}

#[tokio::test]
async fn hidden_files_are_passed_over_unless_they_are_named() {
    let folder = files(&[
        "a.parquet",
        "_b.parquet",
        ".c.parquet",
        "_temporary/0/d.parquet",
        "_other_log/e.parquet",
        ".hidden/f.parquet",
    ]);
    expect(folder.path(), ALL, &["1"]).await;
    expect(&folder.path().join("*.parquet"), ALL, &["1"]).await;
    expect(&folder.path().join("_b.parquet"), ALL, &["2"]).await;
    expect(&folder.path().join("_*.parquet"), ALL, &["2"]).await;
    expect(&folder.path().join(".hidden"), ALL, &["6"]).await;
    let keyed = files(&[
        "_k=1/a.parquet",
        "_k=2/_b.parquet",
        "_k=2/b.parquet",
        "_temporary/_k=3/c.parquet",
        ".d/_k=4/d.parquet",
    ]);
    expect(keyed.path(), "SELECT * FROM t ORDER BY v", &["1 | 1", "3 | 2"]).await;
}

#[tokio::test]
async fn keys_have_types() {
    let ints = files(&["p=9/a.parquet", "p=10/a.parquet", "p=__HIVE_DEFAULT_PARTITION__/a.parquet"]);
    for (sql, rows) in [
        ("SELECT max(p), min(p), sum(p), count(p), count(*) FROM t", &["10 | 9 | 19 | 2 | 3"][..]),
        ("SELECT v FROM t WHERE p = 9", &["1"]),
        ("SELECT v FROM t WHERE p = '9'", &["1"]),
        ("SELECT v FROM t WHERE p > 9", &["2"]),
        ("SELECT v FROM t WHERE p IS NULL", &["3"]),
        ("SELECT v FROM t WHERE p IS NOT NULL ORDER BY v", &["1", "2"]),
        ("SELECT v FROM t WHERE p <> 9", &["2"]),
        ("SELECT v FROM t WHERE p IN (9, 11)", &["1"]),
        ("SELECT v FROM t WHERE p = 9 OR v = 2 ORDER BY v", &["1", "2"]),
        ("SELECT p FROM t ORDER BY p DESC NULLS LAST LIMIT 1", &["10"]),
        ("SELECT p, count(*) FROM t GROUP BY p ORDER BY p NULLS FIRST", &["NULL | 1", "9 | 1", "10 | 1"]),
        ("SELECT p FROM t WHERE v = 3", &["NULL"]),
        ("SELECT v FROM t WHERE p = 11", &[]),
        ("SELECT arrow_typeof(p) FROM t LIMIT 1", &["Int64"]),
    ] {
        expect(ints.path(), sql, rows).await;
    }
    let days = files(&["d=2024-01-31/a.parquet", "d=2024-02-01/a.parquet"]);
    expect(days.path(), "SELECT v, d FROM t WHERE d >= '2024-02-01'", &["2 | 2024-02-01"]).await;
    expect(days.path(), "SELECT extract(month FROM d) FROM t WHERE d = DATE '2024-01-31'", &["1"]).await;
    // As in DuckDB; polars and pyarrow read months as numbers.
    let months = files(&["m=01/a.parquet", "m=10/a.parquet"]);
    expect(months.path(), "SELECT max(m), min(m) FROM t", &["10 | 01"]).await;
    expect(months.path(), "SELECT v FROM t WHERE m = '01'", &["1"]).await;
    let texts = files(&[
        "t=a%20b/a.parquet",
        "t=a:b/b.parquet",
        "t=a%3Ab/c.parquet",
        "t=/d.parquet",
        "t=a~b/e.parquet",
        "t=x/f.parquet",
    ]);
    for (value, rows) in
        [("a b", &["1"][..]), ("a:b", &["2", "3"]), ("", &["4"]), ("a~b", &["5"]), ("x", &["6"]), ("y", &[])]
    {
        expect(texts.path(), &format!("SELECT v FROM t WHERE t = '{value}' ORDER BY v"), rows).await;
    }
}

#[tokio::test]
async fn a_key_is_no_value_of_a_file_without_rows() {
    let folder = files(&["p=9/a.parquet"]);
    let none: ArrayRef = Arc::new(Int32Array::from(Vec::<i32>::new()));
    write(&folder.path().join("p=11/a.parquet"), &[("v", none)], &[]);
    expect(folder.path(), "SELECT max(p), min(p), count(p), count(DISTINCT p) FROM t", &["9 | 9 | 1 | 1"])
        .await;
    expect(folder.path(), "SELECT max(p) FROM t WHERE p <> 9", &["NULL"]).await;
    expect(folder.path(), "SELECT p FROM t ORDER BY p DESC LIMIT 1", &["9"]).await;
}

#[tokio::test]
async fn several_keys_are_several_columns() {
    let folder = files(&["y=2023/m=1/a.parquet", "y=2023/m=2/a.parquet", "y=2024/m=1/a.parquet"]);
    for (sql, rows) in [
        ("SELECT * FROM t ORDER BY v", &["1 | 2023 | 1", "2 | 2023 | 2", "3 | 2024 | 1"][..]),
        ("SELECT v FROM t WHERE y = 2023 AND m = 2", &["2"]),
        ("SELECT v FROM t WHERE m = 1 ORDER BY v", &["1", "3"]),
        ("SELECT v FROM t WHERE y + m = 2025 ORDER BY v", &["2", "3"]),
        ("SELECT y, sum(m) FROM t GROUP BY y ORDER BY y", &["2023 | 3", "2024 | 1"]),
    ] {
        expect(folder.path(), sql, rows).await;
    }
}

#[tokio::test]
async fn the_folders_value_of_a_key_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    for (at, k) in [(1, "a"), (2, "b")] {
        let inside: ArrayRef = Arc::new(StringArray::from(vec!["inside"]));
        write(&folder.path().join(format!("k={k}/f.parquet")), &[("v", number(at)), ("k", inside)], &[]);
    }
    expect(folder.path(), "SELECT k, v FROM t ORDER BY v", &["a | 1", "b | 2"]).await;
    expect(folder.path(), "SELECT v FROM t WHERE k = 'b'", &["2"]).await;
    expect(folder.path(), "SELECT count(*) FROM t WHERE k = 'inside'", &["0"]).await;
}

#[tokio::test]
async fn folders_of_different_keys_are_refused() {
    let mixed = files(&["p=1/a.parquet", "b.parquet"]);
    expect_error(mixed.path(), "SELECT 1", &["the same keys", "b.parquet", "p=1/a.parquet"]).await;
    let twice = files(&["p=1/p=2/a.parquet"]);
    expect_error(twice.path(), "SELECT 1", &["two folders of the key p"]).await;
}

#[tokio::test]
async fn new_and_replaced_files_are_seen() {
    for (name, ctx) in sessions() {
        let folder = files(&["p=1/a.parquet"]);
        let location = folder.path().to_str().expect("a path");
        assert_eq!(rows_of(&ctx, location, ALL).await.expect("rows"), ["1"], "{name}");
        file(&folder, "p=2/b.parquet", 2);
        assert_eq!(rows(&ctx, ALL).await.expect("rows"), ["1", "2"], "{name}");
        assert_eq!(rows(&ctx, "SELECT max(p), count(*) FROM t").await.expect("rows"), ["2 | 2"], "{name}");
        std::fs::remove_file(folder.path().join("p=1/a.parquet")).expect("a file");
        assert_eq!(rows(&ctx, ALL).await.expect("rows"), ["2"], "{name}");
        file(&folder, "p=x/c.parquet", 3);
        let error = rows(&ctx, ALL).await.expect_err("a text").to_string();
        assert!(error.contains("key p is 'x'") && error.contains("make the table again"), "{name}: {error}");
        assert_eq!(rows(&ctx, "SELECT v FROM t WHERE p = 2").await.expect("rows"), ["2"], "{name}");
    }
}

#[tokio::test]
async fn keys_are_found_however_they_are_encoded() {
    let texts = files(&[
        "p=a%3Db/a.parquet",
        "p=%41/a.parquet",
        "p=A/b.parquet",
        "p=a.b_c/a.parquet",
        "p=a%2Eb%5Fc/b.parquet",
    ]);
    for (filter, expected) in [
        ("p = 'a=b'", &["1"][..]),
        ("p >= 'a=b' AND p <= 'a=b'", &["1"]),
        ("p LIKE 'a=b'", &["1"]),
        ("p = 'A'", &["2", "3"]),
        ("p = 'a.b_c'", &["4", "5"]),
        ("p = 'b'", &[]),
    ] {
        expect(texts.path(), &format!("SELECT v FROM t WHERE {filter} ORDER BY v"), expected).await;
    }
    let names =
        ["n=%31/d=2024%2D01%2D02/a.parquet", "n=1/d=2024-01-03/a.parquet", "n=2/d=2024-01-02/a.parquet"];
    let others = files(&names);
    let filters = [
        ("n = 1", &["1", "2"][..]),
        ("n = 1 AND d = '2024-01-02'::date", &["1"]),
        ("d = '2024-01-02'::date", &["1", "3"]),
    ];
    let store = marked_store(others.path(), &names).await;
    for (filter, expected) in filters {
        let sql = format!("SELECT v FROM t WHERE {filter} ORDER BY v");
        expect(others.path(), &sql, expected).await;
        for (name, ctx) in sessions() {
            ctx.register_object_store(&Url::parse("s3://bucket").expect("a URL"), Arc::clone(&store));
            let rows = rows_of(&ctx, "s3://bucket/t/", &sql).await.expect("rows");
            assert_eq!(rows, expected, "{name}: {sql}");
        }
    }
}

#[tokio::test]
async fn a_file_replaced_by_one_of_its_size_and_time_is_seen() {
    for (name, ctx) in sessions() {
        let folder = files(&["a.parquet"]);
        let (new, path) = (folder.path().join("new"), folder.path().join("a.parquet"));
        declare(&ctx, "t", folder.path().to_str().expect("a path")).await.expect("a table");
        declare(&ctx, "one", path.to_str().expect("a path")).await.expect("a table");
        for v in 1..=3 {
            file(&folder, "new", v);
            let modified = UNIX_EPOCH + Duration::from_secs(9);
            let written = std::fs::File::options().write(true).open(&new).expect("a file");
            written.set_modified(modified).expect("a time");
            std::fs::rename(&new, &path).expect("another file");
            for table in ["t", "one"] {
                for sql in [
                    format!("SELECT max(v) FROM {table}"),
                    format!("SELECT v FROM {table}"),
                    format!("SELECT v FROM {table} WHERE v = {v}"),
                ] {
                    assert_eq!(rows(&ctx, &sql).await.expect(&sql), [v.to_string()], "{name}: {sql}");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_file_is_passed_over_or_named() {
    let folder = files(&["a.parquet"]);
    let pipe = folder.path().join("pipe.parquet");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    std::fs::write(folder.path().join("x\ty.txt"), "").expect("a file");
    std::os::unix::fs::symlink(folder.path(), folder.path().join("p=1")).expect("a link");
    expect(folder.path(), ALL, &["1"]).await;
    expect_error(&pipe, ALL, &["is neither a file nor a folder"]).await;
}

#[tokio::test]
async fn rows_can_be_inserted_where_they_could() {
    for (name, ctx) in sessions() {
        let folder = files(&["a.parquet"]);
        declare(&ctx, "t", &format!("{}/", folder.path().display())).await.expect("a table");
        ctx.plain_sql("INSERT INTO t VALUES (7)").await.expect("a plan").collect().await.expect("a row");
        assert_eq!(rows(&ctx, ALL).await.expect("rows"), ["1", "7"], "{name}");
        let keyed = files(&["p=1/a.parquet"]);
        declare(&ctx, "t", &format!("{}/", keyed.path().display())).await.expect("a table");
        ctx.plain_sql("INSERT INTO t VALUES (7, 2)").await.expect("a plan").collect().await.expect("a row");
        assert_eq!(
            rows(&ctx, "SELECT * FROM t ORDER BY v").await.expect("rows"),
            ["1 | 1", "7 | 2"],
            "{name}"
        );
    }
}

#[tokio::test]
async fn columns_can_be_declared() {
    let folder = files(&["p=1/a.parquet", "p=2/a.parquet"]);
    for (name, ctx) in sessions() {
        let sql = format!(
            "CREATE EXTERNAL TABLE d (v BIGINT, p VARCHAR) STORED AS PARQUET PARTITIONED BY (p) LOCATION '{}/'",
            folder.path().display()
        );
        ctx.plain_sql(&sql).await.expect("a table").collect().await.expect("a table");
        let rows = rows(&ctx, "SELECT v, p, arrow_typeof(p) FROM d WHERE p = '2'").await.expect("rows");
        assert_eq!(rows.len(), 1, "{name}");
        assert!(rows[0].starts_with("2 | 2 | Utf8"), "{name}: {rows:?}");
        let wrong = sql.replace("(p)", "(v)");
        let made = ctx.plain_sql(&wrong.replace("TABLE d", "TABLE e")).await;
        let error = match made {
            Ok(made) => made.collect().await.expect_err("no such key").to_string(),
            Err(error) => error.to_string(),
        };
        assert!(error.contains("partitioned by"), "{name}: {error}");
    }
}

/// A store with a folder marker, as the consoles of object stores create it.
async fn marked_store(folder: &Path, names: &[&str]) -> Arc<dyn ObjectStore> {
    let store = InMemory::new();
    for name in names {
        let bytes = std::fs::read(folder.join(name)).expect("a file");
        let path = object_store::path::Path::parse(format!("t/{name}")).expect("a path");
        store.put(&path, PutPayload::from(bytes)).await.expect("put");
    }
    for marker in ["t", "t/p=1", "t/p=3", "t/_SUCCESS"] {
        let path = object_store::path::Path::parse(marker).expect("a path");
        store.put(&path, PutPayload::new()).await.expect("put");
    }
    Arc::new(store)
}

#[tokio::test]
async fn markers_of_folders_are_no_files() {
    let names = ["p=1/a.parquet", "p=2/b.parquet"];
    let folder = files(&names);
    let store = marked_store(folder.path(), &names).await;
    for (name, ctx) in sessions() {
        ctx.register_object_store(&Url::parse("s3://bucket").expect("a URL"), Arc::clone(&store));
        let rows = rows_of(&ctx, "s3://bucket/t/", "SELECT * FROM t ORDER BY v").await.expect("rows");
        assert_eq!(rows, ["1 | 1", "2 | 2"], "{name}");
        let rows = rows_of(&ctx, "s3://bucket/t/p=*/*.parquet", "SELECT v, p FROM t ORDER BY v")
            .await
            .expect("rows");
        assert_eq!(rows, ["1 | 1", "2 | 2"], "{name}");
    }
}

#[tokio::test]
async fn paths_are_tables() {
    let folder = files(&[
        "days/date=1.parquet",
        "days/_x.parquet",
        "a?b.parquet",
        "axb.parquet",
        "k/p=9/a.parquet",
        "k/p=10/a.parquet",
    ]);
    let coscan = CoscanContext::builder().url_tables(true).build().expect("a context");
    let path = folder.path().display();
    for (sql, expected) in [
        (format!("SELECT v FROM '{path}/days/' ORDER BY v"), &["1"][..]),
        (format!("SELECT v FROM '{path}/days' ORDER BY v"), &["1"]),
        (format!("SELECT v FROM '{path}/a?b.parquet' ORDER BY v"), &["3"]),
        (format!("SELECT max(p) FROM '{path}/k/'"), &["10"]),
        (format!("SELECT count(*) FROM '{path}/*b.parquet'"), &["2"]),
    ] {
        assert_eq!(rows(&coscan.ctx, &sql).await.expect(&sql), expected, "{sql}");
    }
    let missing = format!("SELECT * FROM '{path}/none.parquet'");
    assert!(rows(&coscan.ctx, &missing).await.is_err());
}

/// If one of these fails, a correction in `table/` can be removed.
#[tokio::test]
async fn datafusion_alone_is_still_wrong() {
    let ctx = support::plain(Variant::Default);
    let of = |folder: &TempDir| folder.path().to_str().expect("a path").to_owned();
    let days = files(&["date=2024-01-01.parquet", "x.parquet"]);
    assert_eq!(rows_of(&ctx, &of(&days), ALL).await.expect("rows"), ["2"], "names with = are read");
    let odd = files(&["a?b.parquet", "axb.parquet"]);
    let path = odd.path().join("a?b.parquet").display().to_string();
    assert_eq!(
        rows_of(&ctx, &path, ALL).await.expect("rows"),
        ["1", "2"],
        "a file that exists is no pattern"
    );
    let hidden = files(&["a.parquet", "_b.parquet"]);
    assert_eq!(
        rows_of(&ctx, &of(&hidden), ALL).await.expect("rows"),
        ["1", "2"],
        "hidden files are passed over"
    );
    let keys = files(&["p=9/a.parquet", "p=10/a.parquet"]);
    assert_eq!(
        rows_of(&ctx, &of(&keys), "SELECT max(p) FROM t").await.expect("rows"),
        ["9"],
        "keys have types"
    );
    let inside = tempfile::tempdir().expect("a folder");
    write(&inside.path().join("v=1/a.parquet"), &[("v", number(1))], &[]);
    assert!(rows_of(&ctx, &of(&inside), ALL).await.is_err(), "keys may be in files, too");
}
