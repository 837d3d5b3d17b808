use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection};
use testkit::TestDir;

use super::*;

/// An authority, with its certificate as a file.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(dir: &TestDir, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { file: put(dir, name, &pem), issuer: Issuer::new(params, key) }
    }

    /// Files of a certificate for 127.0.0.1 and of its key.
    fn issue(&self, dir: &TestDir, name: &str, host: SanType) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.subject_alt_names.push(host);
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        (put(dir, &format!("{name}.cert"), &cert), put(dir, &format!("{name}.key"), &key.serialize_pem()))
    }
}

fn put(dir: &TestDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, text).expect("writes");
    path
}

fn here() -> SanType {
    SanType::IpAddress(Ipv4Addr::LOCALHOST.into())
}

fn elsewhere() -> SanType {
    SanType::DnsName("elsewhere.example".try_into().expect("a name"))
}

/// Says hello through one connection to a server that shows `identity` and asks for certificates of `clients`.
fn hello(tls: &Tls, identity: &(PathBuf, PathBuf), clients: Option<&Authority>) -> Result<String, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            certificates(&authority.file)
                .expect("a file")
                .into_iter()
                .for_each(|c| roots.add(c).expect("a root"));
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
    };
    let key = PrivateKeyDer::from_pem_file(&identity.1).expect("a key");
    let config = builder.with_single_cert(certificates(&identity.0).expect("a file"), key).expect("a server");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || {
        let (socket, _) = listener.accept().expect("a client");
        let connection = ServerConnection::new(Arc::new(config)).expect("a server");
        let mut stream = StreamOwned::new(connection, socket);
        // A client that turns away is what some tests are about; it tells why itself.
        let mut line = [0; 5];
        if stream.read_exact(&mut line).is_ok() {
            let _ = stream.write_all(&line);
        }
    });
    let socket = TcpStream::connect(address).expect("connects");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a bound");
    let result = Stream::encrypt(socket, tls, "127.0.0.1", || Ok(())).and_then(|mut stream| {
        let sent = stream.write_all(b"hello").and_then(|()| stream.flush());
        sent.map_err(|why| why.to_string())?;
        let (mut answer, mut len) = ([0; 5], 0);
        while len < answer.len() {
            match stream.read(&mut answer[len..]) {
                Ok(0) => return Err("closed".into()),
                Ok(count) => len += count,
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    });
    server.join().expect("the server ends");
    result
}

#[test]
fn only_the_right_authority_and_the_right_name_are_trusted() {
    let dir = TestDir::new("direct-tls").expect("a directory");
    let (right, other) = (Authority::new(&dir, "right.pem"), Authority::new(&dir, "other.pem"));
    let (good, misnamed) = (right.issue(&dir, "good", here()), right.issue(&dir, "misnamed", elsewhere()));
    let tls = |ca: &Authority, verify_host| Tls { ca: Some(ca.file.clone()), identity: None, verify_host };
    assert_eq!(hello(&tls(&right, true), &good, None), Ok("hello".into()));
    let why = |tls: &Tls, identity| hello(tls, identity, None).expect_err("is not trusted");
    assert!(why(&tls(&other, true), &good).contains("certificate"));
    assert!(why(&tls(&right, true), &misnamed).contains("not valid for name"));
    // The name alone is not inspected; who signed it is.
    assert_eq!(hello(&tls(&right, false), &misnamed, None), Ok("hello".into()));
    assert!(why(&tls(&other, false), &misnamed).contains("certificate"));
    // The system's authorities do not hold ours.
    assert!(hello(&Tls { ca: None, identity: None, verify_host: true }, &good, None).is_err());
}

#[test]
fn who_one_is_is_shown_by_a_certificate() {
    let dir = TestDir::new("direct-tls").expect("a directory");
    let (right, other) = (Authority::new(&dir, "right.pem"), Authority::new(&dir, "other.pem"));
    let good = right.issue(&dir, "good", here());
    let tls = |identity| Tls { ca: Some(right.file.clone()), identity, verify_host: true };
    let client = tls(Some(right.issue(&dir, "client", elsewhere())));
    assert_eq!(hello(&client, &good, Some(&right)), Ok("hello".into()));
    let stranger = tls(Some(other.issue(&dir, "stranger", elsewhere())));
    assert!(hello(&stranger, &good, Some(&right)).is_err());
    assert!(hello(&tls(None), &good, Some(&right)).is_err());
}

#[test]
fn files_that_hold_nothing_are_named() {
    let dir = TestDir::new("direct-tls").expect("a directory");
    let right = Authority::new(&dir, "right.pem");
    let good = right.issue(&dir, "good", here());
    let why = |tls: Tls| client_config(&tls).expect_err("cannot be used");
    let empty = put(&dir, "empty.pem", "nothing");
    assert!(why(Tls { ca: Some(empty.clone()), identity: None, verify_host: true }).contains("empty.pem"));
    let absent = dir.path().join("absent.pem");
    assert!(why(Tls { ca: Some(absent), identity: None, verify_host: true }).contains("absent.pem"));
    let identity = Some((good.0.clone(), empty));
    assert!(why(Tls { ca: Some(right.file.clone()), identity, verify_host: true }).contains("empty.pem"));
    // A key that is not the certificate's.
    let identity = Some((good.0, right.issue(&dir, "next", here()).1));
    assert!(why(Tls { ca: Some(right.file.clone()), identity, verify_host: true }).contains("good.cert"));
}
