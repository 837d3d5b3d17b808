use protocol::lane::PartitionState;
use protocol::record::Before;

use super::*;

#[test]
fn behind_a_reset_only_records_that_were_replayed_since_count() {
    let mut lane = Lane::new();
    assert_eq!(replayed(&lane), 0);
    lane.partitions.push(PartitionState {
        input: 0,
        stream: replays::STREAM.into(),
        index: 0,
        identity: String::new(),
        next: 1_003,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    });
    assert_eq!(replayed(&lane), 1_003);
    // The pipeline before it has replayed 1,000.
    lane.before = Before { until_ms: 70, replays_from: 1_000, ..Before::default() };
    assert_eq!(replayed(&lane), 3);
}
