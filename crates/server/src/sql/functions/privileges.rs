//! Privileges of the user: `has_table_privilege(table, 'SELECT')` and similar functions.
//!
//! A user may read all objects that it sees. Rows cannot be changed, because tables are files. Only administrators
//! create objects.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF};

use super::answer::anything;
use super::declared::holding;

/// The functions. The last argument of each names the privilege.
pub(super) const NAMES: [&str; 12] = [
    "has_any_column_privilege",
    "has_column_privilege",
    "has_database_privilege",
    "has_foreign_data_wrapper_privilege",
    "has_function_privilege",
    "has_language_privilege",
    "has_parameter_privilege",
    "has_schema_privilege",
    "has_sequence_privilege",
    "has_server_privilege",
    "has_table_privilege",
    "has_type_privilege",
];

/// One of these functions, for a user.
pub(super) fn udf(name: &str, admin: bool) -> ScalarUDF {
    holding(name, anything(), DataType::Boolean, move |args| {
        let Some(wanted) = ColumnarValue::values_to_arrays(args)?.pop() else {
            return Ok(ColumnarValue::Scalar(false.into()));
        };
        let wanted = cast(&wanted, &DataType::Utf8)?;
        let held = wanted.as_string::<i32>().iter().map(|wanted| wanted.map(|wanted| holds(wanted, admin)));
        Ok(ColumnarValue::Array(Arc::new(held.collect::<BooleanArray>())))
    })
}

/// Returns true if the user has one of the privileges in a comma-separated list.
fn holds(wanted: &str, admin: bool) -> bool {
    wanted.split(',').any(|one| {
        let one = one.trim().to_ascii_uppercase();
        match one.split(' ').next().unwrap_or_default() {
            "SELECT" | "USAGE" | "CONNECT" | "EXECUTE" => !one.ends_with("GRANT OPTION"),
            "CREATE" => admin && !one.ends_with("GRANT OPTION"),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_allowed_and_changing_is_not() {
        for (wanted, read, admin) in [
            ("select", true, true),
            ("INSERT", false, false),
            ("INSERT, SELECT", true, true),
            ("CREATE", false, true),
            ("SELECT WITH GRANT OPTION", false, false),
            ("", false, false),
        ] {
            assert_eq!((holds(wanted, false), holds(wanted, true)), (read, admin), "{wanted}");
        }
    }
}
