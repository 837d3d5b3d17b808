use super::*;
use crate::visible::Count;

#[test]
fn kills_are_spread_over_the_time_of_sending_and_the_last_one_leaves_time() {
    let seconds = |parts| -> Vec<u64> {
        moments(parts, Duration::from_secs(60)).iter().map(Duration::as_secs).collect()
    };
    assert_eq!(seconds(4), [12, 24, 36, 48]);
    assert_eq!(seconds(3), [15, 30, 45]);
}

#[test]
fn each_kill_has_the_time_from_its_own_start_to_caught_up() {
    let mut counts = Counts::begun_at(Instant::now());
    let second = Duration::from_secs;
    // 100 rows a second; nothing comes from the tenth second to the twentieth.
    for (answered, rows) in [(5, 480), (10, 900), (20, 1_700), (25, 2_400), (30, 2_990)] {
        counts.add((second(answered), Count { answered: second(answered), rows }));
    }
    let crashes =
        [Crash { part: Part::Gateway, back: second(11) }, Crash { part: Part::Store, back: second(26) }];
    let mut figures = Figures::default();
    put(&crashes, &counts, 100, 3_000, &mut figures);
    assert_eq!(figures.get(Part::Gateway.caught_up()), Some(9.0));
    assert_eq!(figures.get(Part::Store.caught_up()), Some(4.0));
    assert_eq!(figures.get(Part::Pipeline.caught_up()), None);
}

#[test]
fn a_port_to_come_back_to_is_none_that_connections_get() {
    let port = free_port().expect("one is free");
    assert!((20_000..30_000).contains(&port));
    let _taken = TcpListener::bind(("127.0.0.1", port)).expect("it is free");
    assert_ne!(free_port().expect("another is free"), port);
}
