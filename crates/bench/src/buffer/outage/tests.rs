use super::*;

fn count(answered_s: u64, rows: u64) -> Count {
    Count { answered: Duration::from_secs(answered_s), rows }
}

/// An outage from the tenth to the thirtieth second; 100 rows a second, 6,000 in all.
const END: Duration = Duration::from_secs(30);

#[test]
fn a_pipeline_has_caught_up_when_no_old_row_is_missing() {
    let time = |counts: &[Count]| caught_up(counts, END, 100, 6_000).map(|caught_up| caught_up.time);
    let counts = [count(9, 850), count(32, 1_000), count(36, 3_200), count(40, 3_700), count(50, 4_800)];
    assert_eq!(time(&counts), Some(Duration::from_secs(10)));
    assert_eq!(time(&counts[..3]), None);
    // All rows there are: nothing more can come.
    assert_eq!(time(&[count(90, 6_000)]), Some(Duration::from_secs(60)));
}

#[test]
fn the_rate_of_catching_up_is_of_the_rows_that_came_after_the_end() {
    let counts = [count(9, 850), count(32, 1_000), count(40, 3_850), count(50, 4_800)];
    let caught_up =
        caught_up(&counts, END, 100, 6_000).expect("nothing old is missing in the fortieth second");
    assert_eq!(caught_up.rows_per_s, 300.0);
}
