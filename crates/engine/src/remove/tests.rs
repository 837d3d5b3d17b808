use protocol::lane::Renamed;

use super::*;

#[test]
fn a_reset_is_behind_all_letters_of_the_journal_though_their_clock_was_ahead() {
    let lane = Lane { newest_ms: 500, ..Lane::new() };
    let told = |lane: &Lane, now_ms| before(lane, 7, now_ms);
    assert_eq!(told(&lane, 100), Before { until_ms: 501, replays_from: 7, letters_from_ms: 0 });
    assert_eq!(told(&lane, 900).until_ms, 901);
    // Those under a name that the pipeline has left are of its new name.
    let renamed = Lane { renamed: Some(Renamed { to: "q".into(), is_done: true }), ..lane };
    assert_eq!(told(&renamed, 100).letters_from_ms, 501);
}
