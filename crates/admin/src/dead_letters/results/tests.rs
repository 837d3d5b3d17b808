use super::*;

#[test]
fn every_outcome_has_its_word() {
    let outcomes = [
        Outcome::Sealed(Fate::Written),
        Outcome::Sealed(Fate::Duplicate),
        Outcome::Sealed(Fate::Filtered),
        Outcome::Sealed(Fate::Late),
        Outcome::DeadLetter(Failure::default()),
        Outcome::OnItsWay,
        Outcome::Waiting,
        Outcome::Forgotten,
    ];
    let words: Vec<&str> = outcomes.iter().map(Outcome::word).collect();
    assert_eq!(
        words,
        ["written", "duplicate", "filtered", "late", "dead_letter", "sealed", "waiting", "unknown"]
    );
}

#[test]
fn a_row_is_written_once_its_insert_is_settled_and_a_dead_letter_once_it_is_refused() {
    use protocol::lane::{PartitionState, TableState};
    use protocol::record::{Fates, Forgotten, Unsettled};

    let table = |name: &str, frontier| TableState {
        name: name.into(),
        frontier,
        window: 4,
        next_ordinal: 4,
        ..TableState::default()
    };
    let unsettled = |from, next, table| Unsettled { from, next, table, frontier: 4 };
    let mut lane = Lane::new();
    lane.partitions.push(PartitionState {
        input: 0,
        stream: STREAM.into(),
        index: 0,
        identity: String::new(),
        next: 8,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    });
    lane.tables = vec![table("d.t", 3), table("d.letters", 3)];
    assert_eq!(outcome(&lane, "d.letters", 7), Outcome::Forgotten);
    let unsettled = vec![unsettled(6, 8, 0), unsettled(4, 8, 1)];
    lane.fates = vec![Fates { partition: 0, from: 4, codes: vec![1, 5, 1, 3], unsettled }];
    let told: Vec<&str> = (4..9).map(|position| outcome(&lane, "d.letters", position).word()).collect();
    assert_eq!(told, ["written", "dead_letter", "sealed", "duplicate", "waiting"]);
    // The input that carries the log is forgotten, and comes back.
    lane.forgotten.insert(0, Forgotten { partition: 0, from_start: false, at_ms: 1 });
    assert_eq!(outcome(&lane, "d.letters", 7).word(), "duplicate");
    lane.partitions.push(PartitionState { next: 9, ..lane.partitions[0].clone() });
    assert_eq!(outcome(&lane, "d.letters", 7).word(), "duplicate");
    assert_eq!(outcome(&lane, "d.letters", 9).word(), "waiting");
}
