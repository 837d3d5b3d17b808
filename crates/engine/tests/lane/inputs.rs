//! Several inputs in one lane: their rows meet in the steps, each keeps its own ledger, and none waits for another.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dataflow::{Partition, Source, SourceFault};
use engine::forget::{Named, Request};
use engine::problem::State;
use engine::{EngineError, Outcome, Pipeline};
use protocol::record::Counts;
use sources::memory::MemorySource;
use tokio::sync::watch;

use crate::start::{At, Refusing, contents, set_away, until_it_ends};
use crate::support::{Bench, Process};
use crate::{run, wait_until};

/// A second source that has a stream of the same name.
fn second(ids: impl IntoIterator<Item = u64>) -> Arc<MemorySource> {
    let source = Arc::new(MemorySource::new([("e", 1)]));
    push(&source, ids);
    source
}

fn push(source: &Arc<MemorySource>, ids: impl IntoIterator<Item = u64>) {
    let handle = source.handle();
    for id in ids {
        handle.push(&Partition::new("e", 0), 1_000 + id as i64, id.to_string());
    }
}

/// The bench's pipeline with `orders`, its own source, and `payments`.
fn with_both(bench: &Bench, payments: Arc<dyn Source>, drain: bool) -> Pipeline {
    let inputs = vec![bench.input("orders", bench.source.clone()), bench.input("payments", payments)];
    Pipeline { inputs, ..bench.pipeline(drain) }
}

/// Takes the input `payments`, or a stream of it, out of the pipeline: how many partitions leave.
async fn forget_payments(bench: &Bench, stream: Option<&str>) -> usize {
    let request = Request {
        named: vec![Named { input: Some("payments".into()), stream: stream.map(Into::into), index: None }],
        from_start: false,
        by: "test".into(),
        take_over: true,
        quiet_min: Duration::ZERO,
    };
    let leaving = engine::forget::forget(bench.store.clone(), bench.runtime.clone(), "p/lane-0", &request);
    leaving.await.expect("it is read").partitions.len()
}

async fn counts(bench: &Bench, input: &str) -> Counts {
    let lane = bench.lane().await;
    let number = lane.input(input).expect("the journal knows the input");
    lane.inputs[number as usize].counts
}

fn held(bench: &Bench) -> usize {
    bench.table.world.lock().expect("no panic").ids().len()
}

#[test]
fn rows_of_two_inputs_are_deduplicated_together_and_counted_apart() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        let payments = second(90..150);
        until_it_ends(with_both(&bench, payments.clone(), true)).await.expect("drains");
        bench.assert_holds(0..150);
        let (orders, of_payments) = (counts(&bench, "orders").await, counts(&bench, "payments").await);
        assert_eq!((orders.read, of_payments.read), (100, 60));
        assert_eq!(orders.duplicates + of_payments.duplicates, 10, "whichever came second");
        assert_eq!(bench.lane().await.counts.read, 160);
        // The next start goes on with each where it was left, in whatever order the file names them.
        bench.push(200..210);
        push(&payments, 300..320);
        let mut swapped = with_both(&bench, payments, true);
        swapped.inputs.reverse();
        until_it_ends(swapped).await.expect("drains");
        bench.assert_holds((0..150).chain(200..210).chain(300..320));
        assert_eq!((counts(&bench, "orders").await.read, counts(&bench, "payments").await.read), (110, 80));
    });
}

#[test]
fn a_killed_process_reads_each_input_on_from_its_own_position() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        let payments = second(1_000..1_100);
        set_away(&bench, true);
        let dies = Process::start(with_both(&bench, payments.clone(), false));
        while bench.lane().await.counts.passed < 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        dies.kill().await;
        set_away(&bench, false);
        bench.push(100..130);
        push(&payments, 1_100..1_110);
        until_it_ends(with_both(&bench, payments, true)).await.expect("drains");
        bench.assert_holds((0..130).chain(1_000..1_110));
        assert_eq!((counts(&bench, "orders").await.read, counts(&bench, "payments").await.read), (130, 110));
    });
}

#[test]
fn a_first_start_of_which_one_input_refuses_writes_nothing() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        let refusing = Refusing::at(&second(0..10), At::Read);
        let error =
            until_it_ends(with_both(&bench, Arc::new(refusing), true)).await.expect_err("one refuses");
        assert!(error.to_string().contains("input `payments`: made to refuse"), "{error}");
        assert!(contents(&bench).await.is_empty());
    });
}

#[test]
fn an_input_that_refuses_or_is_away_at_a_later_start_does_not_stop_the_others() {
    run(async {
        for fault in [SourceFault::Refused, SourceFault::Away] {
            let bench = Bench::new();
            bench.push(0..10);
            let payments = second(100..110);
            until_it_ends(with_both(&bench, payments.clone(), true)).await.expect("drains");
            bench.push(10..50);
            push(&payments, 110..120);
            let broken = Refusing { fault, ..Refusing::at(&payments, At::Partitions) };
            let (stop, asked) = watch::channel(false);
            let runs = tokio::spawn(engine::run(with_both(&bench, Arc::new(broken), false), asked));
            wait_until(|| held(&bench) == 60).await;
            let problem = bench.status.snapshot().problems.get("payments").expect("it is shown").clone();
            let expected = if fault == SourceFault::Away { State::SourceAway } else { State::InputRefuses };
            assert_eq!(problem.state, expected);
            stop.send(true).expect("it listens");
            let ended = runs.await.expect("no panic");
            match fault {
                SourceFault::Away => assert!(matches!(ended, Ok(Outcome::Drained)), "{ended:?}"),
                _ => {
                    let Err(error @ EngineError::Delivered { .. }) = ended else { panic!("{ended:?}") };
                    assert!(error.to_string().starts_with("source: input `payments`: made to"), "{error}");
                }
            }
            until_it_ends(with_both(&bench, payments, true)).await.expect("it is back");
            bench.assert_holds((0..50).chain(100..120));
        }
    });
}

#[test]
fn an_input_that_refuses_while_it_is_read_does_not_stop_the_others() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        let payments = second(100..110);
        let refusing = Refusing::at(&payments, At::Nowhere);
        let now = refusing.now.clone();
        let (stop, asked) = watch::channel(false);
        let runs = tokio::spawn(engine::run(with_both(&bench, Arc::new(refusing), false), asked));
        wait_until(|| held(&bench) == 20).await;
        now.store(true, Ordering::SeqCst);
        wait_until(|| bench.status.snapshot().problems.contains_key("payments")).await;
        bench.push(10..40);
        wait_until(|| held(&bench) == 50).await;
        assert_eq!(bench.status.snapshot().problems["payments"].state, State::InputRefuses);
        stop.send(true).expect("it listens");
        let error = runs.await.expect("no panic").expect_err("one input refused");
        assert!(matches!(error, EngineError::Delivered { .. }), "{error}");
    });
}

#[test]
fn an_input_that_refused_where_the_owner_has_gone_on_meanwhile_is_asked_again() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        let payments = second(100..110);
        let owner = Process::start(with_both(&bench, payments.clone(), false));
        wait_until(|| held(&bench) == 20).await;
        let slow = Refusing::at(&bench.source, At::Slow);
        let go_on = slow.now.clone();
        let both = vec![
            bench.input("orders", Arc::new(slow)),
            bench.input("payments", Arc::new(Refusing::at(&payments, At::Below(15)))),
        ];
        let second = tokio::spawn(until_it_ends(Pipeline {
            inputs: both,
            ..with_both(&bench, payments.clone(), true)
        }));
        // By the status: it is the second start's, whose other source is still on its way.
        wait_until(|| bench.status.snapshot().problems.contains_key("payments")).await;
        push(&payments, 110..120);
        wait_until(|| held(&bench) == 30).await;
        owner.kill().await;
        push(&payments, 120..130);
        go_on.store(true, Ordering::SeqCst);
        second.await.expect("no panic").expect("what was gone had been read");
        assert!(!bench.status.snapshot().problems.contains_key("payments"), "it is read");
        bench.assert_holds((0..10).chain(100..130));
    });
}

/// Runs with `payments` away from the start until the table has so many ids, once for each of these; what comes next is pushed between them.
async fn runs_while_payments_are_away(
    bench: &Bench,
    payments: &Arc<MemorySource>,
    rounds: impl IntoIterator<Item = std::ops::Range<u64>>,
) {
    runs_beside(bench, away(payments), rounds, Duration::ZERO).await;
}

/// Payments that are away from the start.
fn away(payments: &Arc<MemorySource>) -> Refusing {
    Refusing { fault: SourceFault::Away, ..Refusing::at(payments, At::Partitions) }
}

/// The same beside any payments, with a pause behind each round.
async fn runs_beside(
    bench: &Bench,
    payments: Refusing,
    rounds: impl IntoIterator<Item = std::ops::Range<u64>>,
    pause: Duration,
) {
    let (stop, asked) = watch::channel(false);
    let runs = tokio::spawn(engine::run(with_both(bench, Arc::new(payments), false), asked));
    for ids in rounds {
        let expected = held(bench) + ids.clone().count();
        bench.push(ids);
        wait_until(|| held(bench) == expected).await;
        tokio::time::sleep(pause).await;
    }
    stop.send(true).expect("it listens");
    let ended = runs.await.expect("no panic");
    assert!(matches!(ended, Ok(Outcome::Drained)), "{ended:?}");
}

/// As one that goes away while it is read: the others do not wait for its times.
#[test]
fn an_input_that_is_away_at_a_start_does_not_stop_others_whose_records_are_later() {
    run(async {
        let mut bench = Bench::new();
        bench.push(0..10);
        let payments = second(100..110);
        until_it_ends(with_both(&bench, payments.clone(), true)).await.expect("drains");
        // Partitions are read no further apart than 10 ms.
        bench.settings.skew_ms_max = Some(10);
        runs_while_payments_are_away(&bench, &payments, [1_000..1_010, 2_000..2_010, 3_000..3_010]).await;
        let lane = bench.lane().await;
        assert!(lane.watermark_ms <= 1_109, "it waits for those that are away: {}", lane.watermark_ms);
        push(&payments, 110..120);
        until_it_ends(with_both(&bench, payments, true)).await.expect("it is back");
        bench.assert_holds(
            (0..10).chain(100..120).chain(1_000..1_010).chain(2_000..2_010).chain(3_000..3_010),
        );
    });
}

/// Those who write to it may have waited for it too: as one that comes back during a run it has time to speak.
#[test]
fn an_input_that_is_open_late_is_silent_only_from_then_on() {
    run(async {
        let mut bench = Bench::new();
        bench.push(0..10);
        let payments = second(100..110);
        until_it_ends(with_both(&bench, payments.clone(), true)).await.expect("drains");
        let idle_after = Duration::from_secs(2);
        bench.settings.idle_after = idle_after;
        let slow = Refusing::at(&payments, At::Slow);
        let go_on = slow.now.clone();
        let (stop, asked) = watch::channel(false);
        let runs = tokio::spawn(engine::run(with_both(&bench, Arc::new(slow), false), asked));
        bench.push(1_000..1_010);
        wait_until(|| held(&bench) == 30).await;
        tokio::time::sleep(idle_after).await;
        let opened = Instant::now();
        go_on.store(true, Ordering::SeqCst);
        for id in 2_000.. {
            let expected = held(&bench) + 1;
            bench.push([id]);
            wait_until(|| held(&bench) == expected).await;
            let watermark_ms = bench.lane().await.watermark_ms;
            if opened.elapsed() >= idle_after {
                break;
            }
            assert!(watermark_ms <= 1_109, "it was left out: {watermark_ms}");
        }
        stop.send(true).expect("it listens");
        let ended = runs.await.expect("no panic");
        assert!(matches!(ended, Ok(Outcome::Drained)), "{ended:?}");
    });
}

/// What it will have instead may be older than what the others have read meanwhile.
async fn holds_the_watermark_though_all_was_forgotten(of: impl FnOnce(&Arc<MemorySource>) -> Refusing) {
    let bench = Bench::new();
    bench.push(0..10);
    let payments = second(100..110);
    until_it_ends(with_both(&bench, payments.clone(), true)).await.expect("drains");
    assert_eq!(forget_payments(&bench, Some("e")).await, 1);
    let before_ms = bench.lane().await.watermark_ms;
    runs_beside(&bench, of(&payments), std::iter::once(1_000..1_010), Duration::ZERO).await;
    assert_eq!(bench.lane().await.watermark_ms, before_ms);
    push(&payments, 110..120);
    until_it_ends(with_both(&bench, payments, true)).await.expect("it is there");
    bench.assert_holds((0..10).chain(100..120).chain(1_000..1_010));
}

#[test]
fn an_input_whose_streams_were_all_forgotten_holds_the_watermark_until_it_is_open() {
    run(holds_the_watermark_though_all_was_forgotten(away));
}

/// As while dead letters are replayed without a process that reads: it is caught up wherever it stands, and has more all the same.
#[test]
fn an_input_that_stands_aside_holds_the_watermark_however_long_it_is_silent() {
    run(async {
        let mut bench = Bench::new();
        bench.push(0..10);
        let payments = second(100..110);
        until_it_ends(with_both(&bench, payments.clone(), true)).await.expect("drains");
        // Partitions are read no further apart than 10 ms.
        bench.settings.skew_ms_max = Some(10);
        bench.settings.idle_after = Duration::from_millis(100);
        let (aside, pause) = (|| Refusing::at(&payments, At::Aside), 2 * bench.settings.idle_after);
        runs_beside(&bench, aside(), [1_000..1_010, 2_000..2_010], pause).await;
        bench.push(3_000..3_010);
        let drained = until_it_ends(with_both(&bench, Arc::new(aside()), true)).await;
        assert_eq!(drained.expect("a drain does not wait for it"), Outcome::Complete);
        let lane = bench.lane().await;
        assert!(lane.watermark_ms <= 1_109, "it was left out: {}", lane.watermark_ms);
        push(&payments, 110..120);
        until_it_ends(with_both(&bench, payments.clone(), true)).await.expect("it is read");
        bench.assert_holds(
            (0..10).chain(100..120).chain(1_000..1_010).chain(2_000..2_010).chain(3_000..3_010),
        );
    });
}

#[test]
fn an_input_that_stands_aside_and_whose_streams_were_all_forgotten_holds_the_watermark() {
    run(holds_the_watermark_though_all_was_forgotten(|payments| Refusing::at(payments, At::Aside)));
}

/// And the watermark does not pass what the new partition has.
#[test]
fn a_partition_that_cannot_be_read_yet_keeps_nothing_else_from_being_read() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.idle_after = Duration::from_secs(3_600);
        bench.push(0..10);
        let payments = second(100..110);
        let away = Refusing { fault: SourceFault::Away, ..Refusing::at(&payments, At::FoundLong) };
        let lets_add = away.now.clone();
        let (stop, asked) = watch::channel(false);
        let runs = tokio::spawn(engine::run(with_both(&bench, Arc::new(away), false), asked));
        wait_until(|| held(&bench) == 20).await;
        let found = Partition::new("e", 1);
        payments.handle().open(found.clone());
        payments.handle().push(&found, 1_500, "500");
        // It is told of before these.
        push(&payments, 110..120);
        wait_until(|| held(&bench) == 30).await;
        bench.push(1_000..1_010);
        wait_until(|| held(&bench) == 40).await;
        let lane = bench.lane().await;
        assert!(lane.watermark_ms <= 1_009, "{}", lane.watermark_ms);
        lets_add.store(true, Ordering::SeqCst);
        wait_until(|| held(&bench) == 41).await;
        stop.send(true).expect("it listens");
        let ended = runs.await.expect("no panic");
        assert!(matches!(ended, Ok(Outcome::Drained)), "{ended:?}");
        bench.assert_holds((0..10).chain(100..120).chain([500]).chain(1_000..1_010));
    });
}

#[test]
fn the_watermark_is_that_of_the_slowest_input() {
    run(async {
        let bench = Bench::new();
        // Record times are 1,000 and the number.
        bench.push([5_000, 5_001]);
        let payments = second([7, 8]);
        until_it_ends(with_both(&bench, payments.clone(), true)).await.expect("drains");
        let lane = bench.lane().await;
        assert_eq!(lane.watermark_ms, 1_008, "{:?}", lane.partitions);
    });
}

#[test]
fn an_input_that_the_file_names_no_more_is_asked_about_and_can_be_forgotten() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        let payments = second(100..110);
        until_it_ends(with_both(&bench, payments, true)).await.expect("drains");
        let alone =
            || Pipeline { inputs: vec![bench.input("orders", bench.source.clone())], ..bench.pipeline(true) };
        let error = until_it_ends(alone()).await.expect_err("payments was read").to_string();
        assert!(error.contains("`forebay forget FILE --input payments`"), "{error}");
        let left = forget_payments(&bench, None).await;
        assert_eq!(left, 1, "the stream of the same name stays in the other input");
        bench.push(10..20);
        until_it_ends(alone()).await.expect("forgotten");
        bench.assert_holds((0..20).chain(100..110));
    });
}

/// Without the input the command would be about the stream of the same name that the other one reads.
#[test]
fn the_way_out_for_a_stream_that_was_made_anew_is_about_its_own_input() {
    run(async {
        let bench = Bench::new();
        bench.push(0..10);
        let payments = second(100..110);
        until_it_ends(with_both(&bench, payments.clone(), true)).await.expect("drains");
        payments.handle().open(Partition::new("e", 0));
        push(&payments, 110..120);
        bench.push(10..20);
        let error =
            until_it_ends(with_both(&bench, payments.clone(), true)).await.expect_err("it is another");
        assert!(error.to_string().contains("`forebay forget FILE --input payments --stream e`"), "{error}");
        assert_eq!(forget_payments(&bench, Some("e")).await, 1);
        until_it_ends(with_both(&bench, payments, true)).await.expect("forgotten");
        bench.assert_holds((0..20).chain(100..120));
    });
}

#[test]
fn a_refused_row_becomes_the_dead_letter_of_its_own_inputs_record() {
    run(async {
        let bench = Bench::new();
        bench.push(0..5);
        let payments = second(100..105);
        bench.table.world.lock().expect("no panic").poison.push(103);
        until_it_ends(with_both(&bench, payments, true)).await.expect("drains");
        bench.assert_holds((0..5).chain(100..103).chain([104]));
        let letters = bench.dead_letters.world.lock().expect("no panic").rows.len();
        assert_eq!(letters, 1);
    });
}
