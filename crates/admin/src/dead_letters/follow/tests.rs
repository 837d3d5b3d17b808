use pipeline::replays::STREAM;
use protocol::lane::{PartitionState, TableState};
use store::MemoryStore;

use super::*;

/// The log as the partition of a lane that has read it up to `next`.
fn partition(next: u64) -> PartitionState {
    PartitionState {
        input: 0,
        stream: STREAM.into(),
        index: 0,
        identity: String::new(),
        next: next.into(),
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    }
}

fn follower(next: u64, sealed: u64, settled: u64) -> Follower {
    let mut lane = Lane::new();
    lane.partitions.push(partition(next));
    for name in ["d.t", "d.dead"] {
        lane.tables.push(TableState {
            name: name.into(),
            frontier: settled,
            window: 1,
            next_ordinal: sealed,
            ..TableState::default()
        });
    }
    Follower::new(Arc::new(MemoryStore::default()), "p/lane-0".into(), lane)
}

#[test]
fn a_replay_is_done_when_all_that_was_sealed_with_it_is_settled() {
    let mut follower = follower(4, 10, 7);
    assert_eq!(follower.progress(5), Progress::Reading(4));
    follower.lane.partitions[0].next = 5;
    assert_eq!(follower.progress(5), Progress::Settling(6));
    // What is sealed later is not waited for …
    follower.lane.tables[0].next_ordinal = 90;
    follower.lane.tables[0].frontier = 10;
    assert_eq!(follower.progress(5), Progress::Settling(3));
    // … but for what was sealed while the first was waited for: dead letters of refused rows are among it.
    follower.lane.tables[1].next_ordinal = 11;
    follower.lane.tables[1].frontier = 10;
    assert_eq!(follower.progress(5), Progress::Settling(81));
    follower.lane.tables[0].frontier = 90;
    follower.lane.tables[1].frontier = 11;
    assert_eq!(follower.progress(5), Progress::Done);
}

#[tokio::test]
async fn a_journal_that_does_not_grow_is_no_fault() {
    let mut follower = follower(0, 0, 0);
    for _ in 0..2 * LOOKS_PER_LISTING {
        follower.advance().await.expect("nothing new");
    }
}
