use super::*;

#[test]
fn a_pipeline_has_caught_up_when_no_old_row_is_missing() {
    let outage = Outage { after: Duration::from_secs(10), time: Duration::from_secs(20) };
    let count = |answered: u64, rows: u64| Count { answered: Duration::from_secs(answered), rows };
    // 100 rows a second, 6,000 in all.
    let counts = [count(9, 850), count(32, 1_000), count(36, 3_200), count(40, 3_700), count(50, 4_800)];
    assert_eq!(outage.caught_up(&counts, 100, 6_000), Some(Duration::from_secs(10)));
    assert_eq!(outage.caught_up(&counts[..3], 100, 6_000), None);
    // All rows there are: nothing more can come.
    assert_eq!(outage.caught_up(&[count(90, 6_000)], 100, 6_000), Some(Duration::from_secs(60)));
}
