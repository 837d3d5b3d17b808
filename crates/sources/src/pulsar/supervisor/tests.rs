use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;

use super::super::frame::{self, Frame};
use super::super::lead::LACKS_MAX;
use super::super::messages::{self, Connected, Kind, LOOKUP_CONNECT, LookupResponse, PROTOCOL_VERSION};
use super::*;
use crate::queue::{Receiver, channel};
use crate::test_runtime::TestRuntime;

/// One that reads two partitions, which nobody serves.
fn supervisor() -> (Supervisor, Receiver<Result<Event, SourceError>>) {
    supervisor_of("pulsar://127.0.0.1:9")
}

/// The same with another service.
fn supervisor_of(service: &str) -> (Supervisor, Receiver<Result<Event, SourceError>>) {
    let names = ["a/b/c".to_owned()];
    let options = Arc::new(PulsarOptions::new(service, &names, "s").expect("options"));
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let (events, received) = channel(1 << 20);
    let (reports, messages) = mpsc::channel();
    let partitions: BTreeSet<Partition> = (0..2).map(|index| Partition::new("a/b/c", index)).collect();
    let supervisor = Supervisor {
        client: Arc::new(Client::new(options.clone(), runtime.clone())),
        options,
        runtime,
        events,
        messages,
        reports,
        waiting: Vec::new(),
        read: partitions.clone(),
        known: partitions,
        asked: 0,
        paused: BTreeSet::new(),
        leaving: BTreeSet::new(),
        ensured: BTreeSet::new(),
        brokers: BTreeMap::new(),
        placed: BTreeMap::new(),
        look_at: Duration::ZERO,
        misses: 0,
        away_reported: None,
    };
    (supervisor, received)
}

#[test]
fn a_partition_is_gone_only_once_many_answers_in_a_row_lack_it() {
    let (mut supervisor, _received) = supervisor();
    let answer =
        |partitions| BTreeMap::from([("a/b/c".to_owned(), Topic { is_partitioned: true, partitions })]);
    // A broker that is behind, and then knows it.
    for miss in 1..MISSES_MAX {
        assert!(supervisor.seen(&answer(1)).is_ok(), "{miss}");
    }
    assert!(supervisor.seen(&answer(2)).is_ok());
    for (lacking, says) in [(answer(1), "no partition `1`"), (BTreeMap::new(), "was deleted")] {
        supervisor.misses = 0;
        for miss in 1..MISSES_MAX {
            assert!(supervisor.seen(&lacking).is_ok(), "{miss}: {says}");
        }
        let Err(Stop::Failed(error)) = supervisor.seen(&lacking) else { panic!("it goes on: {says}") };
        assert_eq!(error.fault, SourceFault::Refused);
        assert!(error.message.contains(says), "{error}");
    }
}

#[test]
fn new_partitions_whose_broker_is_silent_hold_nothing_up() {
    // It lets itself be connected to, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (mut supervisor, mut received) =
        supervisor_of(&format!("pulsar://{}", silent.local_addr().expect("bound")));
    let topics = BTreeMap::from([("a/b/c".to_owned(), Topic { is_partitioned: true, partitions: 5 })]);
    for _ in 0..2 {
        assert!(supervisor.seen(&topics).is_ok());
        assert_eq!(supervisor.asked, 3, "by one thread, and once");
    }
    assert!(supervisor.messages.try_recv().is_err(), "an answer is waited for elsewhere");
    // One was added meanwhile, one is found, and of one nobody knows where it begins.
    let start = |index| PartitionStart {
        partition: Partition::new("a/b/c", index),
        identity: String::new(),
        next: 0,
        first: 0,
        leader_epoch: NO_LEADER_EPOCH,
    };
    supervisor.known.insert(Partition::new("a/b/c", 2));
    for found in [Some(start(2)), Some(start(3)), None] {
        assert!(supervisor.take(Message::Found(found)).is_ok());
    }
    let Some(Some(Ok(Event::Found(found)))) = received.recv().now_or_never() else { panic!("one is found") };
    assert_eq!(found.partition, Partition::new("a/b/c", 3));
    assert!(received.recv().now_or_never().is_none(), "and no other one");
    assert_eq!(supervisor.asked, 0, "the next look asks about the one that is left");
}

#[test]
fn a_new_partition_that_cannot_be_asked_about_is_asked_about_again() {
    let (mut supervisor, _received) = supervisor();
    let topics = BTreeMap::from([("a/b/c".to_owned(), Topic { is_partitioned: true, partitions: 3 })]);
    for _ in 0..2 {
        assert!(supervisor.seen(&topics).is_ok());
        assert_eq!(supervisor.asked, 1);
        let message = supervisor.messages.recv().expect("a broker that refuses connections");
        assert!(matches!(message, Message::Found(None)));
        assert!(supervisor.take(message).is_ok());
        assert!(!supervisor.known.contains(&Partition::new("a/b/c", 2)));
    }
}

/// A service that names this broker for every topic, and its port.
fn service(broker: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            while answer(&mut socket, broker).is_some() {}
        }
    });
    port
}

/// Answers a question; `None` at the end of the connection.
fn answer(socket: &mut TcpStream, broker: u16) -> Option<()> {
    let mut length = [0; 4];
    socket.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    socket.read_exact(&mut bytes).ok()?;
    let Ok(Frame::Command(asked)) = frame::read(&bytes) else { return None };
    let asked = *asked;
    let lookup_response = asked.lookup.map(|lookup| LookupResponse {
        url: Some(format!("pulsar://127.0.0.1:{broker}")),
        response: Some(LOOKUP_CONNECT),
        request: lookup.request,
        ..LookupResponse::default()
    });
    let connected = asked.connect.map(|_| Connected {
        server_version: "fake".into(),
        protocol_version: Some(PROTOCOL_VERSION),
        ..Connected::default()
    });
    let kind = if connected.is_some() { Kind::Connected } else { Kind::LookupResponse };
    let said = messages::Command { kind: kind as i32, connected, lookup_response, ..Default::default() };
    let mut out = Vec::new();
    frame::write(&mut out, &said);
    socket.write_all(&out).ok()
}

#[test]
fn a_broker_that_does_not_answer_is_asked_about_one_of_its_partitions_at_each_look() {
    let broker = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = broker.local_addr().expect("bound").port();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    std::thread::spawn(move || {
        for socket in broker.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(socket);
        }
    });
    let (mut supervisor, _received) = supervisor_of(&format!("pulsar://127.0.0.1:{}", service(port)));
    let topics = BTreeMap::from([("a/b/c".to_owned(), Topic { is_partitioned: true, partitions: 2 })]);
    let mut first = slot("");
    first.from.partition = Partition::new("a/b/c", 0);
    supervisor.waiting = vec![first, slot("")];
    for look in 1..4 {
        assert!(supervisor.seen(&topics).is_ok());
        assert_eq!(asked.load(Ordering::SeqCst), look);
        assert_eq!(supervisor.waiting.len(), 2, "both are asked for again");
        let next = &supervisor.waiting[0].from.partition;
        assert_eq!(next.index, [0, 1][look % 2], "another one than the one that was not answered");
    }
}

/// Its thread hands a partition back: it is asked for again, or the reading ends with this error.
fn handed_back(
    supervisor: &mut Supervisor,
    slot: Slot,
    trouble: &dyn Fn(String) -> Trouble,
) -> Result<Slot, SourceError> {
    let trouble = trouble("so says a broker".into());
    match supervisor.take(Message::Back { slot: Box::new(slot), trouble }) {
        Ok(()) => Ok(supervisor.waiting.pop().expect("it waits for another try")),
        Err(Stop::Failed(error)) => Err(error),
        Err(Stop::Closed) => panic!("the reader is there"),
    }
}

fn slot(name: &str) -> Slot {
    let from = ReadFrom {
        partition: Partition::new("a/b/c", 1),
        identity: String::new(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    };
    Slot::new(from, name.into(), 1 << 20)
}

#[test]
fn a_partition_that_was_deleted_alone_ends_the_reading_once_many_answers_in_a_row_say_so() {
    let (mut supervisor, _received) = supervisor();
    for (name, way) in [
        ("persistent://a/b/c-partition-1", "`forebay forget FILE --partition a/b/c/1`"),
        ("persistent://a/b/c", "`forebay forget FILE --topic a/b/c`"),
    ] {
        let mut slot = slot(name);
        // A broker that does not know it yet, and then knows it.
        for _ in 1..LACKS_MAX {
            slot = handed_back(&mut supervisor, slot, &Trouble::Missing).expect("it may be behind");
        }
        let mut lead = lead::Lead::new(slot);
        lead.has_consumer();
        let mut slot = lead.slot;
        for _ in 1..LACKS_MAX {
            slot = handed_back(&mut supervisor, slot, &Trouble::Missing).expect("it may be behind");
            slot = handed_back(&mut supervisor, slot, &Trouble::Moved).expect("that says nothing");
        }
        let error = handed_back(&mut supervisor, slot, &Trouble::Missing).err().expect("it was deleted");
        assert_eq!(error.fault, SourceFault::Refused);
        assert!(error.message.contains("was deleted") && error.message.contains(way), "{error}");
    }
}

#[test]
fn what_was_read_is_lost_only_once_many_answers_in_a_row_say_so() {
    let (mut supervisor, _received) = supervisor();
    let mut slot = slot("persistent://a/b/c-partition-1");
    for next in [5, 6] {
        // A broker that was replaced lacks what the newer one gave; more of it is read in between.
        slot.next = next;
        for _ in 1..LACKS_MAX {
            slot = handed_back(&mut supervisor, slot, &Trouble::NotHeld).expect("another may hold it");
        }
    }
    let error = handed_back(&mut supervisor, slot, &Trouble::NotHeld).err().expect("it is lost");
    assert_eq!(error.fault, SourceFault::Refused);
    assert!(error.message.contains("`forebay reset FILE --to earliest --partition a/b/c/1`"), "{error}");
}

#[test]
fn a_reading_is_not_let_in_only_once_many_answers_in_a_row_say_so() {
    let (mut supervisor, _received) = supervisor();
    let mut slot = slot("persistent://a/b/c-partition-1");
    for next in [5, 6] {
        // A broker that cannot look up who may read; more is read in between.
        slot.next = next;
        for _ in 1..LACKS_MAX {
            slot = handed_back(&mut supervisor, slot, &Trouble::Denied).expect("it may be let in again");
        }
    }
    let error = handed_back(&mut supervisor, slot, &Trouble::Denied).err().expect("it is not let in");
    assert_eq!(error.fault, SourceFault::Config);
    assert!(error.message.starts_with("pulsar refuses: `a/b/c/1`: so says a broker"), "{error}");
}
