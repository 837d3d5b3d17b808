use dataflow::Effect;

use super::*;
use crate::object;
use crate::partition::Edit;
use crate::root::TAIL_MAX;
use crate::support::{
    Gated, TestRuntime, append, block, draft, owner, partition, partition_in, quick, read_from,
};

#[tokio::test]
async fn what_is_answered_is_in_the_log_in_order_and_a_repeat_is_known() {
    let partition = partition();
    let owner = owner(&partition).await;
    let appender = owner.appender();
    for ordinal in 0..5 {
        let text = format!("record {ordinal}");
        let answer = appender.append(append(Some((9, ordinal)), &text)).await.expect("appends");
        assert_eq!(answer, Appended::At(ordinal));
    }
    assert_eq!(appender.append(append(Some((9, 3)), "again")).await, Ok(Appended::Known));
    for (ordinal, fault) in [(6, AppendFault::Gap)] {
        let error = appender.append(append(Some((9, ordinal)), "x")).await.expect_err("refused");
        assert_eq!((error.fault, error.effect), (fault, Effect::None));
    }
    let error = appender.append(append(Some((8, 1)), "x")).await.expect_err("refused");
    assert_eq!((error.fault, error.effect), (AppendFault::UnknownProducer, Effect::None));
    drop(appender);
    owner.close().await.expect("ends");
    let expected: Vec<_> = (0..5).map(|n| (n, format!("record {n}"))).collect();
    assert_eq!(read_from(&partition, 0).await, expected);
    assert_eq!(read_from(&partition, 3).await, expected[3..]);
}

/// The second append could share a commit with others for an hour.
#[tokio::test]
async fn who_stops_waits_for_no_others_to_share_a_commit() {
    let partition = partition();
    let settings = Settings { linger_max: Duration::from_secs(3_600), ..quick() };
    let owner = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    let appender = owner.appender();
    assert_eq!(appender.append(append(None, "first")).await, Ok(Appended::At(0)));
    let hurrying = async { owner.hurry() };
    let (second, ()) = soon(async { tokio::join!(appender.append(append(None, "second")), hurrying) }).await;
    assert_eq!(second, Ok(Appended::At(1)));
    // What comes behind it as well.
    assert_eq!(soon(appender.append(append(None, "third"))).await, Ok(Appended::At(2)));
    drop(appender);
    owner.close().await.expect("ends");
}

#[tokio::test]
async fn ordinals_that_number_records_need_no_appends_that_end_alike() {
    let partition = partition();
    let lines = ["a", "b", "c", "d"];
    let digest_of =
        |count: usize| lines[..count].iter().fold(0, |so_far, line| object::digest(so_far, line.as_bytes()));
    let piece = |from: usize, to: usize| Append {
        producer: Some((7, to as u64 - 1)),
        records: block(lines[from..to].iter().copied()),
        packed: None,
        digest: Some(digest_of(to)),
    };
    let first = owner(&partition).await;
    assert_eq!(first.appender().append(piece(0, 2)).await, Ok(Appended::At(0)));
    assert_eq!(first.appender().append(piece(0, 2)).await, Ok(Appended::Known));
    first.close().await.expect("ends");
    let next = owner(&partition).await;
    let known = next.root().producer(7).cloned().expect("it is known");
    assert_eq!((known.ordinal, known.digest), (1, Some(digest_of(2))));
    // One of its records is in the log, and the other is not.
    let error = next.appender().append(piece(1, 3)).await.expect_err("refused");
    assert_eq!((error.fault, error.effect), (AppendFault::Gap, Effect::None));
    assert_eq!(next.appender().append(piece(1, 2)).await, Ok(Appended::Known));
    assert_eq!(next.appender().append(piece(2, 4)).await, Ok(Appended::At(2)));
    let known = next.root().producer(7).cloned().expect("it is known");
    assert_eq!((known.ordinal, known.digest), (3, Some(digest_of(4))));
    let texts: Vec<_> = read_from(&partition, 0).await.into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, lines);
    assert_ne!(
        object::digest(object::digest(0, b"a"), b"b"),
        object::digest(0, b"ab"),
        "records are kept apart"
    );
}

#[tokio::test]
async fn appends_of_one_moment_share_an_object_and_a_commit() {
    let partition = partition();
    let settings = Settings { linger_min: Duration::from_millis(30), ..quick() };
    let owner = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    let texts: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let appends = texts.iter().map(|text| {
        let appender = owner.appender();
        async move { appender.append(append(None, text)).await }
    });
    let answers = futures::future::join_all(appends).await;
    let mut at: Vec<_> = answers.into_iter().map(|answer| answer.expect("appends")).collect();
    at.sort_unstable_by_key(|at| match at {
        Appended::At(position) => *position,
        Appended::Known => u64::MAX,
    });
    assert_eq!(at, (0..50).map(Appended::At).collect::<Vec<_>>());
    let root = owner.root();
    assert_eq!((root.tail.len(), root.revision), (1, 1), "one object, one swap");
    assert_eq!(root.tail[0].appends, 50);
}

#[tokio::test]
async fn a_fenced_owner_says_what_is_not_in_the_log_and_a_repeat_at_the_next_one_is_known() {
    let partition = partition();
    let first = owner(&partition).await;
    first.appender().append(append(Some((9, 0)), "first")).await.expect("appends");
    let second = owner(&partition).await;
    let error = first.appender().append(append(Some((9, 1)), "second")).await.expect_err("fenced");
    assert_eq!((error.fault, error.effect), (AppendFault::Fenced, Effect::None));
    let known = second.appender().append(append(Some((9, 0)), "first")).await;
    assert_eq!(known, Ok(Appended::Known));
    assert_eq!(second.appender().append(append(Some((9, 1)), "second")).await, Ok(Appended::At(1)));
    let error = first.close().await.expect_err("fenced");
    assert!(matches!(error, LogError::Fenced { epoch: 2, .. }), "{error}");
    assert_eq!(read_from(&partition, 0).await.len(), 2);
}

/// A process that slept while another took its partition gets no requests any more.
#[tokio::test]
async fn an_owner_without_appends_finds_that_it_is_fenced() {
    let partition = partition();
    let settings = Settings { look_every: Duration::from_millis(10), ..quick() };
    let mut first = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    tokio::select! {
        lost = first.lost() => panic!("it is the owner: {lost:?}"),
        () = partition.runtime().sleep(Duration::from_millis(100)) => {}
    }
    let second = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    let error = soon(first.lost()).await.expect_err("fenced");
    assert!(matches!(error, LogError::Fenced { epoch: 2, .. }), "{error}");
    second.close().await.expect("ends");
}

/// More objects than the root holds, and a reader over all levels of the manifest.
#[tokio::test]
async fn thousands_of_objects_leave_a_small_root_and_are_read_in_order() {
    let partition = partition();
    let settings = Settings { linger_max: Duration::ZERO, object_bytes: 1, ..quick() };
    let owner = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    let appender = owner.appender();
    for round in 0..30 {
        let texts: Vec<String> = (0..100).map(|n| (round * 100 + n).to_string()).collect();
        let appends = texts.iter().map(|text| appender.append(append(None, text)));
        for answer in futures::future::join_all(appends).await {
            answer.expect("appends");
        }
    }
    let root = owner.root();
    assert!(
        root.levels.len() >= 2 && root.tail.len() <= TAIL_MAX,
        "{} {}",
        root.levels.len(),
        root.tail.len()
    );
    assert!(root.to_bytes().len() < 16 << 10, "{}", root.to_bytes().len());
    let records = read_from(&partition, 0).await;
    assert_eq!(records.len(), 3_000);
    assert!(records.iter().enumerate().all(|(n, (position, _))| *position == n as u64));
    // Within a round the appends race; every one is there once.
    let mut texts: Vec<u64> = records.iter().map(|(_, text)| text.parse().unwrap()).collect();
    texts.sort_unstable();
    assert_eq!(texts, (0..3_000).collect::<Vec<u64>>());
    assert_eq!(read_from(&partition, 1_234).await, records[1_234..]);
    let (_, report) = crate::check::check(&partition).await.expect("checks");
    assert_eq!((report.objects, report.records, report.finding_count, report.orphans), (3_000, 3_000, 0, 0));
}

#[allow(clippy::disallowed_methods, reason = "a test waits no longer than this for what must end")]
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends")
}

/// Appends so many objects of one record, each once the one before is answered.
async fn append_all(owner: &Owner, objects: usize) {
    let appender = owner.appender();
    for number in 0..objects {
        soon(appender.append(append(None, &number.to_string()))).await.expect("appends");
    }
}

/// The tag of the last swap serves for the next one.
#[tokio::test]
async fn a_commit_reads_nothing_before_it_writes() {
    // The sweep of the start waits for its list, and reads nothing either.
    let store = Gated::new(0);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let owner = owner(&partition).await;
    append_all(&owner, 1).await;
    let (reads, revision) = (store.reads.load(Ordering::Relaxed), owner.root().revision);
    append_all(&owner, 20).await;
    assert_eq!(owner.root().revision, revision + 20, "each was a commit of its own");
    assert_eq!(store.reads.load(Ordering::Relaxed), reads);
}

#[tokio::test]
async fn a_sweep_without_end_keeps_no_append_from_being_answered() {
    let partition = partition_in(Gated::new(0), TestRuntime::new());
    let owner = owner(&partition).await;
    append_all(&owner, 200).await;
    assert!(!owner.root().levels.is_empty());
    assert_eq!(read_from(&partition, 0).await.len(), 200);
}

#[tokio::test]
async fn retention_holds_up_only_segments_of_what_it_may_delete() {
    let store = Gated::new(1_000);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let settings = Settings { collect_every: Duration::from_millis(5), ..quick() };
    let owner = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    let mut roots = owner.roots();
    append_all(&owner, 120).await;
    partition.edit(Edit::Truncate(10)).await.expect("edits");
    // With its next commit the owner sees the new low, and with its next pass it deletes what is below.
    append_all(&owner, 1).await;
    soon(store.asked.acquire_many(10)).await.expect("never closed").forget();
    append_all(&owner, 200).await;
    assert_eq!((owner.root().low, owner.root().cleaned), (10, 0));
    store.deletes.add_permits(10);
    drop(soon(roots.wait_for(|root| root.cleaned == 10 && root.tail.len() < 64)).await.expect("it runs"));

    // A low within the tail: its oldest entries are not put into a segment while they are deleted.
    let (first, low) = (owner.root().tail[0].first, owner.root().tail[20].first);
    partition.edit(Edit::Truncate(low)).await.expect("edits");
    append_all(&owner, 1).await;
    soon(store.asked.acquire()).await.expect("never closed").forget();
    append_all(&owner, 60).await;
    assert_eq!((owner.root().tail[0].first, owner.root().cleaned), (first, 10));
    store.deletes.add_permits(1_000);
    drop(soon(roots.wait_for(|root| root.cleaned == low && root.tail.len() < 64)).await.expect("it runs"));
    let (root, report) = crate::check::check(&partition).await.expect("checks");
    assert_eq!((report.records, report.finding_count, report.orphans), (root.next - low, 0, 0));
    let mut stored = 0;
    crate::collect::list(&partition, &partition.names().segments(), |_| stored += 1).await.expect("lists");
    assert_eq!(stored, report.segments, "no segment was written in vain");
}

/// A low within the tail keeps its oldest entries out of a segment as long as a pass deletes what is below; so a pass that can delete nothing must end.
#[tokio::test]
async fn deletes_that_are_refused_keep_no_append_from_being_answered() {
    let store = Gated::new(1_000);
    store.refuses_deletes.store(true, Ordering::Relaxed);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let settings = Settings { collect_every: Duration::from_millis(5), ..quick() };
    let owner = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    append_all(&owner, 40).await;
    partition.edit(Edit::Truncate(30)).await.expect("edits");
    append_all(&owner, 200).await;
    assert_eq!((owner.root().low, owner.root().cleaned), (30, 0));
    assert!(!owner.root().levels.is_empty());
    let mut roots = owner.roots();
    store.refuses_deletes.store(false, Ordering::Relaxed);
    store.deletes.add_permits(1_000);
    drop(soon(roots.wait_for(|root| root.cleaned == 30)).await.expect("it runs"));
}

/// The store is read and takes no writes for some minutes.
#[tokio::test(start_paused = true)]
async fn a_claim_waits_for_a_store_that_loses_many_answers_and_blames_no_other_process() {
    let store = Gated::new(0);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let doubts = |count: usize| store.doubts.store(count, Ordering::Relaxed);
    doubts(250);
    let seen = partition.claim("test").await.expect("waits");
    assert_eq!(seen.root.epoch, 1);
    doubts(250);
    let seen = partition.edit(Edit::Consumer("reader".to_owned(), true)).await.expect("waits");
    assert_eq!(seen.root.consumers, ["reader"]);
    // One that does not wait for so long says what the store said.
    doubts(250);
    let claimed = partition.clone().with_tries(4).claim("other").await;
    let error = claimed.expect_err("the store is away");
    assert!(error.is_transient() && error.to_string().contains("SlowDown"), "{error}");
}

/// A proxy before the store, or a lease on the root. Other writers would have left another tag.
#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_the_tag_that_stands_there_ends_a_commit_whose_effect_is_unknown() {
    let store = Gated::new(0);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let seen = partition.claim("test").await.expect("claims");
    let claim = seen.root.claim();
    store.refuses_swaps.store(true, Ordering::Relaxed);
    let lost = partition.commit(seen, claim, &[], &[draft(claim, 0, &[])]).await.expect_err("it ends");
    assert_eq!(lost.fate(0), Some(Effect::Unknown));
    let joined = partition.edit(Edit::Consumer("reader".to_owned(), true)).await.expect_err("it ends");
    let claimed = partition.claim("other").await.expect_err("it ends");
    for error in [lost.error, joined, claimed] {
        let text = error.to_string();
        assert!(!error.is_transient() && text.contains("nobody else has changed it"), "{text}");
        assert!(text.contains("a lease on the object `log/") && !text.contains("stop all but one"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_waits_for_other_writers_and_lost_answers_however_many_there_are() {
    let store = Gated::new(0);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let seen = partition.claim("test").await.expect("claims");
    let claim = seen.root.claim();
    store.doubts.store(150, Ordering::Relaxed);
    store.rivals.store(150, Ordering::Relaxed);
    let seen = partition.commit(seen, claim, &[], &[draft(claim, 0, &[])]).await.expect("commits");
    assert_eq!((seen.root.committed, seen.root.next, seen.root.tail.len()), (1, 2, 1));
    assert_eq!(store.rivals.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_upload_that_a_later_owner_has_swept_ends_as_fenced_and_calls_nothing_missing() {
    let store = Gated::new(1_000);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let first = owner(&partition).await;
    soon(first.appender().append(append(None, "first"))).await.expect("appends");
    let _second = owner(&partition).await;
    // The first try of the put came through without an answer, and the repeat met what was deleted a moment later.
    store.gone.store(1, Ordering::Relaxed);
    let error = soon(first.appender().append(append(None, "second"))).await.expect_err("fenced");
    assert_eq!((error.fault, error.effect), (AppendFault::Fenced, Effect::None), "{error}");
    assert_eq!(store.gone.load(Ordering::Relaxed), 0);
}

/// A service may keep a part of an object whose put broke off, and say then that the object exists.
#[tokio::test]
async fn what_a_store_has_kept_in_part_is_not_committed_and_the_next_start_goes_on() {
    let store = Gated::new(1_000);
    let partition = partition_in(store.clone(), TestRuntime::new());
    let first = owner(&partition).await;
    store.gone.store(1, Ordering::Relaxed);
    store
        .gets
        .lock()
        .expect("no test panics with it")
        .push_back(Ok(Some(bytes::Bytes::from_static(b"a part"))));
    let error = soon(first.appender().append(append(None, "first"))).await.expect_err("a part is there");
    assert_eq!((error.fault, error.effect), (AppendFault::Stopped, Effect::None), "{error}");
    assert!(error.message.contains("start the process again"), "{error}");
    let second = owner(&partition).await;
    let appended = soon(second.appender().append(append(None, "first"))).await.expect("appends");
    assert_eq!(appended, Appended::At(0));
}

#[tokio::test]
async fn an_append_without_records_or_above_the_bound_is_refused_before_it_costs_anything() {
    let partition = partition();
    let owner = owner(&partition).await;
    for records in [block([]), block([&*"x".repeat(APPEND_BYTES_MAX + 1)])] {
        let error = owner
            .appender()
            .append(Append { producer: None, records, packed: None, digest: None })
            .await
            .expect_err("refused");
        assert_eq!((error.fault, error.effect), (AppendFault::Refused, Effect::None));
    }
}

/// What a sender compressed weighs what is put into the store, not what it was before: otherwise a fast load writes several objects a commit.
#[tokio::test]
async fn an_object_is_cut_by_its_bytes_as_stored() {
    let partition = partition();
    let settings = Settings { linger_max: Duration::from_millis(200), object_bytes: 1 << 20, ..quick() };
    let settings = Settings { linger_min: Duration::from_millis(100), ..settings };
    let owner = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    let text = "a line that comes again and again; ".repeat(8_000);
    let packed: bytes::Bytes = zstd::bulk::compress(text.as_bytes(), 1).expect("compresses").into();
    let appends = (0..40).map(|_| {
        let appender = owner.appender();
        let append = Append { packed: Some(packed.clone()), ..append(None, &text) };
        async move { appender.append(append).await }
    });
    for answer in futures::future::join_all(appends).await {
        answer.expect("appends");
    }
    let tail = owner.root().tail;
    assert_eq!(tail.len(), 1, "11 MB raw, and {} B as stored", tail[0].bytes);
    assert!(tail[0].bytes < 1 << 20 && tail[0].raw_bytes > 11_000_000, "{:?}", tail[0]);
    let records = read_from(&partition, 0).await;
    assert!(records.len() == 40 && records.iter().all(|(_, read)| *read == text));
}

/// Uploaded at once the second would wait for its commit all the same, and the third for the one after that.
#[tokio::test]
async fn what_comes_before_the_next_commit_shares_an_object_and_is_in_it() {
    let partition = partition();
    let settings = Settings { linger_max: Duration::from_secs(3), ..quick() };
    let owner = Owner::start(partition.clone(), "test", settings).await.expect("claims");
    let appender = owner.appender();
    assert_eq!(appender.append(append(None, "first")).await, Ok(Appended::At(0)));
    let third = async {
        partition.runtime().sleep(Duration::from_millis(100)).await;
        appender.append(append(None, "third")).await
    };
    let (second, third) = tokio::join!(appender.append(append(None, "second")), third);
    assert_eq!((second, third), (Ok(Appended::At(1)), Ok(Appended::At(2))));
    assert_eq!(owner.root().tail.len(), 2);
}
