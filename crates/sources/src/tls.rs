//! The bytes of a connection, encrypted or not.
//!
//! Owns the handshake, whom one trusts and how one shows who one is. Does not own what is asked for, nor waits and framing: each kind of
//! source has its own.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, StreamOwned,
};

/// Encryption. Files are read at each connection, so that a renewed certificate counts from the next one on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the authorities to trust; the system's without one.
    pub ca: Option<PathBuf>,
    /// PEM files of the client's certificates and of its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether the certificate must name the host. Who signed it is checked in any case.
    pub verify_host: bool,
}

/// A connection's bytes. Reads end with `WouldBlock` or `TimedOut` when the socket's own bound is over.
pub(crate) enum Stream {
    Clear(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Encrypts a connection to `host`, which certificates must name. `go_on` is asked each time that the socket's bound is over.
    pub(crate) fn encrypt(
        socket: TcpStream,
        tls: &Tls,
        host: &str,
        mut go_on: impl FnMut() -> Result<(), String>,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("`{host}` is no name that a certificate could hold"))?;
        let connection = ClientConnection::new(client_config(tls)?, name).map_err(|why| why.to_string())?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            match stream.conn.complete_io(&mut stream.sock) {
                Ok(_) => {}
                Err(error) if is_pause(&error) => go_on()?,
                Err(error) => return Err(format!("TLS: {error}")),
            }
        }
        Ok(Self::Encrypted(Box::new(stream)))
    }
}

/// True if a read or write only has not come to an end yet.
pub(crate) fn is_pause(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.read(into),
            Self::Encrypted(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.write(bytes),
            Self::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Clear(socket) => socket.flush(),
            Self::Encrypted(stream) => stream.flush(),
        }
    }
}

/// What a client of any protocol needs for its handshakes. The files are read now.
///
/// # Errors
/// When a file cannot be read or holds nothing of use, or the system trusts no authorities.
pub fn client_config(tls: &Tls) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(tls)?), provider.clone())
        .build()
        .map_err(|why| format!("the authorities cannot be used: {why}"))?;
    let verifier: Arc<dyn ServerCertVerifier> =
        if tls.verify_host { verifier } else { Arc::new(AnyName { inner: verifier }) };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let at = |path: &Path, why: &dyn std::fmt::Display| format!("`{}`: {why}", path.display());
            let private = PrivateKeyDer::from_pem_file(key).map_err(|why| at(key, &why))?;
            builder.with_client_auth_cert(certificates(cert)?, private).map_err(|why| at(cert, &why))?
        }
    };
    Ok(Arc::new(config))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let at = |why: rustls::pki_types::pem::Error| format!("`{}`: {why}", file.display());
    CertificateDer::pem_file_iter(file).map_err(at)?.collect::<Result<_, _>>().map_err(at)
}

fn roots(tls: &Tls) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(ca) = &tls.ca else {
        let found = rustls_native_certs::load_native_certs();
        // Systems hold some that no library takes; what counts is that there are any.
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = found.errors.first().map_or_else(String::new, |why| format!(": {why}"));
            return Err(format!("this system trusts no authorities; give `ca`{why}"));
        }
        return Ok(roots);
    };
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|why| format!("`{}`: {why}", ca.display()))?;
    }
    if roots.is_empty() {
        return Err(format!("`{}` holds no certificate in PEM form", ca.display()));
    }
    Ok(roots)
}

/// Checks all of a certificate but the name in it: `verify_host: false`.
#[derive(Debug)]
struct AnyName {
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is inspected last, after signatures, times and revocation.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
