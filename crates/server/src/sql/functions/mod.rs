//! Functions of PostgreSQL that clients call when they connect and when they look around.
//!
//! | module | answers |
//! |---|---|
//! | `answer` | the same whatever is asked |
//! | `any` | whether a value compares with any or all elements of an array |
//! | `buckets` | in which part of a range a value is, and whole quotients |
//! | `cancel` | whether a statement was stopped |
//! | `declared` | how most of them are declared |
//! | `interval` | an interval so many times |
//! | `json` | what a text with JSON has |
//! | `justify` | an interval with hours that are days as days |
//! | `clock` | what time it is now, and the type of a value |
//! | `latest` | what was made of the latest text |
//! | `make` | a date, a time or an interval put together from numbers |
//! | `ordered` | the value at a place among ordered ones |
//! | `pattern` | the part of a text that fits a pattern |
//! | `privileges` | what the user may do |
//! | `template` | dates and times read by PostgreSQL's templates |
//! | `to_char` | times and numbers written by PostgreSQL's templates |
//! | `syntax` | what operators and special forms of SQL become |
//! | `text` | something computed from its arguments |
//! | `time` | what lies between two times, and what a clock elsewhere shows |
//!
//! Others are in `datafusion-pg-catalog`; those here are missing there, or answer what clients do not understand.

mod answer;
mod any;
mod buckets;
mod cancel;
mod clock;
mod declared;
mod interval;
mod json;
mod justify;
mod latest;
mod make;
mod ordered;
mod pattern;
mod privileges;
mod syntax;
mod template;
mod text;
mod time;
mod to_char;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::Registry;
use super::activity::Viewer;
pub(crate) use json::EXPONENT_MAX;
pub(super) use syntax::with_syntax;

/// The version that clients are told: they take features and queries of the catalog by it.
pub(crate) const POSTGRES_VERSION: &str = "16.6";

/// Settings that clients ask for in queries; SHOW knows more.
pub(super) const SETTINGS: [(&str, &str); 12] = [
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_read_only", "off"),
    ("intervalstyle", "postgres"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", POSTGRES_VERSION),
    ("server_version_num", "160006"),
    ("standard_conforming_strings", "on"),
    ("timezone", "UTC"),
];

/// Functions that say whether something can be named without its schema: all of it can.
const VISIBLE: [&str; 13] = [
    "pg_collation_is_visible",
    "pg_conversion_is_visible",
    "pg_function_is_visible",
    "pg_opclass_is_visible",
    "pg_operator_is_visible",
    "pg_opfamily_is_visible",
    "pg_statistics_obj_is_visible",
    "pg_table_is_visible",
    "pg_ts_config_is_visible",
    "pg_ts_dict_is_visible",
    "pg_ts_parser_is_visible",
    "pg_ts_template_is_visible",
    "pg_type_is_visible",
];

/// Functions about definitions and remarks, of which there are none.
const NO_TEXT: [&str; 19] = [
    "col_description",
    "obj_description",
    "pg_describe_object",
    "pg_get_constraintdef",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_function_sqlbody",
    "pg_get_functiondef",
    "pg_get_indexdef",
    "pg_get_partition_constraintdef",
    "pg_get_ruledef",
    "pg_get_serial_sequence",
    "pg_get_statisticsobjdef",
    "pg_get_triggerdef",
    "pg_get_viewdef",
    "pg_tablespace_location",
    "shobj_description",
    "to_regclass",
];

/// Functions about sizes, which are not known: tables are files that others may share.
const NO_SIZE: [&str; 7] = [
    "pg_database_size",
    "pg_indexes_size",
    "pg_relation_size",
    "pg_table_size",
    "pg_tablespace_size",
    "pg_total_relation_size",
    "pg_sequence_last_value",
];

/// Registers what is the same for everybody.
pub(crate) fn register(context: &SessionContext) {
    let answer = |name: &str, value: ScalarValue| context.register_udf(answer::udf(name, value));
    let version = concat!("PostgreSQL 16.6 (coscan ", env!("CARGO_PKG_VERSION"), ")");
    answer("version", version.into());
    VISIBLE.iter().for_each(|name| answer(name, true.into()));
    NO_TEXT.iter().for_each(|name| answer(name, ScalarValue::Utf8(None)));
    NO_SIZE.iter().for_each(|name| answer(name, ScalarValue::Int64(None)));
    answer("pg_has_role", false.into());
    answer("pg_is_in_recovery", false.into());
    answer("getdatabaseencoding", "UTF8".into());
    // UTF8, the only encoding there is.
    answer("pg_char_to_encoding", 6_i32.into());
    // Elements of the keys of indexes, of which there are none.
    let element = [Field::new("x", DataType::Int32, true), Field::new("n", DataType::Int32, true)];
    if let Ok(none) = ScalarValue::try_new_null(&DataType::Struct(element.into_iter().collect())) {
        answer("_pg_expandarray", none);
    }
    buckets::register(context);
    clock::register(context);
    json::register(context);
    justify::register(context);
    make::register(context);
    ordered::register(context);
    template::register(context);
    text::register(context);
    time::register(context);
    to_char::register(context);
}

/// Registers what tells who asks, and what they may do.
pub(crate) fn register_user(context: &SessionContext, user: &str, admin: bool, registry: &Arc<Registry>) {
    for name in ["session_user", "current_user", "user", "current_role"] {
        context.register_udf(answer::udf(name, user.into()));
    }
    for name in cancel::NAMES {
        let viewer = Viewer { user: user.to_owned(), admin };
        context.register_udf(cancel::udf(name, registry.clone(), viewer));
    }
    privileges::NAMES.iter().for_each(|name| context.register_udf(privileges::udf(name, admin)));
}

/// Registers what tells the session's number.
pub(crate) fn register_number(context: &SessionContext, number: i32) {
    context.register_udf(answer::udf("pg_backend_pid", number.into()));
}
