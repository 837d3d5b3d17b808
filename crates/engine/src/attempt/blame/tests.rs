use super::*;

/// What a server says of rows in this order: the place of the first bad one.
fn said(order: Option<&[u32]>, rows: u32, is_bad: impl Fn(u32) -> bool) -> Option<u64> {
    let place = match order {
        Some(order) => order.iter().position(|row| is_bad(*row)),
        None => (0..rows).position(is_bad),
    };
    place.map(|at| at as u64)
}

#[test]
fn every_bad_row_is_named_once_each_attempt_and_then_the_rows_are_parted() {
    for bad in [&[0][..], &[6], &[0, 1, 2, 3, 4, 5, 6], &[2, 3, 6], &[1, 5]] {
        let (mut blame, mut attempts) = (Blame::default(), 0);
        loop {
            attempts += 1;
            let at = said(blame.order(7), 7, |row| bad.contains(&row)).expect("one is bad");
            if !blame.name(at, 7, 100) {
                break;
            }
        }
        let rows: Vec<usize> = bad.iter().map(|row| *row as usize).collect();
        assert_eq!((blame.rows(), attempts), (rows, bad.len() + 1));
    }
}

#[test]
fn a_server_that_names_what_is_not_there_is_not_asked_again() {
    let mut blame = Blame::default();
    assert!(!blame.name(7, 7, 1) && !blame.name(u64::MAX, 7, 1));
    assert_eq!((blame.rows(), blame.order(7)), (vec![], None));
    assert!(blame.name(3, 7, 1));
    assert_eq!(blame.order(7), Some(&[0, 1, 2, 4, 5, 6, 3][..]));
    assert!(!blame.name(7, 7, 1));
    // The order of the piece was sent in between, as where its rows are in doubt.
    blame.as_it_is();
    assert!(!blame.name(3, 7, 1));
    assert_eq!(blame.rows(), [3]);
}

#[test]
fn large_pieces_are_parted_after_a_few_attempts_and_many_rows_in_several_splits() {
    let mut large = Blame::default();
    let named = (0..).take_while(|at| large.name(*at, 1 << 20, 16 << 20)).count();
    assert_eq!((named, large.rows().len()), (3, 4));
    let mut many = Blame::default();
    let named = (0..).take_while(|at| many.name(*at, 1 << 20, 1)).count();
    assert!(2 * (named + 1) < protocol::lane::PIECES_MAX, "{named}");
}
