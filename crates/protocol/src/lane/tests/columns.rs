//! The columns that frames were made for.

use super::*;

fn layout(number: u32, names: &[&str]) -> Layout {
    let column = |name: &&str| crate::record::LayoutColumn { name: (*name).into(), ..Default::default() };
    Layout { table: 0, number, columns: names.iter().map(column).collect() }
}

fn seal_of(from: u64, ordinal: u64, number: u32, layouts: Vec<Layout>) -> Body {
    let mut seal = Seal { layouts, ..seal(from, from + 10, &[ordinal]) };
    seal.frames[0].layout = number;
    Body::Seal(seal)
}

#[test]
fn a_frame_names_columns_that_a_record_says_once() {
    let mut w = Writer::new();
    assert_eq!(rule(w.push(seal_of(10, 0, 1, vec![]))), "C3");
    assert_eq!(rule(w.push(seal_of(10, 0, 0, vec![layout(0, &["a"])]))), "C3");
    w.push(seal_of(10, 0, 1, vec![layout(1, &["a"])])).expect("said with it");
    assert_eq!(rule(w.push(seal_of(20, 1, 1, vec![layout(1, &["b"])]))), "C3");
    w.push(seal_of(20, 1, 1, vec![])).expect("said before");
    let columns = layout(0, &["a", "b"]).columns;
    assert_eq!(w.lane.tables[0].number_layout(0, &layout(0, &["a"]).columns), (1, None));
    let (number, new) = w.lane.tables[0].number_layout(0, &columns);
    assert_eq!((number, new.as_ref().map(|l| l.number)), (2, Some(2)));
    assert_eq!(w.lane.tables[0].number_layout(0, &[]), (0, None));
}

#[test]
fn columns_are_kept_for_frames_that_wait_and_for_the_newest_and_go_through_a_checkpoint() {
    let mut w = Writer::new();
    w.push(seal_of(10, 0, 1, vec![layout(1, &["a"])])).expect("sealed");
    w.push(seal_of(20, 1, 2, vec![layout(2, &["a", "b"])])).expect("sealed");
    // The first frame goes on in other columns; its old ones are needed until it is settled.
    let pieces = vec![Frame { table: 0, id: vec![1; 16], len: 4, rows: 10, layout: 3, ..Default::default() }];
    let layouts = vec![layout(3, &["a", "c"])];
    let split = Split { table: 0, ordinal: 0, piece: 0, segment: "h".into(), pieces, layouts };
    w.push(Body::Split(split)).expect("split");
    let numbers = |lane: &Lane| lane.tables[0].layouts.iter().map(|l| l.number).collect::<Vec<_>>();
    let live = |lane: &Lane| lane.tables[0].live_layouts().iter().map(|l| l.number).collect::<Vec<_>>();
    assert_eq!((numbers(&w.lane), live(&w.lane)), (vec![1, 2, 3], vec![2, 3]));
    let back = Lane::from_image(&w.lane.image(0));
    assert_eq!(back.tables, w.lane.tables);
    assert_eq!(back.tables[0].pending[0][1].layout.as_ref().map(|l| l.columns.len()), Some(2));
    let settled = Settle {
        settled: vec![Frontier { table: 0, frontier: 2, window: 2, sent_below: None }],
        ..Default::default()
    };
    w.push(Body::Settle(settled)).expect("settled");
    assert_eq!((numbers(&w.lane), live(&w.lane)), (vec![2], vec![]));
    assert_eq!(w.lane.tables[0].newest_layout().map(|l| l.columns.len()), Some(2));
}
