use super::*;

fn server(start_ms: i64, seen_ms: i64, block_number: u64) -> Server {
    Server {
        table: 0,
        start_ms,
        seen_ms,
        server_uuid: "s".into(),
        table_uuid: "t".into(),
        block_number,
        view_blocks: Vec::new(),
    }
}

fn facts() -> Facts {
    Facts {
        before: Some(server(0, 60_000, 100)),
        now: server(0, 70_000, 110),
        token_window: 100,
        token_age_ms_max: u64::MAX,
        found: None,
        alive: None,
        refused: false,
        confirmed: false,
        views_asked: false,
        answer: None,
        accepted: false,
    }
}

fn with_views(views: bool, mut facts: Facts) -> Facts {
    let blocks = if views { vec![7] } else { Vec::new() };
    facts.now.view_blocks.clone_from(&blocks);
    facts.before.iter_mut().for_each(|before| before.view_blocks.clone_from(&blocks));
    facts
}

#[test]
fn a_token_that_certainly_stands_is_resent() {
    assert_eq!(decide(&facts()), Decision::Resend);
    // A start that is told to the second may wobble.
    let wobble = Facts { now: server(1_500, 70_000, 110), ..facts() };
    assert_eq!(decide(&wobble), Decision::Resend);
}

#[test]
fn whatever_may_have_lost_the_token_leads_to_a_look_at_the_rows() {
    let cases = [
        ("the server restarted", Facts { now: server(65_000, 70_000, 110), ..facts() }),
        ("others pushed the token out", Facts { now: server(0, 70_000, 150), ..facts() }),
        ("block numbers began anew", Facts { now: server(0, 70_000, 99), ..facts() }),
        ("the token is too old", Facts { token_age_ms_max: 15_000, ..facts() }),
        ("it was never seen", Facts { before: None, ..facts() }),
        ("it had hardly started when it was seen", Facts { before: Some(server(0, 3_000, 100)), ..facts() }),
    ];
    for (why, facts) in cases {
        assert_eq!(decide(&facts), Decision::EndAttempts, "{why}");
        let alive = Facts { alive: Some(1), ..facts.clone() };
        assert_eq!(decide(&alive), Decision::EndAttempts, "{why}");
        let dead = Facts { alive: Some(0), ..facts };
        assert_eq!(decide(&dead), Decision::Probe, "{why}");
    }
}

#[test]
fn what_was_found_decides() {
    let probed = |found, views| {
        let restarted = server(65_000, 70_000, 110);
        decide(&with_views(views, Facts { now: restarted, alive: Some(0), found: Some(found), ..facts() }))
    };
    assert_eq!(probed(Found::All, false), Decision::Settle);
    assert_eq!(probed(Found::None, false), Decision::Confirm);
    assert_eq!(probed(Found::None, true), Decision::Confirm);
    assert_eq!(probed(Found::All, true), Decision::Stop(StopReason::ViewsUnknown));
    assert_eq!(probed(Found::Part, false), Decision::Stop(StopReason::PartPresent));
    assert_eq!(probed(Found::CannotTell, false), Decision::Stop(StopReason::CannotTell));
}

#[test]
fn a_frame_that_is_refused_in_doubt_is_looked_for_although_its_token_stands() {
    let refused = Facts { refused: true, ..facts() };
    assert_eq!(decide(&refused), Decision::EndAttempts);
    let dead = Facts { alive: Some(0), ..refused };
    assert_eq!(decide(&dead), Decision::Probe);
    let probed = |found, views| decide(&with_views(views, Facts { found: Some(found), ..dead.clone() }));
    assert_eq!(probed(Found::None, false), Decision::NewGeneration);
    assert_eq!(probed(Found::All, false), Decision::Settle);
    // Nothing can be told for certain, and a resend under a token that stands does no harm.
    assert_eq!(probed(Found::All, true), Decision::Resend);
    assert_eq!(probed(Found::CannotTell, false), Decision::Resend);
}

#[test]
fn another_table_of_that_name_is_never_written_with_old_frames() {
    let mut now = server(0, 70_000, 110);
    now.table_uuid = "other".into();
    assert_eq!(decide(&Facts { now, ..facts() }), Decision::Stop(StopReason::TableChanged));
}

#[test]
fn an_absent_frame_gets_a_new_token_only_once_the_old_one_stands_for_certain() {
    let restarted = server(65_000, 70_000, 110);
    let confirmed = |found, views| {
        let now = restarted.clone();
        decide(&with_views(views, Facts { now, alive: Some(0), found, confirmed: true, ..facts() }))
    };
    assert_eq!(confirmed(None, false), Decision::Probe, "what was found before the answer says nothing");
    assert_eq!(confirmed(Some(Found::None), false), Decision::NewGeneration);
    assert_eq!(
        confirmed(Some(Found::None), true),
        Decision::Stop(StopReason::ViewsUnknown),
        "the same answer brought the rows to the views"
    );
    let asked = Facts {
        alive: Some(0),
        found: Some(Found::None),
        views_asked: true,
        now: restarted.clone(),
        ..facts()
    };
    assert_eq!(
        decide(&with_views(true, asked)),
        Decision::Stop(StopReason::ViewsUnknown),
        "an owner that comes later does not know what was confirmed, but what was asked"
    );
    let mut other = restarted.clone();
    other.table_uuid = "other".into();
    let exchanged = |views| {
        let now = other.clone();
        let found = Some(Found::None);
        decide(&with_views(views, Facts { accepted: true, alive: Some(0), found, now, ..facts() }))
    };
    assert_eq!(exchanged(false), Decision::Confirm);
    assert_eq!(
        exchanged(true),
        Decision::Stop(StopReason::ViewsUnknown),
        "the views may have what went with the earlier table"
    );
    assert_eq!(confirmed(Some(Found::All), false), Decision::Settle);
    assert_eq!(
        confirmed(Some(Found::All), true),
        Decision::Settle,
        "a positive answer is one for the views too"
    );
}
