//! Settings of a cluster: where its workers are, and how its processes know each other.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use tonic::transport::{Certificate, ClientTlsConfig, Identity, ServerTlsConfig};

use crate::ClusterError;

/// The places of the workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Workers {
    /// These addresses, `HOST:PORT`.
    List(Vec<String>),
    /// All addresses of a name, `NAME:PORT`, which is resolved again and again.
    Dns(String),
    /// A file that is read again when it changes.
    File(PathBuf),
}

impl FromStr for Workers {
    type Err = ClusterError;

    fn from_str(text: &str) -> Result<Self, ClusterError> {
        if let Some(name) = text.strip_prefix("dns:") {
            return Ok(Workers::Dns(with_port(name)?));
        }
        if Path::new(text).extension().is_some_and(|of| of == "toml") {
            return Ok(Workers::File(text.into()));
        }
        let addresses: Result<Vec<_>, _> =
            text.split(',').map(str::trim).filter(|address| !address.is_empty()).map(with_port).collect();
        match addresses? {
            addresses if addresses.is_empty() => Err(ClusterError::setting(
                "cluster",
                "it names no worker: give HOST:PORT,HOST:PORT, dns:NAME:PORT or a file",
            )),
            addresses => Ok(Workers::List(addresses)),
        }
    }
}

/// The port of workers.
pub const PORT: u16 = 7433;

/// Adds the usual port to an address without one.
fn with_port(address: &str) -> Result<String, ClusterError> {
    let has_port = address.parse::<SocketAddr>().is_ok()
        || address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.contains(':') && port.parse::<u16>().is_ok());
    let address = if has_port { address.to_owned() } else { format!("{address}:{PORT}") };
    match url::Url::parse(&format!("http://{address}")) {
        Ok(url) if url.path() == "/" && url.has_host() && !address.contains('@') => Ok(address),
        _ => Err(ClusterError::setting("cluster", format!("'{address}' is no address: give HOST:PORT"))),
    }
}

/// The contents of a file of workers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkersFile {
    workers: Vec<String>,
}

/// Reads a file of workers.
pub(crate) fn read_workers(path: &Path) -> Result<Vec<String>, ClusterError> {
    let text = read("the file of workers", path)?;
    let file: WorkersFile =
        toml::from_str(&text).map_err(|error| ClusterError::file("the file of workers", path, error))?;
    file.workers.iter().map(|address| with_port(address)).collect()
}

fn read(what: &'static str, path: &Path) -> Result<String, ClusterError> {
    std::fs::read_to_string(path).map_err(|error| ClusterError::file(what, path, error))
}

/// How the processes of a cluster know each other: a token, certificates, or both.
#[derive(Clone, Default)]
pub struct Security {
    token: Option<String>,
    tls: Option<Tls>,
}

#[derive(Clone)]
struct Tls {
    ca: Certificate,
    identity: Identity,
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security")
            .field("token", &self.token.is_some())
            .field("tls", &self.tls.is_some())
            .finish()
    }
}

/// The least length of a token. Shorter ones can be guessed.
const TOKEN_LEAST: usize = 16;

impl Security {
    /// Reads the files of settings. Certificate, key and authority come together: each process proves itself to the
    /// other.
    ///
    /// # Errors
    /// If a file cannot be read, a token is short, or a certificate comes without the others.
    pub fn read(
        token_file: Option<&Path>,
        ca: Option<&Path>,
        certificate: Option<&Path>,
        key: Option<&Path>,
    ) -> Result<Self, ClusterError> {
        let token = token_file.map(|path| {
            let token = read("the token of the cluster", path)?.trim().to_owned();
            match token {
                token if token.len() < TOKEN_LEAST || !token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                    let wanted =
                        format!("it must have {TOKEN_LEAST} letters and digits or more, without blanks");
                    Err(ClusterError::file("the token of the cluster", path, wanted))
                }
                token => Ok(token),
            }
        });
        let tls = match (ca, certificate, key) {
            (None, None, None) => None,
            (Some(ca), Some(certificate), Some(key)) => Some(Tls {
                ca: Certificate::from_pem(read("the authority of the cluster", ca)?),
                identity: Identity::from_pem(
                    read("the certificate of the cluster", certificate)?,
                    read("the key of the cluster", key)?,
                ),
            }),
            _ => {
                let wanted =
                    "cluster-tls-ca, cluster-tls-cert and cluster-tls-key come together: give all three";
                return Err(ClusterError::setting("cluster-tls-cert", wanted));
            }
        };
        Ok(Security { token: token.transpose()?, tls })
    }

    /// The token that each request carries.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The scheme of addresses.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// TLS of a client, which proves itself by its certificate. `host` is the name that the worker's certificate
    /// must have.
    pub(crate) fn client(&self, host: &str) -> Option<ClientTlsConfig> {
        let tls = self.tls.as_ref()?;
        let config = ClientTlsConfig::new().domain_name(host);
        Some(config.ca_certificate(tls.ca.clone()).identity(tls.identity.clone()))
    }

    /// TLS of a worker, which accepts clients with a certificate of the same authority.
    pub(crate) fn server(&self) -> Option<ServerTlsConfig> {
        let tls = self.tls.as_ref()?;
        Some(ServerTlsConfig::new().identity(tls.identity.clone()).client_ca_root(tls.ca.clone()))
    }

    /// Refuses addresses that other machines reach, unless a worker can tell its coordinators from others.
    pub(crate) fn check(&self, listen: SocketAddr) -> Result<(), ClusterError> {
        if listen.ip().is_loopback() || self.tls.is_some() {
            return Ok(());
        }
        if self.token.is_some() {
            tracing::warn!(%listen, "the token and all rows cross the network in plain: give cluster-tls-cert, too");
            return Ok(());
        }
        let wanted = format!(
            "{listen} is reached by other machines, and a worker runs the plans that it gets: give cluster-tls-ca, \
             cluster-tls-cert and cluster-tls-key, or cluster-token-file, or listen at 127.0.0.1"
        );
        Err(ClusterError::setting("listen", wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_a_list_a_name_or_a_file() {
        let list = |addresses: &[&str]| Workers::List(addresses.iter().map(|&of| of.to_owned()).collect());
        let workers = |text: &str| text.parse::<Workers>().map_err(|error| error.to_string());
        assert_eq!(workers("a:1, b"), Ok(list(&["a:1", "b:7433"])));
        assert_eq!(workers("[::1]:8"), Ok(list(&["[::1]:8"])));
        assert_eq!(workers("dns:scan.svc:9"), Ok(Workers::Dns("scan.svc:9".to_owned())));
        assert_eq!(workers("workers.toml"), Ok(Workers::File("workers.toml".into())));
        for wrong in ["", " , ", "a:1,http://b", "user@a:1", "a b"] {
            assert!(workers(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_worker_that_others_reach_needs_a_token_or_certificates() {
        let [own, all] = ["127.0.0.1:7433", "0.0.0.0:7433"].map(|at| at.parse().expect("an address"));
        let mut security = Security::default();
        assert!(security.check(own).is_ok());
        let error = security.check(all).expect_err("open to all").to_string();
        assert!(error.contains("cluster-tls-ca") && error.contains("cluster-token-file"), "{error}");
        security.token = Some("a".repeat(TOKEN_LEAST));
        assert!(security.check(all).is_ok());
    }
}
