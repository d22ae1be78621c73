//! The numbers of types in PostgreSQL's catalogs.

use std::collections::HashMap;
use std::sync::LazyLock;

use pgwire::api::Type;

/// Numbers above those of PostgreSQL's own types.
const TYPES_END: u32 = 6_000;

/// SQL's names of types that have another name in `pg_type`.
const ALIASES: [(&str, &str); 18] = [
    ("bigint", "int8"),
    ("bit varying", "varbit"),
    ("boolean", "bool"),
    ("character varying", "varchar"),
    ("character", "bpchar"),
    ("dec", "numeric"),
    ("decimal", "numeric"),
    ("double precision", "float8"),
    ("float", "float8"),
    ("int", "int4"),
    ("integer", "int4"),
    ("real", "float4"),
    ("smallint", "int2"),
    ("time with time zone", "timetz"),
    ("time without time zone", "time"),
    ("timestamp with time zone", "timestamptz"),
    ("timestamp without time zone", "timestamp"),
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
    let name = ALIASES.iter().find(|(sql, _)| *sql == name).map_or(name, |(_, short)| short);
    let name = if array { format!("_{name}") } else { name.to_owned() };
    TYPES.get(&name).copied()
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
}
