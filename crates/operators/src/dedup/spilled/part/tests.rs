use proptest::prelude::*;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::*;
use crate::runs::TAIL;

/// Pairs of part 2 of 4, in order.
fn pairs(n: u64) -> Vec<Pair> {
    let hash = |i: u64| {
        let mixed = u128::from(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(i.wrapping_mul(77));
        mixed >> 2 | 2 << 126
    };
    let mut pairs: Vec<Pair> = (0..n).map(|i| Pair::new(hash(i), -3 + (i % 3) as i64)).collect();
    pairs.sort_unstable();
    pairs
}

fn built(n: u64) -> Built {
    let mut built = Part::build(2, 2, &pairs(n), 4);
    built.part.object = "runs/x".into();
    built
}

fn reopened(built: &Built) -> Part {
    let Part { footer_at, sum, .. } = built.part;
    Part::open("runs/x", footer_at, sum, &built.bytes[footer_at as usize..]).unwrap()
}

fn bytes(built: &Built, read: &StateRead) -> Vec<u8> {
    built.bytes[read.offset as usize..][..read.len as usize].to_vec()
}

/// Later versions must read this.
#[test]
fn golden_bytes_of_version_1() {
    let built = built(7);
    let hex: String = built.bytes.iter().map(|b| format!("{b:02x}")).collect();
    let golden: String = include_str!("golden.txt").split_whitespace().collect();
    assert_eq!(hex, golden, "found:\n{hex}");
    assert_eq!(verify("runs/x", &built.bytes).unwrap(), Verified { keys: 7, blocks: 2 });
}

#[test]
fn a_part_opened_from_its_footer_is_the_part_that_was_built() {
    for n in [1, 7, 300, 5000] {
        let built = built(n);
        assert_eq!(reopened(&built), built.part, "{n}");
    }
}

#[test]
fn every_pair_is_found_in_the_one_block_that_may_hold_it() {
    let built = built(3000);
    let part = reopened(&built);
    for pair in pairs(3000) {
        assert!(part.may_hold(pair.hash()));
        let block = part.block(pair.hash());
        let read = part.read(block..block + 1).unwrap();
        assert!(read.len < 400, "a block is small: {}", read.len);
        let mut found = vec![];
        let bytes = bytes(&built, &read);
        part.checked(block, &bytes).unwrap().find(pair.hash(), |bucket| found.push(bucket)).unwrap();
        assert_eq!(found, [pair.bucket]);
    }
}

#[test]
fn a_key_kept_at_several_times_is_found_with_all_of_them() {
    let hash = 2 << 126 | 99;
    let pairs: Vec<Pair> = (0..600).map(|n| Pair::new(hash, n * 17)).collect();
    let built = Part::build(2, 2, &pairs, 4);
    let part = reopened(&built);
    let block = part.block(hash);
    let mut found = vec![];
    let read = part.read(block..block + 1).unwrap();
    let bytes = bytes(&built, &read);
    part.checked(block, &bytes).unwrap().find(hash, |bucket| found.push(bucket)).unwrap();
    assert!(found.into_iter().eq((0..600).map(|n| n * 17)), "600 buckets need two bytes each");
    assert_eq!(verify("runs/x", &built.bytes).unwrap().keys, 600);
}

#[test]
fn every_single_flipped_bit_is_noticed() {
    let good = built(40);
    for bit in 0..good.bytes.len() * 8 {
        let mut bad = good.bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let error = verify("runs/x", &bad);
        assert!(error.is_err(), "bit {bit}");
        let named = error.unwrap_err().to_string();
        assert!(named.contains("runs/x") || named.contains("version"), "{named}");
    }
}

#[test]
fn every_cut_is_noticed() {
    let good = built(40);
    for len in 0..good.bytes.len() {
        assert!(verify("runs/x", &good.bytes[..len]).is_err(), "{len}");
    }
    let footer = &good.bytes[good.part.footer_at as usize..];
    for len in 0..footer.len() {
        assert!(Part::open("runs/x", good.part.footer_at, good.part.sum, &footer[..len]).is_err(), "{len}");
    }
}

#[test]
fn a_damaged_block_is_named() {
    let built = built(40);
    let read = built.part.read(1..2).unwrap();
    let mut bad = bytes(&built, &read);
    bad[3] ^= 1;
    let error = built.part.checked(1, &bad).unwrap_err().to_string();
    let place = format!("`runs/x`, block `1` at byte `{}`: the checksum says", read.offset);
    assert!(error.contains(&place), "{error}");
    let short = built.part.checked(1, &bad[1..]).unwrap_err().to_string();
    assert!(short.contains("not those of"), "{short}");
}

#[test]
fn another_file_under_the_name_is_told() {
    let (one, other) = (built(40), built(41));
    let footer = &other.bytes[other.part.footer_at as usize..];
    let error = Part::open("runs/x", other.part.footer_at, one.part.sum, footer).unwrap_err().to_string();
    assert!(error.contains("`runs/x`") && error.contains("this is another file"), "{error}");
}

#[test]
fn a_newer_version_is_told_apart_from_damage() {
    let mut newer = built(4).bytes;
    newer[4] = 2;
    assert!(matches!(verify("runs/x", &newer), Err(StateError::TooNew { found: 2, known: VERSION })));
}

#[test]
fn a_closed_key_takes_at_most_18_bytes_on_disk_and_2_in_memory() {
    let mut pairs: Vec<Pair> = (0..200_000_u64)
        .map(|i| {
            let high = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Pair::new(u128::from(high) << 64 | u128::from(high.rotate_left(29)), (i % 20) as i64)
        })
        .collect();
    pairs.sort_unstable();
    let built = Part::build(0, 0, &pairs, 256);
    let (disk, memory) = (built.bytes.len() as f64 / 2e5, built.part.memory_bytes() as f64 / 2e5);
    assert!(disk <= 18.0, "{disk}");
    assert!(memory <= 2.0, "{memory}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(
        set in prop::collection::btree_set((any::<u128>(), -3..400_i64), 0..300),
        block_pairs in 1..20_u64,
    ) {
        let pairs: Vec<Pair> = set.into_iter().map(|(hash, bucket)| Pair::new(hash, bucket)).collect();
        let built = Part::build(0, 0, &pairs, block_pairs);
        let part = reopened(&built);
        let mut found = vec![];
        let all = &built.bytes[HEAD..part.footer_at as usize];
        part.each(0..part.blocks(), all, |pair| found.push(pair)).unwrap();
        prop_assert_eq!(found, pairs);
        prop_assert_eq!(verify("x", &built.bytes).unwrap().keys, part.pairs());
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = verify("x", &bytes);
        let _ = Part::open("x", 8, 0, &bytes);
    }
}

/// Puts the right checksums under the changed bytes of a file whose footer begins at `at`: of the footer, and of the blocks that it tells.
fn summed(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let end = bytes.len() - TAIL - SUM;
    let sum = xxh3_64(&bytes[at..end]);
    bytes[end..end + SUM].copy_from_slice(&sum.to_le_bytes());
    let footer = (bytes.len() - TAIL - at) as u32;
    bytes[end + SUM..end + SUM + 4].copy_from_slice(&footer.to_le_bytes());
    bytes[end + SUM + 4..].copy_from_slice(&ENVELOPE.magic);
    let Ok(part) = Part::open("x", at as u64, sum, &bytes[at..]) else { return bytes };
    for block in 0..part.blocks() {
        let (from, to) = (part.block_at(block) as usize, part.block_at(block + 1) as usize - SUM);
        let sum = xxh3_64_with_seed(&bytes[from..to], u64::from(block));
        bytes[to..to + SUM].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

#[test]
fn fuzz_file_of_spilled_keys() {
    let files = [1, 7, 60].map(built);
    // In front of each file stands where its footer begins, so that both parts change.
    let example = |built: &Built| [&(built.part.footer_at as u16).to_le_bytes()[..], &built.bytes].concat();
    let examples: Vec<Vec<u8>> = files.iter().map(example).collect();
    testkit::Fuzz::new("file of spilled keys").examples(examples).memory_max(64 << 10, 64).run(
        20_000,
        |input| {
            let _ = verify("x", input);
            let Some((at, bytes)) = input.split_first_chunk::<2>() else { return };
            let at = usize::from(u16::from_le_bytes(*at));
            if at < HEAD || at + SUM + TAIL > bytes.len() {
                return;
            }
            let bytes = summed(bytes, at);
            let sum = u64::from_le_bytes(bytes[bytes.len() - TAIL - SUM..][..SUM].try_into().unwrap());
            let _ = verify("x", &bytes);
            let Ok(part) = Part::open("x", at as u64, sum, &bytes[at..]) else { return };
            for hash in [0, 1 << 127, u128::MAX, pairs(1)[0].hash()] {
                part.may_hold(hash);
                let block = part.block(hash);
                let Some(read) = part.read(block..block + 1) else { continue };
                let own = &bytes[read.offset as usize..][..read.len as usize];
                let _ = part.checked(block, own).map(|block| block.find(hash, |_| {}));
            }
        },
    );
}

#[test]
fn a_footer_at_a_place_that_no_part_has_is_damage() {
    let built = built(7);
    let Part { footer_at, sum, .. } = built.part;
    for at in [u64::MAX, u64::MAX - 5, 1 << 40] {
        let error = Part::open("runs/x", at, sum, &built.bytes[footer_at as usize..]).unwrap_err();
        assert!(error.to_string().contains("no part is as long as that"), "{error}");
    }
}
