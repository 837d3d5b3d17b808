use protocol::lane::{Piece, TableState};
use protocol::record::{Frame, Made, StateFile};
use store::MemoryStore;

use super::*;

fn piece(segment: &str, made: Option<Made>) -> Piece {
    Piece {
        frame: Frame { rows: 3, len: 1, made: made.map(Box::new), ..Frame::default() },
        piece: 0,
        generation: 0,
        segment: segment.to_owned(),
        server: None,
        dead: false,
        sealed_at_ms: 0,
        question: None,
        verdict: None,
        settled: false,
        first_row: 0,
        layout: None,
    }
}

fn lane(pieces: Vec<Piece>) -> Lane {
    Lane { tables: vec![TableState { pending: [pieces].into(), ..TableState::default() }], ..Lane::new() }
}

#[tokio::test]
async fn a_frame_that_a_start_makes_again_of_its_records_need_not_be_in_the_store() {
    let store = MemoryStore::default();
    let mut found = Found { json: json!({}), ..Found::default() };
    let unwritten = lane(vec![piece("p/lane-0/segments/a", Some(Made::default()))]);
    assert_eq!(waiting(Some(&store), "p/lane-0", &unwritten, &mut found).await, (1, 3));
    assert_eq!(found.problems, []);
    let lost = lane(vec![piece("p/lane-0/segments/b", None)]);
    assert_eq!(waiting(Some(&store), "p/lane-0", &lost, &mut found).await, (1, 3));
    let [lost] = &found.problems[..] else { panic!("one is missing: {:?}", found.problems) };
    assert_eq!((lost.path.as_str(), lost.exit), ("store", Exit::Person));
    assert!(lost.message.contains("p/lane-0/segments/b"), "{}", lost.message);
}

#[test]
fn a_segment_that_a_running_process_has_settled_and_deleted_is_not_missing() {
    let then = lane(vec![piece("a", None)]);
    assert!(!is_settled_since(&then, &then, "a"), "nobody has gone on");
    let waits = Lane { next_seq: 9, ..then.clone() };
    assert!(!is_settled_since(&then, &waits, "a"));
    let settled =
        Lane { next_seq: 9, ..lane(vec![Piece { settled: true, ..piece("a", None) }, piece("b", None)]) };
    assert!(is_settled_since(&then, &settled, "a"));
    assert!(!is_settled_since(&then, &settled, "b"));
}

#[test]
fn state_that_a_running_process_has_replaced_is_not_missing() {
    let file = |object: &str| StateFile { step: 0, object: object.to_owned(), len: 1 };
    let then = Lane { files: vec![file("a")], ..Lane::new() };
    assert!(!has_other_state(&then, &then), "nobody has gone on");
    assert!(!has_other_state(&then, &Lane { next_seq: 9, ..then.clone() }), "it is still needed");
    assert!(has_other_state(&then, &Lane { next_seq: 9, files: vec![file("b")], ..Lane::new() }));
}
