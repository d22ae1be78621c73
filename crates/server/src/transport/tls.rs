//! TLS: certificate and key from files, read again on request, and optionally client certificates.
//!
//! A server whose TLS settings cannot be used does not start. A running server keeps its earlier certificate if the
//! new files are wrong.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ring::digest;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;
use x509_certificate::{SignatureAlgorithm, X509Certificate};

use super::wire::{Channel, EndPoint, Wire};
use crate::config::ServeConfig;
use crate::error::ServeError;

/// Protocols inside TLS, the preferred first.
const PROTOCOLS: [&[u8]; 3] = [b"h2", b"http/1.1", b"postgresql"];

/// The TLS configuration.
pub(crate) struct Tls {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    current: RwLock<Arc<Loaded>>,
}

/// The contents of the files.
struct Loaded {
    config: Arc<ServerConfig>,
    /// The hash that logins can be bound to. `None` if the certificate's signature algorithm names no hash.
    end_point: Option<EndPoint>,
}

impl Tls {
    /// Reads the files that the settings name. `None` if they name no files.
    pub(crate) fn of(config: &ServeConfig) -> Result<Option<Arc<Self>>, ServeError> {
        let (Some(cert), Some(key)) = (&config.tls_cert, &config.tls_key) else { return Ok(None) };
        let client_ca = config.tls_client_ca.clone();
        let current = RwLock::new(load(cert, key, client_ca.as_deref())?);
        Ok(Some(Arc::new(Tls { cert: cert.clone(), key: key.clone(), client_ca, current })))
    }

    /// Reads the files again. Open connections keep their configuration.
    pub(crate) fn reload(&self) -> Result<(), ServeError> {
        let loaded = load(&self.cert, &self.key, self.client_ca.as_deref())?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    /// Encrypts a connection.
    pub(crate) async fn accept(&self, wire: Wire) -> std::io::Result<Channel> {
        let loaded = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let stream = TlsAcceptor::from(loaded.config.clone()).accept(wire).await?;
        Ok(Channel::encrypted(stream, loaded.end_point.clone()))
    }
}

fn load(cert: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Arc<Loaded>, ServeError> {
    let failed = |error: rustls::Error| ServeError::file("the TLS certificate", cert, error);
    let chain = certificates("the TLS certificate", cert)?;
    let end_point = chain.first().and_then(|certificate| end_point(certificate));
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
    Ok(Arc::new(Loaded { config: Arc::new(config), end_point }))
}

/// The hash of a certificate, by the hash of its signature or by SHA-256 if that is stronger (RFC 5929, section
/// 4.1).
fn end_point(certificate: &[u8]) -> Option<EndPoint> {
    let algorithm = match X509Certificate::from_der(certificate).ok()?.signature_algorithm()? {
        SignatureAlgorithm::RsaSha1 | SignatureAlgorithm::RsaSha256 | SignatureAlgorithm::EcdsaSha256 => {
            &digest::SHA256
        }
        SignatureAlgorithm::RsaSha384 | SignatureAlgorithm::EcdsaSha384 => &digest::SHA384,
        SignatureAlgorithm::RsaSha512 => &digest::SHA512,
        // Ed25519 has no hash of its own.
        _ => return None,
    };
    Some(digest::digest(algorithm, certificate).as_ref().into())
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
