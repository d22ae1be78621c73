//! Small tables with nulls in files, and the answers to statements over them.

use coscan_datafusion::CoscanContext;
use coscan_upstream::PlainSql;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::prelude::SessionContext;

/// Names, columns and rows.
const TABLES: &[(&str, &str, &str)] = &[
    ("a", "k, g", "(7, 1), (9, 2), (NULL, 3), (12, 4)"),
    ("b", "k, g", "(7, 1), (NULL, 1), (30, 2)"),
    ("l", "k, v", "(1, 10), (2, 20), (3, 30), (4, 40), (NULL, 50)"),
    ("r", "k", "(1), (2), (2), (NULL)"),
    ("c", "i, v, e", "(1, 0, 7), (2, 3, 9)"),
    ("ja", "k, x", "(1, 10), (2, 20)"),
    ("jb", "k, y", "(2, 200), (3, 300)"),
];

/// A statement and the rows of PostgreSQL 15, sorted as texts.
pub type Answer = (&'static str, &'static [&'static str]);

/// The tables in a cooperative session and in plain DataFusion.
pub struct FewRows {
    pub coscan: CoscanContext,
    pub plain: SessionContext,
    _folder: tempfile::TempDir,
}

impl FewRows {
    pub async fn open() -> Self {
        Self::with_small_tables("0").await
    }

    /// The scans of tables up to this size are DataFusion's own.
    pub async fn with_small_tables(bytes: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let coscan = CoscanContext::builder().set("small_table_bytes", bytes).target_partitions(3);
        let few = FewRows {
            coscan: coscan.build().expect("a context"),
            plain: SessionContext::new(),
            _folder: folder,
        };
        for (name, columns, rows) in TABLES {
            let path = few._folder.path().join(format!("{name}.parquet")).display().to_string();
            let casts: Vec<String> =
                columns.split(", ").map(|column| format!("CAST({column} AS BIGINT) AS {column}")).collect();
            let copy = format!(
                "COPY (SELECT {} FROM (VALUES {rows}) AS t({columns})) TO '{path}' STORED AS PARQUET",
                casts.join(", ")
            );
            let copied = few.plain.plain_sql(&copy).await.expect("a statement").collect().await;
            copied.expect("a file");
            few.coscan.register_parquet(name, &path).await.expect("a table");
            few.plain.register_parquet(*name, &path, Default::default()).await.expect("a table");
        }
        few
    }

    /// Asserts that the rows are those of PostgreSQL.
    pub async fn assert_right(&self, answers: &[Answer]) {
        let mut wrong = Vec::new();
        for (sql, expected) in answers {
            match rows(self.coscan.sql(sql).await).await {
                Ok(rows) if rows == *expected => {}
                found => wrong.push(format!("{sql}: {found:?}, not {expected:?}")),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Returns the error of a statement.
    pub async fn error(&self, sql: &str) -> String {
        rows(self.coscan.sql(sql).await).await.expect_err(sql).to_string()
    }

    /// Returns the plans of a statement.
    pub async fn explained(&self, sql: &str) -> String {
        rows(self.coscan.sql(&format!("EXPLAIN {sql}")).await).await.expect(sql).join("\n")
    }

    /// Asserts that DataFusion itself is still wrong, or refuses the statement.
    pub async fn assert_wrong_in_datafusion(&self, answers: &[Answer]) {
        let mut right = Vec::new();
        for (sql, expected) in answers {
            if rows(self.plain.plain_sql(sql).await).await.is_ok_and(|rows| rows == *expected) {
                right.push(*sql);
            }
        }
        assert!(right.is_empty(), "DataFusion is right now: {}", right.join("\n"));
    }
}

/// Returns the rows as lines, sorted as texts.
async fn rows(frame: Result<DataFrame>) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in frame?.collect().await? {
        let options = FormatOptions::default().with_null("NULL");
        let columns = batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(values.join(" | "));
        }
    }
    rows.sort();
    Ok(rows)
}
