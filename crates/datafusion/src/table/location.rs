//! The location of a table's files: a file, a folder, or a pattern.
//!
//! Text is a pattern only if no file or folder has that name. This module lists nothing.

use std::io;
use std::path::{self, MAIN_SEPARATOR};

use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::object_store::path::Path;
use glob::{MatchOptions, Pattern};
use url::{Position, Url};

use super::hidden::is_hidden;
use crate::stores::presigned;

/// Names may contain any character, and a star does not match a leading dot.
const MATCHED: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The characters of a pattern.
const WILDCARDS: [char; 3] = ['*', '?', '['];

/// A location; see the module's documentation.
#[derive(Clone, Debug)]
pub(crate) struct Location {
    /// As written.
    text: String,
    /// The file or the folder, or the folder below which the pattern begins.
    url: ListingTableUrl,
    /// The parts of a pattern below that folder; empty if there is no pattern.
    pattern: Vec<Pattern>,
    /// Whether files of a folder on this machine are Parquet files under any name.
    any_name: bool,
}

impl Location {
    /// Accepts all files of a folder, for a table with declared columns.
    pub(crate) fn with_any_name(mut self) -> Self {
        self.any_name = true;
        self
    }

    /// Parses a path or a URL. Looks for local files of that name.
    ///
    /// # Errors
    /// If it is no URL, or its pattern is invalid.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let is_url = text.contains("://");
        if !is_url && path::Path::new(text).exists() {
            return Self::existing(text, text);
        }
        if let Some(path) = text.strip_prefix("file://")
            && text.contains(WILDCARDS)
            && path::Path::new(path).exists()
        {
            return Self::existing(text, path);
        }
        if !is_url {
            return match text.find(WILDCARDS) {
                None => Ok(Location::whole(text, ListingTableUrl::parse(text)?)),
                Some(at) => {
                    let is_separator = |c: char| c == '/' || c == MAIN_SEPARATOR;
                    let split = text[..at].rfind(is_separator).map_or(0, |at| at + 1);
                    let folder = if split == 0 { "./" } else { &text[..split] };
                    Location::pattern(text, ListingTableUrl::parse(folder)?, &text[split..])
                }
            };
        }
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => return Err(DataFusionError::External(Box::new(error)).context(text.to_owned())),
        };
        if presigned::has_query(&url) {
            return Ok(Location::whole(text, presigned::table_url(&url)?));
        }
        if !matches!(url.scheme(), "http" | "https") {
            // Names of objects are arbitrary: URLs of object stores have neither queries nor fragments.
            return Ok(Location::whole(text, ListingTableUrl::try_new(with_plain_path(text)?, None)?));
        }
        Ok(Location::whole(text, ListingTableUrl::parse(text)?))
    }

    fn existing(text: &str, path: &str) -> Result<Self> {
        let absolute = without_parents(path::Path::new(path))?;
        let url = if absolute.is_dir() {
            Url::from_directory_path(absolute)
        } else {
            Url::from_file_path(absolute)
        };
        let Ok(url) = url else { return plan_err!("{text} is no path that can be read") };
        Ok(Location::whole(text, ListingTableUrl::try_new(url, None)?))
    }

    fn whole(text: &str, url: ListingTableUrl) -> Self {
        Location { text: text.to_owned(), url, pattern: Vec::new(), any_name: false }
    }

    fn pattern(text: &str, url: ListingTableUrl, pattern: &str) -> Result<Self> {
        let parts = pattern.split(['/', MAIN_SEPARATOR]).filter(|part| !part.is_empty());
        let wrong = |error| DataFusionError::Plan(format!("{text} is no pattern of paths: {error}"));
        let pattern = parts.map(|part| Pattern::new(part).map_err(wrong)).collect::<Result<_>>()?;
        Ok(Location { text: text.to_owned(), url, pattern, any_name: false })
    }

    /// Returns the location as a pattern, if it could be one and is not. For object stores, where an object
    /// of that name comes first.
    pub(crate) fn as_pattern(&self) -> Option<Location> {
        if !self.pattern.is_empty() || self.is_on_this_machine() || self.is_presigned() {
            return None;
        }
        let at = self.text.find(WILDCARDS)?;
        let split = self.text[..at].rfind('/')? + 1;
        let folder = with_plain_path(&self.text[..split]).ok()?;
        let url = ListingTableUrl::try_new(folder, None).ok()?;
        Location::pattern(&self.text, url, &self.text[split..]).ok()
    }

    /// The URL of the file or folder, or of the folder below which the pattern begins.
    pub(crate) fn url(&self) -> &ListingTableUrl {
        &self.url
    }

    /// As written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// As written, without a query, which may be secret.
    pub(crate) fn shown(&self) -> &str {
        if !self.is_presigned() {
            return &self.text;
        }
        self.text.split_once('?').map_or(self.text.as_str(), |(path, _)| path)
    }

    /// Returns whether each request needs the query of its URL.
    pub(crate) fn is_presigned(&self) -> bool {
        presigned::is_presigned(&self.url)
    }

    pub(crate) fn is_on_this_machine(&self) -> bool {
        self.url.scheme() == "file"
    }

    /// Returns whether it is a pattern of names.
    pub(crate) fn is_pattern(&self) -> bool {
        !self.pattern.is_empty()
    }

    /// Returns whether folders that state no key are entered.
    pub(crate) fn enters_others(&self, subfolders: bool) -> bool {
        subfolders || self.is_pattern()
    }

    /// Returns whether it is a file, or may be one.
    pub(crate) fn may_be_file(&self) -> bool {
        self.pattern.is_empty() && !self.url.is_collection()
    }

    /// Returns the names of a file's folders below the location, and the name of the file. `None` if it is
    /// not below.
    pub(crate) fn parts<'a>(&self, file: &'a Path) -> Option<Vec<&'a str>> {
        let root = self.url.prefix().as_ref();
        let below = file.as_ref().strip_prefix(root)?;
        let below = if root.is_empty() { below } else { below.strip_prefix('/')? };
        Some(below.split('/').collect())
    }

    /// Returns whether a file belongs to the table. `parts` is the result of [`Self::parts`]. Folders of keys
    /// (`key=value`) are included, others only with `subfolders` or if a pattern names them. Hidden files and
    /// folders are excluded, unless a part of the pattern begins with the same character.
    pub(crate) fn has(&self, parts: &[&str], subfolders: bool) -> bool {
        let Some((file, folders)) = parts.split_last() else { return false };
        let named = |name: &str| {
            let begins_alike = |part: &Pattern| part.as_str().chars().next() == name.chars().next();
            self.pattern.iter().any(begins_alike)
        };
        let hidden = |name: &&str, is_folder| is_hidden(name, is_folder) && !named(name);
        if hidden(file, false) || folders.iter().any(|folder| hidden(folder, true)) {
            return false;
        }
        let others: Vec<&str> = folders.iter().copied().filter(|folder| !folder.contains('=')).collect();
        if self.pattern.is_empty() {
            let readable = self.any_name || !self.is_on_this_machine() || file.ends_with(".parquet");
            return readable && (subfolders || others.is_empty());
        }
        let others: Vec<&str> = others.into_iter().chain([*file]).collect();
        matches(&self.pattern, parts) || matches(&self.pattern, &others)
    }
}

/// Returns whether names match the parts of a pattern one by one. `**` matches any number of folders.
fn matches(pattern: &[Pattern], names: &[&str]) -> bool {
    match (pattern.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((any, rest)), _) if any.as_str() == "**" && !rest.is_empty() => {
            (0..names.len()).any(|skipped| matches(rest, &names[skipped..]))
        }
        (Some((part, rest)), Some((name, names))) => part.matches_with(name, MATCHED) && matches(rest, names),
        _ => false,
    }
}

/// Returns the URL with the whole text after the store as its path, including `?` and `#`.
fn with_plain_path(text: &str) -> Result<Url> {
    let escaped = text.replace('?', "%3F").replace('#', "%23");
    Url::parse(&escaped).map_err(|error| DataFusionError::External(Box::new(error)).context(text.to_owned()))
}

/// Returns the store of a URL, without the path.
pub(crate) fn store_of(url: &ListingTableUrl) -> &str {
    &url.get_url()[..Position::BeforePath]
}

/// Returns the absolute path without `..`, which stores do not accept. The part before the last `..` is
/// resolved with its links, as the system does.
fn without_parents(path: &path::Path) -> io::Result<path::PathBuf> {
    let parts: Vec<path::Component> = path.components().collect();
    let Some(last) = parts.iter().rposition(|part| *part == path::Component::ParentDir) else {
        return path::absolute(path);
    };
    let before: path::PathBuf = parts[..=last].iter().collect();
    let after: path::PathBuf = parts[last + 1..].iter().collect();
    Ok(before.canonicalize()?.join(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(location: &str, file: &str) -> bool {
        let location = Location::parse(location).expect(location);
        let file = Path::parse(file).expect("a path");
        location.parts(&file).is_some_and(|parts| location.has(&parts, false))
    }

    #[test]
    fn patterns_match_names_and_go_into_folders_of_keys() {
        for (location, file, expected) in [
            ("/none/*.parquet", "none/a.parquet", true),
            ("/none/*.parquet", "none/a.csv", false),
            ("/none/*.parquet", "none/a=b.parquet", true),
            ("/none/*.parquet", "none/k=1/a=b.parquet", true),
            ("/none/*.parquet", "none/sub/a.parquet", false),
            ("/none/*/a.parquet", "none/sub/a.parquet", true),
            ("/none/**/a.parquet", "none/b/sub/a.parquet", true),
            ("/none/**/a.parquet", "none/a.parquet", true),
            ("/none/k=*/a.parquet", "none/k=1/a.parquet", true),
            ("/none/k=1/a?.parquet", "none/k=1/ab.parquet", true),
            ("/none/[ab].parquet", "none/b.parquet", true),
            ("/none/*.parquet", "none/_a.parquet", false),
            ("/none/_*.parquet", "none/_a.parquet", true),
            ("s3://bucket/none/", "none/a.parquet", true),
            ("s3://bucket/none/", "none/part-0", true),
            ("s3://bucket/none/", "none/_temporary/0/a.parquet", false),
            ("s3://bucket/none/", "none/_k=1/a.parquet", true),
            ("s3://bucket/none/", "none/.c.parquet", false),
            ("s3://bucket/none/", "nonesuch/a.parquet", false),
            ("s3://bucket/", "a.parquet", true),
        ] {
            assert_eq!(has(location, file), expected, "{location} {file}");
        }
    }

    #[test]
    fn a_file_that_exists_is_no_pattern() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a?b.parquet", "r[1].parquet", "s*.parquet", "p%20q.parquet", "x y.parquet"] {
            let path = folder.path().join(name);
            std::fs::write(&path, "").expect("a file");
            let location = Location::parse(path.to_str().expect("a path")).expect(name);
            assert!(location.may_be_file(), "{name}");
            assert_eq!(location.url().prefix().filename(), Some(name));
        }
    }

    #[test]
    fn a_path_may_lead_upwards() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().canonicalize().expect("a folder");
        std::fs::create_dir(folder.join("below")).expect("a folder");
        std::fs::write(folder.join("t.parquet"), "").expect("a file");
        let path = folder.join("below/../t.parquet");
        let location = Location::parse(path.to_str().expect("a path")).expect("a location");
        assert_eq!(
            format!("/{}", location.url().prefix()),
            folder.join("t.parquet").to_str().expect("a path")
        );
    }

    #[test]
    fn objects_may_have_any_name() {
        let location = Location::parse("s3://bucket/a?b#c*.parquet").expect("a location");
        assert_eq!(location.url().prefix().as_ref(), "a?b#c*.parquet");
        let pattern = location.as_pattern().expect("a pattern");
        assert_eq!(pattern.url().prefix().as_ref(), "");
        assert!(pattern.has(&["axb#cd.parquet"], false));
    }
}
