use super::*;

const S: Duration = Duration::from_secs(1);

const PACE: Pace = Pace { idle_after: Duration::from_secs(10), future_ms_max: 1_000 };

fn two() -> Watermarks {
    let mut w = Watermarks::new(TIME_UNKNOWN_MS);
    w.add(TIME_UNKNOWN_MS, Duration::ZERO, PACE);
    w.add(TIME_UNKNOWN_MS, Duration::ZERO, PACE);
    w
}

#[test]
fn the_slowest_partition_holds_the_watermark() {
    let mut w = two();
    w.observe(0, &[50, 90, 70], 1_000, S);
    assert_eq!(w.advance(S), TIME_UNKNOWN_MS);
    w.observe(1, &[40], 1_000, S);
    assert_eq!(w.advance(S), 40);
    w.observe(1, &[200], 1_000, S);
    assert_eq!(w.advance(S), 90);
}

#[test]
fn an_idle_partition_lets_go_and_a_late_one_does_not_pull_back() {
    let mut w = two();
    w.observe(0, &[90], 1_000, S);
    w.caught_up(1);
    assert_eq!(w.advance(5 * S), TIME_UNKNOWN_MS);
    assert_eq!(w.advance(10 * S), 90);
    assert_eq!(w.idle(10 * S), [1]);
    w.observe(1, &[20], 1_000, 11 * S);
    assert_eq!(w.advance(11 * S), 90);
    assert!(w.idle(11 * S).is_empty());
}

/// Two partitions that were read to their ends, looked at every second until `until`.
fn two_at_their_ends(until: u32, is_reading: impl Fn(u32) -> bool) -> Watermarks {
    let mut w = two();
    for partition in [0, 1] {
        w.observe(partition, &[50], 1_000, S);
        w.caught_up(partition);
    }
    (1..=until).for_each(|second| w.turn(second * S, is_reading(second)));
    w
}

#[test]
fn a_time_in_which_nothing_is_read_is_no_silence() {
    // The spool was full from the third second to the twentieth.
    let mut w = two_at_their_ends(20, |second| !(3..20).contains(&second));
    w.observe(0, &[900], 1_000, 20 * S);
    assert_eq!(w.advance(20 * S), 50, "the other had no chance to be heard");
    (21..=29).for_each(|second| w.turn(second * S, true));
    assert_eq!(w.advance(29 * S), 50, "and has all of its time");
    assert_eq!(w.advance(30 * S), 900);
    // Without that it is silent.
    let mut w = two_at_their_ends(20, |_| true);
    w.observe(0, &[900], 1_000, 20 * S);
    assert_eq!(w.advance(20 * S), 900);
}

#[test]
fn a_lane_that_hung_has_listened_to_nobody() {
    let mut w = two_at_their_ends(2, |_| true);
    w.turn(40 * S, true);
    w.observe(0, &[900], 1_000, 40 * S);
    assert_eq!(w.advance(40 * S), 50);
    // Short breaks under load do not add up to a time in which nobody is ever silent.
    let mut w = two_at_their_ends(2, |_| true);
    (3..40).for_each(|second| w.turn(second * S, second % 2 == 0));
    w.observe(0, &[900], 1_000, 40 * S);
    assert_eq!(w.advance(40 * S), 900);
}

#[test]
fn partitions_of_a_source_that_is_away_hold_the_watermark() {
    let mut w = two_at_their_ends(5, |_| true);
    w.set_away(1, true, 5 * S);
    w.observe(0, &[900], 1_000, 60 * S);
    assert_eq!(w.advance(60 * S), 50);
    w.set_away(1, false, 60 * S);
    assert_eq!((w.advance(69 * S), w.advance(70 * S)), (50, 900));
}

#[test]
fn an_input_that_was_never_open_holds_the_watermark() {
    let mut w = two_at_their_ends(5, |_| true);
    assert_eq!(w.advance(S), 50);
    w.hold(true);
    w.observe(0, &[900], 1_000, 60 * S);
    assert_eq!(w.advance(60 * S), 50);
    w.hold(false);
    assert_eq!(w.advance(60 * S), 900);
}

#[test]
fn a_clock_from_the_future_moves_nothing() {
    let mut w = two();
    w.observe(0, &[100, 9_999_999], 1_000, S);
    w.observe(1, &[100], 1_000, S);
    assert_eq!(w.advance(S), 100);
}

const DAY: i64 = 86_400_000;

/// One partition whose records are of long ago by the wall clock.
fn one() -> Watermarks {
    let mut w = Watermarks::new(TIME_UNKNOWN_MS);
    w.add(TIME_UNKNOWN_MS, Duration::ZERO, PACE);
    w
}

const WALL: i64 = 1_000 * DAY;

#[test]
fn one_record_far_ahead_of_its_partition_moves_nothing_though_it_is_before_the_wall_clock() {
    let mut w = one();
    w.observe(0, &[DAY + 500, 100, 200], WALL, S);
    assert_eq!(w.advance(S), 200, "not even the first one");
    let ahead: Vec<i64> = (300..400).chain([DAY + 500]).chain(400..500).collect();
    w.observe(0, &ahead, WALL, S);
    assert_eq!(w.advance(S), 499);
    (0..40).for_each(|n| w.observe(0, &[500 + n, DAY + n], WALL, S));
    assert_eq!(w.advance(S), 539, "nor do they if every other one is of that clock");
}

#[test]
fn the_clock_follows_when_most_records_are_ahead() {
    let mut w = one();
    w.observe(0, &(0..1_000).collect::<Vec<_>>(), WALL, S);
    assert_eq!(w.advance(S), 999);
    let ahead: Vec<i64> = (DAY..DAY + 1_000).collect();
    w.observe(0, &ahead, WALL, S);
    w.observe(0, &ahead, WALL, S);
    w.observe(0, &ahead, WALL, S);
    assert_eq!(w.advance(S), DAY + 999, "three blocks are most of the newest records");
}

#[test]
fn records_that_stand_close_are_followed_however_far() {
    let mut w = one();
    w.observe(0, &(0..1_000).map(|n| n * 900).collect::<Vec<_>>(), WALL, S);
    assert_eq!(w.advance(S), 999 * 900);
    let mut w = one();
    w.observe(0, &[0], WALL, S);
    (1..200).for_each(|n| w.observe(0, &[n * 5_000], WALL, S));
    assert!(w.advance(S) >= 130 * 5_000, "those that stand far apart a little later");
}

#[test]
fn a_quiet_partition_at_its_end_follows_the_wall_clock_at_once() {
    let mut w = one();
    w.observe(0, &(0..1_000).collect::<Vec<_>>(), 1_000, S);
    w.caught_up(0);
    w.observe(0, &[DAY], DAY + 100, 2 * S);
    assert_eq!(w.advance(2 * S), DAY);
    w.caught_up(0);
    w.observe(0, &[3 * DAY], 2 * DAY, 3 * S);
    assert_eq!(w.advance(3 * S), DAY, "one from the future it does not follow");
}

#[test]
fn senders_whose_clocks_are_all_ahead_do_not_stop_the_watermark() {
    let mut w = one();
    for minute in 0..10 {
        let wall = WALL + minute * 60_000;
        w.observe(0, &[wall + 3_600_000; 100], wall, S);
        assert_eq!(w.advance(S), wall + 1_000);
    }
}

#[test]
fn records_without_a_usable_time_do_not_hold_the_watermark_for_ever() {
    let mut w = two();
    for second in 1..30 {
        w.observe(0, &[i64::from(second)], 1_000, second * S);
        // Rejects, or rows whose time is null: never caught up, and never with a time.
        w.observe(1, &[TIME_UNKNOWN_MS; 3], 1_000, second * S);
        w.observe(1, &[], 1_000, second * S);
        let expected = if second < 11 { TIME_UNKNOWN_MS } else { i64::from(second) };
        assert_eq!(w.advance(second * S), expected, "second {second}");
    }
    w.observe(1, &[500], 1_000, 30 * S);
    assert!(w.idle(30 * S).is_empty(), "one time, and it counts again");
}

/// Two partitions with times, of which the second then yields one record without any, and two more a minute later; its backlog is still to come.
fn untimed_before_an_outage(outage: impl Fn(&mut Watermarks)) -> Watermarks {
    let mut w = two();
    w.observe(0, &[50], 1_000, S);
    w.observe(1, &[50], 1_000, S);
    w.observe(1, &[], 1_000, 2 * S);
    outage(&mut w);
    w.observe(0, &[900], 1_000, 60 * S);
    assert_eq!(w.advance(60 * S), 50, "one record is no time of them");
    w.observe(1, &[], 1_000, 61 * S);
    w
}

#[test]
fn a_record_without_a_time_before_an_outage_leaves_no_partition_out() {
    // Its source was away, or nothing was read at all.
    let mut w = untimed_before_an_outage(|w| w.set_away(1, true, 3 * S));
    assert_eq!(w.advance(61 * S), 50);
    w.set_away(1, false, 62 * S);
    w.observe(1, &[], 1_000, 62 * S);
    assert_eq!(w.advance(62 * S), 50, "it has its time from here on");
    w.observe(1, &[], 1_000, 72 * S);
    assert_eq!(w.advance(72 * S), 900);
    let mut w = untimed_before_an_outage(|w| (2..=60).for_each(|second| w.turn(second * S, second == 60)));
    assert_eq!(w.advance(61 * S), 50);
    // It is only slow: two records in a minute are all that it has, and neither has a time.
    assert_eq!(untimed_before_an_outage(|_| ()).advance(61 * S), 900);
}

#[test]
fn no_partition_falls_silent_once_a_run_reads_no_more() {
    let mut w = two();
    for (partition, time_ms) in [(0, 50), (1, 900)] {
        w.observe(partition, &[time_ms], 1_000, S);
        w.caught_up(partition);
    }
    w.stop(5 * S);
    assert_eq!((w.advance(60 * S), w.idle(60 * S)), (50, vec![]));
    // One that has fallen silent before stays so.
    let mut w = two_at_their_ends(12, |_| true);
    w.observe(0, &[900], 1_000, 12 * S);
    w.stop(12 * S);
    assert_eq!((w.advance(60 * S), w.idle(60 * S)), (900, vec![1]));
}

#[test]
fn the_clock_of_a_forgotten_stream_moves_nothing() {
    let mut w = two();
    w.observe(0, &[50], 1_000, S);
    w.observe(1, &[900], 1_000, S);
    w.forgotten(1);
    w.caught_up(0);
    assert_eq!((w.advance(60 * S), w.idle(60 * S)), (50, vec![0, 1]));
}

#[test]
fn a_partition_waits_only_for_those_that_are_behind() {
    let mut w = two();
    w.observe(0, &[5_000], 10_000, S);
    assert!(!w.is_ahead(0, 100), "the other has shown nothing yet");
    w.observe(1, &[1_000], 10_000, S);
    assert!(w.is_ahead(0, 100) && !w.is_ahead(1, 100) && !w.is_ahead(0, 4_000));
    w.caught_up(1);
    assert!(!w.is_ahead(0, 100), "the other has nothing to read");
}

/// One record every 20 s whose time is five minutes behind the wall clock, as of devices that send what they kept.
fn sparse(w: &mut Watermarks, records: std::ops::Range<u32>) -> i64 {
    let mut time_ms = 0;
    for n in records {
        time_ms = WALL + i64::from(n) * 20_000 - 300_000;
        w.observe(0, &[time_ms], WALL + i64::from(n) * 20_000, n * 20 * S);
        w.caught_up(0);
    }
    time_ms
}

#[test]
fn sparse_records_that_are_older_than_the_wall_clock_are_followed_after_a_few() {
    let mut w = one();
    let newest_ms = sparse(&mut w, 0..40);
    let behind_ms = newest_ms - w.advance(800 * S);
    assert!(behind_ms <= 140_000, "the watermark is {behind_ms} ms behind");

    // With a `future_max` that is longer than the gaps each is followed at once.
    let mut w = Watermarks::new(TIME_UNKNOWN_MS);
    w.add(TIME_UNKNOWN_MS, Duration::ZERO, Pace { future_ms_max: 30_000, ..PACE });
    assert_eq!(sparse(&mut w, 0..3), w.advance(60 * S));
}

#[test]
fn a_wrong_clock_among_sparse_records_moves_nothing() {
    let mut w = one();
    let newest_ms = sparse(&mut w, 0..20);
    // Every other record is of that sender, and it has a burst too.
    for n in 0..20 {
        let now = (400 + n * 10) * S;
        w.observe(0, &[WALL + 300_000 + i64::from(n)], WALL + 400_000, now);
        w.observe(0, &[newest_ms], WALL + 400_000, now + 5 * S);
    }
    for n in 0..10 {
        let now = 700 * S + n * Duration::from_millis(20);
        w.observe(0, &[WALL + 310_000 + i64::from(n)], WALL + 400_000, now);
    }
    assert!(w.advance(800 * S) <= newest_ms);
}

/// Every third record is of now, and most are of what others kept.
#[test]
fn records_of_now_among_most_that_are_late_move_nothing() {
    let mut w = one();
    let mut random = testkit::Lcg::new(7);
    for n in 0..20_000 {
        let (wall, now) = (WALL + i64::from(n) * 1_000, n * S);
        let late_ms = if random.one_in(3) { 0 } else { 300_000 };
        w.observe(0, &[wall - late_ms], wall, now);
        assert!(n < 300 || w.advance(now) <= wall - 200_000, "record {n}");
    }
}

#[test]
fn each_input_has_its_own_pace() {
    let mut w = Watermarks::new(TIME_UNKNOWN_MS);
    w.add(TIME_UNKNOWN_MS, Duration::ZERO, PACE);
    w.add(TIME_UNKNOWN_MS, Duration::ZERO, Pace { idle_after: 100 * S, future_ms_max: 60_000 });
    for partition in [0, 1] {
        w.observe(partition, &[50, 30_000], 100_000, S);
        w.caught_up(partition);
    }
    assert_eq!((w.time_ms_max(0), w.time_ms_max(1)), (50, 30_000));
    assert_eq!((w.idle(20 * S), w.idle(101 * S)), (vec![0], vec![0, 1]));
}
