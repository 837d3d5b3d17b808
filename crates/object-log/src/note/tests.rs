use std::time::Duration;

use super::*;
use crate::decide::Retention;
use crate::support::{self, Gated, TestRuntime, append, owner, partition, partition_in, quick};
use crate::{Owner, Settings, labels};

fn note(position: u64, body: &str) -> Note {
    Note { position, body: body.as_bytes().to_vec() }
}

async fn notes(partition: &LogPartition) -> (Notes, Option<Note>, crate::Owner) {
    let owner = owner(partition).await;
    let (notes, found) = Notes::open(partition.clone(), &owner.root()).await.expect("opens");
    (notes, found.map(|found| found.note), owner)
}

#[tokio::test]
async fn a_later_owner_reads_what_was_noted_and_an_earlier_one_notes_nothing_more() {
    let partition = partition();
    let (mut first, found, _first) = notes(&partition).await;
    assert_eq!(found, None);
    first.write(&note(0, "a")).await.expect("writes");
    first.write(&note(3, "b")).await.expect("writes");
    let (mut second, found, _second) = notes(&partition).await;
    assert_eq!(found, Some(note(3, "b")));
    // The sleeper's late write is no harm: the owner's next one replaces it.
    first.write(&note(4, "late")).await.expect("nobody has written since");
    second.write(&note(5, "c")).await.expect("the newer epoch");
    let fenced = first.write(&note(6, "later")).await;
    assert!(matches!(fenced, Err(LogError::Fenced { epoch: 2, .. })), "{fenced:?}");
    let (_, found, _third) = notes(&partition).await;
    assert_eq!(found, Some(note(5, "c")));
    let long = Note { position: 0, body: vec![0; NOTE_BYTES_MAX + 1] };
    assert!(second.write(&long).await.is_err());
    second.write(&Note { position: 0, body: vec![0; NOTE_BYTES_MAX] }).await.expect("fits into a register");
}

/// A store that is read and takes no writes for a while is no other process.
#[tokio::test(start_paused = true)]
async fn a_store_that_loses_many_answers_is_not_taken_for_another_process() {
    let store = Gated::new(0);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let root = partition.claim("test").await.expect("claims").root;
    let (mut notes, _) = Notes::open(partition.clone(), &root).await.expect("opens");
    for (position, body) in [(0, "a"), (3, "b")] {
        store.doubts.store(50, std::sync::atomic::Ordering::Relaxed);
        notes.write(&note(position, body)).await.expect("waits");
    }
    let (_, found) = Notes::open(partition.clone(), &root).await.expect("opens");
    assert_eq!(found.expect("it is there").note, note(3, "b"));
}

/// A proxy or a lease that refuses every change for a while: another process would have left another note there.
#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_what_stands_there_is_not_taken_for_another_process() {
    let store = Gated::new(0);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let root = partition.claim("test").await.expect("claims").root;
    let (mut notes, _) = Notes::open(partition.clone(), &root).await.expect("opens");
    for (position, body) in [(0, "a"), (3, "b")] {
        store.refusals.store(40, std::sync::atomic::Ordering::Relaxed);
        notes.write(&note(position, body)).await.expect("waits");
    }
    let (_, found) = Notes::open(partition.clone(), &root).await.expect("opens");
    assert_eq!(found.expect("it is there").note, note(3, "b"));

    store.refuses_swaps.store(true, std::sync::atomic::Ordering::Relaxed);
    let text = notes.write(&note(4, "c")).await.expect_err("it gives up").to_string();
    let key = partition.names().note();
    assert!(text.contains("nobody else has changed it") && text.contains(key.as_str()), "{text}");
}

/// Frozen before its first note, which lands when another owner has had the log that notes nothing, and retention has taken what was in it.
#[tokio::test]
async fn the_first_note_of_a_sleeper_does_not_ask_for_what_was_deleted_meanwhile() {
    let partition = partition();
    let (mut sleeper, _, first) = notes(&partition).await;
    first.appender().append(append(None, "first")).await.expect("appends");
    let retention = Retention { bytes_max: Some(0), ..Retention::default() };
    let settings = Settings { retention, collect_every: Duration::from_millis(1), ..quick() };
    let second = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    second.appender().append(append(None, "second")).await.expect("appends");
    let mut roots = second.roots();
    roots.wait_for(|root| root.cleaned == 2).await.expect("everything is deleted");
    sleeper.write(&note(1, "late")).await.expect("nobody has written");
    let third = owner(&partition).await;
    let (_, found) = Notes::open(partition.clone(), &third.root()).await.expect("opens");
    let found = found.expect("it came late");
    assert_eq!(found.note, note(2, "late"), "what is held begins there");
    labels::since(&partition, &third.root(), &found, |label| panic!("{label:?}"))
        .await
        .expect("nothing is missing");
}

/// An owner that was fenced a moment ago is at work on what retention has dropped: the root does not say yet that it is deleted.
#[tokio::test]
async fn behind_the_first_note_of_a_sleeper_objects_may_go_while_they_are_read() {
    let partition = partition();
    let (mut sleeper, _, _first) = notes(&partition).await;
    let second = owner(&partition).await;
    for text in ["a", "b", "c", "d"] {
        second.appender().append(append(None, text)).await.expect("appends");
    }
    sleeper.write(&note(0, "late")).await.expect("nobody has written");
    partition.edit(crate::partition::Edit::Truncate(3)).await.expect("drops");
    let third = owner(&partition).await;
    let root = third.root();
    let gone = root.tail[1].written();
    let key = partition.names().object(root.queue_id(), gone);
    partition.store().delete(&key).await.expect("deletes");
    assert_eq!((root.low, root.cleaned, root.next), (3, 0, 4));
    let (_, found) = Notes::open(partition.clone(), &root).await.expect("opens");
    let found = found.expect("it came late");
    labels::since(&partition, &root, &found, |label| panic!("{label:?}"))
        .await
        .expect("it goes on behind them");
    // Nothing may be missing behind a note of the owner before.
    let strict = Found { gone_below: 0, ..found };
    let missing = labels::since(&partition, &root, &strict, |_| {}).await;
    assert!(matches!(missing, Err(LogError::Missing { .. })), "{missing:?}");
}

/// A command that appends to the log of a gateway that was killed: labels behind the note alone say which lines of files are there.
#[tokio::test]
async fn an_owner_that_notes_nothing_keeps_the_labels_behind_the_note() {
    let partition = partition();
    let (mut writer, _, first) = notes(&partition).await;
    first.appender().append(append(None, "before")).await.expect("appends");
    writer.write(&note(1, "a")).await.expect("writes");
    first.appender().append(append(Some(labels::label(9, 5)), "behind")).await.expect("appends");
    let retention = Retention { bytes_max: Some(0), ..Retention::default() };
    let settings = Settings { retention, collect_every: Duration::from_millis(1), ..quick() };
    let second = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    second.keep_behind_note(&partition).await.expect("reads the note");
    second.appender().append(append(None, "of a command")).await.expect("appends");
    let mut roots = second.roots();
    roots.wait_for(|root| root.cleaned >= 1).await.expect("what is noted goes");
    let third = owner(&partition).await;
    let (_, found) = Notes::open(partition.clone(), &third.root()).await.expect("opens");
    let mut ids = Vec::new();
    let found = found.expect("it is there");
    labels::since(&partition, &third.root(), &found, |label| ids.push(label.id)).await.expect("all is there");
    assert_eq!(ids, [9]);
}

#[tokio::test]
async fn an_owner_of_a_log_that_was_deleted_leaves_the_note_of_the_present_one() {
    let partition = partition();
    let (mut former, _, _former) = notes(&partition).await;
    former.write(&note(7, "former")).await.expect("writes");
    let root = partition.names().root();
    let (_, tag) =
        partition.store().read_register(&root, 1 << 16).await.expect("reads").expect("it is there");
    let other = support::root().to_bytes().into();
    let swapped = partition.store().compare_and_set(&root, Some(&tag), other).await.expect("swaps");
    assert!(matches!(swapped, Swap::Done(_)), "another log is there");
    let (mut present, found, _present) = notes(&partition).await;
    assert_eq!(found, None, "it is of another log");
    // Before anything stands there of this log, a note of the former one does no harm.
    former.write(&note(8, "former")).await.expect("its own register");
    present.write(&note(1, "present")).await.expect("it replaces what was here before");
    let late = former.write(&note(9, "former")).await;
    assert!(matches!(late, Err(LogError::Recreated { .. })), "{late:?}");
    present.write(&note(2, "present")).await.expect("its own");
    let (_, found, _next) = notes(&partition).await;
    assert_eq!(found, Some(note(2, "present")));
}

/// A gateway that slept between its claim and its look at the note, while its log was deleted and created again.
#[tokio::test]
async fn an_owner_of_a_log_that_was_deleted_replaces_no_note_that_it_has_seen_of_the_present_one() {
    let partition = partition();
    let former = owner(&partition).await.root();
    let root = partition.names().root();
    let (_, tag) =
        partition.store().read_register(&root, 1 << 16).await.expect("reads").expect("it is there");
    let other = support::root().to_bytes().into();
    let swapped = partition.store().compare_and_set(&root, Some(&tag), other).await.expect("swaps");
    assert!(matches!(swapped, Swap::Done(_)), "another log is there");
    let (mut present, _, _present) = notes(&partition).await;
    present.write(&note(1, "present")).await.expect("writes");
    let (mut late, found) = Notes::open(partition.clone(), &former).await.expect("opens");
    assert!(found.is_none(), "it is of another log");
    let written = late.write(&note(7, "former")).await;
    assert!(matches!(written, Err(LogError::Recreated { .. })), "{written:?}");
    let (_, found, _next) = notes(&partition).await;
    assert_eq!(found, Some(note(1, "present")));
}

/// A gateway that slept between its claim and its look at the note, while others owned the log.
#[tokio::test]
async fn an_owner_that_slept_replaces_no_note_that_it_has_seen_of_a_later_one() {
    let partition = partition();
    let slept = owner(&partition).await.root();
    let (mut later, _, _later) = notes(&partition).await;
    later.write(&note(5, "later")).await.expect("writes");
    let (mut late, _) = Notes::open(partition.clone(), &slept).await.expect("opens");
    let written = late.write(&note(1, "former")).await;
    assert!(matches!(written, Err(LogError::Fenced { .. })), "{written:?}");
    let (_, found, _next) = notes(&partition).await;
    assert_eq!(found, Some(note(5, "later")));
}

#[test]
fn fuzz_bytes_of_a_note_never_panic() {
    let register =
        Register { queue: vec![7; 16], epoch: 3, run: 9, revision: 2, position: 77, body: b"body".to_vec() };
    let good = framing::encode(MAGIC, &register);
    assert_eq!(Register::from_bytes(&good), Ok(register));
    testkit::Fuzz::new("log note").example(&good).memory_max(1 << 16, 200).run(3_000, |bytes| {
        // Behind a right checksum, or everything is refused at the same place.
        let mut bytes = bytes.to_vec();
        let length = bytes.len();
        if length > 8 {
            let crc = crc32c::crc32c(&bytes[..length - 4]);
            bytes[length - 4..].copy_from_slice(&crc.to_le_bytes());
        }
        drop(Register::from_bytes(&bytes));
    });
}
