//! Two brokers in this process, of which one has lost its controller: it answers every question as the leader that it was.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};
use dataflow::block::NO_LEADER_EPOCH;
use dataflow::{Event, Partition, ReadFrom, Reader, SourceError, SourceFault};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{
    ApiVersionsResponse, FetchRequest, FetchResponse, MetadataResponse, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};

use super::*;
use crate::kafka::client::{Client, Topic};
use crate::kafka::config::Role;
use crate::kafka::direct::{DirectReader, plan, probe};
use crate::kafka::reader::KafkaReader;
use crate::kafka::{FetchBy, KafkaOptions};
use crate::test_runtime::TestRuntime;

const ID: [u8; 16] = [7; 16];
const ID_BASE64: &str = "BwcHBwcHBwcHBwcHBwcHBw";

fn leader(epoch: i32, address: &str) -> Leader {
    Leader { topic: ID, partition: 0, epoch, address: address.into() }
}

#[test]
fn the_greatest_epoch_is_believed_until_its_leader_denies_it() {
    let mut known = Known::default();
    assert_eq!(known.leader(ID, 0), None);
    known.learn(leader(5, "a:1"));
    known.learn(leader(6, "b:1"));
    known.learn(leader(5, "a:1"));
    assert_eq!(known.leader(ID, 0), Some((6, "b:1")), "an old view says nothing new");
    known.refute(ID, 0, "a:1");
    assert_eq!(known.leader(ID, 0), Some((6, "b:1")), "what another one denies was known");
    known.refute(ID, 0, "b:1");
    assert_eq!(known.leader(ID, 0), None);
    assert!(known.may_lead(ID, 0, "b:1") && !known.may_lead(ID, 0, "a:1"), "it led last, as far as is known");
    assert!(known.may_lead(ID, 1, "a:1"), "of another partition nothing is known");
    known.learn(leader(5, "a:1"));
    assert_eq!(known.leader(ID, 0), None, "still older than what was known");
    known.learn(leader(6, "b:1"));
    assert_eq!(known.leader(ID, 0), Some((6, "b:1")), "a connection was lost, and no election held");
    known.learn(leader(7, "c:1"));
    assert_eq!(known.leader(ID, 0), Some((7, "c:1")));
}

#[test]
fn brokers_are_named_as_librdkafka_takes_them() {
    for (named, wanted) in [
        ("h:9093", "h:9093"),
        (" PLAINTEXT://h:1 ", "h:1"),
        ("h", "h:9092"),
        ("[fd00::2]", "[fd00::2]:9092"),
        ("[fd00::2]:7", "[fd00::2]:7"),
    ] {
        assert_eq!(address(named), wanted);
    }
}

/// A broker as one view of the cluster: who leads the partitions, and since which epoch.
struct Fake {
    at: SocketAddr,
    fetches: Arc<AtomicUsize>,
}

/// What both brokers say alike.
struct Scene {
    partitions: usize,
    /// So many more answers leave out the last partition.
    behind: AtomicUsize,
    /// What every fetch brings.
    records: Vec<u8>,
}

fn fakes(views: [(usize, i32); 2]) -> [Fake; 2] {
    fakes_of(views, &Arc::new(Scene { partitions: 1, behind: AtomicUsize::new(0), records: Vec::new() }))
}

fn fakes_of(views: [(usize, i32); 2], scene: &Arc<Scene>) -> [Fake; 2] {
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let ports = [0, 1].map(|n: usize| listeners[n].local_addr().expect("bound").port());
    let mut views = views.into_iter();
    listeners.map(|listener| {
        let (at, view) = (listener.local_addr().expect("bound"), views.next().expect("one each"));
        let fetches = Arc::new(AtomicUsize::new(0));
        let (counted, scene) = (fetches.clone(), scene.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (counted, scene) = (counted.clone(), scene.clone());
                std::thread::spawn(move || serve(socket, ports, view, &scene, &counted));
            }
        });
        Fake { at, fetches }
    })
}

fn serve(
    mut socket: TcpStream,
    ports: [u16; 2],
    view: (usize, i32),
    scene: &Scene,
    fetches: &AtomicUsize,
) -> Option<()> {
    loop {
        let mut len = [0; 4];
        socket.read_exact(&mut len).ok()?;
        let mut request = vec![0; u32::from_be_bytes(len) as usize];
        socket.read_exact(&mut request).ok()?;
        let number = |at: usize| i16::from_be_bytes([request[at], request[at + 1]]);
        let (key, version) = (number(0), number(2));
        let mut out = BytesMut::from(&request[4..8]);
        match key {
            18 => api_versions(version, &mut out),
            3 => metadata(version, ports, view, scene, &mut out),
            1 => {
                fetches.fetch_add(1, Ordering::SeqCst);
                fetch(version, &request, scene, &mut out);
            }
            _ => return None,
        }
        socket.write_all(&(out.len() as u32).to_be_bytes()).ok()?;
        socket.write_all(&out).ok()?;
    }
}

fn api_versions(version: i16, out: &mut BytesMut) {
    let known =
        |key, min, max| ApiVersion::default().with_api_key(key).with_min_version(min).with_max_version(max);
    // librdkafka fetches batches of today's format only from a broker that takes such from producers.
    let all = vec![known(0, 3, 9), known(1, 13, 16), known(3, 12, 12), known(18, 0, 0)];
    // A version that is not known is answered in the oldest one.
    let error = if version > 0 { 35 } else { 0 };
    let answer = ApiVersionsResponse::default().with_error_code(error).with_api_keys(all);
    answer.encode(out, 0).expect("encodes");
}

fn tagged<T: HeaderVersion>(version: i16, out: &mut BytesMut) {
    // The correlation stands there already; flexible headers have tagged fields behind it.
    if T::header_version(version) >= 1 {
        let mut header = BytesMut::new();
        ResponseHeader::default().encode(&mut header, T::header_version(version)).expect("encodes");
        out.extend_from_slice(&header[4..]);
    }
}

fn metadata(version: i16, ports: [u16; 2], (leads, epoch): (usize, i32), scene: &Scene, out: &mut BytesMut) {
    tagged::<MetadataResponse>(version, out);
    let is_behind =
        scene.behind.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
    let broker = |node: usize| {
        MetadataResponseBroker::default()
            .with_node_id((node as i32).into())
            .with_host(StrBytes::from_static_str("127.0.0.1"))
            .with_port(i32::from(ports[node]))
    };
    let partition = |index: usize| {
        MetadataResponsePartition::default()
            .with_partition_index(index as i32)
            .with_leader_id((leads as i32).into())
            .with_leader_epoch(epoch)
            .with_replica_nodes(vec![0.into(), 1.into()])
            .with_isr_nodes(vec![0.into(), 1.into()])
    };
    let topic = MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_static_str("t"))))
        .with_topic_id("07".repeat(16).parse().expect("an id"))
        .with_partitions((0..scene.partitions - usize::from(is_behind)).map(partition).collect());
    // Whoever has lost its controller names itself as one: librdkafka goes on to ask it alone.
    let answer = MetadataResponse::default()
        .with_brokers(vec![broker(0), broker(1)])
        .with_controller_id(0.into())
        .with_topics(vec![topic]);
    answer.encode(out, version).expect("encodes");
}

fn fetch(version: i16, request: &[u8], scene: &Scene, out: &mut BytesMut) {
    let mut bytes = Bytes::copy_from_slice(request);
    kafka_protocol::messages::RequestHeader::decode(&mut bytes, FetchRequest::header_version(version))
        .expect("a header");
    let request = FetchRequest::decode(&mut bytes, version).expect("a fetch");
    tagged::<FetchResponse>(version, out);
    let none = PartitionData::default()
        .with_high_watermark(5)
        .with_last_stable_offset(5)
        .with_records(Some(Bytes::copy_from_slice(&scene.records)));
    let topics = request.topics.iter().map(|topic| {
        let asked = topic.partitions.iter().map(|asked| none.clone().with_partition_index(asked.partition));
        FetchableTopicResponse::default().with_topic_id(topic.topic_id).with_partitions(asked.collect())
    });
    let answer = FetchResponse::default().with_responses(topics.collect());
    // A broker waits for records.
    std::thread::park_timeout(Duration::from_millis(50));
    answer.encode(out, version).expect("encodes");
}

fn options(at: SocketAddr) -> KafkaOptions {
    let mut options = KafkaOptions::new(vec![at.to_string()], vec!["t".into()], "g");
    options.fetch = FetchBy::Direct;
    options.look_every = Duration::from_millis(300);
    options
}

fn start(fakes: &[Fake; 2], leads: usize) -> (DirectReader, Arc<dyn Runtime>) {
    start_with(fakes, leads, 1)
}

fn start_with(fakes: &[Fake; 2], leads: usize, partitions: u32) -> (DirectReader, Arc<dyn Runtime>) {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let options = options(fakes[0].at);
    let topics = BTreeMap::from([(
        "t".to_owned(),
        Topic {
            id: ID_BASE64.into(),
            partitions: (0..partitions).collect(),
            leaders: (0..partitions).map(|index| (index, fakes[leads].at.to_string())).collect(),
        },
    )]);
    let opened = probe(plan(&options).expect("directly"), &topics, &runtime).expect("answers");
    let look = Arc::new(Client::new(&options, Role::Look, runtime.clone()).expect("a client"));
    let from = |index| ReadFrom {
        partition: Partition::new("t", index),
        identity: ID_BASE64.into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let from = (0..partitions).map(from).collect();
    let reader = DirectReader::start(&options, opened, topics, runtime.clone(), look, from).expect("starts");
    (reader, runtime)
}

/// Reads until `done`, or for so long that something must be wrong however busy the machine is.
async fn read_until(reader: &mut DirectReader, runtime: &Arc<dyn Runtime>, done: impl Fn() -> bool) {
    while !done() && runtime.elapsed() < Duration::from_secs(300) {
        tokio::select! {
            event = reader.next() => match event {
                Ok(Event::CaughtUp { .. }) | Err(SourceError { fault: SourceFault::Away, .. }) => {}
                other => panic!("{other:?}"),
            },
            () = runtime.sleep(Duration::from_millis(20)) => {}
        }
    }
}

#[tokio::test]
async fn a_partition_leaves_a_leader_that_still_answers_but_was_replaced() {
    // The first one thinks that it leads, since epoch 5; the second one was elected at epoch 6.
    let fakes = fakes([(0, 5), (1, 6)]);
    let (mut reader, runtime) = start(&fakes, 0);
    read_until(&mut reader, &runtime, || fakes[0].fetches.load(Ordering::SeqCst) > 0).await;
    read_until(&mut reader, &runtime, || fakes[1].fetches.load(Ordering::SeqCst) > 3).await;
    let count = |n: usize| fakes[n].fetches.load(Ordering::SeqCst);
    assert!(count(1) > 3, "{} fetches from the new leader", count(1));
    // And it stays there, whatever the old one says of itself.
    let before = (count(0), count(1));
    read_until(&mut reader, &runtime, || count(1) > before.1 + 10).await;
    assert_eq!(count(0), before.0, "nothing more is asked of the old one");
    assert!(count(1) > before.1 + 10);
}

#[tokio::test]
async fn a_partition_stays_with_its_leader_whatever_an_older_view_says() {
    // The second one is behind: it has not heard of the election.
    let fakes = fakes([(0, 6), (1, 5)]);
    let (mut reader, runtime) = start(&fakes, 0);
    // Some looks at the leaders lie between so many fetches.
    let fetches = || fakes[0].fetches.load(Ordering::SeqCst);
    read_until(&mut reader, &runtime, || fetches() > 20).await;
    assert!(fetches() > 20);
}

/// Reads to the error that ends it, which takes some seconds at the most.
async fn last_error(reader: &mut dyn Reader, runtime: &Arc<dyn Runtime>) -> SourceError {
    loop {
        tokio::select! {
            event = reader.next() => match event {
                Ok(Event::CaughtUp { .. }) | Err(SourceError { fault: SourceFault::Away, .. }) => {}
                Ok(other) => panic!("{other:?}"),
                Err(error) => return error,
            },
            () = runtime.sleep(Duration::from_secs(300)) => panic!("it goes on"),
        }
    }
}

#[tokio::test]
async fn a_partition_is_gone_only_once_many_answers_in_a_row_lack_it() {
    let scene = Arc::new(Scene { partitions: 2, behind: AtomicUsize::new(0), records: Vec::new() });
    let fakes = fakes_of([(0, 5), (0, 5)], &scene);
    let (mut reader, runtime) = start_with(&fakes, 0, 2);
    let fetches = || fakes[0].fetches.load(Ordering::SeqCst);
    read_until(&mut reader, &runtime, || fetches() > 3).await;
    // Some answers are of a broker that is behind, and fewer than end the reading even if no other thread asks.
    scene.behind.store(6, Ordering::SeqCst);
    read_until(&mut reader, &runtime, || scene.behind.load(Ordering::SeqCst) == 0).await;
    let before = fetches();
    read_until(&mut reader, &runtime, || fetches() > before + 40).await;
    assert!(fetches() > before + 40, "it goes on");
    scene.behind.store(usize::MAX, Ordering::SeqCst);
    let error = last_error(&mut reader, &runtime).await;
    assert_eq!(error.fault, SourceFault::Refused);
    assert!(error.message.contains("topic `t` has `1` partitions and no partition `1`"), "{error}");
    let asked = usize::MAX - scene.behind.load(Ordering::SeqCst);
    assert!(asked >= 4, "after {asked} answers");
}

#[tokio::test]
async fn batches_of_an_older_format_end_the_reading_with_the_setting_that_reads_them() {
    // A message of format 1 at offset 5: its length, checksum, format, attributes, time, no key, and a body.
    let message: [&[u8]; 8] = [
        &5_i64.to_be_bytes(),
        &23_i32.to_be_bytes(),
        &[0; 4],
        &[1, 0],
        &1_000_i64.to_be_bytes(),
        &(-1_i32).to_be_bytes(),
        &1_i32.to_be_bytes(),
        b"x",
    ];
    let records = message.concat();
    let scene = Arc::new(Scene { partitions: 1, behind: AtomicUsize::new(0), records });
    let fakes = fakes_of([(0, 5), (0, 5)], &scene);
    let (mut reader, runtime) = start(&fakes, 0);
    let error = last_error(&mut reader, &runtime).await;
    assert_eq!(error.fault, SourceFault::Config);
    assert!(error.message.contains("format `1`") && error.message.contains("`fetch: librdkafka`"), "{error}");
}

/// The head of an empty batch at offset 5, whose checksum is wrong.
fn garbled() -> Arc<Scene> {
    let parts: [&[u8]; 4] = [&5_i64.to_be_bytes(), &49_i32.to_be_bytes(), &[0, 0, 0, 4, 2], &[0; 44]];
    Arc::new(Scene { partitions: 1, behind: AtomicUsize::new(0), records: parts.concat() })
}

#[tokio::test]
async fn a_batch_that_comes_garbled_is_asked_for_again_before_it_ends_the_reading() {
    let fakes = fakes_of([(0, 5), (0, 5)], &garbled());
    let (mut reader, runtime) = start(&fakes, 0);
    let error = last_error(&mut reader, &runtime).await;
    assert_eq!(error.fault, SourceFault::Refused);
    assert!(error.message.contains("checksum does not agree"), "{error}");
    // Each time the fetch behind it was under way too.
    let fetches = fakes[0].fetches.load(Ordering::SeqCst);
    assert!(fetches >= 4, "after {fetches} fetches");
}

#[tokio::test]
async fn a_batch_that_comes_garbled_to_librdkafka_is_asked_for_again_before_it_ends_the_reading() {
    let fakes = fakes_of([(0, 5), (0, 5)], &garbled());
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let options = options(fakes[0].at);
    let look = Arc::new(Client::new(&options, Role::Look, runtime.clone()).expect("a client"));
    let from = ReadFrom {
        partition: Partition::new("t", 0),
        identity: ID_BASE64.into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    };
    let mut reader = KafkaReader::start(&options, runtime.clone(), look, vec![from]).expect("starts");
    let error = last_error(&mut reader, &runtime).await;
    assert_eq!(error.fault, SourceFault::Refused);
    assert!(error.message.contains("cannot be read at or after offset `5`"), "{error}");
    assert!(error.message.contains("CRC32C"), "{error}");
    // At the end first, and then the batch: every time anew.
    let fetches = fakes[0].fetches.load(Ordering::SeqCst);
    assert!(fetches >= 8, "after {fetches} fetches");
    assert!(runtime.elapsed() >= Duration::from_millis(1_500), "half a second lies between two tries");
}
