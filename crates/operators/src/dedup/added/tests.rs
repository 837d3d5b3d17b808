use super::*;

#[test]
fn hashes_come_back_with_their_places_in_their_order() {
    let mut added = Added::default();
    let pair = |n: u32| (1 + n / 1000 % 3, u128::from(n));
    for seal in 0..3 {
        (0..20_000).map(pair).for_each(|(place, hash)| added.push(place, hash));
        assert!(added.iter().eq((0..20_000).map(pair)), "seal {seal}");
        let mut counts = [0; 4];
        added.count(&mut counts);
        assert_eq!(counts, [0, 7000, 7000, 6000]);
        added.retain(|place, hash| place != 2 && hash % 2 == 0);
        assert!(added.iter().eq((0..20_000).map(pair).filter(|(place, hash)| *place != 2 && hash % 2 == 0)));
        added.clear();
        assert!(added.is_empty() && added.iter().next().is_none());
    }
}

#[test]
fn a_hash_costs_16_bytes_and_an_exceptional_seal_gives_its_room_back() {
    let mut added = Added::default();
    assert!(!added.is_full(0));
    (0..1_000_000).for_each(|n| added.push(1, n));
    let most = added.memory_bytes();
    assert!(most <= 16 * 1_000_000 + CHUNK * 16 + 1024, "{most}");
    added.clear();
    assert!(added.memory_bytes() <= most, "the next seal allocates nothing");
    added.push(1, 1);
    added.clear();
    assert!(added.memory_bytes() <= SPARE_MIN * CHUNK * 16 + 1024, "{}", added.memory_bytes());
}

#[test]
fn beyond_a_sixteenth_of_the_table_hashes_are_counted_and_not_listed() {
    let mut added = Added::default();
    let keys = 16 * 40_000;
    while !added.is_full(keys) {
        added.push(1, 7);
    }
    assert_eq!(added.len(), 40_000);
    (0..5).for_each(|_| added.mark(3));
    added.unmark(3);
    assert!(added.is_full(keys * 2), "what is marked must be looked for anyway");
    let mut counts = [0; 4];
    added.count(&mut counts);
    assert_eq!((counts, added.len()), ([0, 40_000, 0, 4], 40_004));
    added.clear();
    assert!(added.is_empty() && !added.has_marked());
}
