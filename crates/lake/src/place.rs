//! Places of files, as the formats write them: URLs or paths on this machine, not encoded.

use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::path::Path;
use url::Url;

/// The folder of a table.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    pub(crate) url: Url,
    /// The folder in the store.
    pub(crate) folder: Path,
    /// The location of the folder in the words of metadata and manifests. It is another one if the table was copied.
    pub(crate) written: String,
}

impl Root {
    /// The whole store at a URL.
    pub(crate) fn of_store(url: &Url) -> Self {
        // No location begins with a slash alone behind it.
        Root { url: url.clone(), folder: Path::default(), written: "\0".to_owned() }
    }

    /// The folder as a URL, not encoded.
    pub(crate) fn location(&self) -> String {
        format!("{}://{}/{}", self.url.scheme(), self.url.authority(), self.folder)
    }

    /// Returns the path of a location that metadata or manifests name: a URL or a path on this machine, not encoded.
    ///
    /// # Errors
    /// If it is in another store than the table.
    pub(crate) fn path_of(&self, location: &str) -> Result<Path> {
        let inside = location.strip_prefix(self.written.trim_end_matches('/'));
        let path = match inside.and_then(|inside| inside.strip_prefix('/')) {
            Some(inside) => format!("{}/{inside}", self.folder),
            None => self.elsewhere(location)?.to_owned(),
        };
        Path::parse(path).map_err(|error| exec_datafusion_err!("{location} is no path: {error}"))
    }

    /// The path of a location that is not below the folder.
    fn elsewhere<'a>(&self, location: &'a str) -> Result<&'a str> {
        let url = location.split_once(':').filter(|(scheme, _)| !scheme.contains('/'));
        let (here, path) = match url {
            Some((scheme, rest)) => {
                let (authority, path) = match rest.strip_prefix("//") {
                    Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
                    None => ("", rest),
                };
                (general(scheme) == general(self.url.scheme()) && authority == self.url.authority(), path)
            }
            None => (self.url.scheme() == "file", location),
        };
        if here { Ok(path) } else { exec_err!("{location} is in another store than the table") }
    }
}

/// One name for the schemes of a store.
fn general(scheme: &str) -> &str {
    match scheme {
        "s3a" | "s3n" => "s3",
        "gcs" => "gs",
        "abfss" => "abfs",
        other => other,
    }
}

/// The URL and the store of a location: a URL or a path on this machine.
///
/// # Errors
/// If it is a file of this machine, and the catalog that names it may name none.
pub(crate) fn store_of(location: &str, local: bool) -> Result<(Url, ObjectStoreUrl)> {
    // Paths are not encoded, and Hadoop writes file:/path.
    let (scheme, rest) = match location.split_once(':').filter(|(scheme, _)| !scheme.contains('/')) {
        Some((scheme, rest)) => (scheme, rest),
        None => ("file", location),
    };
    let authority = match rest.strip_prefix("//") {
        Some(rest) => &rest[..rest.find('/').unwrap_or(rest.len())],
        None => "",
    };
    let scheme = if scheme == "s3n" { "s3" } else { scheme };
    let url = Url::parse(&format!("{scheme}://{authority}/"))
        .map_err(|error| exec_datafusion_err!("{location} is no location: {error}"))?;
    if url.scheme() == "file" && !local {
        return plan_err!(
            "{location} is on this machine, and its catalog is not: if it may name files here, add local=true to its address"
        );
    }
    let store = ListingTableUrl::parse(url.as_str())?.object_store();
    Ok((url, store))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_as_writers_write_them() {
        let of = |location: &str, url: &str, written: &str| {
            let url = Url::parse(url).expect("a URL");
            let folder = Path::from_url_path(url.path()).expect("a path");
            let root = Root { url, folder, written: written.to_owned() };
            root.path_of(location).map(|path| path.to_string())
        };
        for location in ["/w/t/a b.parquet", "file:/w/t/a b.parquet", "file:///w/t/a b.parquet"] {
            for written in ["/w/t", "file:/w/t", "file:///w/t/", "/other"] {
                assert_eq!(of(location, "file:///w/t/", written).expect("a path"), "w/t/a b.parquet");
            }
        }
        assert_eq!(of("s3a://b/t/x=%20/f", "s3://b/t/", "s3a://b/t").expect("a path"), "t/x=%20/f");
        assert_eq!(of("s3://c/t/f", "file:///copy/t/", "s3://c/t").expect("a copy"), "copy/t/f");
        for (location, url) in
            [("s3://c/t/f", "s3://b/t/"), ("/w/t", "s3://b/t/"), ("gs://b/t/f", "s3://b/t/")]
        {
            let error = of(location, url, "s3://b/other").expect_err(location).to_string();
            assert!(error.contains(location) && error.contains("another store"), "{error}");
        }
    }

    #[test]
    fn stores_of_locations() {
        for (location, url, store) in [
            ("s3://b/t/metadata/x.json", "s3://b/", "s3://b/"),
            ("s3a://b/t x/y", "s3a://b/", "s3a://b/"),
            ("s3n://b/t", "s3://b/", "s3://b/"),
            ("/w/t x/y.json", "file:///", "file:///"),
            ("file:/w/t", "file:///", "file:///"),
            ("file:///w/t", "file:///", "file:///"),
        ] {
            let (found, of_store) = store_of(location, true).expect(location);
            assert_eq!((found.as_str(), of_store.as_str()), (url, store), "{location}");
            assert_eq!(store_of(location, false).is_ok(), !url.starts_with("file"), "{location}");
        }
    }
}
