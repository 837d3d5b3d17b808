use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

#[test]
fn only_the_body_of_a_good_answer_counts() {
    assert_eq!(body("HTTP/1.0 200 OK\r\na: b\r\n\r\n{}"), Some("{}"));
    for other in ["HTTP/1.0 403 Forbidden\r\n\r\n{}", "HTTP/1.0 200 OK\r\na: b", "", "200"] {
        assert_eq!(body(other), None, "{other}");
    }
}

#[test]
fn a_process_that_listens_everywhere_is_asked_on_this_machine() {
    let shown = |address: &str| here(address.parse().expect("an address")).to_string();
    assert_eq!(shown("0.0.0.0:9464"), "127.0.0.1:9464");
    assert_eq!(shown("[::]:9464"), "[::1]:9464");
    assert_eq!(shown("127.0.0.2:9464"), "127.0.0.2:9464");
}

async fn server(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let mut asked = [0; 64];
        let _ = stream.read(&mut asked).await;
        let _ = stream.write_all(answer.as_bytes()).await;
    });
    address
}

#[tokio::test]
async fn a_run_tells_its_name_and_something_else_tells_none() {
    let ours = server("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{\"pipeline\":\"p\"}").await;
    assert_eq!(name_at(ours).await.expect("an answer"), Some("p".into()));
    let other = server("HTTP/1.0 404 Not Found\r\n\r\nno such page").await;
    assert_eq!(name_at(other).await.expect("an answer"), None);
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    assert_eq!(
        name_at(nobody).await.map_err(|error| error.kind()),
        Err(std::io::ErrorKind::ConnectionRefused)
    );
}

#[tokio::test]
async fn a_pipeline_is_looked_for_at_every_address_that_it_may_have() {
    const OURS: &str = "HTTP/1.0 200 OK\r\n\r\n{\"pipeline\":\"p\"}";
    const OTHER: &str = "HTTP/1.0 200 OK\r\n\r\n{\"pipeline\":\"q\"}";
    let nobody = || async {
        TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address")
    };
    // The pipeline that had the first port has ended since, and another one had the second.
    let addresses = [nobody().await, server(OTHER).await, server(OURS).await];
    assert_eq!(presence_at(&addresses, "p", true).await, Presence::Here);
    let refused = [nobody().await, nobody().await];
    assert_eq!(presence_at(&refused, "p", true).await, Presence::Nowhere);
    assert_eq!(presence_at(&refused, "p", false).await, Presence::Unknown, "it may run on another machine");
    assert_eq!(presence_at(&[nobody().await, server(OTHER).await], "p", true).await, Presence::Unknown);
    assert_eq!(presence_at(&[], "p", true).await, Presence::Unknown);
    let any = "127.0.0.1:0".parse().expect("an address");
    assert_eq!(presence_at(&[any], "p", true).await, Presence::Unknown);
}
