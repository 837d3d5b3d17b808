//! A broker in this process, whose clock is not ours.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;

use prost::Message as _;

use super::super::frame;
use super::super::messages::{
    Connected, Delivery, Last, LookupResponse, Metadata, PROTOCOL_VERSION, PartitionsResponse, Success,
};
use super::*;
use crate::pulsar::PulsarSource;
use crate::test_runtime::TestRuntime;

#[derive(Clone)]
struct Fake {
    port: u16,
    /// Of its topic, as its metadata has them; 0 for a topic without partitions.
    partitions: u32,
    /// The end of the names of topics that it does not know.
    lacks: Option<&'static str>,
    /// It does not say what its newest entry is.
    is_mute: bool,
    /// Others hold the subscription that lasts, by a consumer of another type.
    is_busy: bool,
    /// Consumers that were not closed, over all connections.
    open: Arc<AtomicUsize>,
    /// Of each entry of its one topic.
    published_ms: Vec<i64>,
    /// Of each entry.
    messages: i32,
    ahead_ms: i64,
    runtime: Arc<dyn Runtime>,
}

fn id(entry: usize) -> MessageId {
    MessageId { ledger: 7, entry: entry as u64, partition: None, batch_index: None }
}

fn serve(mut socket: TcpStream, fake: &Fake) -> Option<()> {
    let mut consumers = BTreeMap::new();
    loop {
        let mut length = [0; 4];
        socket.read_exact(&mut length).ok()?;
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        socket.read_exact(&mut bytes).ok()?;
        let Ok(Frame::Command(command)) = frame::read(&bytes) else { return None };
        let mut out = Vec::new();
        answer(fake, &mut consumers, *command, &mut out);
        socket.write_all(&out).ok()?;
    }
}

/// A broker of a topic without partitions, and its port.
fn fake(runtime: &Arc<dyn Runtime>, change: impl FnOnce(&mut Fake)) -> (u16, Fake) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let mut fake = Fake {
        port,
        partitions: 0,
        lacks: None,
        is_mute: false,
        is_busy: false,
        open: Arc::default(),
        published_ms: vec![1; 3],
        messages: 1,
        ahead_ms: 0,
        runtime: runtime.clone(),
    };
    change(&mut fake);
    let served = fake.clone();
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let fake = served.clone();
            std::thread::spawn(move || serve(socket, &fake));
        }
    });
    (port, fake)
}

fn options(port: u16) -> PulsarOptions {
    let service = format!("pulsar://127.0.0.1:{port}");
    PulsarOptions::new(&service, &["a/b/c".to_owned()], "s").expect("options")
}

/// What a consumer gets next, and how many messages it may get.
type Due = (usize, i64);

fn answer(fake: &Fake, consumers: &mut BTreeMap<u64, Due>, asked: Command, out: &mut Vec<u8>) {
    let mut say = |kind: Kind, command: Command| frame::write(out, &Command { kind: kind as i32, ..command });
    let success = |request: u64| Command { success: Some(Success { request }), ..Command::default() };
    let failure = |request: u64, error: i32| Command {
        error: Some(Failure { request, error, message: "so it is".into() }),
        ..Command::default()
    };
    if asked.connect.is_some() {
        let connected = Connected {
            server_version: "fake".into(),
            protocol_version: Some(PROTOCOL_VERSION),
            ..Connected::default()
        };
        say(Kind::Connected, Command { connected: Some(connected), ..Command::default() });
    } else if let Some(lookup) = asked.lookup {
        let lookup_response = Some(LookupResponse {
            url: Some(format!("pulsar://127.0.0.1:{}", fake.port)),
            response: Some(LOOKUP_CONNECT),
            request: lookup.request,
            ..LookupResponse::default()
        });
        say(Kind::LookupResponse, Command { lookup_response, ..Command::default() });
    } else if let Some(asked) = asked.partitions {
        let partitions_response = Some(PartitionsResponse {
            partitions: Some(fake.partitions),
            request: asked.request,
            response: Some(0),
            ..PartitionsResponse::default()
        });
        say(Kind::PartitionedMetadataResponse, Command { partitions_response, ..Command::default() });
    } else if let Some(subscribe) =
        asked.subscribe.as_ref().filter(|asked| fake.lacks.is_some_and(|end| asked.topic.ends_with(end)))
    {
        say(Kind::Error, failure(subscribe.request, error::TOPIC_NOT_FOUND));
    } else if let Some(subscribe) =
        asked.subscribe.as_ref().filter(|asked| fake.is_busy && asked.durable == Some(true))
    {
        // Of a consumer that is busy.
        say(Kind::Error, failure(subscribe.request, 5));
    } else if let Some(subscribe) = asked.subscribe {
        fake.open.fetch_add(1, Ordering::SeqCst);
        let since = |ms: i64| fake.published_ms.iter().take_while(|published| **published < ms).count();
        let first = match (subscribe.age_seconds, subscribe.start) {
            (Some(age), _) => since(fake.runtime.wall_ms() + fake.ahead_ms - age as i64 * 1_000),
            (None, Some(start)) if start.entry != u64::MAX => start.entry as usize,
            (None, _) => 0,
        };
        consumers.insert(subscribe.consumer, (first, 0));
        say(Kind::Success, success(subscribe.request));
    } else if let Some(of) = asked.close_consumer {
        fake.open.fetch_sub(1, Ordering::SeqCst);
        say(Kind::Success, success(of.request.unwrap_or_default()));
    } else if let Some(of) = asked.get_last.as_ref().filter(|_| fake.is_mute) {
        // A metadata error.
        say(Kind::Error, failure(of.request.unwrap_or_default(), 1));
    } else if let Some(of) = asked.get_last {
        let newest = Some(id(fake.published_ms.len() - 1));
        let last = Last { id: newest, request: of.request.unwrap_or_default(), acknowledged: None };
        say(Kind::GetLastMessageIdResponse, Command { last: Some(last), ..Command::default() });
    } else if let Some(flow) = asked.flow {
        let Some((next, permits)) = consumers.get_mut(&flow.consumer) else { return };
        *permits += i64::from(flow.permits);
        // An entry is sent whole, also to who may get fewer messages.
        while *permits > 0 && *next < fake.published_ms.len() {
            let delivery = Delivery { consumer: flow.consumer, id: Some(id(*next)) };
            let command =
                Command { kind: Kind::Message as i32, message: Some(delivery), ..Command::default() };
            let metadata = Metadata {
                producer: "p".into(),
                publish_time: fake.published_ms[*next] as u64,
                messages: (fake.messages > 1).then_some(fake.messages),
                ..Metadata::default()
            };
            frame::write_entry(out, &command, &metadata.encode_to_vec(), b"x");
            *permits -= i64::from(fake.messages);
            *next += 1;
        }
    }
}

#[test]
fn a_start_by_time_steps_over_nothing_if_the_clock_of_the_broker_is_ahead() {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    // A message every second until 100 seconds ago.
    let base_ms = runtime.wall_ms() - 200_000;
    for ahead_ms in [0, 30_000, -30_000] {
        let published_ms = (0..100).map(|n| base_ms + 1_000 * n).collect();
        let (port, _) = fake(&runtime, |fake| (fake.published_ms, fake.ahead_ms) = (published_ms, ahead_ms));
        let client = Client::new(Arc::new(options(port)), runtime.clone());
        for n in [50, 1] {
            let start = Start::Time(base_ms + 1_000 * n);
            let Ok((next, first)) = client.range("persistent://a/b/c", start) else { panic!("{ahead_ms}") };
            let entry = |entry| Entry { ledger: 7, entry }.position();
            assert_eq!((next, first), (entry(n as u64), entry(0)), "{ahead_ms} ms ahead");
        }
    }
}

#[test]
fn a_start_by_time_looks_through_batches_of_more_messages_than_it_asks_for() {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    // A batch every 20 ms until 100 seconds ago: the look begins at least 100 of them before the one that it finds.
    let base_ms = runtime.wall_ms() - 110_000;
    let published_ms: Vec<i64> = (0..500).map(|n| base_ms + 20 * n).collect();
    for messages in [7, LOOKED_THROUGH as i32, 4_000] {
        let published_ms = published_ms.clone();
        let (port, _) = fake(&runtime, |fake| (fake.published_ms, fake.messages) = (published_ms, messages));
        let client = Client::new(Arc::new(options(port)), runtime.clone());
        let found = client.range("persistent://a/b/c", Start::Time(base_ms + 20 * 400));
        let Ok((next, _)) = found else { panic!("batches of {messages}: nothing more was delivered") };
        assert_eq!(next, Entry { ledger: 7, entry: 400 }.position(), "batches of {messages}");
    }
}

#[test]
fn a_question_that_is_refused_leaves_no_consumer_behind() {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let (port, fake) = fake(&runtime, |fake| fake.is_mute = true);
    let client = Client::new(Arc::new(options(port)), runtime.clone());
    let name = "persistent://a/b/c";
    for _ in 0..3 {
        assert!(matches!(client.end(name), Err(Unanswered::Trouble(Trouble::Moved(_)))));
        assert!(client.range(name, Start::Earliest).is_err());
        assert!(client.acknowledged(name).is_err());
    }
    assert_eq!(fake.open.load(Ordering::SeqCst), 0);
}

#[test]
fn a_consumer_that_others_have_on_our_subscription_hides_no_message() {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let (port, fake) = fake(&runtime, |fake| fake.is_busy = true);
    let client = Client::new(Arc::new(options(port)), runtime.clone());
    let (name, entry) = ("persistent://a/b/c", |entry| Entry { ledger: 7, entry });
    let ensured = client.route(name).and_then(|route| client.ensure(&route, name));
    let refused = [ensured, client.acknowledge(name, entry(0)), client.acknowledged(name).map(drop)];
    for answer in refused {
        let Err(Unanswered::Trouble(Trouble::Moved(why))) = answer else { panic!("others have it") };
        assert!(why.starts_with("the subscription has another consumer"), "{why}");
    }
    let first = entry(0).position();
    assert_eq!(client.range(name, Start::Earliest).ok(), Some((first, first)));
    assert_eq!(client.end(name).ok(), Some(entry(2).end()));
    assert_eq!(fake.open.load(Ordering::SeqCst), 0);
}

#[test]
fn who_asks_a_broker_does_not_wait_for_others_that_are_not_answered() {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let ((silent, _), (other, _)) = (fake(&runtime, |_| {}), fake(&runtime, |_| {}));
    let route = |port| Route { address: Address { host: "127.0.0.1".into(), port }, broker: None };
    let client = Client::new(Arc::new(options(silent)), runtime.clone());
    // A connection that is kept, which the first one to ask takes.
    assert!(client.at(&route(silent), |_| Ok(())).is_ok());
    let (asks, is_asking) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    std::thread::scope(|scope| {
        let (client, silent_route) = (&client, route(silent));
        let first = scope.spawn(move || {
            client.at(&silent_route, |_| {
                asks.send(()).expect("somebody looks on");
                // Whoever waits for it ends this wait, and is found out below.
                Ok(answered.recv_timeout(Duration::from_secs(60)).is_ok())
            })
        });
        is_asking.recv().expect("it asks");
        for port in [silent, other, silent, other] {
            assert!(client.at(&route(port), |_| Ok(())).is_ok());
        }
        // Fails if the first one has given up, for then the others have waited for it.
        answer.send(()).expect("it is not answered yet");
        assert!(matches!(first.join(), Ok(Ok(true))), "it has waited");
    });
    // What was opened beside others is kept too, one for each broker.
    assert_eq!(client.connections().len(), 2);
}

#[test]
fn a_partition_that_was_deleted_alone_is_left_out_by_the_last_look() {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let (port, _) = fake(&runtime, |fake| (fake.partitions, fake.lacks) = (3, Some("-partition-1")));
    let source = PulsarSource::new(options(port), runtime.clone());
    assert!(matches!(source.shared.partitions(false), Ok(Err(_))), "its broker may not know it yet");
    let Ok(Ok(shown)) = source.shared.partitions(true) else { panic!("the others are there") };
    assert_eq!(shown.iter().map(|start| start.partition.index).collect::<Vec<_>>(), [0, 2]);
    let (ends, all_exist) = source.shared.each(Client::end).expect("the others answer");
    assert_eq!(ends.iter().map(|(partition, _)| partition.index).collect::<Vec<_>>(), [0, 2]);
    assert!(!all_exist);
    let pauses = AtomicUsize::new(0);
    let acknowledged = source.shared.acknowledged(|_| {
        pauses.fetch_add(1, Ordering::SeqCst);
    });
    let acknowledged = acknowledged.expect("the others answer");
    assert_eq!((acknowledged.len(), pauses.load(Ordering::SeqCst)), (2, 9), "it is looked for again");
}

#[test]
fn a_topic_without_partitions_that_an_old_broker_does_not_know_does_not_exist() {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    // Asked for its partitions, the broker says that it has none.
    let (port, _) = fake(&runtime, |fake| fake.lacks = Some("c"));
    let source = PulsarSource::new(options(port), runtime.clone());
    let Ok(Err(lacks)) = source.shared.partitions(true) else { panic!("it is missing") };
    assert!(lacks.error(SourceFault::Config).message.contains("topic `a/b/c` does not exist"));
}
