//! The rules of a source, one function each; the panic names the rule that is broken.
//!
//! Owns what each rule asks of a fixture. Does not own what holds for every event, whatever the rule (`watch`), nor which rules a suite
//! runs (`conformance::source`).

use std::time::Duration;

use futures::future::poll_immediate;

use super::Fixture;
use super::watch::{Seen, Watch, at, note_block, read_all};
use crate::position::{self, Position};
use crate::{Partition, PartitionStart, ReadFrom, RecordBlock, SourceError, SourceFault};

/// Long enough for a record to arrive that should not.
const QUIET: Duration = Duration::from_millis(300);
/// A bound for reading a fixture's few records by polling.
const POLLING_MAX: Duration = Duration::from_secs(60);

async fn starts(fixture: &dyn Fixture) -> Vec<PartitionStart> {
    let starts = fixture.source().partitions().await.expect("the partitions are shown");
    assert!(starts.len() >= 2, "a fixture has two partitions at least");
    starts
}

async fn first(fixture: &dyn Fixture) -> PartitionStart {
    starts(fixture).await.swap_remove(0)
}

/// Source 4: asking for partitions and ends any number of times gives the same, also after a read.
pub async fn looking_changes_nothing(fixture: &dyn Fixture) {
    let before = starts(fixture).await;
    let ends = fixture.source().ends().await.expect("the ends are shown");
    read_all(fixture).await;
    assert_eq!(starts(fixture).await, before, "source 4: partitions stay as they are");
    assert_eq!(fixture.source().ends().await.expect("again"), ends, "source 4: ends stay as they are");
    for start in &before {
        let end = ends.iter().find(|(p, _)| *p == start.partition);
        assert!(end.is_none_or(|(_, end)| *end >= start.next), "{}: ends after its start", start.partition);
    }
}

/// Source 1: the same records in the same order, and all of them.
pub async fn reading_twice_gives_the_same_records(fixture: &dyn Fixture) {
    let once = read_all(fixture).await;
    let start = first(fixture).await;
    assert!(once[&start.partition].records.len() >= 20, "the fixture's first partition has 20 records");
    assert_eq!(read_all(fixture).await, once, "source 1: a second read gives the same");
    for (partition, end) in fixture.source().ends().await.expect("the ends are shown") {
        assert!(once[&partition].next >= end, "{partition}: was read to its end `{end}`");
    }
}

/// Source 1: a read from the middle gives what the whole read gave from there on.
pub async fn any_position_gives_the_rest(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let starts = starts(fixture).await;
    for cut in [1, 2, 7, 13, 19] {
        let from = starts.iter().map(|s| at(s, cut_at(&whole[&s.partition], cut))).collect();
        let mut watch = Watch::start(fixture, from).await.expect("a position that is held is read");
        watch.all().await.expect("reading goes on to the end");
        for (partition, rest) in &watch.seen {
            let records = &whole[partition].records;
            let skipped = cut.min(records.len());
            assert_eq!(rest.records, records[skipped..], "{partition}: the rest after {skipped} records");
            assert_eq!(rest.next, whole[partition].next, "{partition}: ends where the whole read ended");
        }
    }
}

fn cut_at(seen: &Seen, cut: usize) -> Position {
    seen.records.get(cut).map_or(seen.next, |record| record.0)
}

/// Source 1: reading from the end reports the same end and no record.
pub async fn the_end_gives_nothing_more(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let from = starts(fixture).await.iter().map(|s| at(s, whole[&s.partition].next)).collect();
    let mut watch = Watch::start(fixture, from).await.expect("the end is a position that is held");
    watch.all().await.expect("nothing is wrong at the end");
    for (partition, seen) in &watch.seen {
        assert_eq!((seen.records.len(), seen.next), (0, whole[partition].next), "{partition}");
    }
}

/// Source 5: each record by its position, as a read gave it, while a read goes on; and none where there is none.
pub async fn a_record_is_read_again_by_its_position(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let starts = starts(fixture).await;
    let from = starts.iter().map(|s| at(s, s.next)).collect();
    let mut watch = Watch::start(fixture, from).await.expect("reading starts");
    watch.step().await.expect("something is read");
    let start = &starts[0];
    let records = &whole[&start.partition].records;
    for wanted in [0, 1, 7, 19, records.len() - 1] {
        let record = record(fixture, at(start, records[wanted].0)).await.expect("what is held is read again");
        let mut seen = Seen { next: records[wanted].0, ..Seen::default() };
        note_block(&mut seen, &record.expect("it is there"));
        assert_eq!(seen.records, records[wanted..=wanted], "source 5: the record at its position");
    }
    let end = whole[&start.partition].next;
    assert_eq!(record(fixture, at(start, end)).await.expect("the end is a place").map(|b| b.len()), None);
    if !start.identity.is_empty() {
        let other = ReadFrom { identity: "of-another-stream".into(), ..at(start, records[0].0) };
        let error = record(fixture, other).await.expect_err("another stream has other records");
        assert_eq!(error.fault, SourceFault::Refused, "{error}");
    }
    watch.all().await.expect("reading goes on to the end");
    assert_eq!(watch.seen, whole, "source 5: the running read was not disturbed");
    if fixture.forget(&start.partition, records[10].0).await {
        match record(fixture, at(start, records[3].0)).await {
            Ok(found) => assert!(found.is_none(), "source 5: what retention took is gone"),
            Err(error) => assert_eq!(error.fault, SourceFault::Refused, "{error}"),
        }
    }
}

async fn record(fixture: &dyn Fixture, at: ReadFrom) -> Result<Option<RecordBlock>, SourceError> {
    let runtime = fixture.runtime();
    let bound = runtime.elapsed() + POLLING_MAX;
    loop {
        match fixture.source().record(at.clone()).await {
            Err(error) if error.fault == SourceFault::Away && runtime.elapsed() < bound => {
                runtime.sleep(Duration::from_millis(50)).await;
            }
            result => return result,
        }
    }
}

/// Reader 1: a `next` that is polled once and dropped, over and over, gives every record once.
pub async fn a_dropped_next_loses_nothing(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let from = starts(fixture).await.iter().map(|s| at(s, s.next)).collect();
    let mut watch = Watch::start(fixture, from).await.expect("reading starts");
    let runtime = fixture.runtime();
    let bound = runtime.elapsed() + POLLING_MAX;
    while !watch.seen.values().all(Seen::is_done) {
        assert!(runtime.elapsed() < bound, "reader 1: dropped calls make progress");
        match poll_immediate(watch.reader().next()).await {
            Some(result) => watch.note_result(result).expect("nothing is wrong"),
            None => runtime.sleep(Duration::from_millis(1)).await,
        }
    }
    assert_eq!(watch.seen, whole, "reader 1: dropping `next` loses and repeats nothing");
}

/// Reader: pause holds back later records of one partition only, and resume loses nothing.
pub async fn a_paused_partition_waits_and_loses_nothing(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let starts = starts(fixture).await;
    let paused = &starts[0].partition;
    let from = starts.iter().map(|s| at(s, s.next)).collect();
    let mut watch = Watch::start(fixture, from).await.expect("reading starts");
    watch.reader().pause(paused);
    let others = |seen: &std::collections::BTreeMap<Partition, Seen>| {
        seen.iter().all(|(partition, seen)| partition == paused || seen.is_done())
    };
    watch.until(others).await.expect("the others go on");
    watch.reader().resume(paused);
    watch.all().await.expect("the paused one goes on");
    assert_eq!(watch.seen, whole, "pausing loses and repeats nothing");

    watch.reader().pause(paused);
    watch.linger(QUIET).await.expect("what is on its way still comes");
    if fixture.append(paused, b"{\"late\":1}").await {
        let before = watch.seen[paused].records.len();
        watch.linger(QUIET).await.expect("nothing is wrong");
        assert_eq!(watch.seen[paused].records.len(), before, "a paused partition hands out nothing new");
        watch.reader().resume(paused);
        watch.until(|seen| seen[paused].records.len() > before).await.expect("it comes after resume");
    }
}

/// Reader: `add` reads a further partition from the given position.
pub async fn an_added_partition_is_read_beside_the_first(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let starts = starts(fixture).await;
    let from = vec![at(&starts[0], starts[0].next)];
    let mut watch = Watch::start(fixture, from).await.expect("reading starts");
    watch.step().await.expect("the first one is read");
    for start in &starts[1..] {
        watch.add(at(start, start.next)).await.expect("another one is added");
    }
    watch.all().await.expect("reading goes on to the end");
    assert_eq!(watch.seen, whole);
}

/// Reader 4: a partition that is read already is not read a second time beside itself.
pub async fn a_partition_is_not_added_twice(fixture: &dyn Fixture) {
    let start = first(fixture).await;
    let mut watch = Watch::start(fixture, vec![at(&start, start.next)]).await.expect("reading starts");
    watch.step().await.expect("it is read");
    let again = at(&start, start.next);
    let error = match watch.reader().add(again).await {
        Err(error) => error,
        // Its records may come until it is noticed, each of them once.
        Ok(()) => watch.until(|_| false).await.expect_err("the reader notices"),
    };
    assert_eq!(error.fault, SourceFault::Refused, "{error}");
    assert_eq!(error.partition, Some(start.partition), "names the partition: {error}");
}

/// Reader 5: a partition may be removed at any time, and its next reader continues behind the records that were handed out.
pub async fn a_removed_partition_is_read_on_by_another_reader(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let starts = starts(fixture).await;
    let removed = &starts[0].partition;
    let from = starts.iter().map(|start| at(start, start.next)).collect();
    let mut watch = Watch::start(fixture, from).await.expect("reading starts");
    watch.until(|seen| !seen[removed].records.is_empty()).await.expect("records come");
    let mut left = watch.remove(removed).await.expect("it is taken away");
    let rest = vec![at(&starts[0], left.next)];
    let mut other = Watch::start(fixture, rest).await.expect("another reader reads it");
    other.all().await.expect("to its end");
    left.records.append(&mut other.seen.get_mut(removed).expect("it is read").records);
    assert_eq!(left.records, whole[removed].records, "each record came to one of the two");
    watch.all().await.expect("the others go on");
    for (partition, seen) in &watch.seen {
        assert_eq!(seen, &whole[partition], "{partition}: as if nothing had been taken away");
    }
}

/// Reader 5: a partition that was taken away may be added again, and taken away at its end and while it is paused.
pub async fn a_removed_partition_may_be_added_again(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let start = first(fixture).await;
    let removed = &start.partition;
    let mut watch = Watch::start(fixture, vec![at(&start, start.next)]).await.expect("reading starts");
    watch.all().await.expect("it is read to its end");
    assert_eq!(watch.remove(removed).await.expect("at its end"), whole[removed]);
    watch.add(at(&start, start.next)).await.expect("it is added again");
    watch.reader().pause(removed);
    watch.remove(removed).await.expect("while it is paused");
    watch.add(at(&start, start.next)).await.expect("and again");
    watch.all().await.expect("it is read to its end, and not paused any more");
    assert_eq!(watch.seen[removed], whole[removed], "from where it was added");
    watch.reader().remove(&Partition::new(removed.stream.clone(), 77_777));
    watch.linger(QUIET).await.expect("what is not read gives no event");
}

/// Source 3: an identity other than the recorded one is refused, and the message names both.
pub async fn another_identity_is_refused(fixture: &dyn Fixture) {
    let start = first(fixture).await;
    if start.identity.is_empty() {
        return;
    }
    let from = ReadFrom { identity: "of-another-stream".into(), ..at(&start, start.next) };
    let error = refusal(fixture, from).await;
    assert!(error.message.contains("of-another-stream"), "names the recorded identity: {error}");
    assert!(error.message.contains(&start.identity), "names the present identity: {error}");
}

/// Source 2: a position beyond the newest record is refused, not waited for.
pub async fn a_position_beyond_the_end_is_refused(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let start = first(fixture).await;
    let beyond = whole[&start.partition].next + 1_000_000;
    let error = refusal(fixture, at(&start, beyond)).await;
    assert!(error.message.contains(&position::shown(beyond).to_string()), "names the position: {error}");
}

/// A partition that the source does not have is refused.
pub async fn an_unknown_partition_is_refused(fixture: &dyn Fixture) {
    let start = first(fixture).await;
    let partition = Partition::new(start.partition.stream.clone(), 77_777);
    refusal(fixture, ReadFrom { partition, ..at(&start, 0) }).await;
}

/// Source 2: records that retention has deleted are an error that says what is still held, never a silent jump.
pub async fn a_position_no_longer_held_is_refused(fixture: &dyn Fixture) {
    let whole = read_all(fixture).await;
    let start = first(fixture).await;
    let held = cut_at(&whole[&start.partition], 10);
    if !fixture.forget(&start.partition, held).await {
        return;
    }
    let error = refusal(fixture, at(&start, start.next)).await;
    assert!(
        error.message.contains(&position::shown(held).to_string()),
        "names the first position held, `{held}`: {error}"
    );
    let mut watch = Watch::start(fixture, vec![at(&start, held)]).await.expect("what is held can be read");
    watch.all().await.expect("to its end");
    assert_eq!(watch.seen[&start.partition].records, whole[&start.partition].records[10..]);
}

/// Source 3: a stream of the same name and content is another one, while it is read and afterwards.
pub async fn a_stream_made_anew_is_refused(fixture: &dyn Fixture) {
    let start = first(fixture).await;
    let mut watch = Watch::start(fixture, vec![at(&start, start.next)]).await.expect("reading starts");
    watch.all().await.expect("to its end");
    let next = watch.seen[&start.partition].next;
    if !fixture.recreate(&start.partition).await {
        return;
    }
    if !watch.seen[&start.partition].ended {
        let error = watch.until(|_| false).await.expect_err("the running reader notices");
        assert_eq!(error.fault, SourceFault::Refused, "{error}");
        assert!(error.message.contains(&start.identity), "names the recorded identity: {error}");
    }
    refusal(fixture, at(&start, next)).await;
}

/// Reader: after `CaughtUp` the reader waits and continues from that position.
pub async fn a_caught_up_reader_gets_what_comes_later(fixture: &dyn Fixture) {
    let start = first(fixture).await;
    let mut watch = Watch::start(fixture, vec![at(&start, start.next)]).await.expect("reading starts");
    watch.all().await.expect("to its end");
    let before = watch.seen[&start.partition].clone();
    if !fixture.append(&start.partition, b"{\"later\":true}").await {
        return;
    }
    let came = |seen: &Seen| seen.records.len() > before.records.len();
    watch.until(|seen| came(&seen[&start.partition])).await.expect("it comes");
    let record = watch.seen[&start.partition].records.last().cloned().expect("one came");
    assert!(record.0 >= before.next, "it stands at or after the position that was caught up");
    assert_eq!(record.2.as_deref(), Some(&b"{\"later\":true}"[..]));
    watch.all().await.expect("caught up once more");
    let mut again = Watch::start(fixture, vec![at(&start, before.next)]).await.expect("resumes");
    again.all().await.expect("to its end");
    assert_eq!(again.seen[&start.partition].records, [record], "a restart at that position gives it too");
}

/// Reader: a partition that appears is reported once, not read; once added it is read from its beginning.
pub async fn a_new_partition_is_found_and_read_once_added(fixture: &dyn Fixture) {
    let from = starts(fixture).await.iter().map(|s| at(s, s.next)).collect();
    let mut watch = Watch::start(fixture, from).await.expect("reading starts");
    let Some(opened) = fixture.open().await else { return };
    assert!(fixture.append(&opened, b"{\"first\":1}").await, "what opens partitions can fill them");
    while watch.found.is_empty() {
        watch.step().await.expect("the new partition is found");
    }
    watch.linger(QUIET).await.expect("it is not read yet");
    assert_eq!(watch.found.len(), 1, "reported once");
    let found = watch.found[0].clone();
    assert_eq!(found.partition, opened);
    watch.add(at(&found, found.next)).await.expect("it is added");
    watch.until(|seen| seen[&opened].records.len() == 1).await.expect("its first record comes");
}

/// What stops a read from `from`, at its start or before its first record.
async fn refusal(fixture: &dyn Fixture, from: ReadFrom) -> SourceError {
    let partition = from.partition.clone();
    let error = match Watch::start(fixture, vec![from]).await {
        Err(error) => error,
        Ok(mut watch) => watch
            .until(|seen| seen.values().any(|s| !s.records.is_empty() || s.ended))
            .await
            .expect_err("a read that must be refused hands out no record and no end"),
    };
    assert_eq!(error.fault, SourceFault::Refused, "{error}");
    assert_eq!(error.partition, Some(partition), "names the partition: {error}");
    error
}
