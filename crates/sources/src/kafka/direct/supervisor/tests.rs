use dataflow::block::NO_LEADER_EPOCH;
use futures::FutureExt as _;

use super::super::plan;
use super::*;
use crate::kafka::config::Role;
use crate::queue::{Receiver, channel};
use crate::test_runtime::TestRuntime;

const ID: [u8; 16] = [7; 16];

fn slot() -> Slot {
    let from = ReadFrom {
        partition: Partition::new("t", 0),
        identity: "id".into(),
        next: 5,
        leader_epoch: NO_LEADER_EPOCH,
    };
    Slot::new(from, 1 << 20)
}

fn leader(epoch: i32, address: &str) -> Leader {
    Leader { topic: ID, partition: 0, epoch, address: address.into() }
}

/// One that has placed nothing yet, and what it reports to.
fn supervisor() -> (Supervisor, Receiver<Result<Event, SourceError>>) {
    let options = KafkaOptions::new(vec!["127.0.0.1:9".into()], vec!["t".into()], "g");
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let (events, received) = channel(1 << 20);
    let (reports, messages) = mpsc::channel();
    let supervisor = Supervisor {
        plan: Arc::new(plan(&options).expect("directly")),
        look: Arc::new(Client::new(&options, Role::Look, runtime.clone()).expect("a client")),
        options,
        runtime,
        events,
        messages,
        reports,
        waiting: Vec::new(),
        read: BTreeMap::new(),
        known: BTreeSet::new(),
        paused: BTreeSet::new(),
        leaving: BTreeSet::new(),
        brokers: BTreeMap::new(),
        placed: BTreeMap::new(),
        leaders: Known::default(),
        opened: None,
        look_at: Duration::ZERO,
        misses: 0,
        away_reported: None,
    };
    (supervisor, received)
}

#[test]
fn a_position_is_not_out_of_range_because_a_replaced_leader_lacks_it() {
    let (mut supervisor, _received) = supervisor();
    let out_of_range = || Trouble::OutOfRange("offset out of range (error 1)".into());
    let place = |supervisor: &mut Supervisor, address: &str| {
        supervisor.placed.insert(Partition::new("t", 0), (ID, address.to_owned()));
    };
    place(&mut supervisor, "old:1");
    assert_eq!(supervisor.judged(&slot(), out_of_range()), out_of_range(), "no other leader is known");
    // It was read from the newer leader, whose connection was lost; who is asked meanwhile names the old one, which lacks the newest records.
    supervisor.leaders.learn(leader(6, "new:1"));
    supervisor.leaders.refute(ID, 0, "new:1");
    let back = Message::Back { slot: Box::new(slot()), trouble: out_of_range() };
    assert!(supervisor.take(back).is_ok(), "it goes on");
    assert_eq!(supervisor.waiting.len(), 1, "the leader is looked for again");
    assert!(supervisor.placed.is_empty());
    // What the newest leader says is believed, also when its connection was lost before.
    place(&mut supervisor, "new:1");
    assert_eq!(supervisor.judged(&slot(), out_of_range()), out_of_range());
    supervisor.leaders.learn(leader(7, "third:1"));
    place(&mut supervisor, "third:1");
    assert_eq!(supervisor.judged(&slot(), out_of_range()), out_of_range());
}

#[test]
fn a_topic_of_kafka_is_another_only_once_many_answers_in_a_row_say_so() {
    let (mut supervisor, _received) = supervisor();
    let recorded = "BwcHBwcHBwcHBwcHBwcHBw";
    let from = ReadFrom { identity: recorded.into(), ..slot().from };
    supervisor.known.insert(from.partition.clone());
    supervisor.read.insert(from.partition.clone(), from);
    let answer = |id: &str| {
        let topic = Topic { id: id.into(), partitions: vec![0], leaders: BTreeMap::new() };
        BTreeMap::from([("t".to_owned(), topic)])
    };
    for _ in 0..2 {
        // A broker that is cut off names the id from before the topic was made anew; then another one is asked.
        for miss in 1..MISSES_MAX {
            assert!(supervisor.seen(&answer("CAgICAgICAgICAgICAgICA")).is_ok(), "{miss}");
        }
        assert!(supervisor.seen(&answer(recorded)).is_ok());
    }
    for miss in 1..MISSES_MAX {
        assert!(supervisor.seen(&answer("CAgICAgICAgICAgICAgICA")).is_ok(), "{miss}");
    }
    let again = supervisor.seen(&answer("CAgICAgICAgICAgICAgICA"));
    let Err(Stop::Failed(error)) = again else { panic!("it is another one") };
    assert_eq!(error.fault, SourceFault::Refused);
    assert!(error.message.contains("made anew"), "{error}");
}

#[test]
fn a_reading_of_kafka_is_not_let_in_only_once_many_answers_in_a_row_say_so() {
    let (mut supervisor, _received) = supervisor();
    let (never_let_in, mut slot) = (slot(), slot());
    let mut denies = |slot: Slot| {
        let denied = Trouble::Denied("not authorized to read the topic (error 29)".into());
        supervisor.back(slot, denied).map(|()| supervisor.waiting.pop().expect("it is placed again"))
    };
    let Err(Stop::Failed(error)) = denies(never_let_in) else { panic!("it is a mistake") };
    assert_eq!(error.fault, SourceFault::Config);
    slot.let_in();
    for _ in 0..2 {
        for _ in 1..slot::DENIED_MAX {
            let Ok(again) = denies(slot) else { panic!("it may pass") };
            slot = again;
        }
        // An answer with records, or without.
        slot.let_in();
    }
    for _ in 1..slot::DENIED_MAX {
        let Ok(again) = denies(slot) else { panic!("it may pass") };
        slot = again;
    }
    let Err(Stop::Failed(error)) = denies(slot) else { panic!("it is so") };
    assert_eq!(error.fault, SourceFault::Config);
    assert!(error.message.starts_with("kafka refuses: `t/0`: not authorized"), "{error}");
}

#[test]
fn that_a_broker_is_away_is_not_said_again_before_it_was_heard() {
    let (mut supervisor, mut received) = supervisor();
    for outage in 0..2 {
        for _ in 0..3 {
            // So long ago that it is due.
            supervisor.away_reported = None;
            assert!(supervisor.away(format!("outage {outage}")).is_ok());
        }
        let Some(Some(Err(error))) = received.recv().now_or_never() else { panic!("it is said") };
        assert_eq!(error.message, format!("outage {outage}"));
        assert!(received.recv().now_or_never().is_none(), "once");
    }
}

#[test]
fn a_reading_of_kafka_ends_too_where_we_may_not_look_at_the_topic_either() {
    let (mut supervisor, _received) = supervisor();
    let refused = || SourceError::new(SourceFault::Config, "kafka: cannot describe the topics");
    // A password that is on its way to all brokers.
    supervisor.waiting.push(slot());
    for look in 0..2 * slot::DENIED_MAX {
        assert!(supervisor.not_described(refused()).is_ok(), "{look}");
    }
    supervisor.waiting[0].let_in();
    for look in 0..2 * slot::DENIED_MAX {
        assert!(supervisor.not_described(refused()).is_ok(), "{look}");
    }
    // The right to read is taken away, and with it the one to look.
    let denied = Trouble::Denied("not authorized to read the topic (error 29)".into());
    let slot = supervisor.waiting.pop().expect("it waits");
    assert!(supervisor.back(slot, denied).is_ok(), "it may pass");
    for look in 2..slot::DENIED_MAX {
        assert!(supervisor.not_described(refused()).is_ok(), "{look}");
    }
    let away = SourceError::new(SourceFault::Away, "kafka: no answer");
    assert!(supervisor.not_described(away).is_ok(), "that says nothing");
    let Err(Stop::Failed(error)) = supervisor.not_described(refused()) else { panic!("it is so") };
    assert_eq!(error.fault, SourceFault::Config);
}
