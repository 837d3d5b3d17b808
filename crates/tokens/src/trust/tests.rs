use super::*;

fn server(start_ms: i64, seen_ms: i64, block_number: u64) -> Facts {
    Facts {
        start_ms,
        seen_ms,
        server_uuid: "s".into(),
        block_number,
        token_window: 100,
        tokens_per_block_max: Some(1),
        asked_ms: seen_ms,
        answered_ms: seen_ms,
        ..Facts::default()
    }
}

#[test]
fn a_decision_to_send_again_lapses_with_the_facts_that_it_rests_on() {
    let aged = |facts| Facts { token_age_ms_max: Some(60_000), ..facts };
    let since = server(0, 60_000, 100).seen("t");
    let view = Facts { view_blocks: vec![1], ..server(0, 70_000, 100) };
    let nothing = Sighting { table_uuid: "t".into(), ..Sighting::default() };
    let of_another_kind = Sighting { facts: vec![0xff; 7].into(), ..nothing.clone() };
    let seen = |facts| aged(facts).seen("t");
    for (now, of_token, of_absence) in [
        (seen(server(0, 70_000, 149)), None, None),
        (seen(server(0, 70_000, 150)), Some(Lapse::TokensUsed), Some(Lapse::TokensUsed)),
        (seen(server(0, 70_000, 99)), Some(Lapse::TokensUsed), Some(Lapse::TokensUsed)),
        (seen(view), Some(Lapse::TokensUsed), Some(Lapse::TokensUsed)),
        (seen(server(0, 89_999, 100)), None, None),
        (seen(server(0, 90_000, 100)), Some(Lapse::TooOld), Some(Lapse::TooOld)),
        // The server's clock was set back by twenty seconds.
        (
            seen(Facts { seen_ms: 70_000, start_ms: -20_000, ..server(0, 90_000, 100) }),
            Some(Lapse::OtherRun),
            Some(Lapse::TooOld),
        ),
        (server(0, 70_000, 100).seen("other"), Some(Lapse::OtherTable), Some(Lapse::OtherTable)),
        // A restart takes no token of a frame that was looked for in vain, and brings none of its rows.
        (seen(server(65_000, 70_000, 100)), Some(Lapse::OtherRun), None),
        // Rows of another zone fall into other partitions, which remember tokens of their own; a part is found in any of them.
        (seen(Facts { zone: "Asia/Tokyo".into(), ..server(0, 70_000, 100) }), Some(Lapse::OtherZone), None),
        (nothing, Some(Lapse::Unreadable), Some(Lapse::Unreadable)),
        (of_another_kind, Some(Lapse::Unreadable), Some(Lapse::Unreadable)),
    ] {
        assert_eq!(lapse(Basis::Token, &since, &now), of_token, "{now:?}");
        assert_eq!(lapse(Basis::Absence, &since, &now), of_absence, "{now:?}");
    }
}

/// Only a crash leaves a token without its rows, and only what the targets have forgotten since would come to them twice.
#[test]
fn rows_may_be_in_views_alone_after_a_crash_and_where_the_targets_may_have_forgotten() {
    let first = Facts { altered_ms: 1_000, declaration: 1, ..server(0, 60_000, 100) };
    let asked = |now: Facts| may_be_in_views_alone(&first.seen("t"), &now.seen("t"));
    let restarted = |block| Facts { altered_ms: 1_000, declaration: 1, ..server(65_000, 90_000, block) };
    let running = Facts { altered_ms: 1_000, declaration: 1, ..server(0, 70_000, 190) };
    assert!(!asked(running), "the server has not restarted");
    assert!(!asked(restarted(149)), "the targets remember");
    assert!(asked(restarted(150)), "others may have pushed the token out");
    assert!(asked(Facts { altered_ms: 80_000, ..restarted(140) }), "the memory may have been emptied");
    assert!(asked(Facts { zone: "Asia/Tokyo".into(), ..restarted(140) }), "other partitions of the targets");
    let replica = Facts { server_uuid: "other".into(), altered_ms: 2_000, ..restarted(150) };
    assert!(!asked(replica), "another server has no part in what this one lost");
    let replicated = Facts { token_age_ms_max: Some(10_000), ..restarted(150) };
    assert!(!asked(replicated), "its Keeper has the token with the part, or neither");
    let nothing = Sighting { table_uuid: "t".into(), ..Sighting::default() };
    assert!(may_be_in_views_alone(&nothing, &restarted(140).seen("t")), "nobody knows what was before");
}

#[test]
fn tokens_are_bounded_by_what_each_block_may_cost() {
    let of =
        |per_block, seen_ms, block| Facts { tokens_per_block_max: per_block, ..server(0, seen_ms, block) };
    let with =
        |before, now, blocks: u64| tokens_since(&of(before, 60_000, 100), &of(now, 70_000, 100 + blocks));
    assert_eq!(with(Some(1), Some(1), 10), Some(10), "one token a block");
    assert_eq!(with(Some(2), Some(2), 10), Some(20), "two hashes of each");
    assert_eq!(with(None, None, 10), None, "nothing bounds them");
    assert_eq!(with(None, None, 0), Some(0), "no block, no token");
    assert_eq!(with(Some(1 << 40), Some(1), 1 << 30), Some(u64::MAX), "more than there are numbers for");
    // A bound that changes in between counts at its larger value.
    assert_eq!(with(Some(2), Some(1), 10), Some(20));
    assert_eq!(with(Some(1), Some(2), 10), Some(20));
    assert_eq!(with(None, Some(1), 10), None);
    assert_eq!(with(Some(1), None, 10), None);
}

#[test]
fn an_insert_must_end_within_half_of_a_tokens_age() {
    assert_eq!(insert_time_ms_max(u64::MAX, 10_000), u64::MAX);
    assert_eq!(insert_time_ms_max(3_600_000, 10_000), 1_790_000);
    assert_eq!(insert_time_ms_max(10_000, 10_000), 0);
}

#[test]
fn a_run_is_the_same_only_if_that_is_certain() {
    let before = server(0, 60_000, 100);
    assert!(is_same_run(&before, &server(0, 70_000, 100)));
    // A start that is told to the second may wobble.
    assert!(is_same_run(&before, &server(1_500, 70_000, 100)));
    assert!(!is_same_run(&before, &server(65_000, 70_000, 100)));
    assert!(!is_same_run(&before, &Facts { server_uuid: "other".into(), ..server(0, 70_000, 100) }));
    // It had hardly started when it was seen: a restart right after could show the same start.
    assert!(!is_same_run(&server(0, 3_000, 100), &server(0, 70_000, 100)));
}

/// The server had run for five seconds, started again, and its clock was set back by as much: by that clock it never restarted.
#[test]
fn a_clock_that_was_set_back_hides_no_restart() {
    let before = server(100_000, 105_000, 7);
    let now = |asked_ms: i64, answered_ms: i64, uptime_ms: i64| Facts {
        asked_ms,
        answered_ms,
        ..server(100_000, 100_000 + uptime_ms, 7)
    };
    // Ten seconds later it has run for five more: it was away for the others, or began to count anew.
    assert!(!is_same_run(&before, &now(115_000, 115_000, 10_000)));
    assert!(is_same_run(&before, &now(115_000, 115_000, 15_000)));
    assert!(is_same_run(&before, &now(115_000, 115_000, 13_500)), "whole seconds");
    // An answer that took long says less of when it was made.
    assert!(is_same_run(&before, &now(115_000, 117_500, 15_000)));
    assert!(
        !is_same_run(&before, &now(115_000, 118_500, 15_000)),
        "a restart within these seconds would not show"
    );
    let slow = Facts { asked_ms: 101_000, ..before.clone() };
    assert!(!is_same_run(&slow, &now(115_000, 115_000, 15_000)));
    // A store of before these times were kept.
    assert!(!is_same_run(&Facts { asked_ms: 0, answered_ms: 0, ..before }, &now(115_000, 115_000, 15_000)));
}

#[test]
fn what_the_engine_carries_is_what_was_seen() {
    let views = Facts {
        view_blocks: vec![7, 8],
        token_age_ms_max: Some(1),
        tokens_per_frame: 3,
        ..server(-5, 60_000, u64::MAX)
    };
    for facts in [server(0, 60_000, 100), views] {
        let seen = facts.seen("t");
        assert_eq!((seen.table_uuid.as_str(), seen.feeds_views), ("t", !facts.view_blocks.is_empty()));
        assert_eq!(Facts::of(&seen), Some(facts));
    }
    assert_eq!(Facts::of(&Sighting::default()), None);
}

#[test]
fn the_frames_of_a_window_cost_half_of_the_tokens_that_a_resend_may_count_on() {
    assert_eq!(frames(100, 1), 25);
    assert_eq!(frames(100, 2), 12);
    assert_eq!(frames(10_000, 1), 2_500);
    assert_eq!(frames(100, 10), 2);
    assert_eq!(frames(1, 1), 1);
}

/// With the fewest tokens accepted, every insert under way may be in doubt at once, and each is still resent without a look
/// at the rows after all the others; with one frame's tokens fewer, that does not hold for all.
#[test]
fn the_least_memory_lets_every_insert_under_way_be_sent_again_after_all_others() {
    for in_flight in [1, 2, 4, 64] {
        for cost in [1, 2, 6, 200] {
            let least = tokens_min(in_flight, cost);
            assert!(frames(least, cost) >= in_flight, "{in_flight} in flight at {cost}");
            assert!(frames(least, cost) * cost < trusted_tokens(least), "{in_flight} at {cost}");
            assert!(
                in_flight == 1 || frames(least - 4, cost) < in_flight,
                "{in_flight} at {cost}: not the least"
            );
        }
    }
    assert_eq!(tokens_min(2, 1), 8);
    assert_eq!(tokens_min(u64::MAX, 2), u64::MAX);
}

/// A memory that was made small and large again is empty, and looks as before.
#[test]
fn what_may_have_been_forgotten_at_an_alter_is_not_trusted() {
    let (named, unnamed) = (true, false);
    let of = |seen_s: i64, altered_s: i64, declaration, engine, names_rows| {
        let facts =
            Facts { altered_ms: altered_s * 1_000, declaration, engine, names_rows, ..server(0, 0, 100) };
        let ms = seen_s * 1_000;
        Facts { seen_ms: ms, asked_ms: ms, answered_ms: ms, ..facts }.seen("t")
    };
    let since = |names_rows| of(60, 10, 1, 1, names_rows);
    let altered = Some(Lapse::Altered);
    for (what, since, now, of_token, of_absence) in [
        ("nothing was altered", since(named), of(70, 10, 1, 1, named), None, None),
        ("the same is declared", since(named), of(70, 65, 1, 1, named), altered, altered),
        ("the same is declared", since(unnamed), of(70, 65, 1, 1, unnamed), altered, altered),
        ("another window", since(unnamed), of(70, 65, 2, 2, unnamed), altered, altered),
        (
            "another column, and rows can be looked for",
            since(named),
            of(70, 65, 2, 1, named),
            altered,
            altered,
        ),
        ("another column, and they cannot", since(unnamed), of(70, 65, 2, 1, unnamed), None, altered),
        (
            "within the second of the sighting",
            of(60, 60, 1, 1, named),
            of(70, 60, 1, 1, named),
            altered,
            altered,
        ),
        ("in the second before it", of(60, 59, 1, 1, named), of(70, 59, 1, 1, named), None, None),
        ("the database does not say", of(60, 0, 1, 1, named), of(70, 0, 1, 1, named), None, None),
        ("an earlier version did not ask", of(60, 0, 0, 0, false), of(70, 65, 1, 1, named), None, None),
    ] {
        assert_eq!(lapse(Basis::Token, &since, &now), of_token, "{what}");
        assert_eq!(lapse(Basis::Absence, &since, &now), of_absence, "{what}");
    }
    let narrowed = |ms| Facts { narrowed_ms: ms, ..server(0, 70_000, 100) }.seen("t");
    let before = server(0, 60_000, 100).seen("t");
    assert_eq!(lapse(Basis::Token, &before, &narrowed(65_000)), altered, "a poll has seen fewer tokens");
    assert_eq!(lapse(Basis::Token, &narrowed(65_000), &narrowed(65_000)), None, "before the sighting");
    assert_eq!(lapse(Basis::Token, &narrowed(65_000), &before), None, "a process that has not seen it");
}

#[test]
fn a_token_is_not_trusted_beyond_other_views_or_keys_of_partitions() {
    let of = |routes, seen_ms| Facts { routes, ..server(0, seen_ms, 100) }.seen("t");
    for (since, now, expected) in [
        (7, 7, None),
        (7, 8, Some(Lapse::Rerouted)),
        // An earlier version did not ask.
        (0, 8, None),
    ] {
        for basis in [Basis::Token, Basis::Absence] {
            assert_eq!(lapse(basis, &of(since, 60_000), &of(now, 70_000)), expected, "{since} {now}");
        }
    }
}

#[test]
fn names_may_be_lost_only_where_rows_have_none_and_the_table_was_altered() {
    let of = |altered_ms, has_unnamed, seen_ms| {
        let facts =
            Facts { altered_ms, declaration: 1, engine: 1, names_rows: true, ..server(0, seen_ms, 100) };
        Facts { has_unnamed, ..facts }.seen("t")
    };
    for (altered_ms, has_unnamed, expected) in [
        (10_000, true, false),
        (65_000, false, false),
        (65_000, true, true),
        // The database does not say when, and rows of others have no names.
        (0, true, false),
    ] {
        let since = of(altered_ms.min(10_000), false, 60_000);
        assert_eq!(
            may_have_lost_names(&since, &of(altered_ms, has_unnamed, 70_000)),
            expected,
            "{altered_ms}"
        );
    }
    assert!(may_have_lost_names(&Sighting::default(), &of(10_000, false, 70_000)), "of another kind");
}
