//! TLS: certificate and key from files, read again on request, and optionally the certificates of clients.
//!
//! A server that was told to encrypt and cannot does not start. One that runs goes on with what it had when new files are wrong.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::wire::{Channel, Wire};
use crate::config::ServeConfig;
use crate::error::ServeError;

/// What is spoken inside, in the order in which it is preferred.
const PROTOCOLS: [&[u8]; 3] = [b"h2", b"http/1.1", b"postgresql"];

/// How connections are encrypted.
pub(crate) struct Tls {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files that the settings name; nothing if they name none.
    pub(crate) fn of(config: &ServeConfig) -> Result<Option<Arc<Self>>, ServeError> {
        let (Some(cert), Some(key)) = (&config.tls_cert, &config.tls_key) else { return Ok(None) };
        let client_ca = config.tls_client_ca.clone();
        let current = RwLock::new(load(cert, key, client_ca.as_deref())?);
        Ok(Some(Arc::new(Tls { cert: cert.clone(), key: key.clone(), client_ca, current })))
    }

    /// Reads the files again; connections there are keep what they have.
    pub(crate) fn reload(&self) -> Result<(), ServeError> {
        let config = load(&self.cert, &self.key, self.client_ca.as_deref())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Encrypts a connection.
    pub(crate) async fn accept(&self, wire: Wire) -> std::io::Result<Channel> {
        let config = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(Channel::encrypted(TlsAcceptor::from(config).accept(wire).await?))
    }
}

fn load(cert: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Arc<ServerConfig>, ServeError> {
    let failed = |error: rustls::Error| ServeError::file("the TLS certificate", cert, error);
    let chain = certificates("the TLS certificate", cert)?;
    let secret =
        PrivateKeyDer::from_pem_file(key).map_err(|error| ServeError::file("the TLS key", key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(failed)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong = |error: String| ServeError::file("the certificates of clients", path, error);
            let mut roots = RootCertStore::empty();
            for certificate in certificates("the certificates of clients", path)? {
                roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| wrong(error.to_string()))?)
        }
    };
    let mut config = builder.with_single_cert(chain, secret).map_err(failed)?;
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    Ok(Arc::new(config))
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let failed = |error: rustls::pki_types::pem::Error| ServeError::file(what, path, error);
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(failed)?.collect();
    let found = found.map_err(failed)?;
    if found.is_empty() {
        return Err(ServeError::file(what, path, "there is no certificate in it"));
    }
    Ok(found)
}
