//! Functions whose result is a text: settings, readable sizes, formats, arrays.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};
use datafusion::functions_nested::string::array_to_string_udf;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
    create_udf,
};
use datafusion::prelude::SessionContext;

use super::SETTINGS;
use super::answer::anything;

/// Settings whose SET has an effect. A function in a query cannot set them. Tools set others at their start.
const DO_SOMETHING: [&str; 4] = ["statement_timeout", "timezone", "datestyle", "intervalstyle"];

pub(super) fn register(context: &SessionContext) {
    let pretty = Arc::new(|arguments: &[ColumnarValue]| {
        let sizes = ColumnarValue::values_to_arrays(arguments)?.swap_remove(0);
        let texts = sizes.as_primitive::<Int64Type>().iter().map(|size| size.map(size_pretty));
        Ok(ColumnarValue::Array(Arc::new(texts.collect::<StringArray>()) as ArrayRef))
    });
    let types = vec![DataType::Int64];
    context.register_udf(create_udf("pg_size_pretty", types, DataType::Utf8, Volatility::Immutable, pretty));
    let of_arrays = array_to_string_udf();
    for (name, kind) in [
        ("current_setting", Kind::Setting),
        ("set_config", Kind::SetConfig),
        ("format", Kind::Format),
        ("pg_array_to_string", Kind::Array(of_arrays)),
    ] {
        let signature = kind.signature();
        context.register_udf(ScalarUDF::from(Text { name, kind, signature }));
    }
}

/// A readable size, with PostgreSQL's units and rounding.
fn size_pretty(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut size, mut unit) = (i128::from(bytes), 0);
    while size.abs() >= 10 * 1024 && unit + 1 < UNITS.len() {
        size = (size + 512 * size.signum()) / 1024;
        unit += 1;
    }
    format!("{size} {}", UNITS[unit])
}

/// `format` of PostgreSQL: `%s`, `%I`, `%L` and `%%`.
fn formatted(pattern: &str, values: &[Option<&str>]) -> Result<String> {
    let (mut text, mut values) = (String::new(), values.iter());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let kind = rest.next();
        if kind == Some('%') {
            text.push('%');
            continue;
        }
        let Some(value) = values.next() else {
            return exec_err!("too few arguments for format(): each %s, %I and %L needs one");
        };
        match (kind, value) {
            (Some('s'), value) => text.push_str(value.unwrap_or_default()),
            (Some('I'), Some(name)) => {
                let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
                let quoted = name.is_empty()
                    || name.starts_with(|c: char| c.is_ascii_digit())
                    || !name.chars().all(plain);
                text.push_str(&if quoted {
                    format!("\"{}\"", name.replace('"', "\"\""))
                } else {
                    (*name).to_owned()
                });
            }
            (Some('L'), Some(value)) => text.push_str(&format!("'{}'", value.replace('\'', "''"))),
            (Some('L'), None) => text.push_str("NULL"),
            (Some('I'), None) => return exec_err!("null values cannot be formatted as an SQL identifier"),
            _ => return exec_err!("format() supports %s, %I, %L and %% only"),
        }
    }
    Ok(text)
}

/// The computation of a function.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Kind {
    /// `current_setting(name)`. NULL for an unknown setting.
    Setting,
    /// `set_config(name, value, is_local)`: returns the value for settings without effect; see [`DO_SOMETHING`].
    SetConfig,
    /// `format(pattern, ...)`.
    Format,
    /// `array_to_string` in statements about catalogs. It calls the query engine's function, and also accepts arrays
    /// that are text there.
    Array(Arc<ScalarUDF>),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Text {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl Kind {
    fn signature(&self) -> Signature {
        match self {
            Kind::Setting => Signature::one_of(
                vec![
                    TypeSignature::Exact(vec![DataType::Utf8]),
                    TypeSignature::Exact(vec![DataType::Utf8, DataType::Boolean]),
                ],
                Volatility::Stable,
            ),
            Kind::SetConfig => Signature::exact(
                vec![DataType::Utf8, DataType::Utf8, DataType::Boolean],
                Volatility::Volatile,
            ),
            Kind::Format | Kind::Array(_) => anything(),
        }
    }
}

impl ScalarUDFImpl for Text {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let (Kind::Array(given), Some(first)) = (&self.kind, args.args.first())
            && matches!(first.data_type(), DataType::List(_) | DataType::LargeList(_))
        {
            return given.invoke_with_args(args);
        }
        let columns =
            args.args.iter().map(|value| Ok(cast(&value.to_array(args.number_rows)?, &DataType::Utf8)?));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let texts: Vec<&StringArray> = columns.iter().map(|column| column.as_string::<i32>()).collect();
        let row = |row: usize| -> Result<Option<String>> {
            let values: Vec<Option<&str>> =
                texts.iter().map(|text| text.is_valid(row).then(|| text.value(row))).collect();
            Ok(match (&self.kind, values.as_slice()) {
                (Kind::Setting, [Some(name), ..]) => {
                    let name = name.to_ascii_lowercase();
                    SETTINGS.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
                }
                (Kind::SetConfig, [Some(name), value, ..]) => {
                    if name.contains('.') || DO_SOMETHING.contains(&name.to_ascii_lowercase().as_str()) {
                        return exec_err!("set_config() cannot set {name}: use SET {name} = ...");
                    }
                    Some(value.unwrap_or_default().to_owned())
                }
                (Kind::Format, [Some(pattern), values @ ..]) => Some(formatted(pattern, values)?),
                (Kind::Array(_), [Some(list), Some(between), ..]) => {
                    Some(list.trim_start_matches('{').trim_end_matches('}').replace(',', between))
                }
                _ => None,
            })
        };
        let rows = (0..args.number_rows).map(row).collect::<Result<StringArray>>()?;
        Ok(ColumnarValue::Array(Arc::new(rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_as_postgres_does() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (10_239, "10239 bytes"),
            (10_240, "10 kB"),
            (-15_872, "-16 kB"),
            (1 << 40, "1024 GB"),
        ] {
            assert_eq!(size_pretty(bytes), text);
        }
    }

    #[test]
    fn formats_quote() {
        let text = formatted("%s %I %I %L%%", &[Some("a"), Some("b_1"), Some("C\"d"), Some("it's")]).unwrap();
        assert_eq!(text, "a b_1 \"C\"\"d\" 'it''s'%");
        assert!(formatted("%s", &[]).is_err() && formatted("%d", &[None]).is_err());
    }
}
