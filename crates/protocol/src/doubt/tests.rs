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
        ..Server::default()
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
        asked: None,
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
fn a_token_that_certainly_stands_is_resent_once_no_attempt_runs_any_more() {
    assert_eq!(decide(&facts()), Decision::EndAttempts);
    assert_eq!(decide(&Facts { alive: Some(2), ..facts() }), Decision::EndAttempts);
    let ended = Facts { alive: Some(0), ..facts() };
    assert_eq!(decide(&ended), Decision::Resend);
    // A start that is told to the second may wobble.
    let wobble = Facts { now: server(1_500, 70_000, 110), ..ended };
    assert_eq!(decide(&wobble), Decision::Resend);
}

const MEMORY: Memory = Memory { tokens: 100, age_ms_max: 60_000 };

#[test]
fn a_decision_to_send_again_lapses_with_the_facts_that_it_rests_on() {
    let since = server(0, 60_000, 100);
    let other = Server { table_uuid: "other".into(), ..server(0, 70_000, 100) };
    let view = Server { view_blocks: vec![1], ..server(0, 70_000, 100) };
    for (now, of_token, of_absence) in [
        (server(0, 70_000, 149), None, None),
        (server(0, 70_000, 150), Some(Lapse::TokensUsed), Some(Lapse::TokensUsed)),
        (server(0, 70_000, 99), Some(Lapse::TokensUsed), Some(Lapse::TokensUsed)),
        (view, Some(Lapse::TokensUsed), Some(Lapse::TokensUsed)),
        (server(0, 89_999, 100), None, None),
        (server(0, 90_000, 100), Some(Lapse::TooOld), Some(Lapse::TooOld)),
        (other, Some(Lapse::OtherTable), Some(Lapse::OtherTable)),
        // A restart takes no token of a frame that was looked for in vain, and brings none of its rows.
        (server(65_000, 70_000, 100), Some(Lapse::OtherRun), None),
    ] {
        assert_eq!(lapse(Basis::Token, &since, &now, MEMORY), of_token, "{now:?}");
        assert_eq!(lapse(Basis::Absence, &since, &now, MEMORY), of_absence, "{now:?}");
    }
}

/// Whatever lapses at the gate is not decided again: the two never disagree, or a frame would be sent for ever in vain.
#[test]
fn what_the_gate_holds_back_is_not_resent_by_the_next_decision() {
    for block in [100, 149, 150, 99] {
        for seen_ms in [70_000, 89_999, 90_000] {
            for start_ms in [0, 1_500, 65_000] {
                let now = server(start_ms, seen_ms, block);
                let facts = Facts { now: now.clone(), token_age_ms_max: 60_000, alive: Some(0), ..facts() };
                let before = facts.before.clone().expect("it was seen");
                let is_held = lapse(Basis::Token, &before, &now, MEMORY).is_some();
                assert_eq!(decide(&facts) == Decision::Resend, !is_held, "{now:?}");
            }
        }
    }
}

#[test]
fn tokens_are_bounded_by_what_each_block_may_cost() {
    let of =
        |per_block, seen_ms, block| Server { tokens_per_block_max: per_block, ..server(0, seen_ms, block) };
    let with =
        |before, now, blocks: u64| tokens_since(&of(before, 60_000, 100), &of(now, 70_000, 100 + blocks));
    assert_eq!(with(1, 1, 10), Some(10), "one token a block");
    assert_eq!(with(2, 2, 10), Some(20), "two hashes of each");
    assert_eq!(with(u64::MAX, u64::MAX, 10), None, "nothing bounds them");
    assert_eq!(with(u64::MAX, u64::MAX, 0), Some(0), "no block, no token");
    assert_eq!(with(1 << 40, 1, 1 << 30), Some(u64::MAX), "more than there are numbers for");
    // A bound that changes in between counts at its larger value; one that was not recorded at the other's.
    assert_eq!(with(2, 1, 10), Some(20));
    assert_eq!(with(1, 2, 10), Some(20));
    assert_eq!(with(0, 2, 10), Some(20));
    assert_eq!(with(u64::MAX, 1, 10), None);
    assert_eq!(with(1, u64::MAX, 10), None);
}

#[test]
fn an_insert_must_end_within_half_of_a_tokens_age() {
    assert_eq!(insert_time_ms_max(u64::MAX, 10_000), u64::MAX);
    assert_eq!(insert_time_ms_max(3_600_000, 10_000), 1_790_000);
    assert_eq!(insert_time_ms_max(10_000, 10_000), 0);
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
        asked: Some(StopReason::ViewsUnknown),
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

/// An operator may have brought the rows, or deleted them, and not recorded the answer: the token stands as it did before.
#[test]
fn what_a_person_was_asked_to_mend_is_never_resent_although_the_token_stands() {
    let view = StopReason::ViewsUnknown;
    for asked in StopReason::ALL {
        let facts = |views, found| {
            let asked = Facts { asked: Some(asked), alive: Some(0), found, ..facts() };
            decide(&with_views(views, asked))
        };
        if asked == StopReason::TableChanged {
            assert_eq!(facts(true, None), Decision::Resend, "nothing is brought or deleted for it");
            continue;
        }
        assert_eq!(facts(true, None), Decision::Probe);
        assert_eq!(facts(true, Some(Found::All)), Decision::Stop(view));
        // The question stays what it was.
        assert_eq!(facts(true, Some(Found::Part)), Decision::Stop(asked));
        assert_eq!(facts(true, Some(Found::CannotTell)), Decision::Stop(asked));
        // A refusal for the content changes nothing of that.
        let refused = Facts { asked: Some(asked), alive: Some(0), refused: true, ..self::facts() };
        assert_eq!(decide(&with_views(true, refused)), Decision::Probe);
        if asked == StopReason::CannotTell {
            assert_eq!(
                facts(false, None),
                Decision::Resend,
                "without views nothing is brought or deleted for it"
            );
            continue;
        }
        assert_eq!(facts(false, Some(Found::All)), Decision::Settle);
        // The token must stand before there is another.
        assert_eq!(facts(false, Some(Found::None)), Decision::Confirm);
    }
}
