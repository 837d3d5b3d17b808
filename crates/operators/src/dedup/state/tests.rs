use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use dataflow::{Column, ColumnType, Operator, Schema, StateError};

use super::super::spilled::part::{Pair, Part};
use super::super::{Dedup, DedupConfig, Late};
use super::*;

fn shape() -> Shape {
    let key = vec![("id".to_owned(), "uuid".to_owned()), ("né".to_owned(), "int".to_owned())];
    Shape { key, window: Window::new(Some(Duration::from_millis(160))).unwrap() }
}

type Groups = Vec<(i64, Vec<u128>)>;

fn write(kind: Kind, watermark: Option<i64>, forgotten: &Groups, added: &Groups) -> Vec<u8> {
    let mut to = Writer::new(kind, &shape(), watermark, 0, &Spares::default());
    for groups in [forgotten, added] {
        to.groups(groups.len());
        for (bucket, hashes) in groups {
            to.group(*bucket, hashes.len());
            hashes.iter().for_each(|hash| to.hash(*hash));
        }
    }
    to.finish().to_vec()
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

/// Later versions must read this.
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
    newer[4] = 4;
    assert!(matches!(
        parse(&newer, Kind::Delta, &shape()),
        Err(StateError::TooNew { found: 4, known: VERSION })
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

/// A snapshot of input that is out of order, with a run and what is set aside.
fn example_with_disorder() -> Vec<u8> {
    let built = Part::build(0, 0, &[Pair::new(77, 3)], 4);
    let mut runs = Runs::default();
    let mut part = built.part;
    part.object = "runs/8".into();
    runs.add(0, vec![Some(Arc::new(part))], std::collections::BTreeMap::default());
    let mut to = Writer::with_disorder(&shape(), Some(9), 0, &Spares::default());
    to.groups(0);
    to.groups(0);
    to.runs(&runs);
    to.disorder(Disorder { seen: 5 });
    for hash in [1, 2] {
        to.groups(1);
        to.group(3, 1);
        to.hash(hash);
    }
    to.finish().to_vec()
}

#[test]
fn fuzz_dedup_state() {
    let snapshot = write(Kind::Snapshot, None, &vec![], &vec![(7, vec![9; 3])]);
    let examples = [example(), snapshot, example_with_runs(), example_with_disorder()];
    let fuzz = testkit::Fuzz::new("dedup state").examples(examples).memory_max(64 << 10, 64);
    fuzz.run(30_000, |bytes| {
        let _ = parse(bytes, Kind::Delta, &shape());
        if bytes.len() < CHECKSUM {
            return;
        }
        let bytes = summed(bytes.to_vec());
        for kind in [Kind::Delta, Kind::Snapshot] {
            let Ok(parsed) = parse(&bytes, kind, &shape()) else { continue };
            if bytes[4] != 1 {
                // A snapshot with runs, which this writes without them.
                continue;
            }
            let again = write(kind, parsed.watermark, &read(&parsed.forgotten), &read(&parsed.added));
            // A watermark that is not known has bytes that say nothing.
            if parsed.watermark.is_some() {
                assert!(again == bytes, "what was read is written alike");
            }
        }
    });
}

/// A step of that shape.
fn step() -> Dedup {
    let columns = vec![Column::new("id", ColumnType::Uuid), Column::new("né", ColumnType::Int64)];
    let key = vec!["id".to_owned(), "né".to_owned()];
    let step = Dedup::new(
        &Schema::new(columns),
        DedupConfig { key, window: Some(Duration::from_millis(160)), late: Late::Keep },
    )
    .unwrap();
    assert_eq!(step.shape, shape());
    step
}

#[test]
fn fuzz_restore_of_dedup_state() {
    let examples = [example(), example_with_runs(), example_with_disorder()];
    // The memory for parts is bounded for all runs together, whatever their heads say.
    let base = (PARTS_MAX as usize) * size_of::<usize>() + (8 << 20);
    let built = Part::build(0, 0, &[Pair::new(77, 3)], 4);
    let file = &built.bytes[built.part.footer_at as usize..];
    testkit::Fuzz::new("restored dedup state").examples(examples).memory_max(base, 1 << 10).run(
        3_000,
        |bytes| {
            if bytes.len() < CHECKSUM {
                return;
            }
            let bytes = summed(bytes.to_vec());
            let mut dedup = step();
            let state = dedup.state().expect("it keeps state");
            if let Ok(reads) = state.restore(&bytes) {
                // Whatever stands under the name of a file.
                let opened = reads.iter().try_for_each(|_| state.open(file));
                if opened.is_ok() {
                    let _ = state.apply(&summed(example()));
                    assert!(
                        state.entries() <= 1 << 32
                            && state.memory_bytes() > 0
                            && state.files().len() <= reads.len()
                    );
                }
            }
            let _ = state.apply(&bytes);
        },
    );
}

#[test]
fn heads_of_runs_take_no_more_memory_than_all_parts_may_have() {
    let mut to = Writer::with_runs(&shape(), Some(9), 0, &Spares::default());
    to.groups(0);
    to.groups(0);
    let mut bytes = to.finish().to_vec();
    bytes.truncate(bytes.len() - CHECKSUM);
    let runs = 1_000_u32;
    bytes.extend_from_slice(&runs.to_le_bytes());
    for _ in 0..runs {
        // 2^20 parts, nothing dead, no file.
        bytes.extend_from_slice(&[20, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    bytes.extend_from_slice(&[0; CHECKSUM]);
    let error = parse(&summed(bytes), Kind::Snapshot, &shape()).unwrap_err().to_string();
    assert!(error.contains("parts, beyond"), "{error}");
}

/// A snapshot with one sorted run of two parts, one of which holds a pair, and one dead pair.
fn example_with_runs() -> Vec<u8> {
    let hash = 1 << 127 | 5;
    let built = Part::build(1, 1, &[Pair::new(hash, 3)], 4);
    let mut part = built.part;
    part.object = "runs/7".into();
    let mut runs = Runs::default();
    let dead = [(3, [hash].into())].into();
    runs.add(1, vec![None, Some(Arc::new(part))], dead);
    let mut to = Writer::with_runs(&shape(), Some(9), 0, &Spares::default());
    to.groups(0);
    to.groups(0);
    to.runs(&runs);
    to.finish().to_vec()
}

/// Later versions must read this.
#[test]
fn golden_bytes_of_version_2() {
    let hex: String = example_with_runs().iter().map(|b| format!("{b:02x}")).collect();
    let golden: String = include_str!("golden_2.txt").split_whitespace().collect();
    assert_eq!(hex, golden, "found:\n{hex}");
}

#[test]
fn a_snapshot_names_its_runs() {
    let bytes = example_with_runs();
    let parsed = parse(&bytes, Kind::Snapshot, &shape()).unwrap();
    let [run] = parsed.runs.as_slice() else { panic!("one run") };
    assert_eq!((run.part_bits, read(&run.dead)), (1, vec![(3, vec![1 << 127 | 5])]));
    assert_eq!(run.files.iter().map(|file| file.object.as_str()).collect::<Vec<_>>(), ["runs/7"]);
}

#[test]
fn every_cut_and_every_flipped_bit_of_a_snapshot_with_runs_is_noticed() {
    let good = example_with_runs();
    for len in 0..good.len() {
        assert!(parse(&good[..len], Kind::Snapshot, &shape()).is_err(), "{len}");
        if len > CHECKSUM {
            assert!(
                parse(&summed(good[..len].to_vec()), Kind::Snapshot, &shape()).is_err(),
                "{len} with a checksum"
            );
        }
    }
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&bad, Kind::Snapshot, &shape()).is_err(), "bit {bit}");
    }
}

#[test]
fn a_file_whose_footer_cannot_be_is_refused() {
    let mut bytes = example_with_runs();
    // The footer's place is 24 bytes before the end: place, checksum of the footer, checksum of all.
    let at = bytes.len() - 24;
    bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    let error = parse(&summed(bytes), Kind::Snapshot, &shape()).unwrap_err().to_string();
    assert!(error.contains("`runs/7` with"), "{error}");
}

#[test]
fn large_bytes_begin_at_a_page_of_memory_and_are_those_of_small_memory() {
    let write = |entries| {
        let mut to = Writer::new(Kind::Delta, &shape(), Some(9), entries, &Spares::default());
        to.groups(0);
        to.groups(1);
        to.group(9, 100_000);
        (0..100_000_u128).for_each(|hash| to.hash(hash << 64));
        to.finish()
    };
    let (planned, grown) = (write(100_001), write(0));
    assert!(planned.as_ptr().addr().is_multiple_of(dataflow::PAGE_BYTES));
    assert!(planned == grown);
    assert_eq!(parse(&planned, Kind::Delta, &shape()).unwrap().added[0].hashes().count(), 100_000);
}
