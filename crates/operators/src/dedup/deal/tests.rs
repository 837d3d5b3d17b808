use proptest::prelude::*;

use super::*;

/// Hashes that differ in the bits that count here.
fn hash(n: u64) -> u128 {
    u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32)
}

proptest! {
    #[test]
    fn every_row_is_dealt_once_in_order_and_comes_back_in_its_place(
        keys in prop::collection::vec(0..40_u64, 0..300),
        shards in 1..=SHARDS_MAX,
        before in 0..400_u64,
    ) {
        let hashes: Vec<u128> = keys.iter().map(|key| hash(*key)).collect();
        let times: Vec<i64> = (0..keys.len() as i64).map(|n| n * 3).collect();
        let asks = (0..keys.len() as u32).filter(|row| keys[*row as usize] % 5 == 0);
        let found: Vec<Found> = asks.map(|row| Found { row, bucket: i64::from(row), run: 1 }).collect();
        let mut dealt = Dealt::default();
        // A larger or smaller batch before leaves nothing behind.
        dealt.fill(shards, &(0..before).map(hash).collect::<Vec<_>>(), &vec![0; before as usize], &[]);
        dealt.fill(shards, &hashes, &times, &found);
        let (mut seen, mut asked, mut dropped) = (vec![], 0, vec![]);
        for shard in 0..shards {
            let rows = dealt.rows(shard);
            prop_assert!(rows.names.is_sorted());
            for (row, name) in rows.names.iter().enumerate() {
                let name = *name as usize;
                prop_assert_eq!(shard_of(hashes[name], shards), shard);
                prop_assert_eq!((rows.hashes[row], rows.times_ms[row]), (hashes[name], times[name]));
                seen.push(name);
            }
            for found in rows.found {
                prop_assert_eq!(rows.names[found.row as usize], found.bucket as u64);
                asked += 1;
            }
            let of = |least: i64| (0..rows.names.len()).filter(move |row| rows.times_ms[*row] % 7 >= least);
            dropped.push(Dropped { rows: of(3).collect(), duplicates: 2, late: of(5).collect(), late_kept: 0 });
        }
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..keys.len()).collect::<Vec<_>>());
        prop_assert_eq!(asked, found.len());
        let whole = dealt.put_together(&dropped);
        let of = |least: i64| (0..keys.len()).filter(|row| times[*row] % 7 >= least).collect::<Vec<_>>();
        prop_assert_eq!(whole.rows, of(3));
        prop_assert_eq!(whole.late, of(5));
        prop_assert_eq!(whole.duplicates, 2 * shards as u64);
    }
}

#[test]
fn keys_spread_evenly() {
    for shards in 1..=SHARDS_MAX {
        let mut counts = vec![0_u32; shards];
        (0..16_000).for_each(|n| counts[shard_of(hash(n), shards)] += 1);
        let mean = 16_000 / shards as u32;
        assert!(counts.iter().all(|count| count.abs_diff(mean) < mean / 8), "{counts:?}");
    }
}
