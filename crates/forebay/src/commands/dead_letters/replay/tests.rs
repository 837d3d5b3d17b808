use std::path::PathBuf;

use pipeline::config;
use pipeline::config::values::reference::Surroundings;
use protocol::lane::{InputState, PartitionState, Removed, TableState};
use protocol::record::{Body, Forgotten, Removal};
use protocol::{Record, names};
use store::{Key, MemoryStore};

use super::*;

const FOLDER: &str = "p/lane-0";

/// A pipeline that nobody runs, and whose server is never asked.
fn pipeline() -> Pipeline {
    of_inputs("source: { kafka: { brokers: b, topic: t } }")
}

fn of_inputs(inputs: &str) -> Pipeline {
    let text = format!(
        "pipeline: p\nstore: file:///no-such-folder/store\n{inputs}\n\
         sink: {{ clickhouse: {{ url: \"http://127.0.0.1:1\", table: t }} }}\nhttp: {{ listen: \"127.0.0.1:1\" }}\n"
    );
    let checked = config::check(&text, &Surroundings::of_process());
    checked.pipeline.unwrap_or_else(|| panic!("{}", checked.faults.render("test")))
}

/// The command without options.
fn command() -> Replay {
    Replay {
        file: PipelineFile { file: PathBuf::from("p.yaml") },
        filter: Filter::default(),
        limit: 1,
        again: false,
        dry_run: false,
        run: false,
        no_wait: false,
        timeout: "1s".parse().expect("a length of time"),
        json: false,
    }
}

/// The journal of a pipeline whose first record was retired says that it was reset.
async fn reset(store: &dyn Store) {
    for (seq, is_done) in [(1, false), (2, true)] {
        let before = Before { until_ms: 70, ..Before::default() };
        let removal = Removal { is_done, by: String::new(), before: Some(before) };
        let body = Some(Body::Removal(removal));
        let record = Record { seq, epoch: 2, nonce: vec![2; 16], written_at_ms: 70, body };
        let key = Key::new(names::journal(FOLDER, seq)).expect("a valid key");
        store.put_if_absent(&key, vec![record.to_bytes().into()]).await.expect("a put");
    }
}

#[test]
fn letters_that_were_chosen_before_a_reset_or_a_forget_are_not_put_behind_it() {
    let chosen_at = Lane::new();
    assert_eq!(moved(&chosen_at, &Lane { next_seq: 7, ..Lane::new() }), None);
    let reset = Lane { before: Before { until_ms: 70, ..Before::default() }, ..Lane::new() };
    let why = moved(&chosen_at, &reset).expect("it reads all again");
    assert!(why.contains("was reset or deleted") && why.contains("no more of them are replayed"), "{why}");
    let gone = Forgotten { partition: 0, from_start: true, at_ms: 70 };
    let forgotten = Lane { forgotten: [(0, gone)].into(), ..Lane::new() };
    let why = moved(&chosen_at, &forgotten).expect("it may read them again");
    assert!(why.contains("in the replay log by now are replayed, the others are not"), "{why}");
}

#[test]
fn a_pipeline_that_was_reset_while_its_records_waited_is_another_one() {
    let before = Before { until_ms: 70, replays_from: 5, letters_from_ms: 0 };
    let now = |before, removed| Lane { before, removed, ..Lane::new() };
    assert!(!is_another(before, &now(before, None)), "it was reset before");
    // The reset is under way or done; and then a process has claimed the lane.
    assert!(is_another(before, &now(before, Some(Removed { is_done: false }))));
    assert!(is_another(before, &now(Before { until_ms: 90, ..before }, None)));
}

#[tokio::test]
async fn a_wait_behind_a_drain_ends_with_the_next_signal() {
    let mut signals = Signals::listen().expect("the system lets us");
    assert_eq!(unless_asked(Some(&mut signals), async { 7 }).await, Some(7));
    assert_eq!(unless_asked(None, async { 8 }).await, Some(8), "nothing was taken over");
    let own = std::process::id().to_string();
    let sent = std::process::Command::new("kill").args(["-TERM", own.as_str()]).status();
    assert!(sent.expect("`kill` is everywhere").success());
    assert_eq!(unless_asked(Some(&mut signals), std::future::pending::<()>()).await, None);
}

#[tokio::test]
async fn what_a_sleeper_has_put_behind_a_reset_is_taken_back() {
    let table = Table::new(&pipeline(), &clock()).await.expect("nobody is asked");
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let (log, chosen_at) = (Log::new(store.clone(), FOLDER), Lane::new());
    let place = Place { table: &table, log: &log, store: &store, folder: FOLDER, chosen_at: &chosen_at };
    let of_writer = |nonce: u8| Object {
        nonce: vec![nonce; 16],
        records: vec![object::Replayed::default()],
        ..Object::default()
    };
    assert!(log.append(&of_writer(1)).await.expect("a put"));
    place.check_behind(&of_writer(1)).await.expect("the pipeline goes on");
    assert_eq!(log.begins().await.expect("names"), [0]);
    reset(&*store).await;
    place.check_behind(&of_writer(2)).await.expect_err("another writer's object stays");
    assert_eq!(log.begins().await.expect("names"), [0]);
    let why = place.check_behind(&of_writer(1)).await.expect_err("it was reset").to_string();
    assert!(why.contains("pipeline `p` was reset or deleted after the letters were chosen"), "{why}");
    assert_eq!(log.begins().await.expect("names"), [0; 0], "the next pipeline would read it");
}

#[tokio::test]
async fn a_pipeline_that_was_reset_is_not_begun_anew_by_a_replay_that_waits() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    reset(&*store).await;
    let lane = Lane { next_seq: 1, epoch: 1, ..Lane::new() };
    let mut follower = Follower::new(store, FOLDER.to_owned(), lane);
    let waited = command().wait(&pipeline(), &mut follower, 1).await.expect("the journal is read");
    assert!(matches!(waited, Waited::Removed));
}

#[tokio::test]
async fn a_replay_waits_though_another_one_was_read_beyond_its_end() {
    let log = PartitionState {
        input: 0,
        stream: STREAM.into(),
        index: 0,
        identity: String::new(),
        next: 8,
        leader_epoch: -1,
        time_ms_max: 0,
        taken_over: None,
    };
    let table = TableState { name: "d.t".into(), next_ordinal: 2, frontier: 1, ..TableState::default() };
    let lane = Lane { partitions: vec![log], tables: vec![table], ..Lane::new() };
    let mut follower = Follower::new(Arc::new(MemoryStore::default()), FOLDER.to_owned(), lane);
    let waited = command().until(&mut follower, 5, Duration::ZERO, false).await;
    assert!(matches!(waited.expect("the journal is read"), Waited::TooLong), "its insert is not settled");
}

#[test]
fn a_replay_does_not_open_an_input_that_no_run_has_opened() {
    let known = |was_opened| InputState { name: "source".into(), was_opened, counts: Default::default() };
    let of =
        |inputs: Vec<InputState>| unopened(&pipeline(), &Lane { inputs, ..Lane::new() }).map(str::to_owned);
    assert_eq!(of(vec![known(true)]), None);
    // It was named beside another one and was away; or was added to the file since the last run.
    assert_eq!(of(vec![known(false)]).as_deref(), Some("source"));
    assert_eq!(of(Vec::new()).as_deref(), Some("source"));
}

#[test]
fn a_process_that_is_not_seen_from_here_and_has_just_written_is_not_taken_for_none() {
    let of = |presence| [grace(presence, 70_000, 75_000), grace(presence, 70_000, 90_000)];
    assert_eq!(of(Presence::Nowhere), [QUIET, Duration::ZERO]);
    assert_eq!(of(Presence::Unknown), [GRACE, GRACE]);
    // The clock that wrote is ahead.
    assert_eq!(grace(Presence::Nowhere, 90_000, 70_000), QUIET);
}

#[test]
fn letters_of_records_that_were_sent_are_not_said_to_be_read_again() {
    let (again, sent) = ("reads their records again", "do not come again");
    let kafka = of_earlier_readings(3, &pipeline());
    assert!(kafka.starts_with("3 more are older than a `reset` ") && kafka.contains(again), "{kafka}");
    assert!(!kafka.contains(sent), "{kafka}");
    let listening = of_earlier_readings(3, &of_inputs("source: { listen: {} }"));
    assert!(listening.starts_with("3 more are older than a `reset`"), "{listening}");
    assert!(listening.contains(sent) && !listening.contains(again), "{listening}");
    let both =
        of_inputs("inputs: { a: { kafka: { brokers: b, topic: t } }, b: { listen: { stream: sent } } }");
    let both = of_earlier_readings(3, &both);
    assert!(both.contains(sent) && both.contains(again) && both.contains("`--again`"), "{both}");
}
