//! Partitions of a stopped pipeline that are moved: what is read again, what is never read, and who may say so.

use std::collections::BTreeMap;
use std::time::Duration;

use dataflow::Partition;
use engine::rewind::{Request, RewindError, Target, rewind};
use engine::{EngineError, Outcome, Pipeline};
use protocol::record::{Absorbed, Rewind};

use crate::start::set_away;
use crate::support::{Bench, Process};
use crate::{run, window};

fn to(next: u64) -> Request {
    let target =
        |index| Target { partition: Partition::new("e", index), next: next.into(), leader_epoch: -1 };
    Request {
        targets: (0..2).map(target).collect(),
        new_state: Vec::new(),
        by: "test".into(),
        take_over: false,
        quiet_min: Duration::from_millis(50),
    }
}

async fn rewound(bench: &Bench, request: &Request) -> Result<Rewind, RewindError> {
    rewind(bench.store.clone(), bench.runtime.clone(), "p/lane-0", request).await
}

async fn ends(pipeline: Pipeline) -> Result<Outcome, EngineError> {
    Process::start(pipeline).ends().await
}

fn without_steps(bench: &Bench) -> Pipeline {
    Pipeline { steps: Vec::new(), ..bench.pipeline(true) }
}

fn times(bench: &Bench) -> BTreeMap<u64, u64> {
    bench.table.world.lock().expect("no panic").ids()
}

#[test]
fn what_is_read_again_is_written_again_unless_dedup_knows_it() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        ends(bench.pipeline(true)).await.expect("drains");
        let moved = rewound(&bench, &to(10)).await.expect("nobody runs it").moves;
        assert_eq!(moved.iter().map(|m| (m.from(), m.next())).collect::<Vec<_>>(), [(50, 10), (50, 10)]);
        bench.push(100..110);
        ends(bench.pipeline(true)).await.expect("drains");
        bench.assert_holds(0..110);
        let lane = bench.lane().await;
        assert_eq!(
            (lane.counts.read, lane.counts.duplicates),
            (110 + 80, 80),
            "read again is counted as read again"
        );
        // Without the keys they are written a second time.
        let request = Request { new_state: vec!["dedup".into()], ..to(50) };
        rewound(&bench, &request).await.expect("nobody runs it");
        ends(bench.pipeline(true)).await.expect("drains");
        assert_eq!(times(&bench), (0..110).map(|id| (id, 1 + u64::from(id >= 100))).collect());
        // A memory source publishes nothing; that a published position is no sign of an older store is shown by the journal's own.
        assert_eq!(bench.lane().await.read_to(0), 55);
    });
}

#[test]
fn without_dedup_every_record_of_the_range_is_there_twice() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        ends(without_steps(&bench)).await.expect("drains");
        rewound(&bench, &to(40)).await.expect("nobody runs it");
        ends(without_steps(&bench)).await.expect("drains");
        assert_eq!(times(&bench), (0..100).map(|id| (id, 1 + u64::from(id >= 80))).collect());
        assert_eq!(bench.lane().await.counts.read, 120);
    });
}

#[test]
fn what_is_skipped_is_never_read() {
    run(async {
        let bench = Bench::new();
        bench.push(0..20);
        ends(bench.pipeline(true)).await.expect("drains");
        bench.push(20..60);
        rewound(&bench, &to(20)).await.expect("nobody runs it");
        ends(bench.pipeline(true)).await.expect("drains");
        bench.assert_holds((0..20).chain(40..60));
        assert_eq!(bench.lane().await.counts.read, 40);
        let before = bench.lane().await;
        rewound(&bench, &to(30)).await.expect("it stands there");
        let after = bench.lane().await;
        assert_eq!(
            (after.partitions, after.next_seq),
            (before.partitions, before.next_seq + 1),
            "a claim alone"
        );
    });
}

#[test]
fn sealed_inserts_go_out_first_and_a_running_process_is_not_disturbed() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        set_away(&bench, true);
        let dies = Process::start(bench.pipeline(false));
        while bench.lane().await.counts.passed < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        dies.kill().await;
        let before = bench.lane().await;
        let refused = rewound(&bench, &to(0)).await.expect_err("they wait").to_string();
        assert!(refused.contains("`forebay run FILE --drain`"), "{refused}");
        assert_eq!(bench.lane().await, before);
        set_away(&bench, false);
        ends(bench.pipeline(true)).await.expect("the way out");
        rewound(&bench, &to(0)).await.expect("drained");
        ends(bench.pipeline(true)).await.expect("drains");
        bench.assert_holds(0..100);

        let runs = Process::start(bench.pipeline(false));
        let feed = async {
            for id in 100.. {
                bench.push([id]);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Longer than a busy machine keeps it waiting; that it writes is seen at once.
        let request = Request { quiet_min: Duration::from_secs(10), ..to(0) };
        let ask = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            rewound(&bench, &request).await
        };
        let refused = tokio::select! {
            () = feed => unreachable!("it feeds for ever"),
            refused = ask => refused.expect_err("it runs"),
        };
        assert!(matches!(refused, RewindError::Running | RewindError::Pending { .. }), "{refused}");
        runs.kill().await;
    });
}

#[test]
fn a_window_is_computed_again_from_where_it_is_read_again() {
    run(async {
        let bench = Bench::new();
        bench.push(0..750);
        ends(window::windowed(&bench, true)).await.expect("drains");
        let refused = rewound(&bench, &to(0)).await.expect_err("it would count twice").to_string();
        assert!(refused.contains("add `--new-state window`") && refused.contains("50 records"), "{refused}");
        let request = Request { new_state: vec!["window".into()], ..to(0) };
        let moved = rewound(&bench, &request).await.expect("given up");
        assert_eq!(moved.discarded, 50);
        bench.table.world.lock().expect("no panic").rows.clear();
        bench.push(750..800);
        bench.push(window::LAST);
        ends(window::windowed(&bench, true)).await.expect("drains");
        bench.assert_holds(window::results(0..800));
        let lane = bench.lane().await;
        assert_eq!(lane.absorbed, Absorbed { released: 700 + 800, held: 2, discarded: 50 });
        assert_eq!((lane.counts.read, lane.counts.late), (750 + 802, 0), "none is late: time begins again");
    });
}

#[test]
fn a_crash_around_the_record_leaves_both_partitions_moved_or_neither() {
    run(async {
        for life in 0..12 {
            let bench = Bench::new();
            bench.push(0..100);
            ends(bench.pipeline(true)).await.expect("drains");
            let request = to(0);
            let _ =
                tokio::time::timeout(Duration::from_micros(55_000 + life * 100), rewound(&bench, &request))
                    .await;
            let next: Vec<u128> = bench.lane().await.partitions.iter().map(|p| p.next).collect();
            assert!(next == [0, 0] || next == [50, 50], "{next:?}");
            ends(bench.pipeline(true)).await.expect("drains");
            bench.assert_holds(0..100);
        }
    });
}
