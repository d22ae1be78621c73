//! The numbers of types in PostgreSQL's catalogs.

use std::collections::HashMap;
use std::sync::LazyLock;

use pgwire::api::Type;

/// Numbers above those of PostgreSQL's own types.
const TYPES_END: u32 = 6_000;

/// SQL's names of types that have another name in `pg_type`.
const SQL_NAMES: [(&str, &str); 13] = [
    ("bigint", "int8"),
    ("bit varying", "varbit"),
    ("boolean", "bool"),
    ("character varying", "varchar"),
    ("character", "bpchar"),
    ("double precision", "float8"),
    ("integer", "int4"),
    ("real", "float4"),
    ("smallint", "int2"),
    ("time with time zone", "timetz"),
    ("time without time zone", "time"),
    ("timestamp with time zone", "timestamptz"),
    ("timestamp without time zone", "timestamp"),
];

/// Further names of such types in statements.
const OTHER_NAMES: [(&str, &str); 5] = [
    ("dec", "numeric"),
    ("decimal", "numeric"),
    ("float", "float8"),
    ("int", "int4"),
    ("varying", "varchar"),
];

static TYPES: LazyLock<HashMap<String, i32>> = LazyLock::new(|| {
    let known = (1..TYPES_END).filter_map(Type::from_oid);
    known.filter_map(|of| Some((of.name().to_owned(), i32::try_from(of.oid()).ok()?))).collect()
});

/// The number of a type, which may be written as a number. `None` for an unknown type.
pub(crate) fn type_number(written: &str) -> Option<i32> {
    if let Ok(number) = written.parse() {
        return Some(number);
    }
    let lower = written.trim().to_ascii_lowercase();
    let (element, array) = match lower.strip_suffix("[]") {
        Some(element) => (element.trim_end(), true),
        None => (lower.as_str(), false),
    };
    let element = element.strip_prefix("pg_catalog.").unwrap_or(element);
    // Digits, as in numeric(10, 2), are not a part of the type.
    let (before, behind) = element.split_once('(').unwrap_or((element, ""));
    let behind = behind.split_once(')').map_or("", |(_, behind)| behind);
    let name = before.split_whitespace().chain(behind.split_whitespace()).collect::<Vec<_>>().join(" ");
    let name = name.trim_matches('"');
    let mut known = SQL_NAMES.iter().chain(&OTHER_NAMES);
    let name = known.find(|(sql, _)| *sql == name).map_or(name, |(_, short)| short);
    let name = if array { format!("_{name}") } else { name.to_owned() };
    TYPES.get(&name).copied()
}

/// SQL's name of a type, by its name in `pg_type`.
pub(crate) fn sql_name(short: &str) -> &str {
    if short == "char" {
        return "\"char\"";
    }
    SQL_NAMES.iter().find(|(_, of)| *of == short).map_or(short, |(sql, _)| sql)
}

/// The name of a type as `format_type` returns it. The modifier has the lengths and digits of a type.
pub(crate) fn type_of_number(number: i64, modifier: Option<i64>) -> String {
    if number == 0 {
        return "-".to_owned();
    }
    let Some(of) = u32::try_from(number).ok().and_then(Type::from_oid) else { return "???".to_owned() };
    match of.name().strip_prefix('_') {
        Some(element) => format!("{}[]", modified(element, modifier)),
        None => modified(of.name(), modifier),
    }
}

fn modified(short: &str, modifier: Option<i64>) -> String {
    let name = sql_name(short);
    match (short, modifier.filter(|modifier| *modifier >= 0)) {
        ("numeric", Some(of)) if of >= 4 => {
            // The scale is a signed number of eleven bits.
            let (precision, scale) = (((of - 4) >> 16) & 0xffff, (((of - 4) & 0x7ff) ^ 0x400) - 0x400);
            format!("{name}({precision},{scale})")
        }
        ("varchar" | "bpchar", Some(of)) if of >= 4 => format!("{name}({})", of - 4),
        ("bit" | "varbit", Some(of)) => format!("{name}({of})"),
        ("time" | "timetz" | "timestamp" | "timestamptz", Some(of)) => {
            let (first, rest) = name.split_once(' ').unwrap_or((name, ""));
            format!("{first}({of}) {rest}")
        }
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_numbers() {
        for (written, number) in [
            ("integer", Some(23)),
            ("INT4", Some(23)),
            ("pg_catalog.int4", Some(23)),
            ("int[]", Some(1007)),
            ("character varying(10)", Some(1043)),
            ("timestamp(3) with time zone", Some(1184)),
            ("numeric(10, 2)", Some(1700)),
            ("double  precision", Some(701)),
            ("23", Some(23)),
            ("hstore", None),
            ("", None),
        ] {
            assert_eq!(type_number(written), number, "{written}");
        }
    }

    /// The results are those of PostgreSQL 15.
    #[test]
    fn numbers_have_names() {
        for (number, modifier, name) in [
            (23, None, "integer"),
            (1007, Some(-1), "integer[]"),
            (18, None, "\"char\""),
            (1043, Some(14), "character varying(10)"),
            (1700, Some(983_046), "numeric(15,2)"),
            (1184, Some(3), "timestamp(3) with time zone"),
            (0, None, "-"),
            (99_999, None, "???"),
        ] {
            assert_eq!(type_of_number(number, modifier), name);
        }
    }
}
