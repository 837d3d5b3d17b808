use super::*;
use crate::queue::channel;
use crate::test_runtime::TestRuntime;

#[test]
fn a_partition_is_gone_only_once_many_answers_in_a_row_lack_it() {
    let names = ["a/b/c".to_owned()];
    let options = Arc::new(PulsarOptions::new("pulsar://127.0.0.1:9", &names, "s").expect("options"));
    let runtime: Arc<dyn Runtime> = Arc::new(TestRuntime::new());
    let (events, _received) = channel(1 << 20);
    let (reports, messages) = mpsc::channel();
    let partitions: BTreeSet<Partition> = (0..2).map(|index| Partition::new("a/b/c", index)).collect();
    let mut supervisor = Supervisor {
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
