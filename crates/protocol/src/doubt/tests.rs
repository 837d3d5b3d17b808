use super::*;

fn facts() -> Facts {
    Facts {
        table_before: Some("t".into()),
        table: "t".into(),
        token_stands: true,
        feeds_views: false,
        in_views_alone: false,
        found: None,
        alive: None,
        refused: false,
        confirmed: false,
        asked: None,
        answer: None,
        accepted: false,
    }
}

/// The token may be gone: the server restarted, or others pushed it out.
fn uncertain() -> Facts {
    Facts { token_stands: false, ..facts() }
}

fn with_views(feeds_views: bool, facts: Facts) -> Facts {
    Facts { feeds_views, ..facts }
}

#[test]
fn a_token_that_certainly_stands_is_resent_once_no_attempt_runs_any_more() {
    assert_eq!(decide(&facts()), Decision::EndAttempts);
    assert_eq!(decide(&Facts { alive: Some(2), ..facts() }), Decision::EndAttempts);
    let ended = Facts { alive: Some(0), ..facts() };
    assert_eq!(decide(&ended), Decision::Resend);
}

#[test]
fn whatever_may_have_lost_the_token_leads_to_a_look_at_the_rows() {
    let cases = [
        ("it does not certainly stand", uncertain()),
        ("the table was never seen", Facts { table_before: None, ..facts() }),
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
        decide(&with_views(views, Facts { alive: Some(0), found: Some(found), ..uncertain() }))
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
    for token_stands in [true, false] {
        let facts = Facts { table: "other".into(), token_stands, ..facts() };
        assert_eq!(decide(&facts), Decision::Stop(StopReason::TableChanged));
    }
}

#[test]
fn an_absent_frame_gets_a_new_token_only_once_the_old_one_stands_for_certain() {
    let confirmed = |found, views| {
        decide(&with_views(views, Facts { alive: Some(0), found, confirmed: true, ..uncertain() }))
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
        ..uncertain()
    };
    assert_eq!(
        decide(&with_views(true, asked)),
        Decision::Stop(StopReason::ViewsUnknown),
        "an owner that comes later does not know what was confirmed, but what was asked"
    );
    let alone = |views, refused| {
        let found = Some(Found::None);
        let facts = Facts { alive: Some(0), found, in_views_alone: true, refused, ..uncertain() };
        decide(&with_views(views, facts))
    };
    assert_eq!(
        alone(true, false),
        Decision::Stop(StopReason::ViewsUnknown),
        "the targets have forgotten the token"
    );
    assert_eq!(alone(true, true), Decision::Stop(StopReason::ViewsUnknown), "nor do they know a new one");
    assert_eq!(alone(false, false), Decision::Confirm);
    let exchanged = |views| {
        let (table, found) = ("other".into(), Some(Found::None));
        // What was said of the earlier table's token says nothing of this one.
        decide(&with_views(views, Facts { accepted: true, alive: Some(0), found, table, ..facts() }))
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
