use protocol::record::Frame;

use super::*;
use crate::runtime::TokioRuntime;

#[tokio::test]
async fn the_time_to_wait_is_told_in_full_though_the_clock_that_asked_was_ahead() {
    let runtime = TokioRuntime::new(1);
    let asked_in = |ms: i64| {
        let asked_at_ms = runtime.wall_ms() + ms;
        let piece = Piece {
            frame: Frame::default(),
            piece: 0,
            generation: 0,
            segment: String::new(),
            server: None,
            dead: false,
            sealed_at_ms: 0,
            question: Some(Question { asked_at_ms, ..Question::default() }),
            verdict: None,
            settled: false,
            first_row: 0,
            layout: None,
        };
        let table = TableState { pending: std::iter::once(vec![piece]).collect(), ..TableState::default() };
        let lane = Lane { tables: vec![table], ..Lane::new() };
        let request = Request {
            frames: Vec::new(),
            verdict: Verdict::Absent,
            by: "test".into(),
            take_over: false,
            insert_time_max: Duration::from_secs(60),
        };
        chosen(&lane, &*runtime, &request).map(|questions| questions.len())
    };
    let ahead = asked_in(3_600_000);
    assert!(matches!(ahead, Err(AnswerError::TooEarly { wait_s: 3_600..=3_661 })), "{ahead:?}");
    let just_now = asked_in(0);
    assert!(matches!(just_now, Err(AnswerError::TooEarly { wait_s: 30..=61 })), "{just_now:?}");
    let before = asked_in(-61_000);
    assert!(matches!(before, Ok(1)), "{before:?}");
}
