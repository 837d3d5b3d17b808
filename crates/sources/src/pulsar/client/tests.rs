//! A broker in this process, whose clock is not ours.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use prost::Message as _;

use super::super::frame;
use super::super::messages::{
    Connected, Delivery, Last, LookupResponse, Metadata, PROTOCOL_VERSION, Success,
};
use super::*;
use crate::test_runtime::TestRuntime;

struct Fake {
    port: u16,
    /// Of each entry of its one topic.
    published_ms: Vec<i64>,
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

fn answer(fake: &Fake, consumers: &mut BTreeMap<u64, usize>, asked: Command, out: &mut Vec<u8>) {
    let mut say = |kind: Kind, command: Command| frame::write(out, &Command { kind: kind as i32, ..command });
    let success = |request: u64| Command { success: Some(Success { request }), ..Command::default() };
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
    } else if let Some(subscribe) = asked.subscribe {
        let since = |ms: i64| fake.published_ms.iter().take_while(|published| **published < ms).count();
        let first = match (subscribe.age_seconds, subscribe.start) {
            (Some(age), _) => since(fake.runtime.wall_ms() + fake.ahead_ms - age as i64 * 1_000),
            (None, Some(start)) if start.entry != u64::MAX => start.entry as usize,
            (None, _) => 0,
        };
        consumers.insert(subscribe.consumer, first);
        say(Kind::Success, success(subscribe.request));
    } else if let Some(of) = asked.close_consumer {
        say(Kind::Success, success(of.request.unwrap_or_default()));
    } else if let Some(of) = asked.get_last {
        let newest = Some(id(fake.published_ms.len() - 1));
        let last = Last { id: newest, request: of.request.unwrap_or_default(), acknowledged: None };
        say(Kind::GetLastMessageIdResponse, Command { last: Some(last), ..Command::default() });
    } else if let Some(flow) = asked.flow {
        let Some(next) = consumers.get_mut(&flow.consumer) else { return };
        let until = fake.published_ms.len().min(*next + flow.permits as usize);
        for entry in *next..until {
            let delivery = Delivery { consumer: flow.consumer, id: Some(id(entry)) };
            let command =
                Command { kind: Kind::Message as i32, message: Some(delivery), ..Command::default() };
            let publish_time = fake.published_ms[entry] as u64;
            let metadata = Metadata { producer: "p".into(), publish_time, ..Metadata::default() };
            frame::write_entry(out, &command, &metadata.encode_to_vec(), b"x");
        }
        *next = until;
    }
}

#[test]
fn a_start_by_time_steps_over_nothing_if_the_clock_of_the_broker_is_ahead() {
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    // A message every second until 100 seconds ago.
    let base_ms = runtime.wall_ms() - 200_000;
    for ahead_ms in [0, 30_000, -30_000] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let published_ms = (0..100).map(|n| base_ms + 1_000 * n).collect();
        let fake = Fake { port, published_ms, ahead_ms, runtime: runtime.clone() };
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                serve(socket, &fake);
            }
        });
        let service = format!("pulsar://127.0.0.1:{port}");
        let options = PulsarOptions::new(&service, &["a/b/c".to_owned()], "s").expect("options");
        let client = Client::new(Arc::new(options), runtime.clone());
        for n in [50, 1] {
            let start = Start::Time(base_ms + 1_000 * n);
            let Ok((next, first)) = client.range("persistent://a/b/c", start) else { panic!("{ahead_ms}") };
            let entry = |entry| Entry { ledger: 7, entry }.position();
            assert_eq!((next, first), (entry(n as u64), entry(0)), "{ahead_ms} ms ahead");
        }
    }
}
