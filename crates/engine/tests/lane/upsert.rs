//! Rows that replace each other: versions that rise over all owners, and rows that later ones of a batch replace.

use dataflow::FrameId;
use engine::Pipeline;
use protocol::record::Rows;

use super::*;
use crate::support::TokenTable;

/// Rows whose ids have the same rest of a division by this have the same key.
const KEYS: u64 = 10;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.table = TokenTable::replacing("d.t", KEYS, bench.runtime.clone());
    bench
}

/// Even ids: all of one partition, whose order is that of the ids.
fn even(range: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    range.map(|n| 2 * n)
}

/// The ids in the table, each of which is there once, with their versions.
fn versions(bench: &Bench) -> Vec<(u64, u64)> {
    let world = bench.table.world.lock().expect("no panic");
    let ids = world.ids();
    assert!(ids.values().all(|times| *times == 1), "a row is there twice: {ids:?}");
    let rows = world.rows.iter().flat_map(|(frame, ids)| ids.iter().map(|id| (*frame, *id)));
    let versions: BTreeMap<u64, u64> = rows.map(|row| (row.1, world.versions[&row])).collect();
    versions.into_iter().collect()
}

/// The row of each key with the greatest version is the one that was read last, and versions rise in the order of the source.
fn assert_newest(bench: &Bench, read: u64) {
    let versions = versions(bench);
    assert!(versions.windows(2).all(|pair| pair[0].1 < pair[1].1), "they do not rise: {versions:?}");
    let newest: BTreeMap<u64, u64> = versions.iter().map(|(id, _)| (id % KEYS, *id)).collect();
    let expected: BTreeMap<u64, u64> = even(0..read).map(|id| (id % KEYS, id)).collect();
    assert_eq!(newest, expected);
}

#[test]
fn of_each_key_of_a_batch_the_last_row_is_sent_and_the_ledgers_count_the_others() {
    run(async {
        let bench = bench();
        bench.push(even(0..100));
        bench.drain_and_exit().await.expect("drains");
        assert_newest(&bench, 100);
        let lane = bench.lane().await;
        let Rows { sealed, settled, refused, replaced } = lane.tables[0].rows;
        assert_eq!((sealed + replaced, settled, refused), (100, sealed, 0));
        assert!(sealed >= 5 && replaced >= 80, "batches of up to 50 rows have 5 keys: {sealed}, {replaced}");
        assert_eq!((lane.counts.passed, lane.derived.rows), (100, 0), "a record that is replaced has passed");
        let totals = bench.totals().await;
        assert_eq!((totals.written, totals.replaced), (sealed, replaced));
        assert!(lane.next_version > versions(&bench).last().expect("rows").1);
    });
}

#[test]
fn versions_rise_over_owners_that_are_killed() {
    run(async {
        let bench = bench();
        let mut read = 0;
        for life_ms in [3, 30, 8, 15, 60, 5, 25] {
            bench.push(even(read..read + 200));
            read += 200;
            Process::start(bench.pipeline(false)).kill_after(Duration::from_millis(life_ms)).await;
        }
        bench.drain_and_exit().await.expect("drains");
        assert_newest(&bench, read);
        let rows = bench.lane().await.tables[0].rows;
        assert_eq!(rows.sealed + rows.replaced, read);
    });
}

#[test]
fn a_zombie_writes_no_greater_version_than_the_owner_after_it() {
    run(async {
        let bench = bench();
        bench.push(even(0..30));
        // What it has sealed cannot be delivered.
        {
            let mut world = bench.table.world.lock().expect("no panic");
            (world.away, world.facts_away) = (true, false);
        }
        let zombie = Process::start(bench.pipeline(false));
        let sealed = || async { bench.lane().await.counts.read == 30 };
        while !sealed().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Both see the table come back, the first with what it has sealed.
        let next = Process::start(bench.pipeline(false));
        bench.push(even(30..60));
        tokio::time::sleep(Duration::from_millis(30)).await;
        bench.table.world.lock().expect("no panic").away = false;
        tokio::time::sleep(Duration::from_millis(30)).await;
        zombie.kill().await;
        next.kill().await;
        bench.drain_and_exit().await.expect("drains");
        assert_newest(&bench, 60);
    });
}

#[test]
fn a_refused_row_finds_its_record_beside_rows_that_were_replaced() {
    run(async {
        let bench = bench();
        bench.push(even(0..25));
        // Of the last of the five keys the last row, whose record is the 24th.
        bench.table.world.lock().expect("no panic").poison = vec![48];
        bench.drain_and_exit().await.expect("drains");
        let letters = bench.dead_letters.world.lock().expect("no panic").ids();
        assert_eq!(letters, BTreeMap::from([(24, 1)]), "positions of dead letters");
        let lane = bench.lane().await;
        let rows = lane.tables[0].rows;
        assert_eq!((rows.sealed + rows.replaced, rows.settled + rows.refused), (25, rows.sealed));
        assert_eq!(rows.refused, 1);
    });
}

/// The bench's pipeline with a second table, which has versions and objects to rows that are there.
fn with(bench: &Bench, second: &Arc<TokenTable>, drain: bool) -> Pipeline {
    second.world.lock().expect("no panic").asks_if_filled = true;
    Pipeline { tables: vec![bench.table.clone(), second.clone()], ..bench.pipeline(drain) }
}

/// A row of another journal, whose version may be greater than those that are given now.
fn put_another(second: &TokenTable) {
    second.world.lock().expect("no panic").rows.push((FrameId(7), vec![999]));
}

/// The start or run ended with the table's objection, and nothing was sent to it.
fn is_refused(ended: Result<Outcome, EngineError>, second: &TokenTable) {
    let error = ended.expect_err("its versions may be greater").to_string();
    assert!(error.contains("the table has rows"), "{error}");
    let world = second.world.lock().expect("no panic");
    assert_eq!((world.attempts, world.ids()), (0, BTreeMap::from([(999, 1)])));
}

#[test]
fn a_table_with_versions_that_is_new_to_a_journal_is_asked_for_its_greatest_one_before_the_claim() {
    run(async {
        let bench = Bench::new();
        bench.push(0..30);
        bench.drain_and_exit().await.expect("drains");
        let before = bench.lane().await;
        let second = TokenTable::replacing("d.second", KEYS, bench.runtime.clone());
        put_another(&second);
        bench.push(30..50);
        is_refused(Process::start(with(&bench, &second, true)).ends().await, &second);
        assert_eq!(bench.lane().await, before, "nothing was written");
    });
}

/// Its frames had no versions so far: `upsert` was written into the file.
#[test]
fn a_pipeline_whose_table_gets_versions_goes_on_and_is_not_opened_again_and_again() {
    run(async {
        let mut bench = Bench::new();
        let with_columns = |table: &TokenTable, columns: &[(&'static str, &'static str)]| {
            table.world.lock().expect("no panic").columns = columns.to_vec();
            table.open_again(&[])
        };
        bench.table = with_columns(&bench.table, &[("id", "UInt64")]);
        bench.push(0..30);
        bench.drain_and_exit().await.expect("drains");
        let replacing = TokenTable::replacing("d.t", KEYS, bench.runtime.clone());
        bench.table = with_columns(&replacing, &[("id", "UInt64"), ("_version", "UInt64")]);
        bench.push(even(20..70));
        assert_eq!(bench.drain_and_exit().await.expect("drains"), Outcome::Complete);
        assert_newest(&bench, 70);
        // A column that every record must have is another matter.
        bench.table =
            with_columns(&bench.table, &[("id", "UInt64"), ("_version", "UInt64"), ("more", "UInt8")]);
        bench.push(even(70..80));
        let added = BTreeMap::from([("d.t".to_owned(), vec!["more".to_owned()])]);
        let outcome = bench.drain_and_exit().await.expect("it is to be opened again");
        assert_eq!(outcome, Outcome::Reopen { claimed: false, added });
    });
}

#[test]
fn a_table_with_versions_is_asked_once_more_before_its_first_frame_is_sent() {
    run(async {
        let bench = Bench::new();
        bench.push(0..30);
        bench.drain_and_exit().await.expect("drains");
        let second = TokenTable::replacing("d.second", KEYS, bench.runtime.clone());
        let running = Process::start(with(&bench, &second, false));
        while bench.lane().await.table("d.second").is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        put_another(&second);
        bench.push(30..50);
        is_refused(running.ends().await, &second);
        // Nor does the next owner send what is sealed for it.
        is_refused(Process::start(with(&bench, &second, true)).ends().await, &second);
        // Once the clock has passed them, as it were, all of it arrives.
        second.world.lock().expect("no panic").rows.clear();
        Process::start(with(&bench, &second, true)).ends().await.expect("drains");
        let ids = second.world.lock().expect("no panic").ids();
        assert!(ids.keys().all(|id| (30..50).contains(id)) && ids.len() as u64 >= KEYS, "{ids:?}");
    });
}
