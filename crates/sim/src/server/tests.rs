use bytes::Bytes;

use super::*;

/// A request that has come to its gate, for a token that was sent before.
fn half(token: &str, since_us: u64) -> Insert {
    Insert {
        place: 0,
        pid: 1,
        token: token.into(),
        query_id: format!("{token}-a1"),
        body: Bytes::new(),
        since_us,
        run: 0,
        carried: 0,
        node: 0,
        has_time: false,
        is_late: false,
        ends_us: u64::MAX,
    }
}

#[test]
fn others_wait_for_a_request_at_its_gate_no_longer_than_the_server_waits_for_its_rest() {
    let plan = Plan { replicas: 1, tokens_per_block: 1, token_age_ms: None, ..Plan::new(0) };
    let mut server = Server::new(&plan);
    let since_us = 1_000_000;
    server.remember(0, "frame".into(), since_us);
    assert!(server.begin(&half("frame", since_us), since_us, false, since_us));
    server.at_gate("frame-a1");
    // Its owner dies here: neither the rest nor another request ever comes.
    let mut insert = |us: u64| server.others_insert(0, 1_000, false, us);
    assert!(insert(since_us) < 1_000, "they would push out the token that the gate is asked about");
    assert_eq!(insert(since_us + TAIL_US_MAX - 1), 0);
    assert_eq!(insert(since_us + TAIL_US_MAX), 1_000);
}
