//! Functions of PostgreSQL that clients call, for example when they connect and list objects.
//!
//! | module | result |
//! |---|---|
//! | `answer` | a constant |
//! | `any` | comparisons of a value with any or all elements of an array |
//! | `arrays` | operators of arrays; `array_remove`; arrays read from texts |
//! | `average` | the average of decimals |
//! | `bins` | times in bins of one length |
//! | `buckets` | the part of a range that has a value; integer quotients |
//! | `bytes` | bytes as text, single bytes and bits |
//! | `cancel` | a stopped statement |
//! | `declared` | short declarations of functions |
//! | `divisors` | `gcd` and `lcm` |
//! | `domain` | errors of functions outside of their domain; quotients of floating-point numbers |
//! | `interval` | an interval times a number |
//! | `joined` | texts joined to one |
//! | `json` | parts of JSON texts |
//! | `justify` | an interval with its hours as days |
//! | `clock` | the current time; the type of a value |
//! | `latest` | a cache of one parsed text |
//! | `matches` | matches of regular expressions as lists |
//! | `make` | a date, a time or an interval from numbers |
//! | `numeric` | quotients and products of decimals; casts to a decimal without stated digits |
//! | `ordered` | the value at a place among ordered ones |
//! | `own` | functions of the session in views |
//! | `pattern` | the part of a text that matches a pattern |
//! | `privileges` | privileges of the user |
//! | `records` | whole rows |
//! | `scales` | `scale` and `min_scale` |
//! | `server` | schemas, encodings and users; sizes |
//! | `settings` | the variables of the session |
//! | `sleep` | a wait |
//! | `template` | dates and times read by PostgreSQL's templates |
//! | `told_apart` | another name for a value |
//! | `to_char` | times and numbers written by PostgreSQL's templates |
//! | `syntax` | operators and special forms of SQL |
//! | `text` | texts computed from arguments |
//! | `time` | the difference of two times; times in other zones |
//! | `whole` | decimals without digits behind the point |
//! | `written` | values as texts |
//!
//! Other functions are in `datafusion-pg-catalog`. It lacks those here, or its results confuse clients.

mod answer;
mod any;
mod arrays;
mod average;
mod bins;
mod buckets;
mod bytes;
mod cancel;
mod clock;
mod declared;
mod divisors;
mod domain;
mod interval;
mod joined;
mod json;
mod justify;
mod latest;
mod make;
mod matches;
mod numeric;
mod ordered;
mod own;
mod pattern;
mod privileges;
mod records;
mod scales;
mod server;
mod settings;
mod sleep;
mod syntax;
mod template;
mod text;
mod time;
mod to_char;
mod told_apart;
mod whole;
mod written;

use std::sync::Arc;
use std::time::SystemTime;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::execution::SessionState;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use super::Registry;
use super::activity::Viewer;
use super::settings::Shared;
pub(crate) use arrays::text_array;
pub(crate) use domain::float_quotient;
pub(crate) use interval::{
    CLOCK_PART, calendar, clock, interval_microseconds, interval_of_text, part_of_interval,
};
pub(crate) use json::{AS_JSON, EXPONENT_MAX, as_json};
pub(crate) use justify::whole_days;
pub(crate) use matches::{ALL as ALL_MATCHES, PARTS as SPLIT_PARTS};
pub(crate) use numeric::{SCALE_MAX, digits_of, product, quotient, rint};
pub(super) use own::{OwnFunctions, ReaderFunctions};
pub(crate) use records::{ROW_IS_NOT_NULL, ROW_IS_NULL, WHOLE_ROW};
pub(super) use syntax::{with_operators, with_syntax};
pub(crate) use text::{
    OF_BYTES as UUID_OF_BYTES, bytes_of_uuid, identifier as quoted_name, in_form_of, marked_as,
    uuid_of_bytes, with_backslashes,
};
pub(crate) use time::{IN_ZONE_OF_PARTS, in_zone};
pub(crate) use told_apart::TOLD_APART;
pub(crate) use written::{text, texts_of_list};

/// Functions that test whether an object can be named without its schema. All objects can.
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

/// Functions about definitions and comments. There are none.
const NO_TEXT: [&str; 20] = [
    "col_description",
    "obj_description",
    "pg_describe_object",
    "pg_get_constraintdef",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_function_sqlbody",
    "pg_get_expr",
    "pg_get_functiondef",
    "pg_get_indexdef",
    "pg_get_partition_constraintdef",
    "pg_get_partkeydef",
    "pg_get_ruledef",
    "pg_get_serial_sequence",
    "pg_get_statisticsobjdef",
    "pg_get_triggerdef",
    "pg_get_viewdef",
    "pg_tablespace_location",
    "shobj_description",
];

/// Functions about advisory locks. Sessions share nothing that they change, so each gets its lock at once.
const LOCKS: [&str; 4] =
    ["pg_advisory_lock", "pg_advisory_lock_shared", "pg_advisory_xact_lock", "pg_advisory_xact_lock_shared"];

/// The same, with whether the lock was there.
const TRIED_LOCKS: [&str; 6] = [
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
];

/// Functions about sizes, which are unknown: tables are files that other systems may share.
const NO_SIZE: [&str; 7] = [
    "pg_database_size",
    "pg_indexes_size",
    "pg_relation_size",
    "pg_table_size",
    "pg_tablespace_size",
    "pg_total_relation_size",
    "pg_sequence_last_value",
];

/// Returns a session that has only functions: those of DataFusion, and those with the same results for all users.
pub fn function_session() -> SessionState {
    let context = SessionContext::new();
    register(&context);
    context.state()
}

/// Registers functions with the same results for all users.
pub(crate) fn register(context: &SessionContext) {
    context.register_udf(told_apart::udf());
    let answer = |name: &str, value: ScalarValue| context.register_udf(answer::udf(name, value));
    let version = concat!("PostgreSQL 16.6 (coscan ", env!("CARGO_PKG_VERSION"), ")");
    answer("version", version.into());
    VISIBLE.iter().for_each(|name| answer(name, true.into()));
    NO_TEXT.iter().for_each(|name| answer(name, ScalarValue::Utf8(None)));
    NO_SIZE.iter().for_each(|name| answer(name, ScalarValue::Int64(None)));
    LOCKS.iter().for_each(|name| answer(name, "".into()));
    TRIED_LOCKS.iter().for_each(|name| answer(name, true.into()));
    answer("pg_blocking_pids", ScalarValue::List(ScalarValue::new_list(&[], &DataType::Int32, true)));
    answer("pg_has_role", false.into());
    answer("pg_is_other_temp_schema", false.into());
    // PostgreSQL does not know the addresses of a connection by a socket.
    ["inet_client_addr", "inet_server_addr"].iter().for_each(|name| answer(name, ScalarValue::Utf8(None)));
    ["inet_client_port", "inet_server_port"].iter().for_each(|name| answer(name, ScalarValue::Int32(None)));
    let begun = clock::micros(SystemTime::now());
    for name in ["pg_conf_load_time", "pg_postmaster_start_time"] {
        answer(name, ScalarValue::TimestampMicrosecond(begun, Some(clock::UTC.into())));
    }
    answer("pg_is_in_recovery", false.into());
    answer("getdatabaseencoding", "UTF8".into());
    answer("pg_client_encoding", "UTF8".into());
    // UTF8, the only encoding.
    answer("pg_char_to_encoding", 6_i32.into());
    // Elements of index keys. There are no indexes.
    let element = [Field::new("x", DataType::Int32, true), Field::new("n", DataType::Int32, true)];
    if let Ok(none) = ScalarValue::try_new_null(&DataType::Struct(element.into_iter().collect())) {
        answer("_pg_expandarray", none);
    }
    arrays::register(context);
    average::register(context);
    bins::register(context);
    buckets::register(context);
    bytes::register(context);
    clock::register(context);
    divisors::register(context);
    domain::register(context);
    joined::register(context);
    json::register(context);
    justify::register(context);
    make::register(context);
    matches::register(context);
    numeric::register(context);
    ordered::register(context);
    records::register(context);
    scales::register(context);
    server::register(context);
    // The defaults. A session has its own.
    settings::udfs(&Arc::default()).into_iter().for_each(|function| context.register_udf(function));
    context.register_udf(sleep::udf());
    template::register(context);
    text::register(context);
    time::register(context);
    to_char::register(context);
    whole::register(context);
    written::register(context);
}

/// Registers functions about the user and its privileges.
pub(crate) fn register_user(
    context: &SessionContext,
    own: &OwnFunctions,
    user: &str,
    admin: bool,
    registry: &Arc<Registry>,
    variables: &Arc<Shared>,
) {
    settings::udfs(variables).into_iter().for_each(|function| register_own(context, own, function));
    let names = ["session_user", "current_user", "user", "current_role"];
    names.iter().for_each(|name| register_own(context, own, answer::udf(name, user.into())));
    register_own(context, own, server::user_by_number(user));
    if !admin {
        // It tells the paths of files.
        context.deregister_udf("input_file_name");
    }
    for name in cancel::NAMES {
        let viewer = Viewer { user: user.to_owned(), admin };
        register_own(context, own, cancel::udf(name, registry.clone(), viewer));
    }
    privileges::NAMES.iter().for_each(|name| register_own(context, own, privileges::udf(name, admin)));
}

/// Registers functions about the one user of a program, who may do everything.
pub(crate) fn register_owner(context: &SessionContext, user: &str) {
    let names = ["session_user", "current_user", "user", "current_role"];
    names.iter().for_each(|name| context.register_udf(answer::udf(name, user.into())));
    context.register_udf(server::user_by_number(user));
    privileges::NAMES.iter().for_each(|name| context.register_udf(privileges::udf(name, true)));
}

/// Registers the function that returns the session's number.
pub(crate) fn register_number(context: &SessionContext, own: &OwnFunctions, number: i32) {
    register_own(context, own, answer::udf("pg_backend_pid", number.into()));
}

/// Registers a function about the session.
pub(crate) fn register_own(context: &SessionContext, own: &OwnFunctions, function: ScalarUDF) {
    own.set(function.clone());
    context.register_udf(function);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session that is built from another one registers all functions again by their own names, in any order.
    #[test]
    fn aliases_of_replaced_functions_are_those_of_the_new_ones() {
        let functions = function_session().scalar_functions().clone();
        for (name, function) in &functions {
            let own = &functions[function.name()];
            assert!(Arc::ptr_eq(own, function), "{name} is the {} of the query engine", function.name());
        }
    }
}
