use super::super::lead::LACKS_MAX;
use super::*;
use crate::queue::{Receiver, channel};
use crate::test_runtime::TestRuntime;

/// One that reads two partitions, which nobody serves.
fn supervisor() -> (Supervisor, Receiver<Result<Event, SourceError>>) {
    let names = ["a/b/c".to_owned()];
    let options = Arc::new(PulsarOptions::new("pulsar://127.0.0.1:9", &names, "s").expect("options"));
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
