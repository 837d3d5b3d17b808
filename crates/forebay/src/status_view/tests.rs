use std::time::Duration;

use dataflow::Effect;
use engine::problem::{Noticed, State};
use engine::status::{PartitionStatus, TableStatus};
use engine::turns::Turns;
use protocol::record::Counts;

use super::*;

fn view(change: impl FnOnce(&mut Snapshot)) -> LaneView {
    let status = Arc::new(Status::default());
    status.update(change);
    let store = "s3://bucket/p".parse().expect("a store");
    LaneView { pipeline: "p".into(), store, known: OnceLock::new(), status }
}

#[test]
fn a_lane_is_ready_while_it_runs() {
    for (phase, is_ready) in [
        (Phase::Starting, false),
        (Phase::Running, true),
        (Phase::Paused, true),
        (Phase::Draining, false),
        (Phase::Stopped, false),
    ] {
        let ready = view(|s| s.phase = phase).ready();
        assert_eq!(ready.is_ok(), is_ready, "{phase:?}");
        if let Err(why) = ready {
            assert_eq!(why, phase.as_str());
        }
    }
}

#[test]
fn a_lane_is_not_ready_while_rows_cannot_flow_and_says_every_reason() {
    for state in State::ALL {
        for place in ["d.t", problem::SOURCE, problem::STORE] {
            let lane = view(|s| s.phase = Phase::Running);
            assert_eq!(lane.ready(), Ok(()));
            lane.status.met(place, state, "the words", Effect::None, Noticed::Inserting, 1);
            let why = lane.ready().expect_err("it waits");
            let expected = format!("{place}: {}: the words; way out: {}", state.word(), state.remedy());
            assert_eq!(why, expected);
            lane.status.ended(place, Noticed::Inserting);
            assert_eq!(lane.ready(), Ok(()));
        }
    }
    let lane = view(|_| {});
    for (place, state) in [("d.t", State::ServerAway), (problem::STORE, State::StoreFull)] {
        lane.status.met(place, state, "x", Effect::None, Noticed::Asking, 1);
    }
    let why = lane.ready().expect_err("it waits");
    let lines: Vec<&str> = why.lines().collect();
    assert_eq!(lines.len(), 3, "{why}");
    assert_eq!(lines[0], "starting");
    assert!(
        lines[1].starts_with("d.t: server_away: ") && lines[2].starts_with("store: store_full: "),
        "{why}"
    );
}

#[test]
fn a_reason_stays_on_its_line_with_its_way_out_whatever_a_server_says() {
    let lane = view(|s| s.phase = Phase::Running);
    lane.status.met("d.t", State::ServerAway, "a\nd.u: b", Effect::None, Noticed::Asking, 1);
    let expected = format!("d.t: server_away: a\\nd.u: b; way out: {}", State::ServerAway.remedy());
    assert_eq!(lane.ready(), Err(expected));
}

#[test]
fn read_does_not_count_replayed_records() {
    let status = view(|s| {
        s.sealed.records = Counts { read: 12, passed: 10, dead_letters: 2, ..Counts::default() };
        s.unsealed.records = Counts { read: 4, passed: 4, ..Counts::default() };
        s.partitions.insert(
            "t/0".into(),
            PartitionStatus { next: 13, sealed: 10, end: None, behind: None, expired: 0 },
        );
        s.partitions.insert(
            "@replays/0".into(),
            PartitionStatus { next: 1_003, sealed: 1_002, end: None, behind: None, expired: 0 },
        );
        // Those in front of it were replayed before a reset.
        s.replays_from = 1_000;
    })
    .status();
    assert_eq!((&status["sealed"]["read"], &status["sealed"]["replayed"]), (&json!(10), &json!(2)));
    assert_eq!((&status["unsealed"]["read"], &status["unsealed"]["replayed"]), (&json!(3), &json!(1)));
    assert_eq!(status["accounts_add_up"], true, "both together are the sum of the others");
}

#[test]
fn what_is_not_known_is_null_and_not_zero() {
    let status = view(|_| {}).status();
    assert_eq!((&status["lag"], &status["watermark_ms"]), (&Value::Null, &Value::Null));
    let partition = PartitionStatus { next: 5, sealed: 3, end: None, behind: None, expired: 0 };
    let status = view(|s| s.partitions = [("t/0".into(), partition)].into()).status();
    assert_eq!((&status["lag"], &status["partitions"]["t/0"]["lag"]), (&Value::Null, &Value::Null));
}

#[test]
fn numbers_and_problems_are_shown() {
    let mut often = Turns::default();
    (often.times, often.is_told) = (4, true);
    let status = view(|s| {
        s.partitions.insert(
            "t/0".into(),
            PartitionStatus { next: 5, sealed: 3, end: Some(9), behind: None, expired: 0 },
        );
        s.partitions.insert(
            "t/1".into(),
            PartitionStatus { next: 9, sealed: 9, end: Some(9), behind: None, expired: 0 },
        );
        s.tables.insert(
            "d.t".into(),
            TableStatus {
                rows_sealed: 10,
                rows_settled: 7,
                rows_refused: 2,
                tokens: Some(Budget {
                    remembered: 100,
                    used_per_s: Some(10.0),
                    used_per_s_max: 50.0 * 1_000.0 / 190_000.0,
                    memory_ms: 10_000,
                    trusted_ms: 5_000,
                    needed_ms: 190_000,
                    is_scarce: true,
                }),
                turns: often,
                ..TableStatus::default()
            },
        );
        let (missing, _) =
            problem::met(None, State::TableMissing, "no such table", Effect::None, Noticed::Inserting, 5);
        s.problems.insert("d.t".into(), missing);
        s.sealed.records.duplicates = 2;
        s.dead_letters.insert("malformed", 1);
        s.watermark_ms = 0;
        s.cpu.insert("decode", Duration::from_millis(1_500));
    })
    .status();
    assert_eq!(status["lag"], 6);
    assert_eq!(status["tables"]["d.t"]["rows_settled"], 7);
    assert_eq!(status["in_flight_rows"], 1, "a refused row is not on its way to the table");
    assert_eq!(status["tables"]["d.t"]["problem"], "no such table");
    assert_eq!(status["tables"]["d.t"]["reopened"], 4);
    assert_eq!(status["tables"]["d.t"]["servers_differ"], turns::WORDS);
    let problem = &status["problems"][0];
    assert_eq!((&problem["place"], &problem["state"]), (&json!("d.t"), &json!("table_missing")));
    assert_eq!((&problem["effect"], &problem["since_ms"]), (&json!("none"), &json!(5)));
    let tokens = &status["tables"]["d.t"]["tokens"];
    assert_eq!((&tokens["used_per_s"], &tokens["memory_s"]), (&json!(10.0), &json!(10.0)));
    assert_eq!(tokens["is_bounded"], true);
    assert_eq!((&tokens["needed_s"], &tokens["is_scarce"]), (&json!(190.0), &json!(true)));
    assert_eq!(status["sealed"]["duplicates"], 2);
    assert_eq!(status["dead_letters_by_reason"]["malformed"], 1);
    assert_eq!(status["watermark_ms"], 0);
    assert_eq!(status["cpu_s"], json!({ "decode": 1.5 }));
}

#[test]
fn status_tells_the_store_from_others_and_does_not_show_it() {
    let status = view(|_| {}).status();
    let store = status["store"].as_str().expect("it is known by its address");
    assert_eq!(Some(store), running::store(&"s3://bucket/p/".parse().expect("a store")).as_deref());
    assert!(!status.to_string().contains("bucket"), "{status}");
}
