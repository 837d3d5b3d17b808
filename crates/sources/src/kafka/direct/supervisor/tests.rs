use dataflow::block::NO_LEADER_EPOCH;

use super::super::plan;
use super::*;
use crate::kafka::config::Role;
use crate::queue::channel;
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

#[test]
fn a_position_is_not_out_of_range_because_a_replaced_leader_lacks_it() {
    let options = KafkaOptions::new(vec!["127.0.0.1:9".into()], vec!["t".into()], "g");
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let (events, _received) = channel(1 << 20);
    let (reports, messages) = mpsc::channel();
    let mut supervisor = Supervisor {
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
