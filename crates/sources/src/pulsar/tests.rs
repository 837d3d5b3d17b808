use super::connection::Lost;
use super::*;

#[test]
fn a_start_refuses_a_partition_only_once_many_answers_in_a_row_lack_it() {
    type Looked = Result<BTreeMap<String, Topic>, Lacks>;
    let topics = |partitions| -> Looked {
        Ok(BTreeMap::from([("a/b/c".to_owned(), Topic { is_partitioned: true, partitions })]))
    };
    let from = [ReadFrom {
        partition: Partition::new("a/b/c", 1),
        identity: String::new(),
        next: 0,
        leader_epoch: NO_LEADER_EPOCH,
    }];
    // Answers of this kind until the look of this number, and then a whole one.
    let start = |answer: &dyn Fn() -> Looked, whole_at: u32| {
        let (mut looks, pauses) = (0_u32, std::cell::Cell::new(0_u32));
        let started = settled(
            |time| {
                assert_eq!(time, LOOK_AGAIN_AFTER);
                pauses.set(pauses.get() + 1);
            },
            || {
                looks += 1;
                Ok(fitting(if looks < whole_at { answer() } else { topics(2) }, &from))
            },
        );
        (started.map(drop).map_err(|error| (error.fault, error.message)), looks, pauses.get())
    };
    let behind = || topics(1);
    let unknown = || -> Looked { Err(Lacks("a/b/c".into())) };
    assert_eq!(start(&behind, 1), (Ok(()), 1, 0));
    assert_eq!(start(&behind, LOOKS_MAX), (Ok(()), LOOKS_MAX, LOOKS_MAX - 1));
    assert_eq!(start(&unknown, 3), (Ok(()), 3, 2));
    let lacking: [(&dyn Fn() -> Looked, &str); 2] =
        [(&behind, "no partition `1`"), (&unknown, "does not exist")];
    for (answer, says) in lacking {
        let (Err((fault, message)), LOOKS_MAX, _) = start(answer, u32::MAX) else { panic!("{says}") };
        assert!(fault == SourceFault::Refused && message.contains(says), "{message}");
    }
}

#[test]
fn a_partition_that_cannot_be_acknowledged_leaves_the_others_alone() {
    let all = || {
        let one = |index| {
            let entry = place::Entry { ledger: 7, entry: 3 };
            (Partition::new("a/b/c", index), format!("a/b/c-partition-{index}"), entry)
        };
        (0..5).map(one)
    };
    let asked = |answer: &dyn Fn(&str) -> Result<(), Unanswered>| {
        let asked = std::cell::Cell::new(0);
        let done = acknowledge(all(), |name, _| {
            asked.set(asked.get() + 1);
            answer(name)
        });
        (asked.get(), done.map_err(|error| error.partition))
    };
    assert_eq!(asked(&|_| Ok(())), (5, Ok(())));
    // Another consumer has the subscription of two partitions.
    let refused = |name: &str| match name {
        "a/b/c-partition-1" | "a/b/c-partition-3" => Err(Unanswered::Trouble(Trouble::Moved("busy".into()))),
        _ => Ok(()),
    };
    assert_eq!(asked(&refused), (5, Err(Some(Partition::new("a/b/c", 1)))), "the first one is reported");
    let silent = |_: &str| -> Result<(), Unanswered> {
        let lost = Lost::Failed { address: "h:1".into(), why: "no answer".into() };
        Err(Unanswered::Lost(lost))
    };
    assert_eq!(asked(&silent), (1, Err(Some(Partition::new("a/b/c", 0)))), "it is not waited for five times");
}
