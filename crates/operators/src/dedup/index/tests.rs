use std::collections::BTreeSet;

use super::super::group::Plain;
use super::*;

/// A segment over hashes that lie 8 to a line in the order of their inserts, as pages would have them.
struct Bench {
    segment: Segment,
    scratch: Scratch,
    lines: Vec<u64>,
    removed: Vec<bool>,
}

impl Bench {
    fn new(number: u16) -> Self {
        Self {
            segment: Segment::new(number),
            scratch: Scratch::default(),
            lines: vec![0; 8],
            removed: vec![true; 8],
        }
    }

    /// The hash number `n` of the segment, at this fraction of it in 2^-64.
    fn hash(&self, fraction: u64, n: u64) -> u64 {
        u64::from(self.segment.number) << (64 - BITS) | fraction >> BITS | n
    }

    fn hashes_of<'a>(lines: &'a [u64], removed: &'a [bool]) -> impl Fn(u32, &mut dyn FnMut(u64)) + 'a {
        |line, each| {
            let own = line as usize * 8..lines.len().min(line as usize * 8 + 8);
            own.filter(|n| !removed[*n]).for_each(|n| each(lines[n]));
        }
    }

    fn lines_end(&self) -> u32 {
        (self.lines.len() / 8 + 1) as u32
    }

    fn add(&mut self, hash: u64) {
        let end = self.lines_end();
        if !self.segment.has_room(end) {
            self.segment.make_room(end, &mut self.scratch, Self::hashes_of(&self.lines, &self.removed));
        }
        let Found::Gap(gap) = self.segment.search(spot_of(hash), |_| false) else {
            panic!("no line was taken")
        };
        self.segment.insert(gap, spot_of(hash), (self.lines.len() / 8) as u32);
        self.lines.push(hash);
        self.removed.push(false);
    }

    /// Where the hash lies.
    fn find(&self, hash: u64) -> Option<usize> {
        let mut at = None;
        self.segment.search(spot_of(hash), |line| {
            let line = line as usize * 8;
            at = (line..self.lines.len().min(line + 8)).find(|n| self.lines[*n] == hash && !self.removed[*n]);
            at.is_some()
        });
        at
    }

    fn remove(&mut self, hash: u64) {
        let at = self.find(hash).expect("it is there");
        assert!(self.segment.remove(hash, (at / 8) as u32), "what is found has an entry");
        self.removed[at] = true;
    }

    /// All that the segment holds.
    fn entries(&self) -> usize {
        self.segment.groups.iter().flat_map(Group::entries).filter(|entry| **entry != HOLE).count()
    }
}

/// Numbers without a pattern.
fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[test]
fn every_hash_is_found_while_the_segment_grows_and_none_that_is_not_there() {
    for number in [0, 3, 511] {
        let mut bench = Bench::new(number);
        let hashes: Vec<u64> = (0..30_000).map(|n| bench.hash(spread(n), n)).collect();
        for (n, hash) in hashes.iter().enumerate() {
            bench.add(*hash);
            if n % 997 == 0 {
                assert!(hashes[..=n].iter().all(|hash| bench.find(*hash).is_some()), "{n}");
                assert!(hashes[n + 1..].iter().take(1000).all(|hash| bench.find(*hash).is_none()));
            }
        }
        assert_eq!(bench.entries(), hashes.len());
        let asked = std::cell::Cell::new(0);
        for n in 0..10_000 {
            bench.segment.search(spot_of(bench.hash(spread(n + 1_000_000), n)), |_| {
                asked.set(asked.get() + 1);
                false
            });
        }
        assert!(asked.get() < 10_000 / 20, "{} lines were looked at for new keys", asked.get());
    }
}

#[test]
fn hashes_that_crowd_at_the_end_overflow_into_the_tail_and_are_found_after_growth() {
    let mut bench = Bench::new(511);
    // All but the last bits are the same: all of one spot, the last one.
    let crowd: Vec<u64> = (0..1000).map(|n| u64::MAX - n).collect();
    let others: Vec<u64> = (0..5000).map(|n| bench.hash(spread(n), n)).collect();
    for (n, other) in others.iter().enumerate() {
        if let Some(hash) = crowd.get(n) {
            bench.add(*hash);
        }
        bench.add(*other);
        if n % 13 == 5 && n < 900 {
            bench.remove(crowd[n / 2]);
            bench.add(crowd[n / 2]);
        }
    }
    assert!(crowd.iter().chain(&others).all(|hash| bench.find(*hash).is_some()));
    assert_eq!(bench.entries(), crowd.len() + others.len());
    crowd.iter().step_by(2).for_each(|hash| bench.remove(*hash));
    for (n, hash) in crowd.iter().enumerate() {
        assert_eq!(bench.find(*hash).is_some(), n % 2 == 1, "{n}");
    }
}

/// Two homes next to each other, one tag, and both sorts in each line: which of them a far entry stands for is told by counting.
#[test]
fn far_entries_of_one_line_and_one_tag_are_told_apart() {
    let mut bench = Bench::new(0);
    // At the smallest capacity, 8, the three bits behind the segment's are the home.
    let hashes: Vec<u64> = (0..3000_u64).map(|n| bench.hash((n % 3) << 61 | 5 << 55, n)).collect();
    let mut far = 0;
    for (n, hash) in hashes.iter().enumerate() {
        bench.add(*hash);
        if n % 5 == 4 {
            bench.remove(hashes[n / 2]);
            bench.add(hashes[n / 2]);
        }
        far = far.max(bench.scratch.spots.iter().collect::<BTreeSet<_>>().len());
    }
    assert!(far > 1, "there was such a line");
    assert_eq!(bench.entries(), hashes.len());
    assert!(hashes.iter().all(|hash| bench.find(*hash).is_some()));
}

#[test]
fn removing_hides_nothing_and_its_room_is_used_again() {
    let mut bench = Bench::new(5);
    let hashes: Vec<u64> = (0..4000).map(|n| bench.hash(spread(n), n)).collect();
    hashes.iter().for_each(|hash| bench.add(*hash));
    let mut held: BTreeSet<u64> = hashes.iter().copied().collect();
    let bytes = bench.segment.memory_bytes();
    // As many come as go, for ten times as many as there are.
    for n in 4000..44_000_u64 {
        let from = bench.hash(spread(n * 7), 0);
        let removed = *held.range(from..).chain(&held).next().expect("4000 are held");
        held.remove(&removed);
        bench.remove(removed);
        let new = bench.hash(spread(n), n);
        bench.add(new);
        held.insert(new);
    }
    assert_eq!(bench.entries(), 4000);
    assert!(held.iter().all(|hash| bench.find(*hash).is_some()));
    assert!(hashes.iter().filter(|hash| !held.contains(hash)).all(|hash| bench.find(*hash).is_none()));
    assert_eq!(bench.segment.memory_bytes(), bytes);
}

#[test]
fn a_segment_with_few_entries_left_gives_memory_back() {
    let mut bench = Bench::new(8);
    let hashes: Vec<u64> = (0..4000).map(|n| bench.hash(spread(n), n)).collect();
    hashes.iter().for_each(|hash| bench.add(*hash));
    let full = bench.segment.memory_bytes();
    let shrink = |bench: &mut Bench, end| {
        bench.segment.shrink(end, &mut bench.scratch, Bench::hashes_of(&bench.lines, &bench.removed))
    };
    let end = bench.lines_end();
    assert!(!shrink(&mut bench, end), "all are there");
    hashes[..3500].iter().for_each(|hash| bench.remove(*hash));
    assert!(!shrink(&mut bench, 1 << 20), "numbers of lines need their bits");
    assert!(shrink(&mut bench, end) && !shrink(&mut bench, end), "once");
    assert!(bench.segment.memory_bytes() <= full / 4);
    assert!(hashes[3500..].iter().all(|hash| bench.find(*hash).is_some()));
    hashes[3500..].iter().for_each(|hash| bench.remove(*hash));
    assert!(shrink(&mut bench, end));
    assert_eq!(bench.segment.memory_bytes(), 0);
}

#[test]
fn an_empty_segment_finds_nothing_and_allocates_nothing() {
    let mut bench = Bench::new(9);
    let hash = bench.hash(77, 77);
    assert_eq!(bench.segment.search(spot_of(hash), |_| true), Found::Gap(Gap { number: 0, at: 0 }));
    assert_eq!(
        bench.segment.look(Plain, spot_of(hash), tag_bits_beside(1)),
        Look { is_new: false, at: 0, line: 0 }
    );
    bench.segment.prefetch(spot_of(hash));
    assert!(!bench.segment.has_room(1));
    assert!(!bench.segment.shrink(1, &mut bench.scratch, |_, _| {}));
    assert_eq!(bench.segment.memory_bytes(), 0);
}

#[test]
fn room_taken_ahead_is_enough() {
    let mut bench = Bench::new(13);
    bench.segment.reserve(3000, 400, &mut bench.scratch, |_, _| {});
    let bytes = bench.segment.memory_bytes();
    (0..3000).for_each(|n| bench.add(bench.hash(spread(n), n)));
    assert_eq!(bench.segment.memory_bytes(), bytes);
}

#[test]
fn numbers_of_lines_make_a_segment_grow_though_it_holds_little() {
    let mut bench = Bench::new(1);
    bench.add(bench.hash(1 << 60, 1));
    for bits in [14, 20, 25, 29] {
        let end = 1_u32 << bits;
        if !bench.segment.has_room(end) {
            bench.segment.make_room(end, &mut bench.scratch, Bench::hashes_of(&bench.lines, &bench.removed));
        }
        assert!(bench.segment.has_room(end), "2^{bits}");
        let hash = bench.hash(1 << 63, u64::from(end));
        let Found::Gap(gap) = bench.segment.search(spot_of(hash), |_| false) else { panic!() };
        bench.segment.insert(gap, spot_of(hash), end - 1);
        let mut lines = Vec::new();
        bench.segment.search(spot_of(hash), |line| {
            lines.push(line);
            false
        });
        assert!(lines.contains(&(end - 1)), "{lines:?}");
        assert!(bench.find(bench.hash(1 << 60, 1)).is_some());
    }
}

#[test]
fn the_index_takes_5_to_7_bytes_a_key_at_any_size() {
    let mut benches: Vec<Bench> = (0..512).step_by(11).map(Bench::new).collect();
    for n in 0..6000_u64 {
        benches.iter_mut().for_each(|bench| bench.add(bench.hash(spread(n), n)));
        if n > 500 {
            let all = benches.iter().map(|bench| bench.segment.memory_bytes()).sum::<usize>();
            let each = all as f64 / (benches.len() as u64 * (n + 1)) as f64;
            assert!((5.0..7.2).contains(&each), "{each} at {n}");
        }
    }
}
