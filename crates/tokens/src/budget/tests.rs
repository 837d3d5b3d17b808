use dataflow::Basis;

use super::*;
use crate::trust::lapse;

fn server(seen_ms: i64, block_number: u64) -> Facts {
    Facts {
        start_ms: 0,
        seen_ms: 100_000 + seen_ms,
        server_uuid: "s".into(),
        block_number,
        tokens_per_block_max: Some(1),
        ..Facts::default()
    }
}

fn measured(sightings: impl IntoIterator<Item = (i64, u64)>) -> Option<Rate> {
    let mut meter = UsedTokens::default();
    sightings.into_iter().for_each(|(seen_ms, block)| meter.see(&server(seen_ms, block).seen("t")));
    meter.rate()
}

#[test]
fn the_rate_is_that_of_the_last_minute() {
    assert_eq!(measured([]), None);
    assert_eq!(measured([(0, 5)]), None);
    assert_eq!(measured([(0, 5), (500, 900)]), None, "half a second says too little");
    assert_eq!(measured([(0, 5), (5_000, 55)]), Some(Rate { tokens: 50, over_ms: 5_000 }));
    // Two minutes at 10 a second, two at none.
    let calm = (0..=48).map(|n| (n * 5_000, (n as u64).min(24) * 50));
    assert_eq!(measured(calm).map(|rate| rate.tokens), Some(0));
    let busy = (0..=24).map(|n| (n * 5_000, n as u64 * 50));
    assert_eq!(measured(busy), Some(Rate { tokens: 600, over_ms: 60_000 }));
}

#[test]
fn an_earlier_owners_sighting_counts_until_there_is_a_better_one() {
    let hour_ms = 3_600_000;
    assert_eq!(
        measured([(0, 0), (hour_ms, 3_600)]),
        Some(Rate { tokens: 3_600, over_ms: hour_ms as u64 }),
        "one a second since then"
    );
    let rate = measured([(0, 0), (hour_ms, 3_600), (hour_ms + 5_000, 3_700)]);
    assert_eq!(rate, Some(Rate { tokens: 100, over_ms: 5_000 }));
}

#[test]
fn what_cannot_be_compared_is_forgotten() {
    let mut meter = UsedTokens::default();
    meter.see(&server(0, 100).seen("t"));
    meter.see(&server(10_000, 50).seen("t"));
    assert_eq!(meter.rate(), None, "blocks went back");
    meter.see(&server(20_000, 70).seen("t"));
    assert_eq!(meter.rate(), Some(Rate { tokens: 20, over_ms: 10_000 }));
    meter.see(&server(30_000, 500).seen("other"));
    assert_eq!(meter.rate(), None);
    meter.see(&Facts { view_blocks: vec![3], ..server(40_000, 500) }.seen("other"));
    assert_eq!(meter.rate(), None, "a view came");
    meter.see(&Facts { view_blocks: vec![903], ..server(50_000, 501) }.seen("other"));
    assert_eq!(meter.rate().map(|rate| rate.tokens), Some(900), "the view's target uses most");
}

#[test]
fn sightings_that_crowd_take_no_room() {
    let mut meter = UsedTokens::default();
    for n in 0..100_000 {
        meter.see(&server(n * 10, n as u64).seen("t"));
        assert!(meter.seen.len() <= 2 * (SPAN_MS / KEPT_EVERY_MS) as usize + 2);
    }
    let rate = meter.rate().expect("a rate");
    assert!((99.0..=101.0).contains(&rate.per_second()), "{rate:?}");
}

#[test]
fn the_memory_lasts_as_many_seconds_as_it_has_tokens_for() {
    let ten_a_second = Some(Rate { tokens: 50, over_ms: 5_000 });
    let found = budget(10_000, u64::MAX, ten_a_second, 190_000, false);
    assert_eq!((found.memory_ms, found.trusted_ms, found.is_scarce), (1_000_000, 500_000, false));
    assert!((26.3..26.4).contains(&found.used_per_s_max), "{}", found.used_per_s_max);
    // By age: half an hour of an hour.
    let aged = budget(10_000, 3_600_000, Some(Rate { tokens: 1, over_ms: 5_000 }), 190_000, false);
    assert_eq!((aged.memory_ms, aged.trusted_ms), (3_600_000, 1_800_000));
    for (rate, age_ms_max, is_scarce) in [
        (None, u64::MAX, false),
        (Some(Rate { tokens: 0, over_ms: 5_000 }), u64::MAX, false),
        (None, 300_000, true),
    ] {
        let found = budget(100, age_ms_max, rate, 190_000, false);
        assert_eq!(found.is_scarce, is_scarce, "{rate:?} {age_ms_max}");
        assert_eq!(found.trusted_ms, if is_scarce { 150_000 } else { u64::MAX });
    }
}

#[test]
fn a_rate_that_wavers_around_the_bound_warns_once() {
    let mut warned = 0;
    let mut was = false;
    for n in 0..100 {
        // 10 and 11 a second: 500 s and 454 s against 480 s.
        let rate = Rate { tokens: 50 + n % 2 * 5, over_ms: 5_000 };
        let found = budget(10_000, u64::MAX, Some(rate), 480_000, was);
        warned += u32::from(found.is_scarce && !was);
        was = found.is_scarce;
    }
    assert_eq!(warned, 1);
    assert!(was, "it stays until there is room again");
    assert!(!budget(10_000, u64::MAX, Some(Rate { tokens: 30, over_ms: 5_000 }), 480_000, was).is_scarce);
}

/// The forecast and the judgement speak of the same thing.
#[test]
fn enough_means_that_the_resend_is_trusted_and_scarce_that_it_is_not() {
    let needed_ms = 190_000;
    let resent = |window, age_ms_max, tokens| {
        let of =
            |facts: Facts| Facts { token_window: window, token_age_ms_max: age_ms_max, ..facts }.seen("t");
        lapse(Basis::Token, &of(server(0, 7)), &of(server(needed_ms, 7 + tokens))).is_none()
    };
    for window in [2, 100, 9_999, 10_000] {
        for age_ms_max in [None, Some(3_600_000), Some(380_000), Some(379_998), Some(10_000)] {
            for tokens in [0, 1, 49, 50, 51, 4_998, 4_999, 5_000, 10_001] {
                // As many as the rate brings in the time that is needed.
                let rate = Some(Rate { tokens, over_ms: needed_ms as u64 });
                let found = budget(window, age_ms_max.unwrap_or(u64::MAX), rate, needed_ms as u64, false);
                assert_eq!(
                    !found.is_scarce,
                    resent(window, age_ms_max, tokens),
                    "{window} tokens, {age_ms_max:?} ms, {tokens} used"
                );
            }
        }
    }
}

#[test]
fn the_rate_counts_what_each_block_may_cost_and_without_a_bound_the_budget_is_scarce() {
    let rate = |per_block, blocks| {
        let mut meter = UsedTokens::default();
        let of = |facts| Facts { tokens_per_block_max: per_block, ..facts }.seen("t");
        [of(server(0, 0)), of(server(10_000, blocks))].iter().for_each(|seen| meter.see(seen));
        meter.rate()
    };
    assert_eq!(rate(Some(2), 50), Some(Rate { tokens: 100, over_ms: 10_000 }));
    assert_eq!(rate(None, 0), Some(Rate { tokens: 0, over_ms: 10_000 }));
    let unbounded = rate(None, 1).expect("two sightings");
    assert_eq!(unbounded.tokens, UNBOUNDED);
    assert!(unbounded.per_second().is_infinite());
    let found = budget(10_000, u64::MAX, Some(unbounded), 190_000, false);
    assert!(found.is_scarce && found.trusted_ms == 0, "{found:?}");
}

#[test]
fn what_is_no_sighting_of_a_server_says_nothing() {
    let mut meter = UsedTokens::default();
    meter.see(&Sighting { table_uuid: "t".into(), ..Sighting::default() });
    assert!(meter.budget(1).is_none());
    meter.see(&Facts { token_window: 10, ..server(0, 1) }.seen("t"));
    assert_eq!(meter.budget(1).map(|budget| (budget.remembered, budget.used_per_s)), Some((10, None)));
}
