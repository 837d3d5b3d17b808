use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array};

use super::*;

fn rows(len: usize) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..len as i32));
    RecordBatch::try_from_iter([("n", numbers)]).unwrap()
}

fn ends(selected: &Selected) -> Vec<(u32, u32)> {
    selected.stretches().iter().map(|stretch| (stretch.start, stretch.end)).collect()
}

#[test]
fn all_rows_are_one_stretch() {
    let all = Selected::all(rows(7));
    assert!(all.is_all() && all.len() == 7);
    assert_eq!(ends(&all), [(0, 7)]);
    assert_eq!(all.gather(&[1, 2, 3, 4, 5, 6, 7]), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn stretches_are_what_lies_between_the_rows_that_are_gone() {
    type Case<'a> = (&'a [usize], &'a [(u32, u32)]);
    let cases: [Case<'_>; 6] = [
        (&[0], &[(1, 7)]),
        (&[6], &[(0, 6)]),
        (&[3], &[(0, 3), (4, 7)]),
        (&[0, 2, 3, 6], &[(1, 2), (4, 6)]),
        (&[1, 2, 3, 4, 5], &[(0, 1), (6, 7)]),
        (&[0, 1, 2, 3, 4, 5, 6], &[]),
    ];
    for (dropped, stretches) in cases {
        let selected = Selected::without(rows(7), dropped);
        assert_eq!(ends(&selected), stretches, "without {dropped:?}");
        let left: Vec<usize> = (0..7).filter(|n| !dropped.contains(n)).collect();
        let numbers: Vec<usize> = (0..7).collect();
        assert_eq!(selected.gather(&numbers), left);
        assert_eq!(selected.of(&numbers).copied().collect::<Vec<_>>(), left);
        assert_eq!((selected.len(), selected.is_empty()), (left.len(), left.is_empty()));
        assert!(!selected.is_all());
        assert_eq!(*selected.batch(), rows(7), "nothing is moved");
    }
}

#[test]
fn of_no_rows_all_go_on() {
    let none = Selected::all(rows(0));
    assert!(none.is_all() && none.is_empty() && none.stretches().is_empty());
}
