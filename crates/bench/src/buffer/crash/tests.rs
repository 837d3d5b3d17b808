use super::*;
use crate::visible::Count;

#[test]
fn kills_are_spread_over_the_time_of_sending_and_the_last_one_leaves_time() {
    let seconds = |kills| -> Vec<u64> {
        moments(kills, Duration::from_secs(60)).iter().map(Duration::as_secs).collect()
    };
    assert_eq!(seconds(4), [12, 24, 36, 48]);
    assert_eq!(seconds(3), [15, 30, 45]);
}

#[test]
fn each_part_has_the_longest_time_from_a_start_of_its_own_to_caught_up() {
    let mut counts = Counts::begun_at(Instant::now());
    let second = Duration::from_secs;
    // 100 rows a second; nothing comes from the tenth second to the twentieth.
    for (answered, rows) in [(5, 480), (10, 900), (20, 1_700), (25, 2_400), (30, 2_990)] {
        counts.add((second(answered), Count { answered: second(answered), rows }));
    }
    let crash = |part, back_s| Crash { kill: Kill { part, stage: Stage::Request }, back: second(back_s) };
    let crashes = [crash(Part::Gateway, 11), crash(Part::Store, 26), crash(Part::Gateway, 13)];
    let mut figures = Figures::default();
    put(&crashes, &counts, 100, 3_000, &mut figures);
    assert_eq!(figures.get(Part::Gateway.caught_up()), Some(9.0));
    assert_eq!(figures.get(Part::Store.caught_up()), Some(4.0));
    assert_eq!(figures.get(Part::Pipeline.caught_up()), None);
}

#[test]
fn a_port_to_come_back_to_is_none_that_connections_get() {
    // Other tests look for ports too, and one of them may be faster.
    let (port, _taken) = loop {
        let port = free_port().expect("one is free");
        if let Ok(taken) = TcpListener::bind(("127.0.0.1", port)) {
            break (port, taken);
        }
    };
    assert!((20_000..30_000).contains(&port));
    assert_ne!(free_port().expect("another is free"), port);
}
