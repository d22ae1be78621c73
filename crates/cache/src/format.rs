//! Formats of traces, and the format of a file name.
//!
//! Compression is not part of the format. In a file that is read it is recognised by the first bytes, in a
//! file that is written by the last extension.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::CacheError;

/// The format of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// `oracle-general`: little-endian records of 24 bytes, as in libCacheSim: time in seconds (u32), object
    /// id (u64), size in bytes (u32), number of the next request for the object (i64, counted from one; -1:
    /// none).
    OracleGeneral,
    /// `ids`: an id on each line.
    Ids,
    /// `arc`: each line has a first block, a count, an ignored number and the number of the request. It
    /// stands for `count` requests of consecutive blocks. Published with ARC (Megiddo, Modha, 2003).
    Arc,
    /// `lirs`: a block number on each line; lines that begin with `*` are marks and are ignored. Published
    /// with LIRS (Jiang, Zhang, 2002).
    Lirs,
    /// `csv:COLUMN`, `csv:COLUMN,header`: text in columns, one of which is the id.
    Csv(Csv),
}

/// The column of the id in a table of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Csv {
    /// The column.
    pub column: Column,
    /// True if the first line names the columns. Required if the column is given by name.
    pub header: bool,
    /// The separator of fields.
    pub delimiter: u8,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// By its number, counted from one.
    Number(usize),
    /// By its name in the header; a `#` at the beginning of the header is ignored.
    Named(String),
}

/// The names, as errors list them.
const KNOWN: &str = "oracle-general, ids, arc, lirs, csv:COLUMN[,header][,tab|semicolon|space] \
                     (the column's number from 1, or its name)";

impl Format {
    /// The names of the formats, for help texts.
    pub const NAMES: &'static str = KNOWN;

    /// The format of a file name without extensions of compression (`.gz`, `.zst`): `.oracleGeneral` and
    /// `.bin`; `.txt` and `.ids`; `.arc` and `.lis`; `.lirs` and `.trc`.
    ///
    /// # Errors
    /// [`CacheError::UnknownExtension`] for other names. `.csv` is one of them, because the column must be
    /// given.
    pub fn of_path(path: &Path) -> Result<Self, CacheError> {
        let name =
            path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        let parts: Vec<&str> = name.split('.').skip(1).collect();
        let known = parts.iter().rev().find(|part| !["gz", "zst", "zstd"].contains(part));
        match known.copied() {
            Some("oraclegeneral" | "bin") => Ok(Format::OracleGeneral),
            Some("txt" | "ids") => Ok(Format::Ids),
            Some("arc" | "lis") => Ok(Format::Arc),
            Some("lirs" | "trc") => Ok(Format::Lirs),
            _ => Err(CacheError::UnknownExtension { path: path.to_owned(), known: KNOWN.to_owned() }),
        }
    }
}

impl FromStr for Format {
    type Err = CacheError;

    fn from_str(text: &str) -> Result<Self, CacheError> {
        let unknown = |reason: &str| CacheError::UnknownFormat {
            text: text.to_owned(),
            reason: reason.to_owned(),
            known: KNOWN.to_owned(),
        };
        match text {
            "oracle-general" => Ok(Format::OracleGeneral),
            "ids" => Ok(Format::Ids),
            "arc" => Ok(Format::Arc),
            "lirs" => Ok(Format::Lirs),
            "csv" => Err(unknown("which column?")),
            _ => match text.strip_prefix("csv:") {
                Some(table) => table.parse().map(Format::Csv).map_err(|reason: String| unknown(&reason)),
                None => Err(unknown("unknown name")),
            },
        }
    }
}

impl FromStr for Csv {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',');
        let column = match words.next().unwrap_or_default() {
            "" => return Err("which column?".to_owned()),
            word if word.bytes().all(|byte| byte.is_ascii_digit()) => match word.parse() {
                Ok(0) | Err(_) => return Err(format!("column {word}: columns are counted from 1")),
                Ok(number) => Column::Number(number),
            },
            name => Column::Named(name.to_owned()),
        };
        let mut csv = Csv { header: matches!(column, Column::Named(_)), column, delimiter: b',' };
        for word in words {
            match word {
                "header" => csv.header = true,
                "tab" => csv.delimiter = b'\t',
                "semicolon" => csv.delimiter = b';',
                "space" => csv.delimiter = b' ',
                _ => return Err(format!("'{word}' is none of header, tab, semicolon, space")),
            }
        }
        Ok(csv)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Format::OracleGeneral => f.write_str("oracle-general"),
            Format::Ids => f.write_str("ids"),
            Format::Arc => f.write_str("arc"),
            Format::Lirs => f.write_str("lirs"),
            Format::Csv(csv) => {
                match &csv.column {
                    Column::Number(number) => write!(f, "csv:{number}")?,
                    Column::Named(name) => write!(f, "csv:{name}")?,
                }
                f.write_str(if csv.header { ",header" } else { "" })?;
                f.write_str(match csv.delimiter {
                    b'\t' => ",tab",
                    b';' => ",semicolon",
                    b' ' => ",space",
                    _ => "",
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["oracle-general", "ids", "arc", "lirs", "csv:3", "csv:2,header", "csv:key,header,tab"] {
            assert_eq!(name.parse::<Format>().unwrap().to_string(), name);
        }
        assert_eq!("csv:key".parse::<Format>().unwrap().to_string(), "csv:key,header");
        for bad in ["", "csv", "csv:", "csv:0", "csv:1,x", "csv:99999999999999999999", "ID"] {
            let error = bad.parse::<Format>().unwrap_err().to_string();
            assert!(error.contains("lirs"), "{error}");
        }
    }

    #[test]
    fn file_names_mean_formats() {
        let of = |name: &str| Format::of_path(Path::new(name)).map(|format| format.to_string()).ok();
        assert_eq!(of("/a.b/cloudPhysicsIO.oracleGeneral.bin").as_deref(), Some("oracle-general"));
        assert_eq!(of("w92.oracleGeneral.zst").as_deref(), Some("oracle-general"));
        assert_eq!(of("gli.lirs.gz").as_deref(), Some("lirs"));
        assert_eq!(of("P1.LIS").as_deref(), Some("arc"));
        assert_eq!(of("a.txt").as_deref(), Some("ids"));
        assert_eq!([of("a.csv"), of("txt"), of(".."), of("a.gz")], [None, None, None, None]);
    }
}
