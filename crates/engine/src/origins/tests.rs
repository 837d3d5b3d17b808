use proptest::prelude::*;

use super::*;

fn part(partition: u32, positions: impl IntoIterator<Item = u64>, time_ms: i64) -> Part {
    let positions: Vec<u64> = positions.into_iter().collect();
    let times_ms = positions.iter().map(|p| time_ms + (*p / 10) as i64).collect();
    Part { era: 0, partition, positions, times_ms, items: Vec::new() }
}

fn in_era(era: u64, part: Part) -> Part {
    Part { era, ..part }
}

fn sample() -> Origins {
    let parts = vec![
        part(0, 100..200, 1_700_000_000_000),
        part(2, (0..50).map(|n| n * 3), -5),
        part(0, 200..205, 7),
        in_era(7, part(0, 205..210, 7)),
    ];
    Origins { parts, watermark_ms: i64::MIN }
}

fn expected(origins: &Origins, rows: &RowsFrom) -> Vec<Origin> {
    let all: Vec<Origin> = origins.iter().collect();
    (0..rows.len()).map(|at| all[rows.get(at) as usize]).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn runs_picked_and_permuted_rows_read_back() {
    let origins = sample();
    let reversed = (0..160).rev().collect();
    for rows in [
        RowsFrom::Run(0..160),
        RowsFrom::Run(90..110),
        RowsFrom::Run(159..160),
        RowsFrom::Picked((0..160).step_by(7).collect()),
        RowsFrom::Picked(reversed),
        RowsFrom::Picked(vec![3, 1, 159]),
    ] {
        let read = FrameOrigins::decode(&origins.encode(&rows), rows.len()).expect("reads back");
        assert_eq!(read.rows, expected(&origins, &rows), "{rows:?}");
        assert_eq!(read.watermark_ms, i64::MIN);
    }
}

/// Sealed frames of a released program are read for ever: a change here is a new version.
#[test]
fn origins_keep_their_golden_bytes() {
    let origins = Origins {
        parts: vec![part(1, [5, 6, 9, 400], 1_000), in_era(3, part(1, [402], i64::MIN))],
        watermark_ms: 77,
    };
    let golden = [
        (
            RowsFrom::Run(0..5),
            "02009a01050201040005d00f0101039203afffffffffffffffff010421f0f70202f241abc7e67e",
        ),
        (
            RowsFrom::Picked(vec![4, 0, 2]),
            "02019a01030201020005d00f0101039203afffffffffffffffff010130010112198ac7f7",
        ),
    ];
    for (rows, bytes) in golden {
        assert_eq!(hex(&origins.encode(&rows)), bytes, "{rows:?}");
    }
}

#[test]
fn a_half_of_a_half_still_knows_its_records() {
    let origins = sample();
    let picked = RowsFrom::Picked((0..160).map(|n| (n * 37) % 160).collect());
    let whole = FrameOrigins::decode(&origins.encode(&picked), 160).expect("reads back");
    let half = whole.slice(80..160);
    // The table may put a half into another order than it was given.
    let order = RowsFrom::Picked((0..80).rev().collect());
    let half = FrameOrigins::decode(&half.encode(&order), 80).expect("reads back");
    let quarter = half.slice(0..40);
    let quarter = FrameOrigins::decode(&quarter.encode(&RowsFrom::Run(0..40)), 40).expect("reads back");
    let expected: Vec<Origin> = expected(&origins, &picked)[80..].iter().rev().take(40).copied().collect();
    assert_eq!(quarter.rows, expected);
}

#[test]
fn every_damaged_byte_is_noticed() {
    let bytes = sample().encode(&RowsFrom::Picked(vec![7, 3, 150, 20]));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(FrameOrigins::decode(&damaged, 4).is_err(), "byte {at}");
        assert!(FrameOrigins::decode(&bytes[..at], 4).is_err(), "cut to {at}");
    }
    assert!(FrameOrigins::decode(&bytes, 5).is_err(), "for another frame");
}

#[test]
fn another_version_is_named_as_such() {
    let mut bytes = sample().encode(&RowsFrom::Run(0..3));
    bytes.truncate(bytes.len() - 4);
    bytes[0] = 4;
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    assert!(FrameOrigins::decode(&bytes, 3).expect_err("later").contains("version `4`"));
}

#[test]
fn an_untouched_topic_costs_next_to_nothing_and_a_sorted_frame_less_than_three_bytes_a_row() {
    let parts = (0..100).map(|n| part((n % 3) as u32, n / 3 * 5_000..(n / 3 + 1) * 5_000, 0)).collect();
    let origins = Origins { parts, watermark_ms: 0 };
    let rows = 500_000u32;
    let run = origins.encode(&RowsFrom::Run(0..rows)).len();
    assert!(run < rows as usize / 8, "{run} bytes");
    let shuffled =
        RowsFrom::Picked((0..rows).map(|n| (u64::from(n) * 7_919 % u64::from(rows)) as u32).collect());
    let permuted = origins.encode(&shuffled).len();
    assert!(permuted < rows as usize * 3, "{permuted} bytes");
}

prop_compose! {
    fn parts()(parts in prop::collection::vec(
        (0u32..5, any::<u64>(), any::<bool>(), prop::collection::vec((0u64..400, any::<i64>(), 0u8..8), 0..40)), 0..6)
    ) -> Vec<Part> {
        parts.into_iter().map(|(partition, first, has_items, rows)| {
            let mut part = Part { partition, ..Part::default() };
            let (mut position, mut time) = (first, 0);
            for (gap, odd_time, kind) in rows {
                // Of some records there are several rows.
                let is_further = has_items && gap % 3 == 0 && !part.items.is_empty();
                let gap = if is_further { 0 } else { 1 + gap / 40 * gap };
                let Some(next) = position.checked_add(gap) else { break };
                position = next;
                if has_items {
                    let least = if is_further { part.items.last().map_or(0, |item| item.saturating_add(1)) } else { 0 };
                    part.items.push(least.saturating_add((odd_time as u32) >> (odd_time.unsigned_abs() % 32)));
                }
                time = match kind { 0 => odd_time, 1 => i64::MIN, 2 => time.wrapping_add(1), _ => time };
                part.positions.push(position);
                part.times_ms.push(time);
            }
            part
        }).collect()
    }
}

proptest! {
    #[test]
    fn any_rows_in_any_order_read_back(parts in parts(), seed in any::<u64>(), watermark_ms in any::<i64>()) {
        let origins = Origins { parts, watermark_ms };
        let total = origins.iter().count() as u32;
        let mut order: Vec<u32> = (0..total).collect();
        order.sort_by_key(|n| (u64::from(*n) + 1).wrapping_mul(seed | 1));
        order.truncate(1 + total as usize * 2 / 3);
        for rows in [RowsFrom::Run(0..total), RowsFrom::Picked(order)] {
            let read = FrameOrigins::decode(&origins.encode(&rows), rows.len()).expect("reads back");
            prop_assert_eq!(&read.rows, &expected(&origins, &rows));
            let again = FrameOrigins::decode(&read.encode(&RowsFrom::Run(0..rows.len() as u32)), rows.len());
            prop_assert_eq!(again.as_ref(), Ok(&read));
        }
    }
}

/// Puts the right checksum under changed bytes.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let head = bytes.split_last_chunk::<4>().map_or(bytes, |(head, _)| head);
    [head, &crc32c::crc32c(head).to_le_bytes()].concat()
}

/// The rows that the bytes claim to be for.
fn claimed(bytes: &[u8]) -> Option<u64> {
    let mut from = Bytes(bytes.get(2..)?);
    from.number().ok()?;
    from.number().ok()
}

#[test]
fn fuzz_origins() {
    const ROWS: usize = 1_000;
    let origins = sample();
    let examples = [
        RowsFrom::Run(0..160),
        RowsFrom::Run(159..160),
        RowsFrom::Picked(vec![7, 3, 150, 20]),
        RowsFrom::Picked((0..160).rev().collect()),
    ];
    let of_items =
        [RowsFrom::Run(0..13), RowsFrom::Picked(vec![5, 9, 3, 4])].map(|rows| of_items().encode(&rows));
    let examples = examples.iter().map(|rows| origins.encode(rows)).chain(of_items);
    testkit::Fuzz::new("origins").examples(examples).memory_max(64 << 10, 64).run(20_000, |bytes| {
        assert!(
            claimed(bytes).is_none_or(|rows| FrameOrigins::verify(bytes, rows).is_err())
                || bytes == summed(bytes)
        );
        let bytes = summed(bytes);
        let Some(rows) = claimed(&bytes) else { return };
        let verified = FrameOrigins::verify(&bytes, rows);
        let Some(rows) = usize::try_from(rows).ok().filter(|rows| *rows <= ROWS) else { return };
        let decoded = FrameOrigins::decode(&bytes, rows);
        assert_eq!(decoded.as_ref().map(|_| ()), verified.as_ref().copied(), "one is as strict as the other");
        let Ok(decoded) = decoded else { return };
        let again = FrameOrigins::decode(&decoded.encode(&RowsFrom::Run(0..rows as u32)), rows);
        assert_eq!(again.as_ref(), Ok(&decoded), "what was read can be written and read");
    });
}

/// Three records with three rows each, one of them without the first two, and records of another input that are one row each.
fn of_items() -> Origins {
    let rows: Vec<(u64, u32)> =
        vec![(10, 0), (10, 1), (10, 2), (11, 2), (13, 0), (13, 1), (13, 1_000_000), (14, u32::MAX)];
    let items = Part {
        era: 0,
        partition: 4,
        positions: rows.iter().map(|(position, _)| *position).collect(),
        times_ms: rows.iter().map(|(position, _)| *position as i64 * 7).collect(),
        items: rows.iter().map(|(_, item)| *item).collect(),
    };
    Origins { parts: vec![part(1, [5, 6, 9], 1_000), items, part(1, [10, 11], 5)], watermark_ms: 3 }
}

#[test]
fn rows_of_items_know_their_items_in_any_order() {
    let origins = of_items();
    for rows in [
        RowsFrom::Run(0..13),
        RowsFrom::Run(4..8),
        RowsFrom::Picked((0..13).rev().collect()),
        RowsFrom::Picked(vec![5, 9, 3, 4]),
    ] {
        let read = FrameOrigins::decode(&origins.encode(&rows), rows.len()).expect("reads back");
        assert_eq!(read.rows, expected(&origins, &rows), "{rows:?}");
        assert_eq!(FrameOrigins::verify(&origins.encode(&rows), rows.len() as u64), Ok(()));
        let half = read.slice(0..2);
        let again = FrameOrigins::decode(&half.encode(&RowsFrom::Run(0..2)), 2).expect("reads back");
        assert_eq!(again.rows, expected(&origins, &rows)[..2]);
    }
    assert_eq!(read_items(&origins, 0..4), [None, None, None, Some(0)]);
    assert_eq!(read_items(&origins, 9..12), [Some(1_000_000), Some(u32::MAX), None]);
}

fn read_items(origins: &Origins, rows: Range<u32>) -> Vec<Option<u32>> {
    let count = rows.len();
    let read = FrameOrigins::decode(&origins.encode(&RowsFrom::Run(rows)), count).expect("reads back");
    read.rows.iter().map(|origin| origin.item).collect()
}

/// As with those of whole records.
#[test]
fn origins_of_items_keep_their_golden_bytes() {
    let golden = "0300060d0301030005d00f0408000a8c010102000a0c0610301220121005e4f00de2010e133210f1af843df0f1ffffff0f02697c4e02";
    assert_eq!(hex(&of_items().encode(&RowsFrom::Run(0..13))), golden);
}

#[test]
fn rows_of_items_cost_some_bytes_a_record() {
    let items = Part {
        era: 0,
        partition: 0,
        positions: (0..100_000).map(|row| row / 10).collect(),
        times_ms: (0..100_000).map(|row| row / 10).collect(),
        items: (0..100_000).map(|row| row % 10).collect(),
    };
    let bytes = Origins { parts: vec![items], watermark_ms: 0 }.encode(&RowsFrom::Run(0..100_000)).len();
    assert!(bytes < 4 * 10_000, "{bytes} bytes for 10,000 records");
}

#[test]
fn a_count_of_rows_that_no_body_holds_takes_no_memory() {
    // One stretch of 2^50 rows whose positions follow each other and whose times are equal: thirty-one bytes.
    let rows = 1_u64 << 50;
    let mut bytes = vec![VERSION, 0, 0];
    put(&mut bytes, rows);
    put(&mut bytes, 1);
    [0, rows, 0, 0, 0].into_iter().for_each(|number| put(&mut bytes, number));
    for _ in 0..2 {
        let mut run = vec![15];
        put(&mut run, rows - 1 - 15);
        put(&mut bytes, run.len() as u64);
        bytes.extend_from_slice(&run);
    }
    bytes.extend_from_slice(&[0; 4]);
    let bytes = summed(&bytes);
    let (found, took) = testkit::peak_bytes(|| FrameOrigins::verify(&bytes, rows));
    assert_eq!(found, Ok(()), "they are as they would be written");
    assert!(took < 1 << 10, "{took} bytes");
    let (found, took) = testkit::peak_bytes(|| FrameOrigins::decode(&bytes, 500_000));
    assert!(found.expect_err("for another frame").contains("not for `500000` rows"));
    assert!(took < 1 << 10, "{took} bytes");
}

/// `cargo test -p engine --lib -- --ignored --nocapture what_origins_cost`
#[test]
#[allow(clippy::disallowed_methods, reason = "it measures")]
#[ignore = "a measurement"]
fn what_origins_cost() {
    // The shape of the GlassFlow workload: three partitions in turn, a tenth dropped as duplicates, some records a millisecond.
    let parts: Vec<Part> = (0..90u64)
        .map(|n| {
            let positions: Vec<u64> = (n / 3 * 6_200..(n / 3 + 1) * 6_200)
                .filter(|p| p.wrapping_mul(0x9e37_79b9) >> 7 & 15 > 1)
                .collect();
            let times_ms = positions.iter().map(|p| 1_750_000_000_000 + (p / 9) as i64).collect();
            Part { era: 0, partition: (n % 3) as u32, positions, times_ms, items: Vec::new() }
        })
        .collect();
    let origins = Origins { parts, watermark_ms: 1 };
    let rows = origins.iter().count() as u32;
    let sorted = (0..rows).map(|n| (u64::from(n) * 7_919 % u64::from(rows)) as u32).collect();
    for (name, from) in [("as read", RowsFrom::Run(0..rows)), ("sorted", RowsFrom::Picked(sorted))] {
        let mut best = f64::MAX;
        let mut bytes = 0;
        for _ in 0..20 {
            let begun = std::time::Instant::now();
            bytes = std::hint::black_box(origins.encode(&from)).len();
            best = best.min(begun.elapsed().as_secs_f64());
        }
        let per_row = f64::from(rows);
        eprintln!(
            "{name}: {rows} rows, {:.2} B and {:.1} ns a row",
            bytes as f64 / per_row,
            best * 1e9 / per_row
        );
    }
}
