use super::*;

fn of(values: impl Iterator<Item = u64>) -> Sample {
    let mut sample = Sample::default();
    values.for_each(|value| sample.add(mixed(value) as u32));
    sample
}

fn bytes(sample: &Sample) -> Vec<u8> {
    let mut bytes = vec![sample.skipped_bits as u8];
    put_varint(sample.size.into(), &mut bytes);
    sample.hashes().for_each(|hash| bytes.extend_from_slice(&hash.to_le_bytes()));
    bytes
}

fn sorted(sample: &Sample) -> (u32, Vec<u32>) {
    let mut hashes: Vec<u32> = sample.hashes().collect();
    hashes.sort_unstable();
    (sample.skipped_bits, hashes)
}

/// What ClickHouse 26.7 says: `SELECT cityHash64(unhex(hex(uniqState(number)))) FROM numbers(N)` with one thread.
#[test]
fn samples_of_many_values_are_byte_for_byte_those_of_the_server() {
    for (values, expected) in [
        (65_536, 13_935_323_090_857_264_467),
        (65_537, 12_776_175_443_540_095_034),
        (100_000, 14_393_570_325_256_008_624),
        (300_000, 4_120_992_713_963_270_827),
    ] {
        assert_eq!(city::hash(&bytes(&of(0..values))), expected, "{values}");
    }
}

#[test]
fn parts_that_are_merged_are_the_sample_of_all_rows() {
    for (values, parts) in [(0, 1), (1, 3), (20, 3), (5_000, 7), (90_000, 2), (300_000, 9)] {
        let all = of(0..values);
        let part = |part: u64| of((0..values).filter(move |value| value % parts == part));
        let mut merged = part(parts - 1);
        (0..parts - 1).for_each(|number| merged.merge(&part(number)));
        assert_eq!(sorted(&merged), sorted(&all), "{values} in {parts}");
        assert!(all.size <= SIZE_MAX && all.memory_bytes() <= 8 * SIZE_MAX as usize);
    }
}

#[test]
fn what_is_written_for_a_seal_is_read_again_and_damage_is_refused() {
    let sizes = [0, 1, 8, 9, 1_000, 100_000];
    let kept = Uniques { groups: sizes.map(|values| of(0..values)).to_vec(), bytes: 0 };
    let mut written = Vec::new();
    kept.write(&mut written);
    let read = |bytes: &[u8]| {
        let mut again = Uniques::default();
        again.read(&mut Reader(bytes), &[1; 6]).map(|()| again)
    };
    let again = read(&written).unwrap();
    for (before, after) in kept.groups.iter().zip(&again.groups) {
        assert_eq!(sorted(before), sorted(after));
    }
    assert!(read(&written[..written.len() - 1]).is_err(), "too short");
    // A hash twice, and one that would have been skipped.
    for (bits, hashes) in [(0, [4_u32, 4]), (3, [8, 4])] {
        let mut damaged = vec![bits];
        put_len(&mut damaged, 2);
        hashes.iter().for_each(|hash| damaged.extend_from_slice(&hash.to_le_bytes()));
        assert!(Uniques::default().read(&mut Reader(&damaged), &[1]).is_err(), "{hashes:?}");
    }
}
