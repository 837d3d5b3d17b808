use super::*;
use crate::join::tests::{batch, join, put};
use crate::join::{Join, JoinKind};
use testkit::Fuzz;

/// A step with left rows, and the run that all of them would be, in blocks of a few rows.
fn built(rows: i64) -> (Join, Built) {
    let mut step = join(JoinKind::Left);
    let row = |n: i64| {
        (if n % 7 == 3 { None } else { Some(n % 40) }, n, ["a", "a longer text"][n as usize % 2], 1_000 - n)
    };
    put(&mut step, JoinSide::Left, batch(JoinSide::Left, &(0..rows).map(row).collect::<Vec<_>>()));
    put(&mut step, JoinSide::Right, batch(JoinSide::Right, &[(Some(5), 1, "", 990)]));
    let ids: Vec<u32> = (0..rows as u32).collect();
    let built = build(&step.plan, (JoinSide::Left, step.store.side(JoinSide::Left)), &ids, 200).unwrap();
    (step, built)
}

fn rows_of(step: &Join, file: &File, bytes: &[u8], block: u32) -> Result<Rows, StateError> {
    let read = file.read(block);
    file.block(&step.plan, block, &bytes[read.offset as usize..][..read.len as usize])
}

#[test]
fn every_row_is_in_the_block_of_its_key_with_all_that_it_had() {
    let (step, Built { bytes, file, matched }) = built(300);
    assert!(file.blocks() > 20 && file.rows() == 300, "{} blocks", file.blocks());
    assert_eq!(File::open_whole("", &bytes).unwrap(), file);
    assert_eq!(verify("runs/1", &bytes).unwrap(), 300);
    let arena = &step.store.side(JoinSide::Left).arena;
    let mut seen = vec![false; 300];
    for block in 0..file.blocks() {
        let rows = rows_of(&step, &file, &bytes, block).unwrap();
        for (at, arrival) in rows.arrivals.iter().enumerate() {
            let (row, place) = (arena.get(*arrival), rows.first + at as u32);
            assert_eq!((rows.taken.rows.hashes[at], rows.taken.times_ms[at]), (row.hash, row.time_ms));
            assert_eq!(file.time_ms(place), row.time_ms);
            let is_keyed = rows.taken.rows.keyed.as_ref().is_none_or(|keyed| keyed.is_valid(at));
            assert_eq!(is_keyed, row.newer != UNLINKED);
            assert!(!is_keyed || file.may_hold(row.hash) && file.blocks_of(row.hash).contains(&block));
            assert_eq!(matched[place as usize / 64] >> (place % 64) & 1 == 1, arena.is_matched(*arrival));
            assert!(!std::mem::replace(&mut seen[*arrival as usize], true), "row {arrival} twice");
        }
    }
    assert!(seen.into_iter().all(|is_seen| is_seen));
    assert_eq!(file.times_ms(), (701, 1_000));
}

#[test]
fn times_far_apart_are_kept_as_they_are() {
    let times_ms = [-5, i64::from(u32::MAX) + 10, 3];
    let times = Times::of(&times_ms);
    assert!(matches!(times.later, Later::Wide(_)));
    assert_eq!([0, 1, 2].map(|place| times.get(place)), times_ms);
}

#[test]
fn files_keep_their_golden_bytes() {
    let (_, Built { bytes, .. }) = built(9);
    let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if std::env::var_os("FOREBAY_TEST_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/join/spilled/file/golden.txt");
        std::fs::write(path, format!("{hex}\n")).unwrap();
    }
    assert_eq!(include_str!("golden.txt").trim_end(), hex);
}

#[test]
fn every_damaged_byte_is_noticed() {
    let (step, Built { bytes, file, .. }) = built(20);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert!(verify("", &damaged).is_err(), "byte {at}");
    }
    let other = rows_of(&step, &file, &bytes, 0).map(|rows| rows.first);
    assert_eq!(other.unwrap(), 0);
    let read = file.read(0);
    let own = &bytes[read.offset as usize..][..read.len as usize];
    assert!(file.block(&step.plan, 1, own).is_err(), "another block");
}

#[test]
fn fuzz_files_of_join_rows() {
    let (step, Built { bytes, .. }) = built(20);
    Fuzz::new("files of join rows").examples([bytes]).memory_max(1 << 20, 256).run(10_000, |bytes| {
        let Ok(file) = File::open_whole("", bytes) else { return };
        for block in 0..file.blocks() {
            let read = file.read(block);
            let Some(own) = bytes.get(read.offset as usize..).and_then(|rest| rest.get(..read.len as usize))
            else {
                continue;
            };
            let Some((body, _)) = own.split_last_chunk::<SUM>() else { continue };
            let mut summed = body.to_vec();
            close_block(&mut summed, 0, block);
            let _ = file.block(&step.plan, block, &summed);
        }
        assert!(!bytes.is_empty());
    });
}
