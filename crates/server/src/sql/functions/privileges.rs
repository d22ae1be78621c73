//! What the user may do, as clients ask for it: `has_table_privilege(table, 'SELECT')` and the like.
//!
//! What a user sees they may read. Nobody changes rows: tables are files. Only administrators create.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use super::answer::anything;

/// The functions; the last argument of each names the privilege.
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
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Privilege {
    name: &'static str,
    admin: bool,
    signature: Signature,
}

impl Privilege {
    pub(super) fn udf(name: &'static str, admin: bool) -> ScalarUDF {
        ScalarUDF::from(Privilege { name, admin, signature: anything() })
    }

    /// Whether one of the privileges in a list with commas is there.
    fn holds(&self, wanted: &str) -> bool {
        wanted.split(',').any(|one| {
            let one = one.trim().to_ascii_uppercase();
            match one.split(' ').next().unwrap_or_default() {
                "SELECT" | "USAGE" | "CONNECT" | "EXECUTE" => !one.ends_with("GRANT OPTION"),
                "CREATE" => self.admin && !one.ends_with("GRANT OPTION"),
                _ => false,
            }
        })
    }
}

impl ScalarUDFImpl for Privilege {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(wanted) = args.args.last() else { return Ok(ColumnarValue::Scalar(false.into())) };
        let wanted = cast(&wanted.to_array(args.number_rows)?, &DataType::Utf8)?;
        let held = wanted.as_string::<i32>().iter().map(|wanted| wanted.map(|wanted| self.holds(wanted)));
        Ok(ColumnarValue::Array(Arc::new(held.collect::<BooleanArray>())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_allowed_and_changing_is_not() {
        let privilege = |admin| Privilege { name: NAMES[0], admin, signature: anything() };
        for (wanted, read, admin) in [
            ("select", true, true),
            ("INSERT", false, false),
            ("INSERT, SELECT", true, true),
            ("CREATE", false, true),
            ("SELECT WITH GRANT OPTION", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (privilege(false).holds(wanted), privilege(true).holds(wanted)),
                (read, admin),
                "{wanted}"
            );
        }
    }
}
