//! The official Rust client as a user of `chdb-server`: what it sends is taken, and what it is told is ClickHouse's word.
//!
//! Owns no rule of the server; those are in `crates/chdb-server/tests`. Each test has a table of its own in one server.
//! ```text
//! cargo build -p forebay
//! FOREBAY_BIN=target/debug/forebay cargo test --manifest-path tests/rust-client/Cargo.toml
//! ```

use clickhouse::{Client, Compression, Row, error::Error};
use serde::{Deserialize, Serialize};
use testkit::{ClickHouse, ClickHouseOptions, Service, available};

const COMPRESSIONS: [Compression; 2] = [Compression::None, Compression::Lz4];

/// A row with the kinds of values that a client encodes each in its own way.
#[derive(Debug, Clone, PartialEq, Row, Serialize, Deserialize)]
struct Event {
    id: u64,
    name: String,
    score: Option<f64>,
    tags: Vec<String>,
    counts: Vec<(String, i32)>,
    wide: i128,
    seen: bool,
    at: u32,
}

const COLUMNS: &str = "id UInt64, name LowCardinality(String), score Nullable(Float64), tags Array(String), \
    counts Map(String, Int32), wide Int128, seen Bool, at DateTime('UTC')";

impl Event {
    /// The event of `number`, above what a float holds exactly.
    fn of(number: u64) -> Event {
        Event {
            id: (1 << 53) + number,
            name: format!("näme \t{}\n", number % 7),
            score: (!number.is_multiple_of(3)).then_some(number as f64 / 8.0),
            tags: (0..number % 4).map(|tag| format!("t{tag}")).collect(),
            counts: vec![("a".to_owned(), -1), ("b'".to_owned(), number as i32)],
            wide: -(i128::from(number) << 80),
            seen: number.is_multiple_of(2),
            at: 1_600_000_000 + number as u32,
        }
    }
}

/// A server, or `None` where there is none, which was said aloud then.
fn server() -> Option<ClickHouse> {
    available(&[Service::ClickHouse])
        .then(|| ClickHouse::start(ClickHouseOptions::default()).expect("the server must start"))
}

async fn table(server: &ClickHouse) -> Client {
    let client = Client::default().with_url(server.url());
    let sql = format!(
        "CREATE TABLE events ({COLUMNS}) ENGINE = MergeTree ORDER BY id \
         SETTINGS non_replicated_deduplication_window = 100"
    );
    client.query(&sql).execute().await.expect("the table must be made");
    client
}

async fn insert(client: &Client, events: impl Iterator<Item = Event>) -> Result<(), Error> {
    let mut insert = client.insert::<Event>("events").await?;
    for event in events {
        insert.write(&event).await?;
    }
    insert.end().await
}

/// Rows and different ids in the table.
async fn counts(client: &Client) -> (u64, u64) {
    let sql = "SELECT count(), uniqExact(id) FROM events";
    client.query(sql).fetch_one().await.expect("a count must be given")
}

/// What the server says, which the client hands on as it is.
fn words(outcome: Result<(), Error>) -> String {
    match outcome {
        Err(Error::BadResponse(words)) => words,
        other => panic!("the server must turn it down, and was understood as {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn structs_come_back_through_a_cursor_as_they_went_with_and_without_compression() {
    let Some(server) = server() else { return };
    let client = table(&server).await;
    let events: Vec<Event> = (0..3000).map(Event::of).collect();
    for sent in COMPRESSIONS {
        let writer = client.clone().with_compression(sent);
        insert(&writer, events.iter().cloned()).await.expect("the insert must be taken");
        for read in COMPRESSIONS {
            let reader = client.clone().with_compression(read);
            // Small blocks, so that the cursor goes over several of them.
            let sql = "SELECT ?fields FROM events WHERE id >= ? ORDER BY id";
            let query = reader.query(sql).bind(1u64 << 53).with_setting("max_block_size", "500");
            let mut cursor = query.fetch::<Event>().expect("the cursor must open");
            let mut got = Vec::new();
            while let Some(event) = cursor.next().await.expect("the answer must be whole") {
                got.push(event);
            }
            assert!(got == events, "sent {sent:?}, read {read:?}: {} rows, or other values", got.len());
        }
        client.query("TRUNCATE TABLE events").execute().await.expect("the table must become empty");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_carry_clickhouses_codes() {
    let Some(server) = server() else { return };
    let client = table(&server).await;
    let cases = [
        ("SELECT count() FROM nowhere", 60),
        ("SELECT nothing FROM events", 47),
        ("SELEC 1", 62),
        ("SELECT * FROM nowhere.events", 81),
    ];
    for compression in COMPRESSIONS {
        let client = client.clone().with_compression(compression);
        for (sql, code) in cases {
            let told = words(client.query(sql).execute().await);
            assert!(told.contains(&format!("Code: {code}.")), "{sql}: {told}");
        }
        let query = client.query("SELECT 1").with_setting("no_such_setting", "1");
        let told = words(query.execute().await);
        assert!(told.contains("Code: 115.") && told.contains("no_such_setting"), "{told}");
        // The client asks for the columns first, and is told of the missing table then.
        let told = words(client.insert::<Event>("nowhere").await.map(|_| ()));
        assert!(told.contains("Code: 60."), "{told}");
        let told =
            words(insert(&client.with_setting("no_such_setting", "1"), [Event::of(1)].into_iter()).await);
        assert!(told.contains("Code: 115."), "{told}");
    }
    assert_eq!(counts(&client).await, (0, 0), "what was turned down left nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inserts_beside_each_other_are_all_there() {
    const WRITERS: u64 = 8;
    const INSERTS: u64 = 4;
    const ROWS: u64 = 500;
    let Some(server) = server() else { return };
    let client = table(&server).await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let client = client.clone().with_compression(COMPRESSIONS[(writer % 2) as usize]);
            tokio::spawn(async move {
                for number in 0..INSERTS {
                    let first = (writer * INSERTS + number) * ROWS;
                    insert(&client, (first..first + ROWS).map(Event::of)).await?;
                }
                Ok::<(), Error>(())
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no writer panics").expect("every insert is taken");
    }
    let rows = WRITERS * INSERTS * ROWS;
    assert_eq!(counts(&client).await, (rows, rows));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_makes_the_second_insert_a_no_op() {
    let Some(server) = server() else { return };
    let client = table(&server).await;
    let named = client.clone().with_setting("insert_deduplication_token", "one");
    for _ in 0..2 {
        insert(&named, (0..10).map(Event::of)).await.expect("a repeated insert is answered like the first");
    }
    assert_eq!(counts(&client).await, (10, 10));
    insert(&client, (10..20).map(Event::of)).await.expect("an insert without the token is another one");
    assert_eq!(counts(&client).await, (20, 20));
}
