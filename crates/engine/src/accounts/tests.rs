use super::*;

#[test]
fn a_cut_whose_frames_hold_other_rows_than_were_gathered_is_not_sealed() {
    let of =
        |gathered, in_frames| check(7, "d.t", gathered, 0, in_frames).map_err(|violation| violation.rule);
    assert_eq!((of(6, 6), of(0, 0)), (Ok(()), Ok(())));
    assert_eq!((of(6, 5), of(6, 7)), (Err("C9"), Err("C9")));
}

#[test]
fn a_frame_is_settled_with_all_its_rows_in_the_table_or_refused() {
    let of = |sealed, settled, refused| frame(7, "d.t", 3, sealed, settled, refused).map_err(|v| v.rule);
    assert_eq!((of(5, 5, 0), of(5, 3, 2), of(0, 0, 0)), (Ok(()), Ok(()), Ok(())));
    assert_eq!((of(5, 4, 0), of(5, 5, 1)), (Err("C9"), Err("C9")));
    assert_eq!(of(5, u64::MAX, 6), Err("C9"), "sums have a bound, too");
}

#[test]
fn a_run_that_ends_with_other_rows_than_were_sealed_ends_with_an_error() {
    let ends = |rows_settled, rows_refused, frames_settled| {
        let status = crate::Status::default();
        let table = TableStatus {
            frames_sealed: 4,
            frames_settled,
            rows_sealed: 9,
            rows_settled,
            rows_refused,
            ..Default::default()
        };
        status.update(|s| {
            s.tables.insert("d.t".into(), table);
        });
        at_the_end(7, &status.snapshot()).map_err(|violation| violation.to_string())
    };
    assert_eq!((ends(9, 0, 4), ends(7, 2, 4)), (Ok(()), Ok(())));
    assert_eq!(ends(7, 0, 3), Ok(()), "the rest is in flight");
    let error = ends(8, 0, 4).expect_err("a row is lost");
    assert!(error.contains("C9") && error.contains("`d.t`"), "{error}");
}
