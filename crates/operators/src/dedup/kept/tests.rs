use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::group::Plain;
use super::*;

fn hashes<'a>(bytes: impl Iterator<Item = &'a [u8]>) -> Vec<u128> {
    bytes.flat_map(|bytes| bytes.as_chunks::<16>().0).map(|bytes| u128::from_le_bytes(*bytes)).collect()
}

impl Kept {
    /// All pairs, in the order of their buckets.
    pub fn pairs(&self) -> Vec<(u128, i64)> {
        let of =
            |used: Bucket| hashes(self.bytes(used.place)).into_iter().map(move |hash| (hash, used.bucket));
        self.buckets().flat_map(of).collect()
    }
}

/// True if the pair is in the set now, false if a kept record of the key was near.
fn offer(kept: &mut Kept, hash: u128, bucket: i64) -> bool {
    offer_all(kept, &[(hash, bucket)]).is_empty()
}

/// Offers pairs as one chunk; gives those that were known. Of an even number, as on every processor.
fn offer_all(kept: &mut Kept, pairs: &[(u128, i64)]) -> Vec<usize> {
    let (mut chunk, mut known) = (Chunk::default(), Vec::new());
    let hashes: Vec<u128> = pairs.iter().map(|(hash, _)| *hash).collect();
    chunk.fill(&hashes, pairs.iter().map(|(_, bucket)| *bucket));
    if pairs.len().is_multiple_of(2) {
        kept.offer_by(Plain, &hashes, &mut chunk, 0..pairs.len(), |row| known.push(row));
    } else {
        kept.offer_all(&hashes, &mut chunk, 0..pairs.len(), |row| known.push(row));
    }
    known
}

impl Kept {
    fn add(&mut self, hash: u128, bucket: i64) {
        self.add_all(std::iter::once(hash), bucket);
    }
}

/// A hash for a number; they spread over all segments.
fn hash(n: u64) -> u128 {
    u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64
}

#[test]
fn a_key_at_many_times_does_not_pile_up() {
    let mut kept = Kept::new();
    let times = 200_000;
    for n in 0..times {
        assert!(offer(&mut kept, 42, n * (SPAN as i64 + 1)));
    }
    assert_eq!(kept.len(), times as u64);
    let most = (0..times * (SPAN as i64 + 1) / BLOCK).map(|block| {
        let (mixed, lines) = (mix(42, block), Cell::new(0));
        kept.segments[segment_of(mixed)].search(spot_of(mixed), |line| {
            lines.set(lines.get() + usize::from(kept.spot(line, 42, |_| true).is_some()));
            false
        });
        lines.get()
    });
    assert_eq!(most.max(), Some((BLOCK / (SPAN as i64 + 1) + 1) as usize));
}

#[test]
fn blocks_set_a_hash_apart_and_block_0_leaves_it_alone() {
    assert_eq!(mix(12345 << 64 | 6, 0), 12345);
    let segments: BTreeSet<usize> = (0..1000).map(|block| segment_of(mix(12345 << 64, block))).collect();
    assert!(segments.len() > 400, "1000 blocks lie in {} segments of 512", segments.len());
}

#[test]
fn without_a_window_a_key_has_one_spot() {
    let (first, last) = blocks_near(0);
    assert_eq!((first, last, block(0)), (0, 0, 0));
    let blocks: Vec<i64> =
        (-2 * BLOCK..2 * BLOCK).filter(|b| blocks_near(*b).0 != blocks_near(*b).1).collect();
    assert_eq!(blocks.len(), 4 * 2 * SPAN as usize, "one bucket in 32 has two");
    for bucket in (-2 * BLOCK..2 * BLOCK).chain([i64::MIN, i64::MIN + 3, i64::MAX - 3, i64::MAX - 1]) {
        let (first, last) = blocks_near(bucket);
        let other = [first, last].into_iter().find(|near| *near != block(bucket));
        assert_eq!(other_block(bucket), other, "{bucket}");
    }
}

#[test]
fn what_is_over_is_cleared_away_bit_by_bit_and_memory_shrinks() {
    let mut kept = Kept::new();
    for n in 0..200_000 {
        kept.add(hash(n), (n / 5000) as i64);
    }
    let full = kept.memory_bytes();
    assert!(full < 200_000 * 25, "{full}");
    kept.expire(Some(30));
    assert_eq!(kept.len(), 50_000);
    let pages = |kept: &Kept| kept.pages.memory_bytes();
    let before = pages(&kept);
    kept.clean(1000);
    assert!(pages(&kept) > before - before / 8, "16 pages of 3000");
    kept.clean(150_000);
    (0..8).for_each(|_| kept.shrink());
    assert!(kept.memory_bytes() < full * 3 / 5, "{} of {full}", kept.memory_bytes());
    for n in 0..200_000 {
        let bucket = (n / 5000) as i64;
        assert_eq!(kept.has_near(hash(n), bucket), bucket >= 30);
    }
}

#[test]
fn more_buckets_than_a_window_has_lose_nothing_and_weigh_by_their_pages() {
    let mut kept = Kept::new();
    let pair = |n: u64| (hash(n), (n % 3000) as i64 * 40);
    for n in 0..20_000 {
        assert!(offer(&mut kept, pair(n).0, pair(n).1));
    }
    let (mut found, mut wanted) = (kept.pairs(), (0..20_000).map(pair).collect::<Vec<_>>());
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    assert_eq!((kept.len(), kept.weight()), (20_000, (3000 - PAGES_FREE) * PAGE_WEIGHT));
    for n in 0..20_000 {
        assert!(!offer(&mut kept, pair(n).0, pair(n).1 + 3));
    }
    let bytes = kept.memory_bytes();
    for round in 1..20 {
        let floor = round * 3000 * 40;
        kept.expire(Some(floor));
        for n in 0..3000 {
            kept.clean(4);
            offer(&mut kept, hash(n), floor + n as i64 * 40);
        }
    }
    assert_eq!(kept.weight(), (3000 - PAGES_FREE) * PAGE_WEIGHT);
    assert!(kept.memory_bytes() < bytes * 3, "{} of {bytes}: pages are used again", kept.memory_bytes());
}

#[test]
fn spilling_takes_the_earliest_buckets_until_the_rest_is_light() {
    let mut kept = Kept::new();
    for n in 0..10_000 {
        kept.add(hash(n), (n / 1000) as i64);
    }
    kept.add(hash(1 << 40), UNPLACED);
    assert_eq!(kept.spill(4001), 6000);
    assert_eq!(kept.spill(0), 0, "one is under way");
    assert!(!offer(&mut kept, hash(1), 0), "they are there until they are in a file");
    kept.add(hash(20_000), 3);
    let mut copied = Vec::new();
    assert!(kept.gather(usize::MAX, &mut copied));
    let mut wanted: Vec<Pair> = (0..6000).map(|n| Pair::new(hash(n), (n / 1000) as i64)).collect();
    wanted.sort_unstable();
    copied.sort_unstable();
    assert!(copied == wanted, "what came later to a spilling bucket stays");
    kept.spilled();
    assert_eq!(kept.len(), 4002);
    assert_eq!(kept.buckets().map(|used| used.bucket).collect::<Vec<_>>(), [UNPLACED, 3, 6, 7, 8, 9]);
}

#[test]
fn what_is_copied_for_a_file_is_told_from_what_is_not() {
    let mut kept = Kept::new();
    for n in 0..10_000 {
        kept.add(hash(n), (n % 3) as i64);
    }
    assert_eq!(kept.spill(0), 10_000);
    let mut copied = Vec::new();
    assert!(!kept.gather(4500, &mut copied), "one bucket and a part of the next");
    assert!((4400..4600).contains(&copied.len()), "{}", copied.len());
    let is_copied: BTreeSet<u128> = copied.iter().map(Pair::hash).collect();
    for n in (0..10_000).step_by(7) {
        let wanted = if is_copied.contains(&hash(n)) { Removed::Copied } else { Removed::Yes };
        assert_eq!(kept.remove(hash(n), (n % 3) as i64), wanted);
    }
    let before = copied.len();
    assert!(kept.gather(usize::MAX, &mut copied));
    let rest = copied[before..].iter().filter(|pair| is_copied.contains(&pair.hash())).count();
    assert_eq!(rest, 0, "none is copied twice");
    let left = (0..10_000).step_by(7).filter(|n| is_copied.contains(&hash(*n))).count();
    assert_eq!(
        copied.len(),
        10_000 - (10_000_usize.div_ceil(7) - left),
        "what was removed before is not copied"
    );
}

#[test]
fn spilling_buckets_that_expire_meanwhile_do_not_confuse_the_copying() {
    for (looked, floor) in [(0, 1), (3500, 1), (3500, 2), (10_000, 2), (5000, 9)] {
        let mut kept = Kept::new();
        for n in 0..10_000 {
            kept.add(hash(n), (n % 3) as i64);
        }
        assert_eq!(kept.spill(0), 10_000);
        let mut copied = Vec::new();
        kept.gather(looked, &mut copied);
        kept.expire(Some(floor));
        kept.clean(usize::MAX);
        assert!(kept.gather(usize::MAX, &mut copied));
        let count = copied.len();
        copied.sort_unstable();
        copied.dedup();
        assert_eq!(copied.len(), count, "none twice: {looked} looked at, {floor}");
        let open = copied.iter().filter(|pair| pair.bucket >= floor).count();
        assert_eq!(open, (0..10_000).filter(|n| n % 3 >= floor).count());
    }
}

#[derive(Clone, Debug)]
enum Act {
    /// One chunk.
    Offer(Vec<(u128, i64)>),
    /// As a seal does, after its delta.
    Note,
    /// So many hashes.
    Clean(usize),
    Add(u128, i64),
    Remove(u128, i64),
    Expire(i64),
    Move(i64, i64),
}

/// Few hashes, crowded at both ends of a segment and of the table, so that runs touch and overflow.
fn crowded() -> impl Strategy<Value = u128> {
    let ends = prop_oneof![Just(0), Just(u128::MAX), Just(1 << 120), Just((1 << 120) - 1)];
    (ends, 0..60_u128).prop_map(|(end, n)| end.wrapping_add(n))
}

fn act() -> impl Strategy<Value = Act> {
    // In the middle of a block, and where two meet.
    let bucket = || prop_oneof![1000..1060_i64, BLOCK * 3 / 2 - 40..BLOCK * 3 / 2 + 40];
    let pairs = || prop::collection::vec((crowded(), bucket()), 1..8);
    // A page and more of new hashes, one after the other.
    let many = (0..1_u128 << 60, 1..200_u64, bucket())
        .prop_map(|(first, len, bucket)| (0..len).map(|n| (first ^ hash(n + 1), bucket)).collect::<Vec<_>>());
    prop_oneof![
        8 => pairs().prop_map(Act::Offer),
        1 => many.prop_map(Act::Offer),
        1 => Just(Act::Note),
        1 => (1..200_usize).prop_map(Act::Clean),
        8 => (crowded(), bucket()).prop_map(|(h, b)| Act::Add(h, b)),
        4 => (crowded(), bucket()).prop_map(|(h, b)| Act::Remove(h, b)),
        1 => bucket().prop_map(Act::Expire),
        1 => (bucket(), bucket()).prop_map(|(a, b)| Act::Move(a, b)),
    ]
}

proptest! {
    #[test]
    fn it_is_a_set_of_pairs(acts in prop::collection::vec(act(), 1..600)) {
        let (mut kept, mut model, mut noted) = (Kept::new(), BTreeSet::new(), BTreeSet::new());
        for act in acts {
            match act {
                Act::Offer(pairs) => {
                    let (hash, bucket) = pairs[0];
                    let is_near = |model: &BTreeSet<(u128, i64)>, hash, bucket: i64| {
                        model.iter().any(|(h, b)| *h == hash && near(*b, bucket))
                    };
                    prop_assert_eq!(kept.has_near(hash, bucket), is_near(&model, hash, bucket));
                    let known: Vec<usize> = pairs.iter().enumerate().filter_map(|(row, (hash, bucket))| {
                        let is_near = is_near(&model, *hash, *bucket);
                        if !is_near {
                            model.insert((*hash, *bucket));
                        }
                        is_near.then_some(row)
                    }).collect();
                    prop_assert_eq!(offer_all(&mut kept, &pairs), known);
                }
                Act::Add(hash, bucket) => {
                    kept.add(hash, bucket);
                    model.insert((hash, bucket));
                }
                Act::Remove(hash, bucket) => {
                    prop_assert_eq!(kept.remove(hash, bucket) != Removed::No, model.remove(&(hash, bucket)));
                    noted.remove(&(hash, bucket));
                }
                Act::Note => {
                    kept.note();
                    noted.clone_from(&model);
                }
                Act::Clean(hashes) => {
                    kept.clean(hashes);
                    kept.shrink();
                }
                Act::Expire(floor) => {
                    kept.expire(Some(floor));
                    model.retain(|(_, bucket)| *bucket >= floor);
                    noted.retain(|(_, bucket)| *bucket >= floor);
                }
                Act::Move(from, to) => {
                    kept.move_bucket(from, to);
                    model = model.into_iter().map(|(h, b)| (h, if b == from { to } else { b })).collect();
                    kept.note();
                    noted.clone_from(&model);
                }
            }
            prop_assert_eq!(kept.len(), model.len() as u64);
            let fresh = kept.buckets().flat_map(|used| {
                hashes(kept.fresh_bytes(used.place)).into_iter().map(move |hash| (hash, used.bucket))
            });
            let fresh: Vec<_> = fresh.collect();
            prop_assert_eq!(fresh.len(), kept.buckets().map(|used| kept.fresh(used.place)).sum::<usize>());
            prop_assert!(fresh.is_empty() || kept.has_fresh());
            prop_assert_eq!(fresh.into_iter().collect::<BTreeSet<_>>(), &model - &noted);
        }
        prop_assert_eq!(kept.pairs().into_iter().collect::<BTreeSet<_>>(), model);
    }
}

proptest! {
    /// Keys that come again while they wait to be decided: the waiting ones must be decided before what comes after a segment was rebuilt.
    #[test]
    fn a_key_that_comes_again_while_its_segment_is_rebuilt_is_known(
        records in prop::collection::vec((0..3_u32, 1..64_usize), 100..900),
        (segments, seed) in (1..3_u64, 0..u64::MAX / 2),
        cuts in prop::collection::vec(1..200_usize, 0..8),
    ) {
        let mut hashes: Vec<u128> = Vec::new();
        for (n, (choice, back)) in (seed..).zip(records) {
            let again = hashes.len().checked_sub(back).filter(|_| choice == 0);
            // Of the first bits, those of the segment alone are few.
            let new = hash(n) >> 9 & u128::MAX >> 9 | u128::from(n % segments) << 119;
            hashes.push(again.map_or(new, |at| hashes[at]));
        }
        let mut seen = BTreeSet::new();
        let wanted: Vec<usize> = (0..hashes.len()).filter(|row| !seen.insert(hashes[*row])).collect();
        for is_plain in [true, false] {
            let (mut kept, mut chunk, mut known) = (Kept::new(), Chunk::default(), Vec::new());
            chunk.fill(&hashes, hashes.iter().map(|_| 0));
            let mut first = 0_usize;
            for len in cuts.iter().copied().chain([usize::MAX]) {
                let rows = first..first.saturating_add(len).min(hashes.len());
                first = rows.end;
                if is_plain {
                    kept.offer_by(Plain, &hashes, &mut chunk, rows, |row| known.push(row));
                } else {
                    kept.offer_all(&hashes, &mut chunk, rows, |row| known.push(row));
                }
            }
            prop_assert_eq!(&known, &wanted);
        }
    }
}

#[test]
fn no_record_is_written_where_none_belongs() {
    let mut kept = Kept::new();
    for n in 0..300 {
        assert!(offer(&mut kept, hash(n), n as i64 / 100));
    }
    assert_eq!(kept.pages.count(0, 0), 0, "page 0 stands for none");
}
