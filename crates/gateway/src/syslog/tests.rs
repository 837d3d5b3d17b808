use std::sync::{Arc, Mutex};

use dataflow::{Event, Partition, ReadFrom, Reader, RecordBlock, Source};
use serde_json::{Value, json};
use store::Store;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::oneshot;

use super::*;
use crate::budget::Held;
use crate::direct::{Direct, DirectSource};
use crate::options::{Fills, StreamOptions};
use crate::server::{End, Server};
use crate::support::{self, NEVER, in_memory, options, records};

const TCP: Transport = Transport::Tcp { tls: None, connections_max: 2 };

/// A gateway that takes syslog at an address for each transport.
struct Taking {
    addresses: Vec<SocketAddr>,
    stop: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<Result<End, crate::server::GatewayError>>,
}

async fn start(store: &Arc<dyn Store>, transports: Vec<Transport>, memory_bytes: usize) -> Taking {
    let mut options = options(vec![support::stream("syslog", store)]);
    options.streams[0].memory_bytes = memory_bytes;
    let syslog = |transport| SyslogOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        transport,
        stream: "syslog".to_owned(),
        message_bytes_max: 1_000,
    };
    options.syslog = transports.into_iter().map(syslog).collect();
    let server = Server::open(options, support::runtime()).await.expect("opens");
    let addresses = server.syslog_addresses();
    let (stop, asked) = oneshot::channel::<()>();
    let stopped = async {
        let _ = asked.await;
    };
    Taking { addresses, stop, served: tokio::spawn(server.serve(axum::Router::new(), stopped)) }
}

impl Taking {
    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        let ended = tokio::time::timeout(NEVER, self.served).await.expect("it ends").expect("no panic");
        assert_eq!(ended.unwrap(), End::Drained);
    }
}

async fn found(store: &Arc<dyn Store>) -> Vec<Value> {
    let json = |record: String| serde_json::from_str(&record).expect("JSON");
    records(store).await.into_iter().map(json).collect()
}

async fn wait_for(store: &Arc<dyn Store>, count: usize) -> Vec<Value> {
    let waiting = async {
        loop {
            let found = found(store).await;
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(NEVER, waiting).await.expect("all records")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_over_tcp_and_udp_are_records_in_their_order() {
    let store = in_memory();
    let gateway = start(&store, vec![TCP, Transport::Udp], 32 << 20).await;
    let mut tcp = TcpStream::connect(gateway.addresses[0]).await.unwrap();
    let all: String = (0..3_000).map(|number| format!("<14>1 - h app - - - {number}\n")).collect();
    tcp.write_all(all.as_bytes()).await.unwrap();
    let from = tcp.local_addr().unwrap().to_string();
    let found = wait_for(&store, 3_000).await;
    for (number, record) in found.iter().enumerate() {
        assert_eq!((&record["message"], &record["peer"]), (&json!(number.to_string()), &json!(from)));
    }
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let long = format!("<14>1 - h app - - - {}", "x".repeat(2_000));
    udp.send_to(b"<14>a datagram", gateway.addresses[1]).await.unwrap();
    udp.send_to(long.as_bytes(), gateway.addresses[1]).await.unwrap();
    udp.send_to(b"", gateway.addresses[1]).await.unwrap();
    // What has no end when the gateway stops is taken as it is.
    tcp.write_all(b"20 <14>counted").await.unwrap();
    let found = wait_for(&store, 3_002).await;
    assert_eq!((&found[3_000]["message"], &found[3_000]["truncated"]), (&json!("a datagram"), &json!(false)));
    assert_eq!(
        (found[3_001]["message"].as_str().unwrap().len(), &found[3_001]["truncated"]),
        (980, &json!(true))
    );
    tokio::time::sleep(Duration::from_millis(50)).await;
    gateway.stop().await;
    let found = wait_for(&store, 3_003).await;
    assert_eq!((&found[3_002]["message"], &found[3_002]["truncated"]), (&json!("counted"), &json!(true)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_without_end_takes_no_more_memory_than_its_beginning_and_the_next_one_is_whole() {
    let store = in_memory();
    let gateway = start(&store, vec![TCP], 1 << 20).await;
    let mut tcp = TcpStream::connect(gateway.addresses[0]).await.unwrap();
    tcp.write_all(b"<14>").await.unwrap();
    for _ in 0..32 {
        tcp.write_all(&[b'x'; 128 << 10]).await.unwrap();
    }
    tcp.write_all(b"\n<14>next").await.unwrap();
    tcp.shutdown().await.unwrap();
    let found = wait_for(&store, 2).await;
    assert_eq!((found[0]["message"].as_str().unwrap().len(), &found[0]["truncated"]), (996, &json!(true)));
    assert_eq!((&found[1]["message"], &found[1]["truncated"]), (&json!("next"), &json!(false)));
    gateway.stop().await;
    assert_eq!(found.len(), 2);
}

/// The stream has room for a few hundred messages at a time: over TCP they wait, and none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_over_tcp_wait_for_room_and_none_is_lost() {
    let store = in_memory();
    let gateway = start(&store, vec![TCP], 150 << 10).await;
    let senders = (0..2).map(|sender| {
        let address = gateway.addresses[0];
        async move {
            let mut tcp = TcpStream::connect(address).await.unwrap();
            for number in 0..3_000 {
                let message = format!("<14>1 - h {sender} - - - {number} {}", "x".repeat(200));
                tcp.write_all(format!("{} {message}", message.len()).as_bytes()).await.unwrap();
            }
            tcp.shutdown().await.unwrap();
        }
    });
    futures::future::join_all(senders).await;
    let found = wait_for(&store, 6_000).await;
    for sender in ["0", "1"] {
        let of = found.iter().filter(|record| record["app_name"] == sender);
        let numbers = of.map(|record| {
            record["message"].as_str().unwrap().split(' ').next().unwrap().parse::<u32>().unwrap()
        });
        assert!(numbers.eq(0..3_000), "in order, each once");
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_without_room_is_not_taken_and_the_next_one_is() {
    let store = in_memory();
    let server =
        Server::open(options(vec![support::stream("syslog", &store)]), support::runtime()).await.unwrap();
    let stream = server.gate().streams().next().unwrap().clone();
    let mut others = server.gate().hold(&stream);
    others.take(32 << 20).expect("all of the stream's room");
    let message_time_max = NEVER;
    let sink =
        Sink { gate: server.gate(), stream, message_bytes_max: 1_000, message_time_max, transport: "udp" };
    let mut feeder = feeder::Feeder::new(sink);
    let frame = |bytes| frames::Frame { bytes, is_cut: false };
    assert_eq!(feeder.push(frame(b"<14>lost"), "peer").unwrap_err().kind, crate::refusal::Kind::Busy);
    feeder.drop_one();
    // Over TCP it waits until there is room.
    let waiting = feeder.push_when_room(frame(b"<14>kept"), "peer");
    assert!(tokio::time::timeout(Duration::from_millis(120), waiting).await.is_err());
    drop(others);
    feeder.push_when_room(frame(b"<14>kept"), "peer").await;
    feeder.finish().await;
    let found = found(&store).await;
    assert_eq!(found.iter().map(|record| &record["message"]).collect::<Vec<_>>(), ["kept"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_that_are_dropped_while_the_store_is_away_are_counted_at_once() {
    let store = in_memory();
    let mut never = support::stream("syslog", &store);
    support::linger(&mut never, NEVER);
    let server = Server::open(options(vec![never]), support::runtime()).await.unwrap();
    let (gate, stream) = (server.gate(), server.gate().streams().next().unwrap().clone());
    let sink = Sink { gate, stream, message_bytes_max: 1_000, message_time_max: NEVER, transport: "udp" };
    let mut feeder = feeder::Feeder::new(sink);
    feeder.push(frames::Frame { bytes: b"<14>waits", is_cut: false }, "peer").unwrap();
    feeder.start();
    feeder.drop_one();
    let counters = support::Counters::default();
    metrics::with_local_recorder(&counters, || {
        feeder.tell_dropped();
        feeder.tell_dropped();
    });
    let counted = counters.of("forebay_gateway_syslog_dropped_total");
    assert_eq!(counted, [(" syslog udp no_room".to_owned(), 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn datagrams_that_find_no_room_are_dropped_and_the_gateway_goes_on() {
    let store = in_memory();
    // Less than the records of one batch hold.
    let gateway = start(&store, vec![Transport::Udp], 70 << 10).await;
    let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for number in 0..500 {
        udp.send_to(format!("<14>{number} {}", "x".repeat(900)).as_bytes(), gateway.addresses[0])
            .await
            .unwrap();
    }
    let mut left = NEVER;
    while found(&store).await.is_empty() && !left.is_zero() {
        tokio::time::sleep(Duration::from_millis(10)).await;
        left = left.saturating_sub(Duration::from_millis(10));
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    loop {
        // More than once: while those before it still hold the room, it is dropped as well.
        udp.send_to(b"<14>last", gateway.addresses[0]).await.unwrap();
        let found = found(&store).await;
        if found.last().is_some_and(|record| record["message"] == "last") {
            // The messages that were taken are in their order, and each is there once.
            let number = |record: &Value| {
                record["message"].as_str().unwrap().split(' ').next().unwrap().parse::<u32>().ok()
            };
            let numbers: Vec<u32> = found.iter().filter_map(number).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b) && !numbers.is_empty());
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_more_than_may_be_open_is_closed_and_its_place_comes_back() {
    use tokio::io::AsyncReadExt;
    let store = in_memory();
    let gateway = start(&store, vec![TCP], 32 << 20).await;
    let connect = async || {
        let mut tcp = TcpStream::connect(gateway.addresses[0]).await.unwrap();
        tcp.write_all(b"<14>x\n").await.unwrap();
        tcp
    };
    let (first, _second) = (connect().await, connect().await);
    wait_for(&store, 2).await;
    let mut third = connect().await;
    let closed = tokio::time::timeout(NEVER, third.read(&mut [0; 1])).await.expect("it is closed");
    assert!(closed.is_err() || closed.is_ok_and(|read| read == 0));
    drop(first);
    let again = async {
        while found(&store).await.len() < 3 {
            let _tcp = connect().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(NEVER, again).await.expect("a place comes back");
    gateway.stop().await;
}

/// A stream without an end, of which a piece comes now and then.
struct Slow(u8);

impl tokio::io::AsyncRead for Slow {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        // A message, the beginning of another, and then nothing any more.
        let piece: &[u8] = match self.0 {
            0 => b"<14>whole\n<14>be",
            1 => b"gun",
            _ => return std::task::Poll::Pending,
        };
        self.0 += 1;
        buffer.put_slice(piece);
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_does_not_end_in_time_is_taken_as_it_is() {
    let store = in_memory();
    let server =
        Server::open(options(vec![support::stream("syslog", &store)]), support::runtime()).await.unwrap();
    let stream = server.gate().streams().next().unwrap().clone();
    let sink = Sink {
        gate: server.gate(),
        stream,
        message_bytes_max: 1_000,
        message_time_max: Duration::from_millis(50),
        transport: "tcp",
    };
    let (_stopping, asked) = watch::channel(false);
    tcp::receive(Slow(0), "peer", sink, asked).await;
    let found = found(&store).await;
    assert_eq!((&found[0]["message"], &found[0]["truncated"]), (&json!("whole"), &json!(false)));
    assert_eq!((&found[1]["message"], &found[1]["truncated"]), (&json!("begun"), &json!(true)));
}

/// Messages that have come, each in a piece of its own, on a connection that stays.
struct Come(u32);

impl tokio::io::AsyncRead for Come {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        if self.0 == 0 {
            return std::task::Poll::Pending;
        }
        self.0 -= 1;
        buffer.put_slice(b"<14>come\n");
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_come_over_tcp_before_a_stop_is_taken() {
    let store = in_memory();
    let server =
        Server::open(options(vec![support::stream("syslog", &store)]), support::runtime()).await.unwrap();
    let stream = server.gate().streams().next().unwrap().clone();
    let sink = Sink {
        gate: server.gate(),
        stream,
        message_bytes_max: 1_000,
        message_time_max: NEVER,
        transport: "tcp",
    };
    let (_stopping, asked) = watch::channel(true);
    tcp::receive(Come(50), "peer", sink, asked).await;
    assert_eq!(found(&store).await.len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_connected_before_a_stop_is_read() {
    let store = in_memory();
    let gateway = start(&store, vec![TCP], 32 << 20).await;
    // Without a pause in which the gateway could accept it.
    let mut tcp = std::net::TcpStream::connect(gateway.addresses[0]).unwrap();
    std::io::Write::write_all(&mut tcp, b"<14>early\n").unwrap();
    gateway.stop().await;
    let found = found(&store).await;
    assert_eq!((found.len(), &found[0]["message"]), (1, &json!("early")));
}

/// The beginning of a message, behind which others take all room of the stream, and its rest in small pieces.
struct Crowded {
    others: Arc<Mutex<Option<Held>>>,
    piece: u32,
}

impl tokio::io::AsyncRead for Crowded {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        match self.piece {
            0 => {
                buffer.put_slice(b"<14>");
                buffer.put_slice(&[b'x'; 1_500]);
                let mut others = self.others.lock().unwrap();
                let others = others.as_mut().expect("they hold something");
                while others.take(1 << 10).is_ok() {}
            }
            1..=30 => buffer.put_slice(b"y"),
            31 => buffer.put_slice(b"\n"),
            _ => {}
        }
        self.piece += 1;
        std::task::Poll::Ready(Ok(()))
    }
}

/// It is the gateway that does not read, so the sender is not late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_waits_for_room_is_not_late() {
    let store = in_memory();
    let server =
        Server::open(options(vec![support::stream("syslog", &store)]), support::runtime()).await.unwrap();
    let stream = server.gate().streams().next().unwrap().clone();
    let others = Arc::new(Mutex::new(Some(server.gate().hold(&stream))));
    let sink = Sink {
        gate: server.gate(),
        stream,
        message_bytes_max: 4_000,
        message_time_max: Duration::from_millis(500),
        transport: "tcp",
    };
    let (_stopping, asked) = watch::channel(false);
    let receiving = tcp::receive(Crowded { others: others.clone(), piece: 0 }, "peer", sink, asked);
    let leaving = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(others.lock().unwrap().take());
    };
    tokio::join!(receiving, leaving);
    let found = found(&store).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0]["message"].as_str().unwrap().len(), &found[0]["truncated"]), (1_530, &json!(false)));
}

/// Thousands of connections rest at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_rests_leaves_the_room_to_others() {
    let store = in_memory();
    let server =
        Server::open(options(vec![support::stream("syslog", &store)]), support::runtime()).await.unwrap();
    let (gate, stream) = (server.gate(), server.gate().streams().next().unwrap().clone());
    let sink = Sink {
        gate: gate.clone(),
        stream,
        message_bytes_max: 60_000,
        message_time_max: NEVER,
        transport: "tcp",
    };
    let (mut client, served) = tokio::io::duplex(1 << 20);
    let (_stopping, asked) = watch::channel(false);
    let receiving = tokio::spawn(tcp::receive(served, "peer", sink, asked));
    for (count, bytes) in [(1, 10_000), (2, 5)] {
        client.write_all(format!("<14>{}\n", "x".repeat(bytes)).as_bytes()).await.unwrap();
        let found = wait_for(&store, count).await;
        assert_eq!(found[count - 1]["message"].as_str().map(str::len), Some(bytes));
        let given_back = async {
            while gate.held_bytes() > 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(NEVER, given_back).await.expect("it rests");
    }
    drop(client);
    receiving.await.unwrap();
}

async fn begin(source: &DirectSource, at: u128) -> Box<dyn Reader> {
    let from = ReadFrom {
        partition: Partition::new("syslog", 0),
        identity: String::new(),
        next: at,
        leader_epoch: dataflow::block::NO_LEADER_EPOCH,
    };
    source.read(vec![from]).await.expect("it can be read")
}

async fn next_block(reader: &mut Box<dyn Reader>) -> RecordBlock {
    let block = async {
        loop {
            if let Event::Block(block) = reader.next().await.expect("it goes on") {
                return block;
            }
        }
    };
    tokio::time::timeout(NEVER, block).await.expect("messages come")
}

/// Nobody sends a message again, so what a pipeline has dropped when it was opened again comes to it once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_a_pipeline_was_handed_and_did_not_seal_are_handed_to_it_again() {
    let direct = Direct::new("syslog");
    let fills = Fills::Pipeline(direct.clone());
    let streams = vec![StreamOptions { fills, ..support::stream("syslog", &in_memory()) }];
    let server = Server::open(options(streams), support::runtime()).await.unwrap();
    let stream = server.gate().streams().next().unwrap().clone();
    let sink = Sink {
        gate: server.gate(),
        stream,
        message_bytes_max: 1_000,
        message_time_max: NEVER,
        transport: "tcp",
    };
    let mut feeder = feeder::Feeder::new(sink);
    let source = DirectSource::new(direct.clone());
    let frame = |bytes| frames::Frame { bytes, is_cut: false };
    let mut reader = begin(&source, 0).await;
    feeder.push(frame(b"<14>kept"), "peer").expect("there is room");
    feeder.start();
    next_block(&mut reader).await;
    // The lane begins again where its journal stands, twice.
    for _ in 0..2 {
        reader = begin(&source, 0).await;
        let block = next_block(&mut reader).await;
        let record: Value = serde_json::from_slice(block.payloads.get(0)).unwrap();
        assert_eq!((block.len(), &record["message"]), (1, &json!("kept")));
    }
    source.sealed(&[(Partition::new("syslog", 0), 1)]);
    tokio::time::timeout(NEVER, feeder.appended()).await.expect("it is sealed");
    feeder.push(frame(b"<14>late"), "peer").expect("there is room");
    feeder.start();
    next_block(&mut reader).await;
    // A pipeline that takes no more gets nothing again.
    direct.close();
    let _reader = begin(&source, 1).await;
    tokio::time::timeout(NEVER, feeder.finish()).await.expect("it waits for nothing");
    assert!(server.gate().held_bytes() == 0, "nothing is held");
}

#[test]
fn what_the_kernel_dropped_is_read_from_its_table() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n \
                 801: 0100007F:1F40 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4711 2 0000000000000000 12\n \
                 802: 0100007F:1F41 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4712 2 0000000000000000 0\n";
    assert_eq!(udp::drops_of(table, 4711), Some(12));
    assert_eq!(udp::drops_of(table, 4712), Some(0));
    assert_eq!(udp::drops_of(table, 1), None);
}
