use pipeline::config;
use pipeline::config::values::reference::Surroundings;
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

#[test]
fn a_pipeline_of_the_same_name_in_another_store_is_another_one() {
    let at: SocketAddr = "127.0.0.1:1".parse().expect("an address");
    let url = |text: &str| text.parse::<StoreUrl>().expect("a store");
    let own = store(&url("s3://bucket/a")).expect("it is told by its address");
    assert_eq!(store(&url("s3://bucket/a/")).as_ref(), Some(&own));
    assert!(!own.contains("bucket"), "it shows nothing: {own}");
    let says = |store: Option<&str>| serde_json::json!({ "pipeline": "p", "store": store });
    assert!(of_store(says(Some(&own)), Some(&own), at).is_ok());
    let other = store(&url("s3://bucket/b")).expect("it is told by its address");
    let why = of_store(says(Some(&other)), Some(&own), at).expect_err("it is another store");
    assert_eq!(why, "a pipeline of this name with another `store` answers at 127.0.0.1:1");
    // An earlier release, and a store that is not there yet.
    assert!(of_store(says(None), Some(&own), at).is_ok());
    assert!(of_store(says(Some(&other)), None, at).is_ok());
    assert_eq!(store(&url("/no/such/folder")), None);
    assert_eq!(store(&url("memory://")), None);

    // One folder by two paths, and another one.
    let folder = std::env::temp_dir().join(format!("forebay-stores-{}", std::process::id()));
    for name in ["a", "b"] {
        std::fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    std::os::unix::fs::symlink(folder.join("a"), folder.join("link")).expect("a link");
    let of = |name: &str| store(&url(&format!("file://{}", folder.join(name).display())));
    assert!(of("a").is_some() && of("a") == of("link") && of("a") != of("b"));
    std::fs::remove_dir_all(&folder).expect("removed");
}

#[tokio::test]
async fn a_process_of_the_same_name_in_another_store_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut asked = [0; 64];
            let _ = stream.read(&mut asked).await;
            let other = store(&"s3://bucket/other".parse().expect("a store")).expect("its address");
            let answer = format!("HTTP/1.0 200 OK\r\n\r\n{{\"pipeline\":\"p\",\"store\":\"{other}\"}}");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    for (own, expected) in [("other", Presence::Here), ("own", Presence::Unknown)] {
        let text = format!(
            "pipeline: p\nstore: s3://bucket/{own}\nsource: {{ kafka: {{ brokers: b, topic: t }} }}\n\
             sink: {{ clickhouse: {{ url: \"http://localhost:8123\", table: t }} }}\nhttp: {{ listen: \"{address}\" }}\n"
        );
        let checked = config::check(&text, &Surroundings::of_process());
        let pipeline = checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")));
        assert_eq!(presence(&pipeline).await, expected, "{own}");
        assert!(answers(&pipeline).await, "by its name it is one that may be taken over");
    }
}

/// A process that is suspended: the system takes the connection for it, and nothing comes. The clock stands still but for what is waited for.
#[tokio::test(start_paused = true)]
async fn a_process_that_takes_a_connection_and_says_nothing_is_waited_for_and_is_not_taken_for_none() {
    let suspended = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = suspended.local_addr().expect("an address");
    let begun = tokio::time::Instant::now();
    assert_eq!(name_at(address).await.map_err(|error| error.kind()), Err(std::io::ErrorKind::TimedOut));
    let waited = begun.elapsed();
    assert!((ANSWER_WAIT_MAX..2 * ANSWER_WAIT_MAX).contains(&waited), "{waited:?}");
    assert_eq!(presence_at(&[address], "p", true).await, Presence::Unknown);
    let text = "pipeline: p\nsource: { kafka: { brokers: b, topic: t } }\n\
                sink: { clickhouse: { url: \"http://localhost:8123\", table: t } }";
    let pipeline = config::check(text, &Surroundings::of_process()).pipeline.expect("a pipeline");
    let begun = tokio::time::Instant::now();
    let why = ask_at(address, &pipeline).await.expect_err("nothing comes");
    assert_eq!(why, format!("nothing answers at {address} within {} s", ANSWER_WAIT_MAX.as_secs()));
    let waited = begun.elapsed();
    assert!((ANSWER_WAIT_MAX..2 * ANSWER_WAIT_MAX).contains(&waited), "{waited:?}");
}
