//! A server's certificate, and the authorities of its clients', from files that may change while it runs.
//!
//! Owns reading them, and what a change means: connections that begin later get the new ones, and files that do not fit together leave the old
//! ones in use. Does not own connections, nor whether a certificate's time has come or is over (`tls::validity`).

mod validity;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

/// How often the files are read again.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// After so long files that have changed must still be the same: otherwise they are being written.
const SETTLED_AFTER: Duration = Duration::from_millis(200);

/// Bytes of a file of certificates at the most: a system's whole bundle has a quarter of it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the certificates are, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and its authority.
    pub cert: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// The authorities of clients' certificates. With it a client without such a certificate is not let in.
    pub client_ca: Option<PathBuf>,
    /// Offers HTTP/2 beside HTTP/1.1.
    pub http2: bool,
}

/// Why the files make no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// One cannot be read.
    #[error("`{}` cannot be read: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// One holds something else.
    #[error("`{}` {why}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// They do not fit together.
    #[error("`{}` and `{}` do not fit together: {why}", cert.display(), key.display())]
    Pair {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
        /// Why.
        why: String,
    },
}

/// The contents of the files: certificate, key, authorities.
type Contents = (Vec<u8>, Vec<u8>, Option<Vec<u8>>);

/// What a server shows its clients, as of now.
#[derive(Clone)]
pub struct Tls {
    files: Arc<TlsFiles>,
    now: Arc<RwLock<(Contents, Arc<ServerConfig>)>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads certificate, key and authorities.
    ///
    /// # Errors
    /// When one cannot be read, holds something else, or they do not fit together.
    pub fn open(files: TlsFiles) -> Result<Self, TlsError> {
        let contents = read(&files)?;
        let config = config(&files, &contents)?;
        Ok(Self { files: Arc::new(files), now: Arc::new(RwLock::new((contents, Arc::new(config)))) })
    }

    /// What encrypts a connection that begins now.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.now.read().unwrap_or_else(PoisonError::into_inner).1.clone())
    }

    /// Reads the files again now and then, for ever.
    pub async fn follow<Never>(self) -> Never {
        let (mut told, mut complaint) = (None, None);
        loop {
            // Also of those that were in use when the process began, and of those whose time ends meanwhile.
            complaint = self.complain(complaint);
            tokio::time::sleep(LOOK_EVERY).await;
            let tls = self.clone();
            let looked = tokio::task::spawn_blocking(move || tls.look()).await;
            match looked {
                Ok(Ok(false)) | Err(_) => {}
                Ok(Ok(true)) => {
                    (told, complaint) = (None, None);
                    tracing::info!("the certificates have changed; new connections get the new ones");
                }
                Ok(Err(error)) => {
                    let error = error.to_string();
                    if told.as_ref() != Some(&error) {
                        tracing::error!(%error, "the certificates have changed and cannot be used; the old ones stay in use");
                    }
                    told = Some(error);
                }
            }
        }
    }

    /// Warns of certificates in use that clients refuse by their time, when that is news. How long ago it was is none.
    fn complain(&self, before: Option<String>) -> Option<String> {
        let complaint = self.complaint(UnixTime::now());
        let is_known = before.is_some() && complaint.is_some();
        if let Some(complaint) = complaint.as_ref().filter(|_| !is_known) {
            tracing::warn!("{complaint}");
        }
        complaint
    }

    /// What clients have against the certificates in use at a time.
    fn complaint(&self, now: UnixTime) -> Option<String> {
        let pem = self.now.read().unwrap_or_else(PoisonError::into_inner).0.0.clone();
        validity::complaint(&self.files.cert, &certificates(&self.files.cert, &pem).ok()?, now)
    }

    /// Reads the files; true if they have changed and are in use now. Takes a moment then.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn look(&self) -> Result<bool, TlsError> {
        self.look_by(|| read(&self.files))
    }

    /// The same by another way of reading them.
    fn look_by(&self, read: impl Fn() -> Result<Contents, TlsError>) -> Result<bool, TlsError> {
        let contents = read()?;
        if self.now.read().unwrap_or_else(PoisonError::into_inner).0 == contents {
            return Ok(false);
        }
        let config = Arc::new(config(&self.files, &contents)?);
        // The beginning of a chain, or of a bundle of authorities, is one as well, and would turn clients away.
        std::thread::sleep(SETTLED_AFTER);
        if read()? != contents {
            return Ok(false);
        }
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = (contents, config);
        Ok(true)
    }
}

fn read(files: &TlsFiles) -> Result<Contents, TlsError> {
    let client_ca = files.client_ca.as_deref().map(read_one).transpose()?;
    Ok((read_one(&files.cert)?, read_one(&files.key)?, client_ca))
}

fn read_one(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error| TlsError::Read { path: path.to_owned(), error };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > FILE_BYTES_MAX {
        let why = format!("has {length} bytes, more than certificates have ({FILE_BYTES_MAX})");
        return Err(TlsError::Content { path: path.to_owned(), why });
    }
    std::fs::read(path).map_err(failed)
}

fn config(files: &TlsFiles, (cert, key, client_ca): &Contents) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let pair = |why: String| TlsError::Pair { cert: files.cert.clone(), key: files.key.clone(), why };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| pair(error.to_string()))?;
    let builder = match (&files.client_ca, client_ca) {
        (Some(path), Some(pem)) => {
            let content = |why: String| TlsError::Content { path: path.clone(), why };
            let mut roots = RootCertStore::empty();
            for authority in certificates(path, pem)? {
                roots
                    .add(authority)
                    .map_err(|error| content(format!("has an authority of no use: {error}")))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| content(error.to_string()))?)
        }
        _ => builder.with_no_client_auth(),
    };
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Content {
        path: files.key.clone(),
        why: format!("holds no private key without a password: {error}"),
    })?;
    let mut config = builder
        .with_single_cert(certificates(&files.cert, cert)?, key)
        .map_err(|error| pair(error.to_string()))?;
    let offered: &[&[u8]] = if files.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = |why: String| TlsError::Content { path: path.to_owned(), why };
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|error| content(format!("is damaged: {error}")))?;
    match found.is_empty() {
        true => Err(content("holds no certificate".to_owned())),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests;
