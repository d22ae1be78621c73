//! The address of a catalog, such as `iceberg+rest://host/path?warehouse=w`.

use std::collections::BTreeMap;
use std::time::Duration;

use datafusion::common::{Result, exec_datafusion_err, plan_datafusion_err, plan_err};
use url::{Host, Url};

/// The age at which the list of tables is looked up again.
const REFRESH: Duration = Duration::from_secs(10);

/// The beginnings of addresses.
const ICEBERG: &str = "iceberg+";
pub(crate) const DUCKLAKE: &str = "ducklake+";

/// The address of a catalog with its options.
#[derive(Debug)]
pub(crate) struct Address {
    pub(crate) format: Format,
    /// The URL without the format and without options.
    pub(crate) url: Url,
    pub(crate) refresh: Duration,
    /// Whether tables may be files of this machine. Who writes to a catalog elsewhere has no right to read them.
    pub(crate) local: bool,
    options: BTreeMap<String, String>,
}

/// The format of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Iceberg(Kind),
    DuckLake,
}

/// The kinds of Iceberg's catalogs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A server that speaks Iceberg's REST protocol.
    Rest,
    /// Tables of a database, as the JDBC catalog of Java and the SQL catalog of Python have them.
    Database,
    /// A folder of namespaces, as the Hadoop catalog has them.
    Folder,
}

impl Address {
    /// Reads an address.
    ///
    /// # Errors
    /// If it is none, or the environment variable or the file that an option names cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let iceberg = text.strip_prefix(ICEBERG);
        let Some(text) = iceberg.or_else(|| text.strip_prefix(DUCKLAKE)) else {
            return plan_err!(
                "a catalog has an address such as iceberg+rest://HOST/PATH?warehouse=NAME, iceberg+sqlite:///PATH, \
                 iceberg+postgresql://HOST/DATABASE, iceberg+s3://BUCKET/FOLDER, ducklake+sqlite:///PATH or \
                 ducklake+postgresql://HOST/DATABASE"
            );
        };
        // The error does not repeat the address: it may have a password.
        let wrong = |error| plan_datafusion_err!("no address of a catalog: {error}");
        let mut url = Url::parse(text).map_err(wrong)?;
        let is_database = ["sqlite", "postgres", "postgresql"].contains(&url.scheme());
        let format = match url.scheme() {
            scheme if iceberg.is_none() && !is_database => {
                return plan_err!(
                    "a catalog of DuckLake is read from SQLite and PostgreSQL, not from {scheme}: DuckDB copies it with \
                     COPY FROM DATABASE"
                );
            }
            _ if iceberg.is_none() => Format::DuckLake,
            _ if is_database => Format::Iceberg(Kind::Database),
            "rest" | "http" | "https" => Format::Iceberg(Kind::Rest),
            _ => Format::Iceberg(Kind::Folder),
        };
        if url.scheme() == "rest" {
            // A server on this machine has no certificate, as a rule.
            let scheme = if is_loopback(&url) { "http" } else { "https" };
            url = Url::parse(&text.replacen("rest", scheme, 1)).map_err(wrong)?;
        }
        let mut options = BTreeMap::new();
        let mut of_database = Vec::new();
        for (key, value) in url.query_pairs() {
            // Options of the connection, such as sslmode.
            match is_database && !["catalog", "refresh", "local"].contains(&&*key) {
                true => of_database.push((key.into_owned(), value.into_owned())),
                false => drop(options.insert(key.into_owned(), secret(&value)?)),
            }
        }
        url.set_query(None);
        url.set_fragment(None);
        if !of_database.is_empty() {
            url.query_pairs_mut().extend_pairs(of_database);
        }
        let refresh = match options.remove("refresh") {
            Some(seconds) => match seconds.parse() {
                Ok(seconds) => Duration::from_secs(seconds),
                Err(_) => return plan_err!("refresh is a number of seconds, not '{seconds}'"),
            },
            None => REFRESH,
        };
        let local = match options.remove("local") {
            Some(local) => local == "true",
            None => is_here(&url),
        };
        Ok(Address { format, url, local, refresh, options })
    }

    /// Takes an option.
    pub(crate) fn take(&mut self, option: &str) -> Option<String> {
        self.options.remove(option)
    }

    /// Takes the options that begin so, with their whole names.
    pub(crate) fn take_all(&mut self, start: &str) -> BTreeMap<String, String> {
        let taken = self.options.extract_if(.., |name, _| name.starts_with(start));
        taken.collect()
    }

    /// # Errors
    /// If an option was not taken.
    pub(crate) fn end(&self, known: &str) -> Result<()> {
        match self.options.keys().next() {
            Some(option) => plan_err!("this kind of catalog has no option '{option}', but {known}"),
            None => Ok(()),
        }
    }

    /// The address for people, without a password.
    pub(crate) fn shown(&self) -> String {
        let mut url = self.url.clone();
        let _ = url.set_password(None);
        let _ = url.set_username("");
        url.set_query(None);
        let format = if self.format == Format::DuckLake { DUCKLAKE } else { ICEBERG };
        format!("{format}{url}")
    }
}

/// Returns whether what is at the URL is on this machine.
fn is_here(url: &Url) -> bool {
    let socket = || url.query_pairs().any(|(name, path)| name == "host" && path.starts_with('/'));
    matches!(url.scheme(), "file" | "sqlite") || is_loopback(url) || socket()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        // The scheme is not one whose hosts are parsed.
        Some(Host::Domain(name)) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::Ipv4Addr| address.is_loopback())
        }
        None => false,
    }
}

/// The value of an option: itself, that of a variable (`env:NAME`), or the contents of a file (`file:PATH`).
fn secret(value: &str) -> Result<String> {
    if let Some(name) = value.strip_prefix("env:") {
        return std::env::var(name)
            .map_err(|_| plan_datafusion_err!("the environment variable {name} is not set"));
    }
    if let Some(path) = value.strip_prefix("file:") {
        let text = std::fs::read_to_string(path)
            .map_err(|error| exec_datafusion_err!("the file {path} cannot be read: {error}"))?;
        return Ok(text.trim_end().to_owned());
    }
    Ok(value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_catalogs() {
        for (text, kind, url) in [
            ("iceberg+rest://cat.example/a?warehouse=w", Kind::Rest, "https://cat.example/a"),
            ("iceberg+rest://127.0.0.1:8181", Kind::Rest, "http://127.0.0.1:8181/"),
            ("iceberg+rest://localhost:8181/x", Kind::Rest, "http://localhost:8181/x"),
            ("iceberg+http://cat.example", Kind::Rest, "http://cat.example/"),
            ("iceberg+sqlite:///w/c.db?catalog=x&refresh=3", Kind::Database, "sqlite:///w/c.db"),
            (
                "iceberg+postgresql://u:p@h/d?sslmode=require&catalog=x",
                Kind::Database,
                "postgresql://u:p@h/d?sslmode=require",
            ),
            ("iceberg+s3://bucket/w", Kind::Folder, "s3://bucket/w"),
            ("iceberg+file:///w", Kind::Folder, "file:///w"),
        ] {
            let address = Address::parse(text).expect(text);
            assert_eq!((address.format, address.url.as_str()), (Format::Iceberg(kind), url));
            assert!(!address.shown().contains(":p@"), "{}", address.shown());
        }
    }

    #[test]
    fn catalogs_elsewhere_have_no_files_of_this_machine() {
        for (text, local) in [
            ("iceberg+rest://127.0.0.1:1", true),
            ("iceberg+rest://[::1]:1", true),
            ("iceberg+rest://localhost", true),
            ("iceberg+rest://cat.example", false),
            ("iceberg+rest://cat.example?local=true", true),
            ("iceberg+rest://localhost?local=false", false),
            ("iceberg+s3://bucket/w", false),
            ("ducklake+sqlite:///c.db", true),
            ("ducklake+postgresql://h/d", false),
            ("ducklake+postgresql://127.0.0.1/d", true),
            ("ducklake+postgresql://h/d?host=/run/postgresql", true),
        ] {
            assert_eq!(Address::parse(text).expect(text).local, local, "{text}");
        }
    }

    #[test]
    fn wrong_addresses() {
        for (text, part) in [
            ("s3://bucket", "iceberg+rest://"),
            ("iceberg+rest//x", "no address"),
            ("iceberg+rest://h?refresh=x", "seconds"),
            ("iceberg+rest://h?token=env:COSCAN_NO_SUCH", "COSCAN_NO_SUCH"),
            ("iceberg+rest://h?token=file:/no/such", "/no/such"),
        ] {
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        let mut address = Address::parse("iceberg+rest://h?tokn=x&s3.region=r").expect("an address");
        assert_eq!(address.take_all("s3."), BTreeMap::from([("s3.region".to_owned(), "r".to_owned())]));
        assert!(address.end("token").expect_err("tokn").to_string().contains("tokn"));
        assert_eq!(address.take("tokn").as_deref(), Some("x"));
        address.end("token").expect("no options");
    }
}
