use std::sync::Arc;

use dataflow::position;
use protocol::lane::TableState;
use store::{Key, MemoryStore, Store};

use super::super::tests::{log, partition, replay};
use super::*;

/// A lane that has read the log up to `next`, with a table that is sealed and settled so far.
fn lane(next: u64, next_ordinal: u64, frontier: u64) -> Lane {
    let mut lane = Lane::new();
    lane.partitions.push(partition(next));
    lane.tables.push(TableState {
        name: "d.t".into(),
        frontier,
        window: 1,
        next_ordinal,
        ..TableState::default()
    });
    lane
}

fn letter(position: u64) -> Letter {
    Letter::at("events", 0, position)
}

#[tokio::test]
async fn what_was_taken_is_known_by_place() {
    let log = log();
    assert_eq!(log.memory(0).await.expect("an empty log").end, 0);
    log.append(&replay(0, [7, 9], 1)).await.expect("a put");
    log.append(&replay(2, [8, 9], 2)).await.expect("a put");
    let memory = log.memory(0).await.expect("a sound log");
    assert_eq!((memory.end, memory.taken.count()), (4, 3));
    assert_eq!((memory.place(&letter(9)), memory.place(&letter(8))), (Some(3), Some(2)));
    assert!(!memory.taken.holds(&letter(10)));
    assert_eq!(
        log.memory(90).await.expect("a sound log").end,
        90,
        "a lane is never asked to read a position twice"
    );
}

#[tokio::test]
async fn objects_go_once_they_are_read_and_settled_and_what_they_took_stays_known() {
    let log = log();
    for n in 0..OBJECTS_PER_SNAPSHOT as u64 {
        log.append(&replay(n, [100 + n], 1)).await.expect("a put");
    }
    let held = async || log.begins().await.expect("names").len();
    let retire = async |lane: &Lane| {
        let memory = log.memory(8).await.expect("a sound log");
        log.retire(&memory, lane).await.expect("retires");
        let known = log.memory(8).await.expect("a sound log");
        assert_eq!((known.taken.count(), known.end), (8, 8), "nothing is forgotten");
    };
    retire(&lane(7, 50, 40)).await;
    assert_eq!(log.numbers("replayed").await.expect("names").len(), 0, "one record is not read yet");
    retire(&lane(8, 50, 40)).await;
    assert_eq!(log.numbers("replayed").await.expect("names"), [8]);
    assert_eq!(held().await, 8, "the step that makes the snapshot deletes nothing");
    retire(&lane(8, 60, 49)).await;
    assert_eq!(held().await, 8, "a frame that was sealed by then is not settled");
    retire(&lane(8, 60, 50)).await;
    assert_eq!(log.begins().await.expect("names"), [7], "the newest object always stays");
    assert!(log.memory(8).await.expect("a sound log").taken.holds(&letter(100)));
}

#[tokio::test]
async fn of_older_snapshots_none_stays() {
    let log = log();
    let all = OBJECTS_PER_SNAPSHOT as u64;
    for round in 0..3 {
        for n in round * all..(round + 1) * all {
            log.append(&replay(n, [n], 1)).await.expect("a put");
        }
        let lane = lane((round + 1) * all, 0, 0);
        for _ in 0..2 {
            let memory = log.memory(position::low(lane.partitions[0].next)).await.expect("a sound log");
            log.retire(&memory, &lane).await.expect("retires");
        }
    }
    assert_eq!(log.numbers("replayed").await.expect("names"), [3 * all]);
    assert_eq!(log.begins().await.expect("names"), [3 * all - 1]);
    assert_eq!(log.memory(0).await.expect("a sound log").taken.count(), 3 * all);
}

/// A log whose objects below 8 are retired, but for the newest.
async fn retired() -> (Log, Lane) {
    let log = log();
    for n in 0..OBJECTS_PER_SNAPSHOT as u64 {
        assert!(log.append(&replay(n, [100 + n], 1)).await.expect("a put"));
    }
    let lane = lane(8, 50, 50);
    for _ in 0..2 {
        let memory = log.memory(8).await.expect("a sound log");
        log.retire(&memory, &lane).await.expect("retires");
    }
    assert_eq!(log.begins().await.expect("names"), [7]);
    (log, lane)
}

#[tokio::test]
async fn a_replay_that_slept_through_a_retirement_is_put_where_the_lane_reads_it() {
    let (log, lane) = retired().await;
    // It looked when the log ended at 3, and its place is free again.
    assert!(!log.append(&replay(3, [500, 501], 2)).await.expect("an answer"), "nobody would ever read it");
    assert_eq!(log.begins().await.expect("names"), [7], "and nothing of it is left");
    let memory = log.memory(3).await.expect("a sound log");
    assert_eq!(memory.end, position::low(lane.partitions[0].next));
    assert!(!memory.taken.holds(&letter(500)), "so it is taken now");
    assert!(log.append(&replay(memory.end, [500, 501], 2)).await.expect("a put"));
    assert_eq!(log.memory(8).await.expect("a sound log").place(&letter(501)), Some(9));
}

#[tokio::test]
async fn what_a_writer_left_at_a_retired_place_has_taken_nothing() {
    let (log, lane) = retired().await;
    // Put, and the writer died before it looked: it reaches beyond where the lane stands.
    let stale = replay(3, 500..510, 2);
    log.store.put_if_absent(&log.key("replays", 3), vec![stale.to_bytes().into()]).await.expect("a put");
    let memory = log.memory(8).await.expect("a sound log");
    assert_eq!((memory.end, memory.taken.count()), (8, 8));
    assert_eq!((memory.taken.holds(&letter(500)), memory.place(&letter(500))), (false, None));
    assert_eq!(memory.place(&letter(107)), Some(7), "the newest is known by place");
    assert!(log.append(&replay(8, [500], 3)).await.expect("a put"));
    let memory = log.memory(8).await.expect("a sound log");
    assert_eq!((memory.end, memory.place(&letter(500))), (9, Some(8)));
    log.retire(&memory, &lane).await.expect("retires");
}

#[tokio::test]
async fn no_replay_is_put_behind_one_that_has_vanished() {
    let store = Arc::new(MemoryStore::default());
    let log = Log::new(store.clone(), "p/lane-0");
    log.append(&replay(0, [7, 9], 1)).await.expect("a put");
    let memory = log.memory(0).await.expect("a sound log");
    // It was not durable, and the power fails before this writer goes on.
    store.delete(&Key::new("p/lane-0/replays/00000000000000000000").expect("a key")).await.expect("gone");
    let behind = replay(memory.end, [8], 2);
    assert!(!log.append_behind(&memory, &behind).await.expect("an answer"));
    let empty = log.memory(0).await.expect("an empty log");
    assert_eq!(empty.end, 0, "its place is filled first");
    assert!(log.append_behind(&empty, &replay(0, [8], 2)).await.expect("a put"));
    assert!(
        !log.append_behind(&memory, &behind).await.expect("an answer"),
        "what stands there now it has not seen"
    );
}
