use super::*;

fn count(at_ms: u64, rows: u64) -> Count {
    Count { answered: Duration::from_millis(at_ms), rows }
}

fn of(rows: &[u64]) -> Vec<Insert> {
    rows.iter().map(|rows| Insert { rows: *rows, not_before: Duration::ZERO }).collect()
}

fn moments_ms(rows: &[u64], counts: &[Count]) -> Vec<u128> {
    moments(&of(rows), counts).expect("the counts fit").iter().map(Duration::as_millis).collect()
}

#[test]
fn inserts_that_appear_in_order_have_the_time_of_the_first_count_with_them() {
    let counts = [count(1, 0), count(10, 5), count(20, 5), count(30, 12)];
    assert_eq!(moments_ms(&[5, 3, 4], &counts), [10, 30, 30]);
}

#[test]
fn one_that_overtakes_another_is_told_by_its_rows() {
    assert_eq!(moments_ms(&[5, 3, 4], &[count(10, 3), count(20, 8), count(30, 12)]), [20, 10, 30]);
}

#[test]
fn one_larger_than_those_before_it_does_not_make_them_visible() {
    assert_eq!(moments_ms(&[5, 9, 4], &[count(10, 9), count(20, 14), count(30, 18)]), [20, 10, 30]);
}

#[test]
fn many_may_appear_between_two_counts() {
    let inserts = [7_u64; 40];
    let seen = moments_ms(&inserts, &[count(10, 7), count(20, 280)]);
    assert_eq!((seen[0], seen[1], seen[39]), (10, 20, 20));
}

#[test]
fn counts_that_no_inserts_give_are_an_error() {
    assert!(moments(&of(&[5, 3]), &[count(10, 4)]).is_err(), "half an insert");
    assert!(moments(&of(&[5, 3]), &[count(10, 5)]).is_err(), "one was never seen");
    assert!(moments(&of(&[5]), &[count(10, 5), count(20, 4)]).is_err(), "rows went away");
}

#[test]
fn of_two_inserts_of_one_size_the_one_that_had_not_begun_is_not_the_one_that_appeared() {
    let begun = |rows, ms| Insert { rows, not_before: Duration::from_millis(ms) };
    // The second was sealed later, but the server began with it earlier.
    let inserts = [begun(5, 15), begun(5, 8), begun(3, 30)];
    let seen = moments(&inserts, &[count(10, 5), count(20, 10), count(40, 13)]).expect("the counts fit");
    assert_eq!(seen.iter().map(Duration::as_millis).collect::<Vec<_>>(), [20, 10, 40]);
    assert!(moments(&inserts[..1], &[count(10, 5)]).is_err(), "nothing that had begun was there");
}
