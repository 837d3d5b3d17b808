use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::*;

/// Answers the first request of each connection, then resets the connection when the next request arrives on it, as a server
/// does that closes a resting connection just when it is taken.
fn closing_server() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("bound");
    let requests = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepts");
            let seen = Arc::clone(&seen);
            std::thread::spawn(move || {
                if read_head(&mut stream) {
                    seen.fetch_add(1, Ordering::SeqCst);
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").expect("answers");
                }
                if read_head(&mut stream) {
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    (address, requests)
}

fn read_head(stream: &mut TcpStream) -> bool {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return false,
        }
    }
    true
}

fn client() -> HttpClient {
    let options = ClientOptions::new().with_allow_http(true);
    Connector { ca_pem: None }.connect(&options).expect("a client")
}

async fn send(client: &HttpClient, method: &str, address: SocketAddr) -> Result<String, HttpError> {
    let request = request_of(method, &format!("http://{address}/object"));
    let answer = client.execute(request).await?;
    Ok(String::from_utf8_lossy(&answer.into_body().bytes().await.expect("a body")).into_owned())
}

fn request_of(method: &str, uri: &str) -> HttpRequest {
    let mut request = HttpRequest::new(Bytes::new().into());
    *request.method_mut() = method.parse().expect("a method");
    *request.uri_mut() = uri.parse().expect("an address");
    request
}

#[tokio::test]
async fn a_read_on_a_kept_connection_that_was_closed_is_sent_again() {
    for method in ["GET", "HEAD"] {
        let (address, requests) = closing_server();
        let client = client();
        send(&client, "GET", address).await.expect("the first one");
        send(&client, method, address).await.expect("sent again on another connection");
        assert!(requests.load(Ordering::SeqCst) >= 2);
    }
}

#[tokio::test]
async fn a_write_is_never_sent_again_below_its_caller() {
    let (address, requests) = closing_server();
    let client = client();
    send(&client, "GET", address).await.expect("the first one");
    send(&client, "PUT", address).await.expect_err("its effect is for the caller to judge");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[test]
fn this_machine_is_known_by_its_loopback_names() {
    for host in ["localhost", "LOCALHOST", "127.0.0.1", "127.9.9.9", "[::1]", "::1", "[::ffff:127.0.0.1]"] {
        assert!(is_this_machine(host), "{host}");
    }
    for host in ["localhost.example", "10.0.0.1", "[2001:db8::1]", "example", ""] {
        assert!(!is_this_machine(host), "{host}");
    }
}

/// Answers every request with this head and a body that does not end.
fn endless_server(head: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepts");
            std::thread::spawn(move || {
                if read_head(&mut stream) && stream.write_all(head.as_bytes()).is_ok() {
                    while stream.write_all(&[b'x'; 64 << 10]).is_ok() {}
                }
            });
        }
    });
    address
}

fn told_request(uri: &str) -> HttpRequest {
    let mut request = request_of("GET", uri);
    request.extensions_mut().insert(Told);
    request
}

#[tokio::test]
async fn a_refusal_without_an_end_is_read_as_far_as_it_is_shown() {
    let head = "HTTP/1.1 403 Forbidden\r\ncontent-length: 1000000000000\r\n\r\n";
    let address = endless_server(head);
    let answer = client().execute(told_request(&format!("http://{address}/object"))).await;
    let error = answer.expect_err("it is refused");
    let text = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(text.contains("status 403") && text.len() < REFUSAL_BYTES_MAX + 100, "{} bytes", text.len());
}

#[tokio::test]
async fn a_listing_or_credentials_without_an_end_are_refused() {
    let address = endless_server("HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n");
    let client = client();
    for request in [
        told_request(&format!("http://{address}/bucket?list-type=2")),
        request_of("GET", &format!("http://{address}/credentials")),
    ] {
        let answer = client.execute(request).await.expect("a head");
        let error = answer.into_body().bytes().await.expect_err("it has no end");
        let told = format!("{error:?}");
        assert!(told.contains("TooLong"), "{told}");
    }
}

/// A shared access signature of Azure is part of every address.
#[tokio::test]
async fn an_object_that_is_asked_for_by_a_signed_address_may_be_longer_than_a_listing() {
    let signed = "sv=2024-08-04&sr=c&sp=rwdl&sig=abc%3D";
    let address = endless_server("HTTP/1.1 200 OK\r\ncontent-length: 17825792\r\n\r\n");
    let client = client();
    let object = told_request(&format!("http://{address}/container/object?{signed}"));
    let answer = client.execute(object).await.expect("a head");
    assert_eq!(answer.into_body().bytes().await.expect("all of it").len(), 17 << 20);
    let listing = told_request(&format!("http://{address}/container?restype=container&comp=list&{signed}"));
    let answer = client.execute(listing).await.expect("a head");
    let told = format!("{:?}", answer.into_body().bytes().await.expect_err("it is too long"));
    assert!(told.contains("TooLong"), "{told}");
}

#[tokio::test]
async fn a_page_in_html_is_no_object() {
    let address = endless_server(
        "HTTP/1.1 200 OK\r\ncontent-type: Text/HTML; charset=utf-8\r\ncontent-length: 9\r\n\r\n",
    );
    let answer = client().execute(told_request(&format!("http://{address}/bucket/object"))).await;
    let error = answer.expect_err("it is a page");
    let text = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(text.contains("something before the store has answered"), "{text}");
    let error = object_store::Error::Generic { store: "S3", source: Box::new(error) };
    let answer = crate::object::answer::Answer::of(&error);
    let error = answer.into_error(crate::Operation::Get, "lane/7", error);
    assert!(error.kind.is_transient() && error.to_string().contains("in HTML"), "{error}");
}
