//! Rows that replace each other: versions that rise over all owners, and rows that later ones of a batch replace.

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
