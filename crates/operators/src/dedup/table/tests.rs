use super::*;

/// The hash with this fraction of the segment, in 2^-64.
fn at(fraction: u64) -> u128 {
    u128::from(fraction) << (64 - BITS_MIN)
}

/// Numbers without a pattern.
fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A segment with its surroundings.
struct Bench {
    segment: Segment,
    places: Places,
    scratch: Scratch,
}

impl Bench {
    fn new(number: u32) -> Self {
        Self { segment: Segment::new(number, BITS_MIN), places: Places::new(), scratch: Scratch::default() }
    }

    fn add(&mut self, hash: u128) {
        if self.segment.is_full() {
            self.segment.make_room(&mut self.places, &mut self.scratch);
        }
        let Found::Gap(index) = self.segment.search(hash, &self.places, |_| true) else {
            panic!("{hash:x} is there")
        };
        self.segment.insert(index, hash, self.places.take(0), hash.is_multiple_of(3));
    }

    fn find(&self, hash: u128) -> Option<usize> {
        match self.segment.search(hash, &self.places, |_| true) {
            Found::Match(index) => Some(index),
            Found::Dead(_) | Found::Gap(_) => None,
        }
    }

    fn hashes(&self) -> Vec<u128> {
        let mut hashes: Vec<u128> = self.segment.iter().map(|slot| slot.hash).collect();
        hashes.sort_unstable();
        hashes
    }
}

#[test]
fn a_group_is_a_cache_line() {
    assert_eq!((size_of::<Group>(), align_of::<Group>()), (64, 64));
}

#[test]
fn every_slot_is_found_whatever_the_order_of_inserts_and_comes_back_whole() {
    let mut bench = Bench::new(3);
    let hash = |n: u64| 3 << (128 - BITS_MIN) | at(n * (u64::MAX / 5000)) | u128::from(n);
    (0..5000).for_each(|n| bench.add(hash(n * 2797 % 5000)));
    assert_eq!(bench.hashes(), (0..5000).map(hash).collect::<Vec<_>>());
    assert!((0..5000).all(|n| bench.find(hash(n)).is_some() && bench.find(hash(n) ^ 1 << 70).is_none()));
}

#[test]
fn hashes_that_crowd_at_the_end_overflow_into_the_tail() {
    let mut bench = Bench::new(511);
    let wanted: Vec<u128> = (0..1000).map(|n| u128::MAX - n).collect();
    wanted.iter().for_each(|hash| bench.add(*hash));
    for hash in wanted.iter().step_by(2) {
        let index = bench.find(*hash).unwrap();
        bench.segment.remove(index);
    }
    for (n, hash) in wanted.iter().enumerate() {
        assert_eq!(bench.find(*hash).is_some(), n % 2 == 1, "{n}");
    }
}

#[test]
fn removing_leaves_no_free_slot_between_another_and_its_home() {
    let mut bench = Bench::new(0);
    // All at the first home, then some at the next ones.
    let step = u64::MAX / 4;
    let wanted: Vec<u128> = (0..6).map(at).chain((0..4).map(|n| at(step + step / 2 + n))).collect();
    wanted.iter().for_each(|hash| bench.add(*hash));
    for (n, hash) in wanted.iter().enumerate() {
        let index = bench.find(*hash).unwrap();
        assert_eq!(bench.segment.remove(index), hash.is_multiple_of(3), "the mark");
        assert_eq!(bench.find(*hash), None);
        assert!(wanted[n + 1..].iter().all(|other| bench.find(*other).is_some()), "{n}");
    }
    assert_eq!(bench.segment.iter().count(), 0);
}

#[test]
fn an_empty_segment_finds_nothing_and_allocates_nothing() {
    let mut bench = Bench::new(9);
    assert_eq!(bench.segment.search(at(77), &bench.places, |_| true), Found::Gap(0));
    bench.segment.prefetch(at(77));
    bench.segment.sweep(&mut bench.places, &mut bench.scratch);
    bench.segment.for_hash(at(77), |_| panic!("there is none"));
    assert_eq!(bench.segment.memory_bytes(), 0);
}

#[test]
fn a_key_costs_at_most_26_bytes_in_a_segment_that_just_grew_and_22_in_the_table() {
    let mut benches: Vec<Bench> = (0..512).step_by(8).map(Bench::new).collect();
    for n in 0..3000_u64 {
        benches.iter_mut().for_each(|bench| bench.add(at(spread(n))));
        let (keys, bytes) = (n as usize + 1, |bench: &Bench| bench.segment.memory_bytes());
        if keys > 500 {
            let worst = benches.iter().map(bytes).max().unwrap();
            assert!(worst <= keys * 26, "{worst} at {keys}");
            let all = benches.iter().map(bytes).sum::<usize>();
            assert!(all <= benches.len() * keys * 22, "{all} at {keys}");
        }
    }
}

#[test]
fn marks_are_taken_once_and_survive_growth() {
    let mut bench = Bench::new(0);
    let hashes: Vec<u128> = (0..3000).map(|n| at(spread(n))).collect();
    hashes.iter().for_each(|hash| bench.add(*hash));
    let mut marked = Vec::new();
    bench.segment.unmark(|slot| marked.push(slot.hash));
    marked.sort_unstable();
    let mut wanted: Vec<u128> = hashes.iter().copied().filter(|hash| hash.is_multiple_of(3)).collect();
    wanted.sort_unstable();
    assert_eq!(marked, wanted);
    bench.segment.unmark(|slot| panic!("{slot:?} has no mark any more"));
}

#[test]
fn a_segment_splits_in_two_that_hold_the_same() {
    let mut bench = Bench::new(0xa5);
    let hash = |n: u64| 0xa5 << (128 - BITS_MIN) | at(spread(n)) | u128::from(n);
    (0..5000).for_each(|n| bench.add(hash(n)));
    let slots = |segment: &Segment| {
        let mut slots: Vec<(u128, Place)> = segment.iter().map(|slot| (slot.hash, slot.place)).collect();
        slots.sort_unstable();
        slots
    };
    let before = slots(&bench.segment);
    let [low, high] = bench.segment.split(&mut bench.scratch);
    assert_eq!([slots(&low), slots(&high)].concat(), before);
    for n in 0..5000 {
        let half = if hash(n) >> (127 - BITS_MIN) & 1 == 0 { &low } else { &high };
        assert!(matches!(half.search(hash(n), &bench.places, |_| true), Found::Match(_)));
    }
    let [empty, _] = Segment::new(1, BITS_MIN).split(&mut bench.scratch);
    assert_eq!((empty.iter().count(), empty.memory_bytes()), (0, 0));
}
