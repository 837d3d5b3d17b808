use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn layout(uniques: u64, near_duplicates: bool, far_duplicates: u64, cross_duplicates: u64) -> Layout {
    let spec = Spec { uniques, near_duplicates, far_duplicates, cross_duplicates, ..Spec::default() };
    Layout::new(&spec).expect("fits")
}

#[test]
fn a_near_duplicate_follows_the_uniques_1_and_11_and_21() {
    let layout = layout(22, true, 0, 0);
    let kinds: String = (0..layout.positions())
        .map(|position| if layout.slot(position).kind == Kind::Unique { 'u' } else { 'n' })
        .collect();
    assert_eq!(kinds, "unuuuuuuuuuunuuuuuuuuuunu");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_unique_comes_once_in_order_and_every_duplicate_is_counted(
        uniques in 1_u64..300,
        near in any::<bool>(),
        far in 0_u64..400,
        cross in 0_u64..400,
    ) {
        let layout = layout(uniques, near, far, cross);
        let mut counts = BTreeMap::new();
        let mut next = 0;
        for position in 0..layout.positions() {
            let slot = layout.slot(position);
            prop_assert_eq!(slot.uniques_before, next);
            if slot.kind == Kind::Unique {
                next += 1;
            } else {
                prop_assert!(next > 0, "nothing to copy yet");
            }
            *counts.entry(slot.kind).or_insert(0_u64) += 1;
        }
        prop_assert_eq!(next, uniques);
        let count = |kind| counts.get(&kind).copied().unwrap_or(0);
        prop_assert_eq!(count(Kind::Near), if near { uniques.div_ceil(10) } else { 0 });
        prop_assert_eq!((count(Kind::Far), count(Kind::Cross)), (far, cross));
    }
}

#[test]
fn extras_lie_evenly_over_the_stream() {
    let layout = layout(10_000, true, 500, 500);
    let quarter = layout.positions() / 4;
    for part in 0..4 {
        for kind in [Kind::Far, Kind::Cross] {
            let found =
                (part * quarter..(part + 1) * quarter).filter(|&p| layout.slot(p).kind == kind).count();
            assert!((124..=126).contains(&found), "{found} of {kind:?} in quarter {part}");
        }
    }
}

#[test]
fn the_longest_stream_does_not_overflow() {
    let most = POSITIONS_MAX;
    let layout = layout(most / 2, false, most / 4, most / 4);
    assert_eq!(layout.positions(), most);
    assert!(layout.slot(most - 1).uniques_before <= most / 2);
    let one_more = Spec { uniques: most, near_duplicates: false, far_duplicates: 1, ..Spec::default() };
    assert_eq!(Layout::new(&one_more), None);
    assert_eq!(Layout::new(&Spec { uniques: u64::MAX, far_duplicates: u64::MAX, ..Spec::default() }), None);
}
