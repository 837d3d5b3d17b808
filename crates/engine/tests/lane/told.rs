//! What people are told of a lane: problems, lag, and which records this process has read.

use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dataflow::{Partition, SourceFault};
use engine::problem::{SOURCE, STORE, State};
use engine::totals::Totals;
use store::MemoryStore;
use tokio::sync::watch;

use crate::start::{At, Refusing, with};
use crate::support::{Bench, Process, TokenTable};
use crate::{run, wait_until};

#[test]
fn a_full_store_is_told_at_once_and_the_lag_behind_it_is_right() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.lag_every = Duration::from_millis(5);
        bench.store = Arc::new(MemoryStore::new(6_000));
        bench.push(0..100);
        let running = Process::start(bench.pipeline(false));
        let state = || bench.status.snapshot().problems.get(STORE).map(|problem| problem.state);
        let mut pushed = 100;
        for n in 1.. {
            bench.push(n * 100..(n + 1) * 100);
            pushed += 100;
            tokio::time::sleep(Duration::from_millis(20)).await;
            if state().is_some() {
                break;
            }
        }
        assert_eq!(state(), Some(State::StoreFull));
        let is_behind = || bench.status.snapshot().lag().is_some_and(|lag| lag >= 10_000);
        // A few cuts are gathered before the lane stands still.
        for n in 1_000..1_200 {
            bench.push(n * 1_000..(n + 1) * 1_000);
            pushed += 1_000;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        wait_until(is_behind).await;
        // Of what is read and cannot be sealed, too.
        let sealed = bench.lane().await.counts.read;
        wait_until(|| bench.status.snapshot().lag() == Some(pushed - sealed)).await;
        // Reads go on all the while, and do not make it look well.
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert_eq!(state(), Some(State::StoreFull));
            assert!(is_behind());
        }
        running.kill().await;
    });
}

#[test]
fn a_source_that_does_not_say_where_it_ends_is_a_problem_until_it_does() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.lag_every = Duration::from_millis(5);
        bench.push(0..10);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 10).await;
        bench.feed.fail(u32::MAX);
        wait_until(|| bench.status.snapshot().problems.contains_key(SOURCE)).await;
        bench.feed.fail(0);
        wait_until(|| bench.status.snapshot().problems.is_empty()).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
    });
}

/// The lane alone asks at that moment, and has nothing to read afterwards that would show that the source is back.
#[test]
fn what_a_reader_has_met_is_over_once_the_source_answers_though_nothing_is_read() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.lag_every = Duration::from_millis(200);
        bench.push(0..10);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 10).await;
        bench.feed.fail(1);
        wait_until(|| bench.status.snapshot().problems.contains_key(SOURCE)).await;
        wait_until(|| bench.status.snapshot().problems.is_empty()).await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
    });
}

/// The source is well all the while, and says so: only a record shows that what it waited for is there again.
#[test]
fn a_lookup_whose_other_side_is_away_is_a_state_of_its_own_until_a_record_comes() {
    run(async {
        let mut bench = Bench::new();
        bench.settings.lag_every = Duration::from_millis(5);
        bench.settings.retry_pause_max = Duration::from_millis(200);
        let source = Refusing { fault: SourceFault::Lookup, ..Refusing::at(&bench.source, At::Nowhere) };
        let is_away = source.now.clone();
        is_away.store(true, Ordering::SeqCst);
        bench.push(0..10);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(with(&bench, source, false), asked));
        let state = || bench.status.snapshot().problems.get(SOURCE).map(|problem| problem.state);
        wait_until(|| state().is_some()).await;
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert_eq!(state(), Some(State::LookupAway));
        }
        is_away.store(false, Ordering::SeqCst);
        wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 10).await;
        assert_eq!(state(), None);
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
    });
}

#[test]
fn a_restart_counts_its_own_records_apart_from_those_before() {
    run(async {
        let bench = Bench::new();
        bench.push(0..30);
        bench.push_text(31, "no number");
        bench.drain().await.expect("drains");
        let first = bench.status.snapshot();
        assert_eq!(
            (first.read, first.sealed_at_start, first.sealed.records.read),
            (31, Totals::default(), 31)
        );
        let second = Bench { status: Arc::default(), ..bench };
        second.push(40..45);
        second.drain().await.expect("drains");
        let last = second.status.snapshot();
        assert_eq!((last.read, last.sealed.records.read), (5, 36));
        assert_eq!(last.sealed_at_start, first.sealed);
    });
}

/// Retention has taken records of a partition before anybody saw it, once between two runs and once beside a running one.
#[test]
fn a_partition_found_late_counts_the_records_that_were_gone_by_then() {
    run(async {
        let bench = Bench::new();
        bench.push(0..100);
        bench.drain().await.expect("drains");
        let (held, cut) = (Partition::new("e", 2), Partition::new("e", 3));
        bench.feed.open(held.clone());
        bench.feed.push(&held, 1_000, "500");
        let open_cut = |partition: &Partition, first: u64| {
            bench.feed.open_at(partition.clone(), first.into());
            for id in first..40 {
                bench.feed.push(partition, 1_000, (1_000 * u64::from(partition.index) + id).to_string());
            }
        };
        open_cut(&cut, 25);
        bench.drain().await.expect("drains");
        let expired = |index: u32| bench.status.snapshot().partitions[&format!("e/{index}")].expired;
        assert_eq!((expired(0), expired(2), expired(3)), (0, 0, 25));
        // What was counted once is known by then.
        bench.status.update(|s| s.partitions.clear());
        let (stop, asked) = tokio::sync::watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        bench.push(100..110);
        while bench.lane().await.counts.read < 126 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(expired(3), 0);
        open_cut(&Partition::new("e", 4), 30);
        while bench.lane().await.counts.read < 136 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(expired(4), 30);
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        bench.assert_holds((0..110).chain([500]).chain(3_025..3_040).chain(4_030..4_040));
    });
}

/// What every test of this binary logs.
static LOGGED: Mutex<String> = Mutex::new(String::new());

struct Log;

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields<'a>(&'a mut String);
        impl tracing::field::Visit for Fields<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                write!(self.0, "{field}={value:?} ").expect("a string takes all");
            }
        }
        let mut logged = LOGGED.lock().expect("no panic");
        event.record(&mut Fields(&mut logged));
        logged.push('\n');
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// `EXCHANGE TABLES` changes nothing that an insert would notice: only the look at the table tells, and it must say so.
#[test]
fn an_exchange_under_load_leaves_one_log_line() {
    tracing::subscriber::set_global_default(Log).expect("no other test sets one");
    run(async {
        let mut bench = Bench::new();
        bench.table = TokenTable::numbers("d.exchanged", bench.runtime.clone());
        bench.settings.facts_every = Duration::from_millis(5);
        let (stop, asked) = watch::channel(false);
        let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
        let lines = || {
            let logged = LOGGED.lock().expect("no panic");
            logged
                .lines()
                .filter(|l| l.contains("d.exchanged") && l.contains("another table has this name"))
                .count()
        };
        for n in 0..40 {
            bench.push(n * 10..(n + 1) * 10);
            tokio::time::sleep(Duration::from_millis(5)).await;
            if n == 20 {
                bench.table_looked_at().await;
                assert_eq!(lines(), 0);
                bench.table.world.lock().expect("no panic").exchanged += 1;
            }
        }
        wait_until(|| lines() > 0).await;
        bench.table_looked_at().await;
        stop.send(true).expect("it runs");
        running.await.expect("no panic").expect("drains");
        assert_eq!(lines(), 1, "once, with both identities");
        bench.assert_holds(0..400);
    });
}
