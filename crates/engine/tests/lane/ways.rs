//! The ways out that the engine prints, taken: each start that it refuses, and each state that it waits in.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dataflow::{
    Effect, Partition, PartitionStart, Position, ReadFrom, Reader, Remedy, Source, SourceError, Streams,
    TableFault,
};
use engine::problem::{STORE, State};
use engine::{EngineError, Outcome, Pipeline};
use protocol::doubt::StopReason;
use store::{Entry, ErrorKind, Key, Operation, Prefix, Put, Store, StoreError};
use tokio::sync::watch;

use crate::start::{set_away, until_it_ends};
use crate::support::{Bench, Process, TokenTable};
use crate::{run, wait_until};

/// A source whose positions were published for another group.
struct OtherGroup(Arc<sources::memory::MemorySource>);

#[async_trait]
impl Source for OtherGroup {
    fn streams(&self) -> Streams {
        self.0.streams()
    }

    async fn partitions(&self) -> Result<Vec<PartitionStart>, SourceError> {
        self.0.partitions().await
    }

    async fn ends(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        self.0.ends().await
    }

    async fn read(&self, from: Vec<ReadFrom>) -> Result<Box<dyn Reader>, SourceError> {
        self.0.read(from).await
    }

    async fn publish(&self, _: &[(Partition, Position)]) -> Result<(), SourceError> {
        Ok(())
    }

    async fn published(&self) -> Result<Vec<(Partition, Position)>, SourceError> {
        Ok(Vec::new())
    }
}

async fn in_other_group(bench: &Bench, name: &str) -> Result<Outcome, EngineError> {
    let source = Arc::new(OtherGroup(bench.source.clone()));
    until_it_ends(Pipeline { inputs: bench.inputs(source), name: name.into(), ..bench.pipeline(true) }).await
}

/// Every object below `from`, under `to`.
async fn copy(bench: &Bench, from: &str, to: &str, into: &dyn Store) {
    let all = bench.store.list(&Prefix::new(from).expect("a folder"), None, 1_000).await.expect("in memory");
    for entry in all {
        let bytes = bench.store.get(&entry.key, u64::MAX).await.expect("in memory").expect("just listed");
        let key = Key::new(entry.key.as_str().replacen(from, to, 1)).expect("a key");
        into.put_if_absent(&key, vec![bytes]).await.expect("in memory");
    }
}

async fn delete(store: &dyn Store, folder: &str) {
    for entry in store.list(&Prefix::new(folder).expect("a folder"), None, 1_000).await.expect("in memory") {
        store.delete(&entry.key).await.expect("in memory");
    }
}

fn empty(table: &TokenTable) {
    table.world.lock().expect("no panic").rows.clear();
}

fn says(result: Result<Outcome, EngineError>, words: &[&str]) {
    let error = result.expect_err("it is refused").to_string();
    for words in words {
        assert!(error.contains(words), "`{words}` in {error}");
    }
}

/// 100 rows that were read and delivered.
async fn delivered() -> Bench {
    let bench = Bench::new();
    bench.push(0..100);
    bench.drain_and_exit().await.expect("drains");
    bench
}

#[test]
fn every_way_out_of_a_start_that_does_not_fit_lets_it_start() {
    run(async {
        // A folder that was copied by hand: moved back and renamed, or another store.
        let bench = delivered().await;
        copy(&bench, "p", "q", &*bench.store).await;
        let named_q = || Pipeline { name: "q".into(), ..bench.pipeline(true) };
        says(until_it_ends(named_q()).await, &["`forebay rename FILE q --yes`", "or use another store"]);
        delete(&*bench.store, "q").await;
        let request = engine::rename::Request {
            from: "p".into(),
            to: "q".into(),
            lane: 0,
            by: "test".into(),
            quiet_min: Duration::from_millis(20),
        };
        engine::rename::rename(bench.store.clone(), bench.runtime.clone(), &request).await.expect("renamed");
        bench.push(100..110);
        until_it_ends(named_q()).await.expect("goes on");
        bench.assert_holds(0..110);

        // Other steps: the old ones back; or a new name, another group and an empty table.
        let bench = delivered().await;
        let without = |name: &str| Pipeline { steps: Vec::new(), name: name.into(), ..bench.pipeline(true) };
        let words = [
            "put the old steps back",
            "Or give the pipeline a new name",
            "another `group`",
            "empty the table first",
        ];
        says(until_it_ends(without("p")).await, &words);
        bench.push(100..110);
        bench.drain().await.expect("the old steps");
        bench.assert_holds(0..110);
        empty(&bench.table);
        let source = Arc::new(OtherGroup(bench.source.clone()));
        until_it_ends(Pipeline { inputs: bench.inputs(source), ..without("new") })
            .await
            .expect("a new pipeline");
        bench.assert_holds(0..110);

        // Rows that wait for a table that is named no more: named again and drained, then changed.
        let bench = Bench::new();
        set_away(&bench, true);
        bench.push(0..100);
        let dies = Process::start(bench.pipeline(false));
        while bench.lane().await.counts.passed < 100 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        dies.kill().await;
        set_away(&bench, false);
        let other = TokenTable::numbers("d.other", bench.runtime.clone());
        let changed = || Pipeline { tables: vec![other.clone()], ..bench.pipeline(true) };
        says(until_it_ends(changed()).await, &["name it again and drain, then change it"]);
        bench.drain().await.expect("named again");
        bench.assert_holds(0..100);
        bench.push(100..110);
        until_it_ends(changed()).await.expect("nothing waits any more");
        assert_eq!(other.world.lock().expect("no panic").ids().len(), 10);
    });
}

#[test]
fn every_way_out_of_a_store_that_is_not_the_newest_lets_it_start() {
    run(async {
        // Rolled back: the newer one, or all of it anew.
        let mut bench = delivered().await;
        let older: Arc<dyn Store> = Arc::new(store::MemoryStore::new(1 << 30));
        copy(&bench, "p", "p", &*older).await;
        bench.push(100..200);
        bench.drain_and_exit().await.expect("drains");
        let newer = std::mem::replace(&mut bench.store, older);
        let words = ["Restore the newer store", "`forebay reset FILE --yes`", "another `group`"];
        says(bench.drain().await, &words);
        let older = std::mem::replace(&mut bench.store, newer);
        bench.push(200..210);
        bench.drain().await.expect("the newer store");
        bench.assert_holds(0..210);
        bench.store = older;
        empty(&bench.table);
        // What `reset` does to the store.
        delete(&*bench.store, "p").await;
        in_other_group(&bench, "p").await.expect("all of it anew");
        bench.assert_holds(0..210);

        // Lost: brought back, or all of it anew. A new name alone would be refused as well where the group stays.
        let mut bench = delivered().await;
        let lost = std::mem::replace(&mut bench.store, Arc::new(store::MemoryStore::new(1 << 30)));
        says(bench.drain().await, &["Restore the store", "give the source another `group`"]);
        empty(&bench.table);
        in_other_group(&bench, "p").await.expect("all of it anew");
        bench.assert_holds(0..100);
        bench.store = lost;
        bench.push(100..110);
        bench.drain().await.expect("the store that was lost");
        bench.assert_holds(0..110);
    });
}

#[test]
fn every_state_of_a_table_ends_when_its_way_out_was_taken_and_nothing_is_lost() {
    run(async {
        let kinds = [
            (TableFault::NoSpace, State::NoSpace),
            (TableFault::ReadOnly, State::ReadOnly),
            (TableFault::TooManyParts, State::TooManyParts),
            (TableFault::NoQuorum, State::NoQuorum),
            (TableFault::Overloaded, State::Overloaded),
            (TableFault::Timeout, State::ServerAway),
            (TableFault::ReplicaLags, State::ReplicaLags),
            (TableFault::View, State::View),
            (TableFault::Request, State::Request),
            (TableFault::Uncertain, State::Unclear),
        ];
        for (kind, state) in kinds {
            // The last: a proxy has sent the insert twice, and hands on the refusal of the second.
            for (effect, is_written) in [
                (Effect::None, false),
                (Effect::Unknown, false),
                (Effect::Unknown, true),
                (Effect::None, true),
            ] {
                let bench = Bench::new();
                let says = |says| bench.table.world.lock().expect("no panic").says = says;
                says(Some((kind, Remedy::Resend, effect, is_written)));
                bench.push(0..100);
                let (stop, asked) = watch::channel(false);
                let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
                let problem = || bench.status.snapshot().problems.get("d.t").map(|problem| problem.state);
                wait_until(|| problem() == Some(state)).await;
                assert!(!running.is_finished(), "{kind}: it waits");
                says(None);
                wait_until(|| problem().is_none()).await;
                stop.send(true).expect("it runs");
                running.await.expect("no panic").expect("drains");
                bench.assert_holds(0..100);
            }
        }
    });
}

/// A store that takes no object while it is told so.
#[derive(Debug)]
struct Failing {
    inner: Arc<dyn Store>,
    kind: Mutex<Option<ErrorKind>>,
}

#[async_trait]
impl Store for Failing {
    async fn put_if_absent(&self, key: &Key, body: Vec<Bytes>) -> Result<Put, StoreError> {
        let kind = *self.kind.lock().expect("no panic");
        match kind {
            Some(kind) => Err(StoreError::new(kind, Operation::Put, key, "made to fail")),
            None => self.inner.put_if_absent(key, body).await,
        }
    }

    async fn get(&self, key: &Key, bytes_max: u64) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key, bytes_max).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Option<Bytes>, StoreError> {
        self.inner.get_range(key, range).await
    }

    async fn list(
        &self,
        prefix: &Prefix,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), StoreError> {
        self.inner.delete(key).await
    }

    async fn harden(&self, prefix: &Prefix) -> Result<(), StoreError> {
        self.inner.harden(prefix).await
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[test]
fn every_state_of_the_store_ends_when_its_way_out_was_taken_and_nothing_is_lost() {
    run(async {
        for (kind, state) in [
            (ErrorKind::Io, State::StoreAway),
            (ErrorKind::Full, State::StoreFull),
            (ErrorKind::Permission, State::StoreAccess),
        ] {
            let mut bench = Bench::new();
            bench.push(0..100);
            bench.drain_and_exit().await.expect("drains");
            let store = Arc::new(Failing { inner: bench.store.clone(), kind: Mutex::default() });
            bench.store = store.clone();
            let (stop, asked) = watch::channel(false);
            let running = tokio::spawn(engine::run(bench.pipeline(false), asked));
            while bench.lane().await.epoch < 2 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            *store.kind.lock().expect("no panic") = Some(kind);
            bench.push(100..200);
            let problem = || bench.status.snapshot().problems.get(STORE).map(|problem| problem.state);
            wait_until(|| problem() == Some(state)).await;
            assert!(!running.is_finished(), "{kind:?}: it waits");
            *store.kind.lock().expect("no panic") = None;
            wait_until(|| problem().is_none()).await;
            wait_until(|| bench.table.world.lock().expect("no panic").ids().len() == 200).await;
            stop.send(true).expect("it runs");
            running.await.expect("no panic").expect("drains");
            bench.assert_holds(0..200);
        }
    });
}

/// Every state's way out is taken by a test: those of a table's errors and of the store above, the others by one of their own.
#[test]
fn every_state_that_is_waited_in_has_a_test_that_takes_its_way_out() {
    let of_its_own = |state| match state {
        State::Access => Some("a_wrong_password_met_while_running_is_a_state_and_passes_with_the_right_one"),
        State::OwnLimit => Some("a_process_without_descriptors_says_so_and_goes_on_once_its_limit_is_raised"),
        State::TableMissing => {
            Some("a_table_that_goes_missing_while_running_is_a_state_and_passes_when_it_is_back")
        }
        State::TableDiffers => Some("a_column_that_is_dropped_while_running_holds_the_rows_until_it_is_back"),
        State::AttemptRuns => Some("a_held_back_tail_that_the_server_shows_is_ended_before_a_trusted_resend"),
        State::RowsRefused => Some("a_refused_dead_letter_waits_for_its_table_to_be_mended"),
        State::Asks => Some("a_question_about_one_table_leaves_the_others_to_go_on"),
        State::SourceAway => Some("what_is_sealed_is_delivered_while_the_source_is_away_and_reading_follows"),
        State::LookupAway => {
            Some("a_lookup_whose_other_side_is_away_is_a_state_of_its_own_until_a_record_comes")
        }
        State::SourceRefuses => {
            Some("a_source_that_refuses_while_it_is_read_ends_the_pipeline_once_all_is_delivered")
        }
        State::InputRefuses => {
            Some("an_input_that_refuses_or_is_away_at_a_later_start_does_not_stop_the_others")
        }
        State::StateDamaged => {
            Some("what_waits_is_delivered_though_a_state_is_damaged_and_the_step_begins_empty_behind_it")
        }
        State::NoSpace
        | State::ReadOnly
        | State::TooManyParts
        | State::NoQuorum
        | State::Overloaded
        | State::ServerAway
        | State::ReplicaLags
        | State::View
        | State::Request
        | State::Unclear
        | State::StoreAway
        | State::StoreAccess
        | State::StoreFull => None,
    };
    let sources = tests();
    for state in State::ALL {
        if let Some(test) = of_its_own(state) {
            assert!(sources.contains(&format!("fn {test}()")), "{state:?}: there is no test `{test}`");
        }
    }
}

/// Each answer to each question is taken by a test, on the real engine where rows are counted or deleted by hand.
#[test]
fn every_question_has_tests_that_take_its_answers() {
    let sources = tests();
    for reason in StopReason::ALL {
        let answered: &[&str] = match reason {
            StopReason::TableChanged => {
                &["an_exchanged_table_is_asked_about_once_and_then_takes_all_that_waits"]
            }
            StopReason::CannotTell => &[
                "a_lane_that_cannot_tell_asks_and_goes_on_when_told_that_the_rows_are_there",
                "a_lane_that_cannot_tell_asks_and_goes_on_when_told_that_they_are_not",
            ],
            StopReason::PartPresent => &[
                "rows_that_others_have_deleted_of_an_insert_in_doubt_stay_away_when_told_so",
                "rows_that_others_have_deleted_of_an_insert_in_doubt_come_back_when_told_so",
            ],
            StopReason::ViewsUnknown => &[
                "rows_that_the_target_of_a_view_lacks_are_inserted_there_before_they_are_said_to_be_present",
                "rows_that_the_target_of_a_view_lacks_come_with_all_others_once_they_are_deleted_and_said_to_be_absent",
            ],
        };
        for test in answered {
            assert!(sources.contains(&format!("fn {test}()")), "{reason:?}: there is no test `{test}`");
        }
    }
}

/// The tests of the engine and of the whole program, as text.
fn tests() -> String {
    let mut sources = String::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for folder in ["crates/engine/tests", "crates/engine/tests/lane", "tests/live/tests/live"] {
        for entry in std::fs::read_dir(format!("{root}/{folder}")).expect("a folder of tests") {
            let path = entry.expect("as above").path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push_str(&std::fs::read_to_string(path).expect("a source file is text"));
            }
        }
    }
    sources
}
