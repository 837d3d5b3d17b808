use std::time::Duration;

use dataflow::{Operator, State};
use testkit::Fuzz;
use xxhash_rust::xxh3::xxh3_64;

use super::super::spilled::Sizes;
use super::super::tests::spills::{Bench, TINY};
use super::super::tests::{batch, config, cut, others, put, schema};
use super::super::{Clock, Emit, Window, WindowConfig, Windows};
use super::CHECKSUM;

/// A step with every aggregate.
fn window(lateness_ms: i64) -> Window {
    of(lateness_ms, config(lateness_ms).windows)
}

/// The same of other windows.
fn of(lateness_ms: i64, windows: Windows) -> Window {
    let mut config = WindowConfig { windows, ..config(lateness_ms) };
    let known = |name: &str| config.aggregates.iter().any(|aggregate| aggregate.name == name);
    let others: Vec<_> =
        others(lateness_ms).aggregates.into_iter().filter(|other| !known(&other.name)).collect();
    config.aggregates.extend(others);
    Window::new(&schema(), &config).unwrap()
}

/// A step with two windows, and its delta and snapshot.
fn written() -> (Window, bytes::Bytes, bytes::Bytes) {
    of_step(window(100))
}

fn of_step(mut step: Window) -> (Window, bytes::Bytes, bytes::Bytes) {
    put(
        &mut step,
        batch(&[(Some("a"), Some(5), 1.5, 10), (None, None, 2.0, 1_020), (Some("bc"), Some(7), 3.0, 30)]),
    );
    let (_, delta) = cut(&mut step, 7);
    let snapshot = step.snapshot();
    (step, delta, snapshot)
}

/// The bytes that a program has written are those that it reads: a change here is a new version.
#[test]
fn deltas_and_snapshots_keep_their_golden_bytes() {
    let (_, delta, snapshot) = written();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if std::env::var_os("FOREBAY_TEST_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/window/state/golden.txt");
        std::fs::write(path, format!("{}\n{}\n", hex(&delta), hex(&snapshot))).unwrap();
    }
    let golden = include_str!("golden.txt").lines().collect::<Vec<_>>();
    assert_eq!(golden, [hex(&delta), hex(&snapshot)]);
}

/// A step of which a pane is in files and leaves, one is frozen, and one is in memory; its last delta and its snapshot.
fn spilled() -> (Window, bytes::Bytes, bytes::Bytes) {
    let mut bench = Bench::begin(others(100), Sizes { piece_bytes: 1, ..TINY });
    put(&mut bench.step, batch(&[(Some("a"), Some(5), 1.5, 10), (Some("bc"), Some(7), 3.0, 30)]));
    bench.cut(7);
    bench.work(100);
    bench.cut(1_100);
    bench.work(2);
    put(&mut bench.step, batch(&[(Some("a"), Some(5), 1.5, 1_010)]));
    let outputs = bench.cut(1_200);
    assert!(!outputs.is_empty() && bench.step.is_releasing(), "one piece has left, another has not");
    put(&mut bench.step, batch(&[(Some("a"), Some(6), 1.5, 2_010)]));
    bench.cut(1_300);
    let delta = bench.deltas[bench.deltas.len() - 2].clone();
    let snapshot = bench.step.snapshot();
    (bench.step, delta, snapshot)
}

#[test]
fn deltas_and_snapshots_of_spilled_panes_keep_their_golden_bytes() {
    let (_, delta, snapshot) = spilled();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if std::env::var_os("FOREBAY_TEST_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/window/state/spilled.txt");
        std::fs::write(path, format!("{}\n{}\n", hex(&delta), hex(&snapshot))).unwrap();
    }
    let golden = include_str!("spilled.txt").lines().collect::<Vec<_>>();
    assert_eq!(golden, [hex(&delta), hex(&snapshot)]);
}

fn sessions_config() -> WindowConfig {
    let windows = Windows::Session { gap: Duration::from_millis(100), max: Duration::from_secs(10) };
    WindowConfig { windows, ..others(0) }
}

/// A step of sessions of which some are in files and leave, one is apart, one is frozen, and one is in memory; its last deltas and its snapshot.
fn sessions_in_files() -> (Window, Vec<bytes::Bytes>, bytes::Bytes) {
    let mut bench = Bench::begin(sessions_config(), Sizes { piece_bytes: 1, ..TINY });
    bench.put(batch(&[(Some("a"), Some(5), 1.5, 10), (Some("bc"), Some(7), 3.0, 30)]));
    bench.cut(20);
    bench.work(100);
    bench.cut(109);
    bench.cut(110);
    // Apart from the first of its key, which is closed and has not left.
    bench.put(batch(&[(Some("a"), Some(6), 1.5, 109)]));
    bench.cut(120);
    bench.work(100);
    bench.put(batch(&[(Some("d"), Some(6), 1.5, 140)]));
    bench.cut(140);
    bench.work(2);
    bench.put(batch(&[(Some("e"), Some(6), 1.5, 140)]));
    bench.cut(141);
    let snapshot = bench.step.snapshot();
    (bench.step, bench.deltas, snapshot)
}

#[test]
fn deltas_and_snapshots_of_sessions_in_files_keep_their_golden_bytes() {
    let (_, deltas, snapshot) = sessions_in_files();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let written: Vec<String> = deltas.iter().chain([&snapshot]).map(|bytes| hex(bytes)).collect();
    if std::env::var_os("FOREBAY_TEST_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/window/state/sessions.txt");
        std::fs::write(path, format!("{}\n", written.join("\n"))).unwrap();
    }
    assert_eq!(include_str!("sessions.txt").lines().collect::<Vec<_>>(), written);
}

#[test]
fn fuzz_state_of_sessions_in_files() {
    let (_, deltas, snapshot) = sessions_in_files();
    let examples: Vec<Vec<u8>> = deltas.iter().chain([&snapshot]).map(|bytes| bytes.to_vec()).collect();
    fuzz_of("state of sessions in files", &examples, || {
        Window::new(&schema(), &sessions_config()).unwrap().with_sizes(TINY)
    });
}

/// A step with results before its windows close, its first delta and its snapshot.
fn early() -> (Window, bytes::Bytes, bytes::Bytes) {
    let mut step = early_step();
    step.at(1_764_000_000_000);
    of_step(step)
}

fn early_step() -> Window {
    let (early, version) = (Some(Duration::from_millis(5)), Some("version".to_owned()));
    let emit = Some(Emit { early, clock: Clock::EventTime, updates: true, version, sign: None });
    Window::new(&schema(), &WindowConfig { emit, ..config(100) }).unwrap()
}

#[test]
fn the_first_delta_of_early_results_keeps_its_golden_bytes() {
    let (_, delta, snapshot) = early();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if std::env::var_os("FOREBAY_TEST_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/window/state/early.txt");
        std::fs::write(path, format!("{}\n{}\n", hex(&delta), hex(&snapshot))).unwrap();
    }
    let golden = include_str!("early.txt").lines().collect::<Vec<_>>();
    assert_eq!(golden, [hex(&delta), hex(&snapshot)]);
}

#[test]
fn fuzz_state_of_early_results() {
    let (_, delta, snapshot) = early();
    fuzz_of("state of early results", &[delta.to_vec(), snapshot.to_vec()], early_step);
}

/// The same with a sign, whose snapshot has what was written.
fn signed_step() -> Window {
    let (early, sign) = (Some(Duration::from_millis(5)), Some("sign".to_owned()));
    let emit = Some(Emit { early, clock: Clock::EventTime, updates: true, version: None, sign });
    Window::new(&schema(), &WindowConfig { emit, ..config(100) }).unwrap()
}

#[test]
fn the_snapshot_of_signed_results_keeps_its_golden_bytes() {
    let (_, delta, snapshot) = of_step(signed_step());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if std::env::var_os("FOREBAY_TEST_WRITE").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/window/state/signed.txt");
        std::fs::write(path, format!("{}\n{}\n", hex(&delta), hex(&snapshot))).unwrap();
    }
    let golden = include_str!("signed.txt").lines().collect::<Vec<_>>();
    assert_eq!(golden, [hex(&delta), hex(&snapshot)]);
}

#[test]
fn fuzz_state_of_signed_results() {
    let (_, delta, snapshot) = of_step(signed_step());
    fuzz_of("state of signed results", &[delta.to_vec(), snapshot.to_vec()], signed_step);
}

#[test]
fn fuzz_state_of_spilled_windows() {
    let (_, delta, snapshot) = spilled();
    fuzz_of("state of spilled windows", &[delta.to_vec(), snapshot.to_vec()], || {
        Window::new(&schema(), &others(100)).unwrap().with_sizes(TINY)
    });
}

#[test]
fn every_damaged_byte_is_noticed() {
    let (_, delta, snapshot) = written();
    for at in 0..delta.len() {
        let mut damaged = delta.to_vec();
        damaged[at] ^= 1;
        assert!(window(100).apply(&damaged).is_err(), "byte {at}");
    }
    for len in 0..snapshot.len() {
        assert!(window(100).restore(&snapshot[..len]).is_err(), "cut to {len}");
    }
    assert!(window(100).restore(&delta).is_err(), "a delta is no snapshot");
}

/// Whoever can write into the store can make a checksum, too.
#[test]
fn fuzz_window_state() {
    fuzz("window state", || window(100));
}

#[test]
fn fuzz_state_of_overlapping_windows() {
    let ms = Duration::from_millis;
    fuzz("state of hopping windows", || of(100, Windows::Hopping { size: ms(1_000), slide: ms(300) }));
    fuzz("state of cumulative windows", || of(100, Windows::Cumulative { size: ms(1_000), step: ms(100) }));
}

#[test]
fn fuzz_state_of_sessions() {
    let ms = Duration::from_millis;
    fuzz("state of sessions", || of(100, Windows::Session { gap: ms(500), max: ms(2_000) }));
}

fn fuzz(name: &str, step: impl Fn() -> Window) {
    let (_, delta, snapshot) = of_step(step());
    fuzz_of(name, &[delta.to_vec(), snapshot.to_vec()], step);
}

fn fuzz_of(name: &str, examples: &[Vec<u8>], step: impl Fn() -> Window) {
    Fuzz::new(name).examples(examples.to_vec()).memory_max(1 << 20, 256).run(10_000, |bytes| {
        let Some((body, _)) = bytes.split_last_chunk::<CHECKSUM>() else { return };
        let mut summed = body.to_vec();
        summed.extend_from_slice(&xxh3_64(body).to_le_bytes());
        let mut step = step();
        let _ = step.restore(&summed);
        let _ = step.apply(&summed);
        let held = step.held();
        if let Ok(outputs) = step.advance(i64::MAX) {
            let released: u64 = outputs.iter().map(|output| output.released).sum();
            assert_eq!(released + step.held(), held);
        }
    });
}
