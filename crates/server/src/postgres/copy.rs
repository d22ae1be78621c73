//! COPY ... TO STDOUT: text, CSV and binary. COPY ... TO 'file' with PostgreSQL's options.

use std::collections::BTreeMap;

use bytes::{BufMut, BytesMut};
use datafusion::sql::parser::{CopyToSource, CopyToStatement};
use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, Value};
use pgwire::api::portal::Format;
use pgwire::error::PgWireResult;
use pgwire::messages::data::DataRow;

use super::error::violation;
use crate::sql::QueryError;
use crate::sql::ast::folded;

/// The format of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyFormat {
    /// Values separated by tabs, with backslash escapes.
    Text { delimiter: u8, null: String, header: bool },
    /// Values separated by commas, with quotes where needed.
    Csv { delimiter: u8, null: String, header: bool, quote: u8, escape: u8, force_quote: Quotes },
    /// PostgreSQL's binary format.
    Binary,
}

/// The columns whose values always have quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Quotes {
    /// Those with these names. `*` stands for all columns.
    Named(Vec<String>),
    /// By the places of the columns.
    At(Vec<bool>),
}

/// The options of COPY in the form without parentheses: `WITH CSV HEADER`.
pub(crate) fn without_parentheses(options: &[CopyLegacyOption]) -> Result<Vec<CopyOption>, QueryError> {
    let mut others = Vec::new();
    for option in options {
        let other = match option {
            CopyLegacyOption::Binary => CopyOption::Format("binary".into()),
            CopyLegacyOption::Delimiter(c) => CopyOption::Delimiter(*c),
            CopyLegacyOption::Null(text) => CopyOption::Null(text.clone()),
            CopyLegacyOption::Csv(options) => {
                others.extend(options.iter().map(of_csv));
                CopyOption::Format("csv".into())
            }
            other => {
                return Err(QueryError::other("0A000", format!("COPY option {other} is not supported")));
            }
        };
        others.push(other);
    }
    Ok(others)
}

/// COPY to a file with PostgreSQL's options, as the query engine has it.
///
/// # Errors
///
/// If an option is not supported.
pub(crate) fn to_file(
    source: &CopySource,
    file: &str,
    given: &[CopyOption],
) -> Result<CopyToStatement, QueryError> {
    let source = match source {
        CopySource::Query(query) => CopyToSource::Query(query.clone()),
        CopySource::Table { table_name, columns } if columns.is_empty() => {
            CopyToSource::Relation(table_name.clone())
        }
        CopySource::Table { .. } => {
            let text = "a list of columns before TO 'file' is not supported: write COPY (SELECT ...) TO";
            return Err(QueryError::unsupported(text));
        }
    };
    let (mut stored_as, mut options) = (None, BTreeMap::new());
    for option in given {
        let (name, value) = match option {
            CopyOption::Format(name) => match name.value.to_ascii_lowercase().as_str() {
                format @ ("text" | "binary") => {
                    let text = format!("COPY to a file has no format {format}: use csv, json or parquet");
                    return Err(QueryError::unsupported(text));
                }
                format => {
                    stored_as = Some(format.to_ascii_uppercase());
                    continue;
                }
            },
            CopyOption::Header(header) => ("format.has_header", header.to_string()),
            CopyOption::Delimiter(delimiter) => ("format.delimiter", delimiter.to_string()),
            CopyOption::Null(text) => ("format.null_value", text.clone()),
            CopyOption::Quote(quote) => ("format.quote", quote.to_string()),
            CopyOption::Escape(escape) => ("format.escape", escape.to_string()),
            other => {
                let text = format!("COPY option {other} is not supported for files");
                return Err(QueryError::unsupported(text));
            }
        };
        options.insert(name.to_owned(), Value::SingleQuotedString(value));
    }
    if stored_as.as_deref() == Some("CSV") {
        // The query engine writes a header without being asked.
        let no_header = || Value::SingleQuotedString("false".to_owned());
        options.entry("format.has_header".to_owned()).or_insert_with(no_header);
    }
    let (target, options) = (file.to_owned(), options.into_iter().collect());
    Ok(CopyToStatement { source, target, partitioned_by: Vec::new(), stored_as, options })
}

fn of_csv(option: &CopyLegacyCsvOption) -> CopyOption {
    match option {
        CopyLegacyCsvOption::Header => CopyOption::Header(true),
        CopyLegacyCsvOption::Quote(c) => CopyOption::Quote(*c),
        CopyLegacyCsvOption::Escape(c) => CopyOption::Escape(*c),
        CopyLegacyCsvOption::ForceQuote(columns) => CopyOption::ForceQuote(columns.clone()),
        CopyLegacyCsvOption::ForceNotNull(columns) => CopyOption::ForceNotNull(columns.clone()),
    }
}

impl CopyFormat {
    /// Reads the options of COPY.
    pub(crate) fn of(options: &[CopyOption]) -> Result<Self, QueryError> {
        let named = options.iter().find_map(|option| match option {
            CopyOption::Format(name) => Some(name.value.to_ascii_lowercase()),
            _ => None,
        });
        let csv = match named.as_deref() {
            None | Some("text") => false,
            Some("csv") => true,
            Some("binary") => return Ok(CopyFormat::Binary),
            Some(other) => {
                return Err(QueryError::other(
                    "22023",
                    format!("COPY format {other} is not supported: use text, csv or binary"),
                ));
            }
        };
        let (mut delimiter, mut null) = if csv { (b',', String::new()) } else { (b'\t', "\\N".to_owned()) };
        let (mut header, mut quote, mut escape, mut force_quote) = (false, b'"', None, Vec::new());
        for option in options {
            match option {
                CopyOption::Format(_) | CopyOption::Freeze(_) => {}
                CopyOption::Encoding(name) if is_utf8(name) => {}
                CopyOption::Encoding(_) => {
                    return Err(QueryError::unsupported("COPY option ENCODING: only UTF8 is supported"));
                }
                CopyOption::Delimiter('\\') => return Err(wrong_byte('\\')),
                CopyOption::Delimiter(c) => delimiter = byte(*c)?,
                CopyOption::Null(text) if !text.contains(['\n', '\r']) => null.clone_from(text),
                CopyOption::Header(wanted) => header = *wanted,
                CopyOption::Quote(c) if csv => quote = byte(*c)?,
                CopyOption::Escape(c) if csv => escape = Some(byte(*c)?),
                CopyOption::ForceQuote(columns) if csv => {
                    force_quote = columns.iter().map(folded).collect();
                }
                other => {
                    return Err(QueryError::other(
                        "0A000",
                        format!("COPY option {other} is not supported for this format"),
                    ));
                }
            }
        }
        if csv {
            return Ok(CopyFormat::Csv {
                delimiter,
                null,
                header,
                quote,
                escape: escape.unwrap_or(quote),
                force_quote: Quotes::Named(force_quote),
            });
        }
        Ok(CopyFormat::Text { delimiter, null, header })
    }

    /// The format for columns of these names.
    ///
    /// # Errors
    ///
    /// If an option names another column.
    pub(crate) fn of_columns(&self, names: &[&str]) -> Result<Self, QueryError> {
        let mut format = self.clone();
        if let CopyFormat::Csv { force_quote, .. } = &mut format
            && let Quotes::Named(quoted) = force_quote
        {
            let is_missing = |name: &&String| *name != "*" && !names.contains(&name.as_str());
            if let Some(missing) = quoted.iter().find(is_missing) {
                return Err(QueryError::other("42703", format!("column \"{missing}\" does not exist")));
            }
            let is_quoted = |of: &&str| quoted.iter().any(|name| name == "*" || name == of);
            let at = names.iter().map(is_quoted).collect();
            *force_quote = Quotes::At(at);
        }
        Ok(format)
    }

    /// The format of the values that `Writer` takes.
    pub(crate) fn values(&self) -> Format {
        if *self == CopyFormat::Binary { Format::UnifiedBinary } else { Format::UnifiedText }
    }

    /// Its number in messages.
    pub(crate) fn code(&self) -> i8 {
        i8::from(*self == CopyFormat::Binary)
    }

    /// The bytes before the first row.
    pub(crate) fn begin(&self, names: &[&str]) -> Option<BytesMut> {
        match self {
            CopyFormat::Binary => {
                let mut header = BytesMut::from(&b"PGCOPY\n\xff\r\n\0"[..]);
                header.put_slice(&[0; 8]);
                Some(header)
            }
            CopyFormat::Text { header: true, .. } | CopyFormat::Csv { header: true, .. } => {
                let mut line = BytesMut::new();
                names
                    .iter()
                    .enumerate()
                    .for_each(|(at, name)| self.value(&mut line, at, Some(name.as_bytes()), false));
                line.put_u8(b'\n');
                Some(line)
            }
            _ => None,
        }
    }

    /// A row.
    pub(crate) fn row(&self, row: &DataRow) -> PgWireResult<BytesMut> {
        let mut line = BytesMut::with_capacity(row.data.len() + 16);
        if *self == CopyFormat::Binary {
            line.put_i16(row.field_count);
            line.put_slice(&row.data);
            return Ok(line);
        }
        let mut rest = &row.data[..];
        for at in 0..usize::try_from(row.field_count).unwrap_or(0) {
            let (length, behind) = rest.split_first_chunk().ok_or_else(|| violation("a row is too short"))?;
            let length = i32::from_be_bytes(*length);
            let (value, behind) = match usize::try_from(length) {
                Ok(length) => {
                    let (value, behind) =
                        behind.split_at_checked(length).ok_or_else(|| violation("a row is too short"))?;
                    (Some(value), behind)
                }
                Err(_) => (None, behind),
            };
            self.value(&mut line, at, value, self.has_quotes(at));
            rest = behind;
        }
        line.put_u8(b'\n');
        Ok(line)
    }

    /// The bytes after the last row.
    pub(crate) fn end(&self) -> Option<BytesMut> {
        (*self == CopyFormat::Binary).then(|| BytesMut::from(&[0xff, 0xff][..]))
    }

    /// Returns whether the values of a column always have quotes.
    fn has_quotes(&self, at: usize) -> bool {
        let CopyFormat::Csv { force_quote: Quotes::At(quoted), .. } = self else { return false };
        quoted.get(at).is_some_and(|quoted| *quoted)
    }

    fn value(&self, line: &mut BytesMut, at: usize, value: Option<&[u8]>, quoted: bool) {
        match self {
            CopyFormat::Text { delimiter, null, .. } => {
                if at > 0 {
                    line.put_u8(*delimiter);
                }
                let Some(value) = value else { return line.put_slice(null.as_bytes()) };
                for &byte in value {
                    let letter = match byte {
                        0x08 => b'b',
                        0x0c => b'f',
                        b'\n' => b'n',
                        b'\r' => b'r',
                        b'\t' => b't',
                        0x0b => b'v',
                        b'\\' => b'\\',
                        other if other == *delimiter => other,
                        other => {
                            line.put_u8(other);
                            continue;
                        }
                    };
                    line.put_slice(&[b'\\', letter]);
                }
            }
            CopyFormat::Csv { delimiter, null, quote, escape, .. } => {
                if at > 0 {
                    line.put_u8(*delimiter);
                }
                let Some(value) = value else { return line.put_slice(null.as_bytes()) };
                let odd = |&byte: &u8| byte == *delimiter || byte == *quote || matches!(byte, b'\n' | b'\r');
                if !quoted && value != null.as_bytes() && value != b"\\." && !value.iter().any(odd) {
                    return line.put_slice(value);
                }
                line.put_u8(*quote);
                for &byte in value {
                    if byte == *quote || byte == *escape {
                        line.put_u8(*escape);
                    }
                    line.put_u8(byte);
                }
                line.put_u8(*quote);
            }
            CopyFormat::Binary => {}
        }
    }
}

fn is_utf8(encoding: &str) -> bool {
    matches!(encoding.to_ascii_lowercase().replace(['-', '_'], "").as_str(), "utf8" | "unicode")
}

fn byte(c: char) -> Result<u8, QueryError> {
    let fits = u8::try_from(c).ok().filter(|byte| byte.is_ascii() && !matches!(byte, b'\n' | b'\r'));
    fits.ok_or_else(|| wrong_byte(c))
}

fn wrong_byte(c: char) -> QueryError {
    let text =
        format!("COPY: {c:?} must be one ASCII character, no line break, and no backslash as the delimiter");
    QueryError::other("22023", text)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast;

    use super::*;

    fn row(values: &[Option<&str>]) -> DataRow {
        let mut data = BytesMut::new();
        for value in values {
            match value {
                Some(value) => {
                    data.put_i32(value.len() as i32);
                    data.put_slice(value.as_bytes());
                }
                None => data.put_i32(-1),
            }
        }
        DataRow::new(data, values.len() as i16)
    }

    fn line(options: &[CopyOption], values: &[Option<&str>]) -> String {
        let format = CopyFormat::of(options).unwrap();
        String::from_utf8(format.row(&row(values)).unwrap().to_vec()).unwrap()
    }

    #[test]
    fn rows_are_written_as_postgresql_writes_them() {
        let values = [Some("a\tb\\\n"), None, Some("")];
        assert_eq!(line(&[], &values), "a\\tb\\\\\\n\t\\N\t\n");
        let csv = [CopyOption::Format("CSV".into())];
        assert_eq!(line(&csv, &[Some("a,\"b\""), None, Some(""), Some("x")]), "\"a,\"\"b\"\"\",,\"\",x\n");
        let null = [CopyOption::Format("csv".into()), CopyOption::Null("NULL".to_owned())];
        assert_eq!(line(&null, &[None, Some("NULL"), Some("")]), "NULL,\"NULL\",\n");
        let binary = CopyFormat::of(&[CopyOption::Format("binary".into())]).unwrap();
        assert_eq!(&binary.row(&row(&[Some("x"), None])).unwrap()[..], b"\0\x02\0\0\0\x01x\xff\xff\xff\xff");
        assert!(CopyFormat::of(&[CopyOption::Format("json".into())]).is_err());
        assert!(CopyFormat::of(&[CopyOption::Delimiter('\n')]).is_err());
        assert!(CopyFormat::of(&[CopyOption::Encoding("LATIN1".to_owned())]).is_err());
    }

    #[test]
    fn named_columns_have_quotes_except_in_the_header() {
        let csv = |columns: Vec<ast::Ident>| {
            let options = [CopyOption::Format("csv".into()), CopyOption::ForceQuote(columns)];
            let format = CopyFormat::of(&[&options[..], &[CopyOption::Header(true)]].concat()).unwrap();
            format.of_columns(&["a", "b"])
        };
        let lines = |format: CopyFormat| {
            let begin = format.begin(&["a", "b"]).unwrap();
            let row = format.row(&row(&[Some("1"), Some("x")])).unwrap();
            String::from_utf8([&begin[..], &row[..]].concat()).unwrap()
        };
        assert_eq!(lines(csv(vec!["b".into()]).unwrap()), "a,b\n1,\"x\"\n");
        assert_eq!(lines(csv(vec!["*".into()]).unwrap()), "a,b\n\"1\",\"x\"\n");
        assert_eq!(csv(vec!["c".into()]).unwrap_err().sqlstate(), "42703");
    }

    #[test]
    fn options_need_no_parentheses() {
        let csv = CopyLegacyOption::Csv(vec![CopyLegacyCsvOption::Header, CopyLegacyCsvOption::Quote('\'')]);
        let options = without_parentheses(&[csv, CopyLegacyOption::Delimiter(';')]).unwrap();
        let CopyFormat::Csv { delimiter, quote, header, .. } = CopyFormat::of(&options).unwrap() else {
            panic!("it is CSV")
        };
        assert_eq!((delimiter, quote, header), (b';', b'\'', true));
        assert!(without_parentheses(&[CopyLegacyOption::Gzip]).is_err());
    }

    #[test]
    fn a_row_that_ends_early_is_an_error() {
        let short = DataRow::new(BytesMut::from(&[0, 0, 0, 9, 1][..]), 1);
        assert!(CopyFormat::of(&[]).unwrap().row(&short).is_err());
    }
}
