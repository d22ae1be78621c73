//! The words of the database: versions, truth values, bytes and paths.

use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};

use crate::catalog::database::Reading;
use crate::options::{Wanted, time};

/// The condition that a row is of version `$1`.
pub(super) fn is_of_version(table: &str) -> String {
    format!(
        "{table}.begin_snapshot <= CAST($1 AS BIGINT) AND ({table}.end_snapshot IS NULL OR {table}.end_snapshot > CAST($1 AS BIGINT))"
    )
}

/// A path below a folder, or the path alone.
pub(super) fn below(folder: &str, path: Option<&str>, relative: Option<&str>) -> String {
    let path = path.unwrap_or_default();
    if is_true(relative) { format!("{folder}{path}") } else { path.to_owned() }
}

/// Returns whether a truth value as text is true, in the words of SQLite and of PostgreSQL.
pub(super) fn is_true(text: Option<&str>) -> bool {
    matches!(text, Some("1" | "true" | "t"))
}

/// Returns the number of the wanted version.
pub(super) async fn version(reading: &mut Reading<'_>, wanted: &Wanted) -> Result<u64> {
    let number = |text: String| {
        text.parse().map_err(|_| exec_datafusion_err!("the catalog has a snapshot with the number {text}"))
    };
    let newest = "SELECT CAST(max(snapshot_id) AS TEXT) FROM ducklake_snapshot";
    let mut found = match wanted {
        Wanted::Newest => reading.texts(newest, &[]).await?,
        Wanted::Version(version) => {
            let sql = "SELECT CAST(snapshot_id AS TEXT) FROM ducklake_snapshot WHERE snapshot_id = CAST($1 AS BIGINT)";
            reading.texts(sql, &[&version.to_string()]).await?
        }
        Wanted::Time(at) => {
            // Databases have times in other forms.
            let all = "SELECT CAST(snapshot_id AS TEXT), CAST(snapshot_time AS TEXT) FROM ducklake_snapshot ORDER BY snapshot_id";
            let all = reading.rows::<2>(all, &[]).await?;
            let until = |[_, made]: &[Option<String>; 2]| {
                made.as_deref().and_then(time).is_some_and(|made| made <= *at)
            };
            all.into_iter().filter(until).filter_map(|[id, _]| id).collect()
        }
        Wanted::Reference(name) => {
            return plan_err!("a table of DuckLake has no version {name}: name v7 or a time");
        }
    };
    match found.pop() {
        Some(text) => number(text),
        None => plan_err!("there is no such snapshot: it may have expired"),
    }
}

/// The bytes of hexadecimal digits.
pub(super) fn from_hexadecimal(text: &str) -> Result<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    match digits.filter(|digits| digits.len() % 2 == 0) {
        Some(digits) => Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()),
        None => Err(exec_datafusion_err!("'{text}' is not hexadecimal")),
    }
}

/// The bytes of a text as DuckDB writes it: `\xAB` is one byte, and what else is printable is itself.
pub(super) fn from_blob(text: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, escaped)) = rest.split_once("\\x") {
        bytes.extend_from_slice(before.as_bytes());
        let Some((digits, after)) = escaped.split_at_checked(2) else {
            return exec_err!("'{text}' ends in half a byte");
        };
        bytes.extend(from_hexadecimal(digits)?);
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_duckdb_writes_them() {
        assert_eq!(from_blob("\\xAA").expect("a byte"), [0xaa]);
        assert_eq!(from_blob("a\\x00b\\x5C").expect("bytes"), *b"a\0b\\");
        for wrong in ["\\x0", "\\xé", "\\xgg"] {
            from_blob(wrong).expect_err(wrong);
        }
    }
}
