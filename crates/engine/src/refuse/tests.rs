use super::*;

fn ranges(rows: usize, named: &[usize], room: usize) -> Option<Vec<Range<usize>>> {
    Cut::Apart(named.to_vec()).ranges(rows, room)
}

#[test]
fn rows_are_cut_around_those_that_were_named_and_else_into_quarters() {
    assert_eq!(ranges(10, &[0, 3, 4, 9], 100), Some(vec![0..1, 1..3, 3..4, 4..5, 5..9, 9..10]));
    assert_eq!(ranges(3, &[1], 3), Some(vec![0..1, 1..2, 2..3]));
    assert_eq!(ranges(10, &[], 100), Some(vec![0..2, 2..5, 5..7, 7..10]));
    assert_eq!(ranges(2, &[], 100), Some(vec![0..1, 1..2]));
    assert_eq!(ranges(2, &[0, 1], 100), Some(vec![0..1, 1..2]));
    assert_eq!(Cut::Whole.ranges(10, 1), Some(std::iter::once(0..10).collect()));
}

#[test]
fn no_more_pieces_are_made_than_there_is_room_for() {
    for room in 0..12 {
        for named in [&[][..], &[4], &[0, 2, 5, 6, 9], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]] {
            let Some(ranges) = ranges(10, named, room) else {
                assert!(room < 2, "{named:?}: two pieces are enough to go on");
                continue;
            };
            assert!((2..=room).contains(&ranges.len()), "{named:?} and {room}: {ranges:?}");
            assert!(ranges.iter().all(|range| !range.is_empty()), "{ranges:?}");
            assert_eq!(ranges.into_iter().flatten().collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        }
    }
    assert_eq!(Cut::Whole.ranges(10, 0), None);
}
