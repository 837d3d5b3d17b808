use super::*;

fn counts() -> Counts {
    Counts { read: 10, written: 6, filtered: 1, duplicates: 1, dead_letters: 1, late: 1 }
}

#[test]
fn a_cut_whose_frames_hold_other_rows_than_it_counts_is_not_sealed() {
    let of = |counts: &Counts, refused, frames: &[(usize, u64)]| {
        check(7, counts, refused, frames.iter().copied()).map_err(|violation| violation.rule)
    };
    assert_eq!(of(&counts(), 0, &[(0, 4), (1, 1), (0, 2)]), Ok(()));
    assert_eq!(
        of(&counts(), 2, &[(0, 6), (1, 3)]),
        Ok(()),
        "refused rows are dead letters of earlier records"
    );
    assert_eq!(of(&counts(), 0, &[(0, 5), (1, 1)]), Err("C9"), "a row is lost");
    assert_eq!(of(&counts(), 0, &[(0, 6)]), Err("C9"), "a dead letter is lost");
    assert_eq!(of(&counts(), 1, &[(0, 6), (1, 1)]), Err("C9"), "a refused row is lost");
    assert_eq!(of(&Counts { read: 11, ..counts() }, 0, &[(0, 6), (1, 1)]), Err("C9"), "a record is lost");
}
