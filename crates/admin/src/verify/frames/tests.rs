use protocol::lane::{Piece, TableState};
use protocol::record::Frame;

use super::*;

#[test]
fn a_frame_has_its_rows_or_is_missing_or_has_fewer_or_more() {
    let expected = BTreeMap::from([(1, 10), (2, 10), (3, 10), (4, 10), (5, 10)]);
    let found = BTreeMap::from([(1, 10), (2, 9), (4, 11), (9, 3)]);
    let frames = judge(&expected, &found, 1);
    let named = |kind: &(u64, Vec<FrameRows>)| -> Vec<(String, u64)> {
        kind.1.iter().map(|f| (f.frame[31..].to_owned(), f.rows)).collect()
    };
    assert_eq!((frames.known, frames.missing.0, frames.fewer.0, frames.more.0), (5, 2, 1, 1));
    assert_eq!(named(&frames.missing), [("3".to_owned(), 0)], "as many as are asked for");
    assert_eq!(named(&frames.fewer), [("2".to_owned(), 9)]);
    assert_eq!(named(&frames.more), [("4".to_owned(), 11)]);
    assert!(!frames.are_right() && judge(&expected, &expected, 1).are_right());
}

fn piece(id: u8) -> Piece {
    Piece {
        frame: Frame { id: vec![id; 16], rows: 3, ..Frame::default() },
        piece: 0,
        generation: 0,
        segment: "s".into(),
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

#[test]
fn a_frame_that_was_settled_before_an_earlier_one_counts_as_settled() {
    let waits = piece(1);
    let settled = Piece { settled: true, ..piece(2) };
    let split = Piece { dead: true, ..piece(3) };
    let of_split = split.id();
    let pending = [vec![waits.clone()], vec![settled], vec![split]].into();
    let lane = Lane {
        tables: vec![TableState { name: "d.t".into(), pending, ..TableState::default() }],
        ..Lane::new()
    };
    assert_eq!(live(&lane, "d.t"), BTreeMap::from([(waits.id(), 3)]));
    assert_eq!(dead(&lane, "d.t").collect::<Vec<_>>(), [of_split]);
    assert_eq!(crate::pipelines::in_flight(&lane), (1, 3));
}
