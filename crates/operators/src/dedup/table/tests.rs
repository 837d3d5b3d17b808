use super::*;

/// The hash with this fraction of the segment, in 2^-64.
fn at(fraction: u64) -> u128 {
    u128::from(fraction) << 56
}

fn add(segment: &mut Segment, places: &mut Places, hash: u128) {
    if segment.is_full() {
        segment.make_room(places);
    }
    let Found::Gap(index) = segment.search(hash, places, |_| true) else { panic!("{hash:x} is there") };
    segment.insert(index, Slot::new(hash, places.take(0)));
}

fn hashes(segment: &Segment) -> Vec<u128> {
    segment.iter().map(Slot::hash).collect()
}

#[test]
fn a_slot_has_20_bytes() {
    assert_eq!(size_of::<Slot>(), 20);
}

#[test]
fn slots_are_sorted_whatever_the_order_of_inserts() {
    let (mut segment, mut places) = (Segment::new(3), Places::new());
    let wanted: Vec<u128> = (0..5000).map(|n| at(n * (u64::MAX / 5000))).collect();
    (0..5000).for_each(|n| add(&mut segment, &mut places, wanted[n * 2797 % 5000]));
    assert_eq!(hashes(&segment), wanted);
}

#[test]
fn hashes_that_crowd_at_the_end_overflow_into_the_tail() {
    let (mut segment, mut places) = (Segment::new(255), Places::new());
    let wanted: Vec<u128> = (0..1000).map(|n| at(u64::MAX) + n).collect();
    wanted.iter().rev().for_each(|hash| add(&mut segment, &mut places, *hash));
    assert_eq!(hashes(&segment), wanted);
    for hash in wanted.iter().step_by(2) {
        let Found::Match(index) = segment.search(*hash, &places, |_| true) else { panic!() };
        segment.remove(index);
    }
    assert_eq!(hashes(&segment), wanted.into_iter().skip(1).step_by(2).collect::<Vec<_>>());
}

#[test]
fn removing_closes_the_gap_but_moves_none_before_its_home() {
    let (mut segment, mut places) = (Segment::new(0), Places::new());
    // Three at home 0, and one whose home is 3, where it stands.
    let step = u64::MAX / segment.capacity_first as u64;
    let wanted = [at(0), at(1), at(2), at(3 * step + step / 2)];
    wanted.iter().for_each(|hash| add(&mut segment, &mut places, *hash));
    segment.remove(0);
    assert_eq!(hashes(&segment), wanted[1..]);
    assert_eq!(segment.search(wanted[3], &places, |_| true), Found::Match(3));
    assert_eq!(segment.search(wanted[2], &places, |_| true), Found::Match(1));
}

#[test]
fn an_empty_segment_finds_nothing_and_allocates_nothing() {
    let (segment, places) = (Segment::new(9), Places::new());
    assert_eq!(segment.search(at(77), &places, |_| true), Found::Gap(0));
    segment.prefetch(at(77));
    assert_eq!(segment.memory_bytes(), 0);
}

#[test]
fn from_a_thousand_slots_on_a_key_costs_at_most_28_bytes() {
    let (mut segment, mut places) = (Segment::new(0), Places::new());
    for n in 0..20_000_u64 {
        add(&mut segment, &mut places, at(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let keys = n as usize + 1;
        assert!(keys < 2000 || segment.memory_bytes() <= keys * 28, "{} at {keys}", segment.memory_bytes());
    }
}
