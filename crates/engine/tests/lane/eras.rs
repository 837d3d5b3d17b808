//! A source whose positions have two halves: its partitions go from era to era.

use std::time::Duration;

use dataflow::Partition;
use dataflow::position::position;

use crate::run;
use crate::support::{Bench, Process};

/// Both partitions begin another era.
fn begin_era(bench: &Bench) {
    (0..2).for_each(|index| bench.feed.begin_era(&Partition::new("e", index)));
}

#[test]
fn every_row_of_every_era_is_there_once_after_kills_between_them() {
    run(async {
        let bench = Bench::new();
        for era in 0..4_u64 {
            // Fewer records in each era than in the one before: the low half alone would go back.
            bench.push((0..400 - 80 * era).map(|n| 1_000 * era + n));
            Process::start(bench.pipeline(false)).kill_after(Duration::from_millis(15)).await;
            begin_era(&bench);
        }
        bench.push(4_000..4_010);
        bench.drain().await.expect("drains");
        bench.assert_holds(
            (0..4).flat_map(|era| (0..400 - 80 * era).map(move |n| 1_000 * era + n)).chain(4_000..4_010),
        );
        let lane = bench.lane().await;
        assert_eq!(lane.partitions.iter().map(|p| p.next).collect::<Vec<_>>(), [position(4, 5); 2]);
        assert_eq!(lane.counts.read, 400 + 320 + 240 + 160 + 10);
    });
}

#[test]
fn a_refused_row_of_a_later_era_becomes_the_dead_letter_of_its_own_record() {
    run(async {
        let bench = Bench::new();
        bench.table.world.lock().expect("no panic").poison = vec![104];
        bench.push(0..10);
        begin_era(&bench);
        bench.push(100..110);
        bench.drain().await.expect("drains");
        bench.assert_holds((0..10).chain((100..110).filter(|id| *id != 104)));
        let lane = bench.lane().await;
        assert_eq!((lane.counts.read, lane.tables[0].rows.refused), (20, 1));
        let messages = bench.dead_letters.world.lock().expect("no panic").messages.clone();
        assert!(matches!(&*messages, [one] if !one.contains("cannot be read again")), "{messages:?}");
    });
}
