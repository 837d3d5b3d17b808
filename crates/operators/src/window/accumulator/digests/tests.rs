use super::super::uniques::city;
use super::*;

fn of(values: impl Iterator<Item = f64>) -> Digest {
    let mut digest = Digest::default();
    values.for_each(|value| digest.add(Centroid { mean: value as f32, weight: 1.0 }));
    digest
}

/// The bytes of a state, which is compressed before.
fn bytes(digest: &Digest) -> Vec<u8> {
    let (mut digest, mut bytes) = (digest.clone(), Vec::new());
    digest.compress();
    put_varint(digest.centroids.len() as u64, &mut bytes);
    put_centroids(&digest.centroids, &mut bytes);
    bytes
}

fn scattered(n: u64) -> f64 {
    (n * 7_919 % 100_003) as f64 / 8.0
}

fn with_infinities(n: u64) -> f64 {
    match n % 1_000 {
        7 => f64::INFINITY,
        8 => f64::NEG_INFINITY,
        _ => (n * 7_919 % 1_009) as f64,
    }
}

/// What ClickHouse 26.7 says with one thread: `SELECT cityHash64(unhex(hex(quantileTDigestState(toFloat64(…))))) FROM numbers(N)`.
#[test]
fn digests_of_many_values_are_byte_for_byte_those_of_the_server() {
    for (values, rising, over_and_over, infinite) in [
        (1_000, 5_176_905_077_303_024_293, 11_592_531_944_825_034_290, 844_900_077_596_724_419),
        (2_048, 18_442_259_757_381_568_290, 15_007_694_854_680_206_616, 7_916_428_668_786_339_534),
        (2_049, 5_888_904_199_247_630_303, 15_757_348_325_322_824_397, 6_935_600_650_652_693_061),
        (5_000, 3_673_137_485_802_375_854, 16_257_737_034_796_685_300, 4_015_717_382_297_126_408),
        (100_000, 5_722_224_968_013_375_857, 6_872_196_088_389_629_011, 9_085_431_656_260_413_817),
    ] {
        let hash = |value: fn(u64) -> f64| city::hash(&bytes(&of((0..values).map(value))));
        assert_eq!(hash(|n| n as f64), rising, "{values}");
        assert_eq!(hash(scattered), over_and_over, "{values}");
        assert_eq!(hash(with_infinities), infinite, "{values}");
    }
}

#[test]
fn parts_are_merged_as_the_server_merges_states_and_stay_small() {
    let parts: Vec<Digest> =
        (0..50).map(|part| of((part * 3_000..(part + 1) * 3_000).map(scattered))).collect();
    let mut groups = Digests { groups: vec![Digest::default()], bytes: 0 };
    for part in &parts {
        let part = Digests { groups: vec![part.clone()], bytes: 0 };
        groups.merge(&part, &[(0, 0)]);
    }
    let digest = &groups.groups[0];
    assert!(digest.centroids.len() <= CENTROIDS_MAX + UNMERGED_MAX);
    assert_eq!(digest.weight, 150_000.0);
    // The middle of values that are spread evenly over 0 to 12,500.
    let (mut before, mut median) = (0.0, 0.0);
    let mut compressed = digest.clone();
    compressed.compress();
    for centroid in &compressed.centroids {
        if before <= 75_000.0 {
            median = f64::from(centroid.mean);
        }
        before += f64::from(centroid.weight);
    }
    assert!((median - 6_250.0).abs() < 125.0, "{median}");
    // Few values: parts of them give what all of them one by one do.
    let mut merged = Digests { groups: vec![of((0..700).map(scattered))], bytes: 0 };
    merged.merge(&Digests { groups: vec![of((700..2_000).map(scattered))], bytes: 0 }, &[(0, 0)]);
    assert_eq!(merged.groups[0], of((0..2_000).map(scattered)));
}

#[test]
fn too_many_that_nothing_joins_are_joined_evenly() {
    let mut digest = Digest {
        centroids: (0..5_000).map(|n| Centroid { mean: n as f32, weight: 2.0 }).collect(),
        weight: 10_000.0,
        has_value: true,
        unmerged: 0,
    };
    digest.compress_evenly();
    assert_eq!(digest.centroids.len(), 1_667);
    assert_eq!(digest.centroids[0], Centroid { mean: 1.0, weight: 6.0 });
    assert_eq!(digest.weight, 10_000.0);
}

#[test]
fn what_is_written_for_a_seal_is_read_again_and_damage_is_refused() {
    let sizes = [0, 1, 300, 2_048, 2_049, 9_000];
    let mut kept = Digests { groups: sizes.map(|values| of((0..values).map(scattered))).to_vec(), bytes: 0 };
    kept.groups.push(Digest { has_value: true, ..Digest::default() });
    let mut written = Vec::new();
    kept.write(&mut written);
    let read = |bytes: &[u8]| {
        let mut again = Digests::default();
        again.read(&mut Reader(bytes), &[1; 7]).map(|()| again)
    };
    assert_eq!(read(&written).unwrap().groups, kept.groups);
    assert!(read(&written[..written.len() - 1]).is_err(), "too short");
    let damaged = |size: usize, unmerged: usize, centroids: &[Centroid]| {
        let mut bytes = Vec::new();
        put_len(&mut bytes, size);
        put_len(&mut bytes, unmerged);
        bytes.extend_from_slice(&1.0_f64.to_le_bytes());
        put_centroids(centroids, &mut bytes);
        Digests::default().read(&mut Reader(&bytes), &[1]).is_err()
    };
    let one = Centroid { mean: 1.0, weight: 1.0 };
    assert!(!damaged(1, 1, &[one]));
    assert!(damaged(1, 2, &[one]), "more were added than there are");
    assert!(damaged(1 << 20, 0, &[one]), "more than a digest holds");
    assert!(damaged(1, 1, &[Centroid { weight: 0.0, ..one }]), "no weight");
    assert!(damaged(1, 1, &[Centroid { mean: f32::NAN, ..one }]), "no mean");
}
