//! Blocks wait for the schemas that they name, are never lost while they wait, and go on when there is none.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

use engine::TokioRuntime;
use formats::schemas::SchemaText;
use sources::memory::MemorySource;

use super::*;
use crate::{Config, Kind};

/// Answers like a registry's: by path, a status and a body; `None` closes the connection. It speaks enough HTTP for one request a connection.
type Answers = Arc<Mutex<BTreeMap<String, (u16, String)>>>;

struct Registry {
    url: String,
    answers: Answers,
    asked: Arc<AtomicU32>,
}

impl Registry {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let (answers, asked) = (Answers::default(), Arc::<AtomicU32>::default());
        let (theirs, count) = (answers.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut request = [0; 4_096];
                let Ok(length) = stream.read(&mut request) else { continue };
                let text = String::from_utf8_lossy(&request[..length]).into_owned();
                let path = text.split(' ').nth(1).unwrap_or_default();
                count.fetch_add(1, Ordering::SeqCst);
                let answer = theirs.lock().expect("no panic").get(path).cloned();
                if let Some((status, body)) = answer {
                    let head = format!(
                        "HTTP/1.1 {status} -\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    let _ = stream.write_all((head + &body).as_bytes());
                }
            }
        });
        Self { url, answers, asked }
    }

    fn says(&self, path: &str, status: u16, body: &str) {
        self.answers.lock().expect("no panic").insert(path.into(), (status, body.into()));
    }

    fn asked(&self) -> u32 {
        self.asked.load(Ordering::SeqCst)
    }
}

/// What registries say of what they do not have.
const NONE: &str = r#"{"error_code": 40403, "message": "Schema not found"}"#;

fn record(id: u32) -> Vec<u8> {
    [&[0][..], &id.to_be_bytes(), b"datum"].concat()
}

struct World {
    registry: Registry,
    schemas: Arc<Schemas>,
    source: WithSchemas<Client>,
    feed: sources::memory::MemoryHandle,
}

fn world() -> World {
    world_of(Kind::Avro)
}

fn world_of(kind: Kind) -> World {
    let registry = Registry::start();
    let inner = MemorySource::new([("events", 1)]);
    let (feed, schemas) = (inner.handle(), Arc::new(Schemas::default()));
    let client =
        Client::new(&Config { url: registry.url.clone(), kind, ..Config::default() }).expect("an address");
    let source = WithSchemas::new(Arc::new(inner), client, schemas.clone(), TokioRuntime::new(1));
    World { registry, schemas, source, feed }
}

impl World {
    fn push(&self, id: u32) {
        self.feed.push(&Partition::new("events", 0), 0, record(id));
    }

    async fn reader(&self) -> Box<dyn Reader> {
        let starts = self.source.partitions().await.expect("it is there");
        let from = |start: PartitionStart| ReadFrom {
            partition: start.partition,
            identity: start.identity,
            next: start.next,
            leader_epoch: start.leader_epoch,
        };
        self.source.read(starts.into_iter().map(from).collect()).await.expect("it reads")
    }
}

/// The records of the next block.
async fn next(reader: &mut dyn Reader) -> Result<usize, SourceError> {
    loop {
        if let Event::Block(block) = reader.next().await? {
            return Ok(block.len());
        }
    }
}

#[tokio::test]
async fn a_schema_is_asked_for_once_with_all_that_it_refers_to() {
    let world = world();
    world.registry.says(
        "/schemas/ids/7",
        200,
        r#"{"schema": "main", "references": [{"name": "x", "subject": "other/one", "version": 2}]}"#,
    );
    world.registry.says(
        "/subjects/other%2Fone/versions/2?deleted=true",
        200,
        r#"{"subject": "other/one", "id": 3, "schema": "used"}"#,
    );
    (0..3).for_each(|_| world.push(7));
    let mut reader = world.reader().await;
    let mut records = 0;
    while records < 3 {
        records += next(&mut *reader).await.expect("a block");
    }
    assert_eq!(world.registry.asked(), 2);
    let texts = [SchemaText::own("used"), SchemaText::own("main")];
    assert_eq!(world.schemas.get(&7), Some(Writer::Texts(texts.into())));
}

/// Two schemas import a third, each by the same name; a schema without a type is one of Avro.
#[tokio::test]
async fn schemas_of_protobuf_keep_the_names_that_they_are_imported_by() {
    let world = world_of(Kind::Protobuf);
    let refers = r#""references": [{"name": "c.proto", "subject": "c", "version": 1}]"#;
    let main = r#"{"schema": "main", "schemaType": "PROTOBUF", "references": [
        {"name": "x/a.proto", "subject": "a", "version": 2}, {"name": "b.proto", "subject": "b", "version": 1}]}"#;
    world.registry.says("/schemas/ids/7", 200, main);
    world.registry.says("/schemas/ids/8", 200, r#"{"schema": "avro"}"#);
    world.registry.says(
        "/subjects/a/versions/2?deleted=true",
        200,
        &format!(r#"{{"schema": "A", {refers}}}"#),
    );
    world.registry.says(
        "/subjects/b/versions/1?deleted=true",
        200,
        &format!(r#"{{"schema": "B", {refers}}}"#),
    );
    world.registry.says("/subjects/c/versions/1?deleted=true", 200, r#"{"schema": "C"}"#);
    world.push(7);
    world.push(8);
    let mut reader = world.reader().await;
    let mut records = 0;
    while records < 2 {
        records += next(&mut *reader).await.expect("a block");
    }
    let named = |name: &str, text: &str| SchemaText { name: name.into(), text: text.into() };
    let texts = [named("c.proto", "C"), named("x/a.proto", "A"), named("b.proto", "B"), named("", "main")];
    assert_eq!(world.schemas.get(&7), Some(Writer::Texts(texts.into())));
    let why = "it is a schema of AVRO, and the pipeline reads Protobuf";
    assert_eq!(world.schemas.get(&8), Some(Writer::Unusable(why.into())));
    assert_eq!(world.registry.asked(), 5, "each once");
}

#[tokio::test]
async fn a_block_is_kept_while_the_registry_is_away_and_while_next_is_dropped() {
    let world = world();
    world.push(7);
    let mut reader = world.reader().await;
    let error = next(&mut *reader).await.expect_err("nobody answers");
    assert_eq!(error.fault, SourceFault::Away);
    assert!(error.message.starts_with("the schema registry `http://127.0.0.1:"), "{error}");
    world.registry.says("/schemas/ids/7", 503, "");
    let error = next(&mut *reader).await.expect_err("it is not ready");
    assert_eq!(error.fault, SourceFault::Away);
    assert!(error.message.ends_with("answers `503 Service Unavailable`; it is asked again"), "{error}");
    world.registry.says("/schemas/ids/7", 200, r#"{"schema": "main"}"#);
    // Dropped at once, again and again.
    for _ in 0..3 {
        let dropped = futures::poll!(Box::pin(reader.next()));
        assert!(dropped.is_pending());
    }
    assert_eq!(next(&mut *reader).await.expect("it is there now"), 1);
}

/// A proxy whose registry has just gone, for example.
#[tokio::test]
async fn a_404_of_somebody_else_than_the_registry_says_nothing_of_the_schema() {
    let world = world();
    world.push(7);
    let mut reader = world.reader().await;
    let gateway = r#"{"message": "no Route matched with those values"}"#;
    for body in ["", "default backend - 404", "<html>404 Not Found</html>", gateway] {
        world.registry.says("/schemas/ids/7", 404, body);
        let error = next(&mut *reader).await.expect_err("the block is kept");
        assert_eq!(error.fault, SourceFault::Away, "{body}");
        assert!(error.message.contains("a registry would say so in JSON"), "{error}");
    }
    assert_eq!((world.registry.asked(), world.schemas.get(&7)), (4, None));
    world.registry.says("/schemas/ids/7", 200, r#"{"schema": "main"}"#);
    assert_eq!(next(&mut *reader).await.expect("it is there"), 1);
}

/// A registry that stands below another path, and Kafka Connect, which is a server of the same kind.
#[tokio::test]
async fn a_404_of_an_address_that_a_server_does_not_know_says_nothing_of_the_schema() {
    let world = world();
    world.push(7);
    let mut reader = world.reader().await;
    let unknown = r#"{"error_code": 404, "message": "HTTP 404 Not Found"}"#;
    world.registry.says("/schemas/ids/7", 404, unknown);
    let error = next(&mut *reader).await.expect_err("the block is kept");
    assert_eq!((error.fault, world.schemas.get(&7)), (SourceFault::Away, None));
    assert!(error.message.contains("check the port and the path of `url`"), "{error}");
    // Of a schema that it refers to.
    let main = r#"{"schema": "main", "references": [{"name": "x", "subject": "a", "version": 2}]}"#;
    world.registry.says("/schemas/ids/7", 200, main);
    world.registry.says("/subjects/a/versions/2?deleted=true", 404, unknown);
    let error = next(&mut *reader).await.expect_err("the block is kept");
    assert_eq!((error.fault, world.schemas.get(&7)), (SourceFault::Away, None));
    world.registry.says("/subjects/a/versions/2?deleted=true", 200, r#"{"schema": "used"}"#);
    assert_eq!(next(&mut *reader).await.expect("it is there"), 1);
}

/// Its subject was deleted, and that of what it refers to. Registries give both to readers of old records.
#[tokio::test]
async fn a_schema_that_refers_to_a_deleted_one_is_fetched_all_the_same() {
    let world = world();
    world.push(7);
    let main = r#"{"schema": "main", "references": [{"name": "x", "subject": "a", "version": 2}]}"#;
    world.registry.says("/schemas/ids/7", 200, main);
    world.registry.says("/subjects/a/versions/2", 404, NONE);
    world.registry.says("/subjects/a/versions/2?deleted=true", 200, r#"{"schema": "used"}"#);
    assert_eq!(next(&mut *world.reader().await).await.expect("a block"), 1);
    let texts = [SchemaText::own("used"), SchemaText::own("main")];
    assert_eq!(world.schemas.get(&7), Some(Writer::Texts(texts.into())));
}

#[tokio::test]
async fn a_schema_whose_references_are_null_has_none() {
    let world = world();
    world.push(7);
    world.registry.says(
        "/schemas/ids/7",
        200,
        r#"{"schema": "main", "schemaType": null, "references": null}"#,
    );
    assert_eq!(next(&mut *world.reader().await).await.expect("a block"), 1);
    assert_eq!(world.schemas.get(&7), Some(Writer::Texts([SchemaText::own("main")].into())));
}

/// Registries read numbers as signed ones of 32 bits, and answer such a number as they answer a wrong address.
#[tokio::test]
async fn a_number_that_no_registry_gives_is_not_asked_for() {
    let world = world();
    world.push(u32::MAX);
    assert_eq!(next(&mut *world.reader().await).await.expect("it goes on"), 1);
    let why = "no registry gives a number above `2147483647`";
    assert_eq!(world.schemas.get(&u32::MAX), Some(Writer::Unusable(why.into())));
    assert_eq!(world.registry.asked(), 0);
}

/// A source whose positions cannot be counted.
struct Uncounted(MemorySource);

#[async_trait]
impl Source for Uncounted {
    fn streams(&self) -> Streams {
        self.0.streams()
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.0.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.0.ends().await
    }

    async fn behind(&self, from: &[(Partition, Position)]) -> Result<Vec<(Partition, u64)>, SourceError> {
        Ok(from.iter().map(|(partition, _)| (partition.clone(), 5)).collect())
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        self.0.read(from).await
    }

    async fn publish(&self, positions: &[(Partition, Position)]) -> Result<(), SourceError> {
        self.0.publish(positions).await
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.0.published().await
    }
}

#[tokio::test]
async fn what_stands_behind_a_position_is_asked_of_the_source_also_where_records_name_schemas() {
    let World { registry, schemas, .. } = world();
    let client = Client::new(&Config { url: registry.url, ..Config::default() }).expect("an address");
    let inner = Uncounted(MemorySource::new([("events", 1)]));
    let source = WithSchemas::new(Arc::new(inner), client, schemas, TokioRuntime::new(1));
    let events = Partition::new("events", 0);
    assert_eq!(source.behind(&[(events.clone(), 3)]).await.expect("it counts"), [(events, 5)]);
}

#[tokio::test]
async fn a_login_that_is_refused_ends_the_read_and_says_what_to_change() {
    let world = world();
    world.push(7);
    world.registry.says("/schemas/ids/7", 401, "");
    let error = next(&mut *world.reader().await).await.expect_err("it is refused");
    assert_eq!(error.fault, SourceFault::Config);
    assert!(
        error.message.ends_with("answers `401 Unauthorized`; check `user` and `password`, or `token`"),
        "{error}"
    );
    world.registry.says("/schemas/ids/7", 200, "<html>");
    let error = next(&mut *world.reader().await).await.expect_err("that is no registry");
    assert_eq!(error.fault, SourceFault::Config);
    assert!(error.message.contains("does not answer as a schema registry"), "{error}");
}

/// A password that is on its way to all of its servers, or a page of a proxy before it.
#[tokio::test]
async fn a_registry_that_has_answered_is_not_refusing_for_good_before_it_has_said_so_many_times() {
    let world = world();
    world.registry.says("/schemas/ids/7", 200, r#"{"schema": "main"}"#);
    let mut reader = world.reader().await;
    world.push(7);
    assert_eq!(next(&mut *reader).await.expect("it is there"), 1);
    world.push(8);
    let answers = [(401, ""), (403, ""), (302, ""), (200, "<html>")];
    for (status, body) in answers {
        world.registry.says("/schemas/ids/8", status, body);
        let error = next(&mut *reader).await.expect_err("the block is kept");
        assert_eq!(error.fault, SourceFault::Away, "{status}: {error}");
        assert!(error.message.contains("; check `"), "{error}");
    }
    world.registry.says("/schemas/ids/8", 200, r#"{"schema": "next"}"#);
    assert_eq!(next(&mut *reader).await.expect("it is there"), 1);
    // For good.
    world.push(9);
    world.registry.says("/schemas/ids/9", 403, "");
    for _ in 0..REFUSALS_MAX {
        let error = next(&mut *reader).await.expect_err("the block is kept");
        assert_eq!(error.fault, SourceFault::Away);
    }
    let error = next(&mut *reader).await.expect_err("it is refused");
    assert_eq!(error.fault, SourceFault::Config);
}

/// A registry may forbid some subjects, and give the other schemas that a block names whenever they are asked for.
#[tokio::test]
async fn a_schema_that_is_given_does_not_make_up_for_another_one_that_is_refused() {
    let world = world();
    let asks = &world.source.asks;
    world.registry.says("/schemas/ids/7", 200, r#"{"schema": "main"}"#);
    world.registry.says("/schemas/ids/8", 403, "");
    for _ in 0..REFUSALS_MAX {
        assert!(asks.schema(&7).await.is_ok());
        let error = asks.schema(&8).await.expect_err("it is refused");
        assert_eq!(error.fault, SourceFault::Away);
    }
    assert!(asks.schema(&7).await.is_ok());
    asks.ask(Vec::new()).await.expect("nothing is asked for");
    let error = asks.schema(&8).await.expect_err("it is refused");
    assert_eq!(error.fault, SourceFault::Config);
    // Once all that a block names is there, it begins anew.
    world.registry.says("/schemas/ids/8", 200, r#"{"schema": "next"}"#);
    asks.ask(vec![7, 8]).await.expect("all are there");
    world.registry.says("/schemas/ids/8", 403, "");
    let error = asks.schema(&8).await.expect_err("it is refused");
    assert_eq!(error.fault, SourceFault::Away);
}

#[tokio::test]
async fn a_number_that_is_not_there_lets_its_records_go_on_and_is_asked_for_often_before() {
    let world = world();
    world.push(7);
    world.registry.says("/schemas/ids/7", 404, NONE);
    assert_eq!(next(&mut *world.reader().await).await.expect("it goes on"), 1);
    assert_eq!(world.registry.asked(), MISSING_TRIES);
    assert!(
        matches!(world.schemas.get(&7), Some(Writer::Unusable(why)) if why.ends_with("has no schema of this number"))
    );
    world.push(8);
    world.registry.says("/schemas/ids/8", 200, r#"{"schema": "x", "schemaType": "PROTOBUF"}"#);
    let (mut reader, asked) = (world.reader().await, world.registry.asked());
    while world.schemas.get(&8).is_none() {
        next(&mut *reader).await.expect("it goes on");
    }
    assert_eq!(world.registry.asked(), asked + 1, "that will not change");
    assert!(
        matches!(world.schemas.get(&8), Some(Writer::Unusable(why)) if why.starts_with("it is a schema of PROTOBUF"))
    );
}

#[tokio::test]
async fn a_single_record_is_read_again_with_its_schema() {
    let world = world();
    world.push(7);
    world.registry.says("/schemas/ids/7", 200, r#"{"schema": "main"}"#);
    let start = world.source.partitions().await.expect("it is there").remove(0);
    let at = ReadFrom {
        partition: start.partition,
        identity: start.identity,
        next: 0,
        leader_epoch: start.leader_epoch,
    };
    assert!(world.source.record(at).await.expect("it is held").is_some());
    assert!(world.schemas.get(&7).is_some());
}

#[tokio::test]
async fn numbers_that_a_producer_makes_up_hold_nothing_up() {
    let world = world();
    {
        // The registry has said of so many others that it does not have them.
        let mut missing = world.source.asks.missing.lock().expect("no panic");
        missing.extend((0..MISSING_PATIENT_MAX as u32).map(|id| (id, Duration::ZERO)));
    }
    for id in 100..140 {
        world.registry.says(&format!("/schemas/ids/{id}"), 404, NONE);
        world.push(id);
    }
    let mut reader = world.reader().await;
    let mut records = 0;
    while records < 40 {
        records += next(&mut *reader).await.expect("they go on");
    }
    assert_eq!(world.registry.asked(), 40, "each once");
}

/// A registry that limits requests would refuse so many at once, and the block would never pass.
#[tokio::test]
async fn a_block_of_made_up_numbers_asks_a_bounded_number_of_questions() {
    let world = world();
    for id in 0..formats::schemas::UNUSABLE_MAX as u32 {
        let none = Writer::Unusable("none".into());
        world.schemas.put(1_000_000 + id, none).expect("room");
    }
    for id in 0..500 {
        world.registry.says(&format!("/schemas/ids/{id}"), 404, NONE);
        world.push(id);
    }
    let mut reader = world.reader().await;
    let (mut records, mut blocks) = (0, 0);
    while records < 500 {
        records += next(&mut *reader).await.expect("they go on");
        blocks += 1;
    }
    assert!(blocks < 7, "{blocks}: blocks of more numbers than are asked for");
    assert!(world.registry.asked() <= blocks * BEYOND_MAX as u32, "{}", world.registry.asked());
}
