use std::net::SocketAddr;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{get, post};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use testkit::TestDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::*;
use crate::{Bounds, Edge, Windows, serve_with};

/// Longer than any pause of a busy machine: no test here is decided by it.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// An authority, and what it signs.
struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), pem)
    }

    /// Certificate and key for 127.0.0.1, PEM.
    fn issue(&self) -> (String, String) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }

    fn client(&self, identity: Option<&(String, String)>) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(Path::new("test"), self.1.as_bytes()).unwrap() {
            roots.add(certificate).unwrap();
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        match identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let certs = certificates(Path::new("test"), cert.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(certs, key).unwrap()
            }
        }
    }
}

fn write(dir: &TestDir, (cert, key): &(String, String)) -> TlsFiles {
    let (cert_path, key_path) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert_path, cert).unwrap();
    std::fs::write(&key_path, key).unwrap();
    TlsFiles { cert: cert_path, key: key_path, client_ca: None, http2: true }
}

async fn start(tls: Tls) -> SocketAddr {
    start_within(tls, 10).await
}

async fn start_within(tls: Tls, connections_max: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bounds = Bounds {
        connections_max,
        head_wait_max: WAIT_MAX,
        head_bytes_max: 16 << 10,
        write_wait_max: WAIT_MAX,
    };
    let router = Router::new()
        .route("/", get(async || "hello"))
        .route("/no", post(async || (StatusCode::FORBIDDEN, "no")));
    let edge = Edge { tls: Some(tls), http2: Some(Windows::new(1 << 20)) };
    tokio::spawn(serve_with(listener, router, bounds, edge, std::future::pending()));
    address
}

/// What the server answers a client; an error if it does not let it in.
async fn ask(address: SocketAddr, client: ClientConfig) -> std::io::Result<String> {
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
    let mut stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await?;
    let mut told = Vec::new();
    tokio::time::timeout(WAIT_MAX, stream.read_to_end(&mut told)).await.expect("an answer")?;
    Ok(String::from_utf8_lossy(&told).into_owned())
}

#[tokio::test]
async fn certificates_that_change_are_shown_to_later_clients_and_broken_ones_are_not() {
    let dir = TestDir::new("listener-tls").unwrap();
    let (first, second) = (Authority::new(), Authority::new());
    let files = write(&dir, &first.issue());
    let tls = Tls::open(files.clone()).unwrap();
    let address = start(tls.clone()).await;
    assert!(ask(address, first.client(None)).await.unwrap().ends_with("hello"));
    assert!(ask(address, second.client(None)).await.is_err(), "another authority");
    assert!(!tls.look().unwrap(), "nothing has changed");

    std::fs::write(&files.cert, "no certificate").unwrap();
    let error = tls.look().unwrap_err().to_string();
    assert!(error.contains("cert.pem") && error.contains("holds no certificate"), "{error}");
    assert!(ask(address, first.client(None)).await.unwrap().ends_with("hello"), "the old one stays");

    // Half of a change: the key is still that of the first.
    let next = second.issue();
    std::fs::write(&files.cert, &next.0).unwrap();
    assert!(matches!(tls.look(), Err(TlsError::Pair { .. })));
    std::fs::write(&files.key, &next.1).unwrap();
    assert!(tls.look().unwrap());
    assert!(ask(address, second.client(None)).await.unwrap().ends_with("hello"));
    assert!(ask(address, first.client(None)).await.is_err());
}

#[test]
fn certificates_that_are_being_written_are_not_used_before_they_are_whole() {
    let dir = TestDir::new("listener-tls-half").unwrap();
    let authority = Authority::new();
    let tls = Tls::open(write(&dir, &authority.issue())).unwrap();
    let (cert, key) = authority.issue();
    let chain = cert.clone() + &authority.1;
    let reads = std::cell::Cell::new(0);
    let half_then_whole = || -> Result<Contents, TlsError> {
        reads.set(reads.get() + 1);
        let cert = if reads.get() == 1 { &cert } else { &chain };
        Ok((cert.clone().into_bytes(), key.clone().into_bytes(), None))
    };
    assert!(!tls.look_by(half_then_whole).unwrap());
    assert!(tls.look_by(half_then_whole).unwrap());
    assert!(!tls.look_by(half_then_whole).unwrap(), "they are in use");
}

#[tokio::test]
async fn a_client_without_a_certificate_is_not_let_in_where_one_is_asked_for() {
    let dir = TestDir::new("listener-mtls").unwrap();
    let (server, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let ca = dir.path().join("clients.pem");
    std::fs::write(&ca, &clients.1).unwrap();
    let files = TlsFiles { client_ca: Some(ca), ..write(&dir, &server.issue()) };
    let address = start(Tls::open(files).unwrap()).await;
    assert!(ask(address, server.client(Some(&clients.issue()))).await.unwrap().ends_with("hello"));
    assert!(ask(address, server.client(None)).await.is_err());
    assert!(ask(address, server.client(Some(&others.issue()))).await.is_err());
}

#[tokio::test]
async fn an_answer_that_comes_before_the_body_was_read_reaches_its_client() {
    let dir = TestDir::new("listener-tls-early").unwrap();
    let authority = Authority::new();
    let address = start(Tls::open(write(&dir, &authority.issue())).unwrap()).await;
    for bytes in [1 << 20, 16 << 20] {
        let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(authority.client(None)));
        let mut stream = connector.connect(name, stream).await.unwrap();
        let head = format!("POST /no HTTP/1.1\r\nHost: localhost\r\nContent-Length: {bytes}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&vec![b'x'; bytes]).await.expect("the rest is taken");
        stream.flush().await.unwrap();
        let mut told = vec![0; 4096];
        let read = tokio::time::timeout(WAIT_MAX, stream.read(&mut told)).await.expect("an answer").unwrap();
        let told = String::from_utf8_lossy(&told[..read]);
        assert!(told.starts_with("HTTP/1.1 403 "), "{bytes}: {told}");
    }
}

#[tokio::test]
async fn one_connection_more_than_the_bound_is_closed_without_words_that_are_no_tls() {
    let dir = TestDir::new("listener-tls-full").unwrap();
    let authority = Authority::new();
    let address = start_within(Tls::open(write(&dir, &authority.issue())).unwrap(), 1).await;
    let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
    let connector = TlsConnector::from(Arc::new(authority.client(None)));
    let first = TcpStream::connect(address).await.unwrap();
    let _held = connector.connect(name, first).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    let mut told = Vec::new();
    tokio::time::timeout(WAIT_MAX, second.read_to_end(&mut told)).await.expect("it is closed").unwrap();
    assert_eq!(told, b"");
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_client_that_does_not_finish_tls() {
    let dir = TestDir::new("listener-tls-stop").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let bounds = Bounds {
        connections_max: 10,
        head_wait_max: WAIT_MAX,
        head_bytes_max: 16 << 10,
        write_wait_max: WAIT_MAX,
    };
    let tls = Tls::open(write(&dir, &Authority::new().issue())).unwrap();
    let edge = Edge { tls: Some(tls), http2: Some(Windows::new(1 << 20)) };
    let (stop, asked) = tokio::sync::oneshot::channel::<()>();
    let stopped = async {
        let _ = asked.await;
    };
    let served = tokio::spawn(serve_with(listener, Router::new(), bounds, edge, stopped));
    let mut silent = TcpStream::connect(address).await.unwrap();
    // How a handshake begins.
    silent.write_all(&[22, 3]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    stop.send(()).unwrap();
    tokio::time::timeout(WAIT_MAX / 10, served).await.expect("it ends").unwrap().unwrap();
}

#[tokio::test]
async fn a_certificate_whose_time_is_over_or_has_not_come_is_complained_of() {
    let dir = TestDir::new("listener-tls-expired").unwrap();
    let authority = Authority::new();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.not_before, params.not_after) =
        (rcgen::date_time_ymd(2024, 1, 1), rcgen::date_time_ymd(2025, 1, 1));
    let key = KeyPair::generate().unwrap();
    let (alone, signed) = (params.self_signed(&key).unwrap(), params.signed_by(&key, &authority.0).unwrap());
    let at = |days: u64| UnixTime::since_unix_epoch(Duration::from_secs(days * 86_400));
    // The first day of 2024.
    let first = 19_723;
    for cert in [signed.pem(), alone.pem()] {
        let tls = Tls::open(write(&dir, &(cert, key.serialize_pem()))).unwrap();
        assert_eq!(tls.complaint(at(first + 100)), None);
        let told = tls.complaint(at(first + 366 + 5)).expect("it is over");
        assert!(told.contains("cert.pem` expired 5 days ago: clients refuse it"), "{told}");
        let told = tls.complaint(at(first - 3)).expect("it has not come");
        assert!(told.contains("certificate 1 of") && told.contains("not valid for another 3 days"), "{told}");
        let told = tls.complaint(at(first + 367)).expect("it is over");
        assert!(told.contains("expired 24 hours ago"), "{told}");
    }
    // The one behind it, too.
    let (cert, key) = authority.issue();
    let tls = Tls::open(write(&dir, &(cert + &alone.pem(), key))).unwrap();
    let told = tls.complaint(at(first + 366 + 5)).expect("the second is over");
    assert!(told.starts_with("certificate 2 of"), "{told}");
}

#[tokio::test]
async fn files_that_are_missing_or_too_large_are_named() {
    let dir = TestDir::new("listener-tls-files").unwrap();
    let files = write(&dir, &Authority::new().issue());
    let missing = TlsFiles { key: dir.path().join("none.pem"), ..files.clone() };
    let error = Tls::open(missing).unwrap_err().to_string();
    assert!(error.contains("none.pem` cannot be read"), "{error}");
    std::fs::write(&files.key, vec![b'x'; FILE_BYTES_MAX as usize + 1]).unwrap();
    let error = Tls::open(files).unwrap_err().to_string();
    assert!(error.contains("more than certificates have"), "{error}");
}
