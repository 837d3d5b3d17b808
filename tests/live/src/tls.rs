//! Certificates for one test, and a door that speaks TLS before a server that does not.
//!
//! Owns keys that are made when a test runs and go with its directory, and [`TlsDoor`]. Does not own who must be let in: tests do.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// One side of a connection is looked at for so long before the other is.
const TURN: Duration = Duration::from_millis(5);
/// A client that opens a connection and says nothing is not waited for.
const HANDSHAKE_MAX: Duration = Duration::from_secs(120);
/// Bytes moved at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Who signs certificates.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

/// A certificate and its key, as files.
#[derive(Debug, Clone)]
pub struct Identity {
    /// PEM file of the certificate.
    pub cert: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
    /// PEM file of both, key first: the form that Kafka's broker takes.
    pub both: PathBuf,
}

impl Authority {
    /// An authority called `name`, whose certificate stands in `dir`.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn new(dir: &Path, name: &str) -> Result<Authority> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let file = dir.join(format!("{name}.pem"));
        std::fs::write(&file, params.self_signed(&key)?.pem())?;
        Ok(Authority { issuer: Issuer::new(params, key), file })
    }

    /// PEM file of its certificate: what others trust it by.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// An identity for a host: a name, or an address.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn issue(&self, dir: &Path, host: &str) -> Result<Identity> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, host);
        params.subject_alt_names.push(match host.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(host.try_into()?),
        });
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?.pem();
        let stem = format!("{}-{host}", self.file.file_stem().unwrap_or_default().display());
        let put = |suffix: &str, text: &str| {
            let path = dir.join(format!("{stem}.{suffix}.pem"));
            std::fs::write(&path, text).map(|()| path)
        };
        let key = key.serialize_pem();
        Ok(Identity {
            cert: put("cert", &cert)?,
            key: put("key", &key)?,
            both: put("both", &(key.clone() + &cert))?,
        })
    }
}

/// Takes TLS connections on a loopback port and hands their bytes on to a server in clear. Ends when dropped.
#[derive(Debug)]
pub struct TlsDoor {
    port: u16,
    is_over: Arc<AtomicBool>,
    handshakes: Arc<AtomicU32>,
}

impl TlsDoor {
    /// A door before `server` (`http://host:port`), which shows `identity`.
    ///
    /// # Errors
    /// When the files cannot be read or there is no port.
    pub fn open(server: &str, identity: &Identity) -> Result<TlsDoor> {
        let certs = CertificateDer::pem_file_iter(&identity.cert)?.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_file(&identity.key)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certs, key)?;
        let config = Arc::new(config);
        let server = server.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let (is_over, handshakes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (over, done) = (is_over.clone(), handshakes.clone());
        std::thread::spawn(move || {
            // A wake-up by `drop` is a connection too.
            for client in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(client) = client else { continue };
                let (config, server, over, done) =
                    (config.clone(), server.clone(), over.clone(), done.clone());
                std::thread::spawn(move || {
                    // A client that turns away is what some tests are about; the client tells why.
                    if let Err(error) = relay(client, &server, config, &over, &done) {
                        eprintln!("tls door: {error:#}");
                    }
                });
            }
        });
        Ok(TlsDoor { port, is_over, handshakes })
    }

    /// Its port, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Connections whose client accepted the certificate.
    pub fn handshakes(&self) -> u32 {
        self.handshakes.load(Ordering::Relaxed)
    }
}

impl Drop for TlsDoor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // The acceptor waits for a connection; without one it would stay until the process ends.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

/// Moves bytes until one side ends.
fn relay(
    client: TcpStream,
    server: &str,
    config: Arc<ServerConfig>,
    is_over: &AtomicBool,
    handshakes: &AtomicU32,
) -> Result<()> {
    let mut client = StreamOwned::new(ServerConnection::new(config)?, client);
    client.sock.set_read_timeout(Some(HANDSHAKE_MAX))?;
    while client.conn.is_handshaking() {
        client.conn.complete_io(&mut client.sock).context("handshake")?;
    }
    handshakes.fetch_add(1, Ordering::Relaxed);
    let mut server = TcpStream::connect(server).context("the server is away")?;
    client.sock.set_read_timeout(Some(TURN))?;
    server.set_read_timeout(Some(TURN))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    while !is_over.load(Ordering::Relaxed) {
        if !pass(&mut client, &mut server, &mut chunk)? || !pass(&mut server, &mut client, &mut chunk)? {
            client.conn.send_close_notify();
            client.flush()?;
            break;
        }
    }
    Ok(())
}

/// Hands on what is there now; false when `from` has ended.
fn pass(from: &mut impl Read, to: &mut impl Write, chunk: &mut [u8]) -> Result<bool> {
    match from.read(chunk) {
        Ok(0) => Ok(false),
        Ok(count) => {
            to.write_all(&chunk[..count])?;
            to.flush()?;
            Ok(true)
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(true),
        // A client that closes without a word has ended all the same.
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
