use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn shape() -> Shape {
    let key = vec![("id".to_owned(), "uuid".to_owned()), ("né".to_owned(), "int".to_owned())];
    Shape { key, window: Window::new(Some(Duration::from_millis(160))).unwrap() }
}

type Groups = Vec<(i64, Vec<u128>)>;

fn write(kind: Kind, watermark: Option<i64>, forgotten: &Groups, added: &Groups) -> Vec<u8> {
    let mut to = Writer::new(kind, &shape(), watermark, 0);
    for groups in [forgotten, added] {
        to.groups(groups.len());
        for (bucket, hashes) in groups {
            let mut end = to.group(*bucket, hashes.len());
            hashes.iter().for_each(|hash| to.put(&mut end, *hash));
        }
    }
    to.finish()
}

fn read(parsed: &[Group<'_>]) -> Groups {
    parsed.iter().map(|g| (g.bucket, g.hashes().collect())).collect()
}

fn example() -> Vec<u8> {
    write(Kind::Delta, Some(-3), &vec![(i64::MIN, vec![1])], &vec![(-1, vec![2, u128::MAX]), (5, vec![3])])
}

/// Puts the right checksum under bytes that a test changed.
fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let body = bytes.len() - CHECKSUM;
    let sum = xxh3_64(&bytes[..body]);
    bytes[body..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn refusal(bytes: &[u8]) -> String {
    parse(bytes, Kind::Delta, &shape()).unwrap_err().to_string()
}

/// Later versions must go on reading this.
#[test]
fn golden_bytes_of_version_1() {
    let hex: String = example().iter().map(|b| format!("{b:02x}")).collect();
    let golden: String = include_str!("golden.txt").split_whitespace().collect();
    assert_eq!(hex, golden, "found:\n{hex}");
}

#[test]
fn every_single_flipped_bit_is_noticed() {
    let good = example();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&bad, Kind::Delta, &shape()).is_err(), "bit {bit}");
    }
}

#[test]
fn every_cut_is_noticed() {
    let good = example();
    for len in 0..good.len() {
        assert!(matches!(parse(&good[..len], Kind::Delta, &shape()), Err(StateError::Damaged(_))), "{len}");
        if len > CHECKSUM {
            // The sum is right, so that the lengths inside are what is checked.
            let cut = summed(good[..len].to_vec());
            assert!(parse(&cut, Kind::Delta, &shape()).is_err(), "{len} with a checksum");
        }
    }
    let mut longer = good;
    longer.push(0);
    assert!(refusal(&summed(longer)).contains("`1` bytes are left over"));
}

#[test]
fn lengths_are_checked_before_anything_is_allocated() {
    let good = example();
    let forgotten = good.len() - CHECKSUM - (4 + 2 * GROUP_HEAD + 3 * HASH) - (4 + GROUP_HEAD + HASH);
    let mut bad = good.clone();
    bad[forgotten..forgotten + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        refusal(&summed(bad)),
        format!(
            "state is damaged: dedup state, byte `{forgotten}`: `4294967295` groups of forgotten pairs do not fit; restore the \
             store from a backup, nothing was guessed"
        )
    );
    let mut bad = good;
    bad[forgotten + 12..forgotten + 20].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(refusal(&summed(bad)).contains("forgotten needs `18446744073709551615` bytes"));
}

#[test]
fn a_newer_version_is_told_apart_from_damage() {
    let mut newer = example();
    newer[4] = 2;
    assert!(matches!(
        parse(&newer, Kind::Delta, &shape()),
        Err(StateError::TooNew { found: 2, known: VERSION })
    ));
    assert!(refusal(b"GIF89a").contains("byte `0`: this is not dedup state"));
}

#[test]
fn a_delta_is_no_snapshot() {
    let error = parse(&example(), Kind::Snapshot, &shape()).unwrap_err().to_string();
    assert!(error.contains("byte `6`: kind `2` where `1` (Snapshot) belongs"), "{error}");
}

#[test]
fn another_shape_is_named() {
    let mut other = shape();
    other.key.pop();
    other.window = Window::Unbounded;
    let Err(StateError::Configured { was, now, .. }) = parse(&example(), Kind::Delta, &other) else {
        panic!()
    };
    assert_eq!(was, "key `id uuid, né int`, window `160ms in buckets of 10ms`");
    assert_eq!(now, "key `id uuid`, window `unbounded`");
}

fn groups() -> impl Strategy<Value = Groups> {
    prop::collection::vec((i64::MIN..i64::MAX, prop::collection::vec(any::<u128>(), 0..5)), 0..5)
}

proptest! {
    #[test]
    fn what_is_written_is_read(watermark in any::<Option<i64>>(), forgotten in groups(), added in groups()) {
        let bytes = write(Kind::Snapshot, watermark, &forgotten, &added);
        let parsed = parse(&bytes, Kind::Snapshot, &shape()).unwrap();
        prop_assert_eq!(parsed.watermark, watermark);
        prop_assert_eq!(read(&parsed.forgotten), forgotten);
        prop_assert_eq!(read(&parsed.added), added);
    }

    #[test]
    fn no_bytes_make_it_panic(at in 6..200_usize, noise in prop::collection::vec(any::<u8>(), 1..40)) {
        let mut bytes = example();
        for (n, byte) in noise.iter().enumerate() {
            if let Some(old) = bytes.get_mut(at + n) {
                *old = *byte;
            }
        }
        let _ = parse(&summed(bytes), Kind::Delta, &shape());
    }
}

#[test]
fn fuzz_dedup_state() {
    let snapshot = write(Kind::Snapshot, None, &vec![], &vec![(7, vec![9; 3])]);
    let fuzz = testkit::Fuzz::new("dedup state").examples([example(), snapshot]);
    fuzz.run(30_000, |bytes| {
        let _ = parse(bytes, Kind::Delta, &shape());
        if bytes.len() < CHECKSUM {
            return;
        }
        let bytes = summed(bytes.to_vec());
        for kind in [Kind::Delta, Kind::Snapshot] {
            let Ok(parsed) = parse(&bytes, kind, &shape()) else { continue };
            let again = write(kind, parsed.watermark, &read(&parsed.forgotten), &read(&parsed.added));
            // A watermark that is not known has bytes that say nothing.
            if parsed.watermark.is_some() {
                assert!(again == bytes, "what was read is written alike");
            }
        }
    });
}
