//! Delta tables on the command line.

use crate::support::{COOPERATIVE, stdout};

/// A table that Spark has written; 438 rows of it are deleted.
const DELETED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../lake/tests/delta/spark/deleted");

#[test]
fn a_folder_with_a_log_is_a_table_and_its_versions_are_tables() {
    for (table, expected) in [
        (format!("t={DELETED}"), "{\"n\":1662,\"s\":1758822}\n"),
        (format!("t=delta:{DELETED}"), "{\"n\":1662,\"s\":1758822}\n"),
        (format!("t=delta:{DELETED}@v3"), "{\"n\":1680,\"s\":1762740}\n"),
    ] {
        let mut args = vec!["sql", "-t", &table, "--format", "ndjson", "-c"];
        args.push("SELECT count(*) AS n, sum(id) AS s FROM t");
        args.extend(COOPERATIVE);
        assert_eq!(stdout(&args), expected, "{table}");
    }
    let unnamed = format!("SELECT count(*) AS n FROM '{DELETED}'");
    assert_eq!(stdout(&["sql", "--format", "ndjson", "-c", &unnamed]), "{\"n\":1662}\n");
}
