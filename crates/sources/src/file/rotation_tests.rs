//! Files that grow, are rotated, cut and deleted between runs and while they are read.

use super::tests::{Dir, FileFixture, append, bodies, fixture, over};
use super::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

use dataflow::conformance::source::Watch;

/// A pipeline over files: what it has read, and where it stands.
pub(super) struct Run {
    fixture: FileFixture,
    pub(super) known: Vec<ReadFrom>,
    read: Vec<String>,
}

impl Run {
    pub(super) fn new(paths: &[String]) -> Self {
        Self { fixture: over(paths), known: Vec::new(), read: Vec::new() }
    }

    pub(super) fn source(&self) -> &dyn Source {
        &self.fixture.source
    }

    /// One run to the end, as the engine does it. Returns what was read.
    pub(super) async fn run(&mut self) -> Result<Vec<String>, SourceError> {
        let source = &self.fixture.source;
        let shown = source.partitions().await?;
        let shown = source.recognize(shown, self.known.clone()).await?;
        for start in &shown {
            match self.known.iter().find(|from| from.partition == start.partition) {
                Some(from) => assert_eq!(from.identity, start.identity, "what is known keeps its identity"),
                None => self.known.push(ReadFrom {
                    partition: start.partition.clone(),
                    identity: start.identity.clone(),
                    next: start.next,
                    leader_epoch: start.leader_epoch,
                }),
            }
        }
        let mut watch = Watch::start(&self.fixture, self.known.clone()).await?;
        let result = watch.all().await;
        let mut read = Vec::new();
        for from in &mut self.known {
            let seen = &watch.seen[&from.partition];
            read.extend(bodies(seen));
            // What is said anew of a position that has not moved is sealed too.
            (from.next, from.leader_epoch) = (seen.next, watch.epochs[&from.partition]);
        }
        result?;
        self.read.extend(read.clone());
        Ok(read)
    }

    pub(super) async fn refusal(&mut self) -> String {
        let error = self.run().await.expect_err("refused");
        assert_eq!(error.fault, SourceFault::Refused, "{error}");
        error.message
    }
}

pub(super) fn rows(range: std::ops::Range<usize>) -> Vec<u8> {
    range.flat_map(|n| format!("{{\"row\":{n},\"text\":\"some text\"}}\n").into_bytes()).collect()
}

pub(super) fn ids(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|n| format!("{{\"row\":{n},\"text\":\"some text\"}}")).collect()
}

#[tokio::test]
async fn an_empty_or_short_file_that_grows_goes_on() {
    let dir = Dir::new("short");
    let path = dir.write("a.log", b"");
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..0));
    append(&path, &rows(0..1)[..7]);
    assert_eq!(run.run().await.unwrap(), ids(0..0), "half of a line");
    append(&path, &rows(0..1)[7..]);
    assert_eq!(run.run().await.unwrap(), ids(0..1));
    for n in 1..60 {
        append(&path, &rows(n..n + 1));
        assert_eq!(run.run().await.unwrap(), ids(n..n + 1));
    }
    assert_eq!(run.known.len(), 1);
}

#[tokio::test]
async fn a_file_renamed_and_made_anew_is_read_to_its_end_and_so_is_the_new_one() {
    for pattern in ["a.log", "a.log*"] {
        let dir = Dir::new(&format!("rename-{}", pattern.len()));
        let path = dir.write("a.log", &rows(0..50));
        let mut run = Run::new(&[dir.path(pattern)]);
        assert_eq!(run.run().await.unwrap(), ids(0..50));
        let mut next = 50;
        for generation in 1..4 {
            // More lines come before the rotation and behind it.
            append(&path, &rows(next..next + 5));
            let old = dir.path(&format!("a.log.{generation}"));
            std::fs::rename(&path, &old).unwrap();
            std::fs::write(&path, rows(next + 8..next + 10)).unwrap();
            append(&old, &rows(next + 5..next + 8));
            assert_eq!(run.run().await.unwrap(), ids(next..next + 10), "{pattern}: generation {generation}");
            next += 10;
        }
        assert_eq!(run.run().await.unwrap(), ids(0..0), "and nothing twice");
        // All of them go, one after the other.
        for generation in 1..4 {
            std::fs::remove_file(dir.path(&format!("a.log.{generation}"))).unwrap();
            assert_eq!(run.run().await.unwrap(), ids(0..0));
        }
        append(&path, &rows(next..next + 1));
        assert_eq!(run.run().await.unwrap(), ids(next..next + 1));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{pattern}: a file that was read to its end may go");
        std::fs::write(&path, rows(90..95)).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(90..95), "and another may have its name");
    }
}

#[tokio::test]
async fn a_file_copied_and_truncated_is_read_to_its_end_and_so_is_what_follows() {
    for pattern in ["a.log", "a.log*"] {
        let dir = Dir::new(&format!("copy-{}", pattern.len()));
        let path = dir.write("a.log", &rows(0..50));
        let mut run = Run::new(&[dir.path(pattern)]);
        assert_eq!(run.run().await.unwrap(), ids(0..50));
        append(&path, &rows(50..60));
        std::fs::copy(&path, dir.path("a.log.1")).unwrap();
        std::fs::write(&path, b"").unwrap();
        assert_eq!(run.run().await.unwrap(), ids(50..60), "{pattern}: the rest, from the copy");
        append(&path, &rows(60..70));
        assert_eq!(run.run().await.unwrap(), ids(60..70));
        // Once more, and longer than before, so that no length tells.
        std::fs::rename(dir.path("a.log.1"), dir.path("a.log.2")).unwrap();
        std::fs::copy(&path, dir.path("a.log.1")).unwrap();
        std::fs::write(&path, rows(70..170)).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(70..170));
        std::fs::remove_file(dir.path("a.log.1")).unwrap();
        std::fs::remove_file(dir.path("a.log.2")).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{pattern}");
        assert_eq!(run.read, ids(0..170), "{pattern}: each once");
    }
}

#[tokio::test]
async fn a_file_that_was_replaced_by_one_with_all_that_was_read_is_read_on() {
    let dir = Dir::new("replaced");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    // As `rsync` and editors do, and whoever moves the folder to another disk.
    let replace = |body: &[u8]| std::fs::rename(dir.write("b.tmp", body), &path).unwrap();
    replace(&rows(0..50));
    assert_eq!(run.run().await.unwrap(), ids(0..0), "nothing new is in it");
    replace(&rows(0..70));
    assert_eq!(run.run().await.unwrap(), ids(50..70));
    replace(&[rows(0..50), rows(100..170)].concat());
    let other = [ids(0..50), ids(100..170)].concat();
    assert_eq!(
        run.run().await.unwrap(),
        other,
        "another file: what was read before the position is not in it"
    );
    assert_eq!(run.known.len(), 2);
    append(&path, &rows(170..171));
    assert_eq!(run.run().await.unwrap(), ids(170..171));
    // The first one is restored: one file is read by one partition.
    replace(&rows(0..80));
    assert_eq!(run.run().await.unwrap(), ids(70..80));
    append(&path, &rows(80..81));
    assert_eq!(run.run().await.unwrap(), ids(80..81));
}

#[tokio::test]
async fn a_file_that_was_replaced_is_read_on_though_a_copy_of_it_lies_beside_it() {
    for pattern in ["a.log", "a.log*"] {
        let dir = Dir::new(&format!("replaced-beside-{}", pattern.len()));
        let path = dir.write("a.log", &rows(0..50));
        let mut run = Run::new(&[dir.path(pattern)]);
        assert_eq!(run.run().await.unwrap(), ids(0..50));
        std::fs::rename(dir.write("b.tmp", &rows(0..50)), &path).unwrap();
        std::fs::copy(&path, dir.path("a.log.bak")).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{pattern}: nothing is new");
        append(&path, &rows(50..60));
        assert_eq!(run.run().await.unwrap(), ids(50..60), "{pattern}");
        assert_eq!(run.known.len(), 1, "{pattern}");
    }
}

#[tokio::test]
async fn a_file_that_was_read_twice_under_one_name_is_read_on_once() {
    let dir = Dir::new("replaced-twice");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(std::slice::from_ref(&path));
    run.run().await.unwrap();
    // As an earlier program has recorded it: the same content in another file was a second partition.
    let first = run.known[0].clone();
    std::fs::rename(dir.write("b.tmp", &rows(0..60)), &path).unwrap();
    let identity = files::Identity::of(&std::fs::File::open(&path).unwrap()).unwrap().to_string();
    let partition = Partition::new(path.clone(), 1);
    run.known.push(ReadFrom { partition, identity, ..first });
    assert_eq!(run.run().await.unwrap(), ids(50..60));
    append(&path, &rows(60..61));
    assert_eq!(run.run().await.unwrap(), ids(60..61));
    std::fs::rename(dir.write("b.tmp", &rows(0..62)), &path).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(61..62));
}

#[tokio::test]
async fn a_file_that_goes_before_it_was_read_to_its_end_is_refused() {
    let dir = Dir::new("unread");
    let path = dir.write("a.log", &[rows(0..50), b"{\"half".to_vec()].concat());
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    let kept = std::fs::read(&path).unwrap();
    let elsewhere = Dir::new("unread-away");
    let away = elsewhere.path("a.log");
    for (what, says) in
        [("gone", "is gone"), ("other", "another one"), ("emptied", "was emptied"), ("over", "written over")]
    {
        match what {
            "gone" => std::fs::rename(&path, &away).unwrap(),
            "other" => {
                std::fs::rename(&path, &away).unwrap();
                std::fs::write(&path, rows(90..95)).unwrap();
            }
            "emptied" => std::fs::write(&path, b"").unwrap(),
            _ => std::fs::write(&path, rows(90..95)).unwrap(),
        }
        let message = run.refusal().await;
        assert!(message.contains(says) && message.contains("--partition"), "{what}: {message}");
        if std::path::Path::new(&away).exists() {
            std::fs::rename(&away, &path).unwrap();
        } else {
            std::fs::write(&path, &kept).unwrap();
        }
    }
    append(&path, b"\":1}\n");
    assert_eq!(run.run().await.unwrap(), ["{\"half\":1}"], "brought back, it goes on");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(0..0));
}

#[tokio::test]
async fn half_a_line_that_comes_behind_the_end_of_a_file_is_missed_when_the_file_is_deleted() {
    let dir = Dir::new("half-behind");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    append(&path, b"{\"half");
    assert_eq!(run.run().await.unwrap(), ids(0..0));
    let kept = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let message = run.refusal().await;
    assert!(message.contains("is gone") && message.contains("not to its end"), "{message}");
    std::fs::write(&path, &kept).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(0..0), "brought back, it goes on");
    // Its writer takes the half back. Then nothing is missed any more.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(rows(0..50).len() as u64).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(0..0));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(0..0));
}

#[tokio::test]
async fn a_file_that_was_cut_is_refused_however_far_it_was_read() {
    let dir = Dir::new("rot-cut");
    for length in [rows(0..10).len(), rows(0..49).len(), rows(0..1).len(), 20, 5] {
        let path = dir.write("a.log", &rows(0..50));
        let mut run = Run::new(std::slice::from_ref(&path));
        assert_eq!(run.run().await.unwrap(), ids(0..50));
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length as u64).unwrap();
        let message = run.refusal().await;
        assert!(message.contains("cut"), "{length}: {message}");
        std::fs::write(&path, rows(0..60)).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(50..60), "{length}: the whole file in place goes on");
        std::fs::remove_file(&path).unwrap();
    }
}

/// It is the file that was left, so `forget` alone would have it come back where it was left: beyond its end.
#[tokio::test]
async fn a_file_that_was_cut_behind_its_first_bytes_goes_on_at_the_end_that_it_has_now() {
    let dir = Dir::new("rot-cut-end");
    let path = dir.write("a.log", &rows(0..200));
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..200));
    let identity = run.known[0].identity.clone();
    let left = rows(0..100).len() as u64;
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(left).unwrap();
    let message = run.refusal().await;
    let way = format!("`forebay reset FILE --to latest --partition {path}/0`");
    assert!(message.contains(&way) && !message.contains("forebay forget"), "{message}");
    let shown = run.source().partitions().await.unwrap().swap_remove(0);
    assert_eq!(shown.identity, identity, "nothing tells it from the file that was read");
    // What that command does.
    let (_, end) = run.source().ends().await.unwrap().swap_remove(0);
    assert_eq!(end, Position::from(left));
    (run.known[0].next, run.known[0].leader_epoch) = (end, NO_LEADER_EPOCH);
    assert_eq!(run.run().await.unwrap(), ids(0..0));
    append(&path, &rows(200..203));
    assert_eq!(run.run().await.unwrap(), ids(200..203));
}

#[tokio::test]
async fn a_position_within_a_line_is_refused_with_a_way_out() {
    let dir = Dir::new("rot-middle");
    let path = dir.write("a.log", &rows(0..200));
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..200));
    // As `reset --to latest` puts it while a line is half written.
    append(&path, b"{\"row\":200");
    let (_, end) = run.source().ends().await.unwrap().swap_remove(0);
    (run.known[0].next, run.known[0].leader_epoch) = (end, NO_LEADER_EPOCH);
    append(&path, b"}\n");
    let message = run.refusal().await;
    let way = format!("`forebay reset FILE --to latest --partition {path}/0`");
    assert!(message.contains("no line of file") && message.contains(&way), "{message}");
    let (_, end) = run.source().ends().await.unwrap().swap_remove(0);
    (run.known[0].next, run.known[0].leader_epoch) = (end, NO_LEADER_EPOCH);
    append(&path, &rows(201..203));
    assert_eq!(run.run().await.unwrap(), ids(201..203));
}

#[tokio::test]
async fn a_command_names_a_file_with_blanks_as_a_shell_takes_it() {
    let dir = Dir::new("rot-blanks");
    let path = dir.write("it's a.log", &[rows(0..50), b"{\"half".to_vec()].concat());
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    std::fs::remove_file(&path).unwrap();
    let message = run.refusal().await;
    let word = format!("--partition '{}/0'`", path.replace('\'', r"'\''"));
    assert!(message.contains(&word), "{message}");
}

#[tokio::test]
async fn a_file_that_is_cut_while_it_is_read_is_refused() {
    let dir = Dir::new("while");
    for (length, more) in [(0, 0), (1_000, 0), (400_000, 0), (0, 9_000_000)] {
        let path = dir.write("a.log", &rows(0..100_000));
        // One block ahead, so that the reader waits in the middle.
        let options = FileOptions { ahead_bytes_max: 1, ..FileOptions::new(vec![path.clone()]) };
        let fixture = fixture(options);
        let start = fixture.source.partitions().await.unwrap().swap_remove(0);
        let from = dataflow::conformance::source::at(&start, 0);
        let mut watch = Watch::start(&fixture, vec![from]).await.unwrap();
        watch.step().await.unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        append(&path, &vec![b'\n'; more]);
        let error = watch.all().await.expect_err("it was cut");
        assert_eq!(error.fault, SourceFault::Refused, "{error}");
        assert!(error.message.contains("was cut or written over while it was read"), "{error}");
        assert!(!watch.seen[&start.partition].records.is_empty(), "what was read before is kept");
    }
}

#[tokio::test]
async fn what_is_written_over_a_file_while_it_is_read_is_not_handed_out() {
    for header in [0..0, 0..100] {
        let dir = Dir::new(&format!("while-over-{}", header.len()));
        let path = dir.write("a.log", &rows(0..100_000));
        let options = FileOptions { ahead_bytes_max: 1, ..FileOptions::new(vec![path.clone()]) };
        let fixture = fixture(options);
        let start = fixture.source.partitions().await.unwrap().swap_remove(0);
        let from = dataflow::conformance::source::at(&start, 0);
        let mut watch = Watch::start(&fixture, vec![from.clone()]).await.unwrap();
        watch.step().await.unwrap();
        // The copy is whole. Then the file is written anew, beyond the place where the reader is.
        std::fs::copy(&path, dir.path("a.log.1")).unwrap();
        std::fs::write(&path, [rows(header), rows(100_000..300_000)].concat()).unwrap();
        let error = watch.all().await.expect_err("it was written over");
        assert!(error.message.contains("was cut or written over while it was read"), "{error}");
        let read = bodies(&watch.seen[&start.partition]);
        assert_eq!(read, ids(0..read.len()), "nothing of what was written over it");
        // The next run finds the rest in the copy.
        let (next, leader_epoch) = (watch.seen[&start.partition].next, watch.epochs[&start.partition]);
        let mut again = Watch::start(&fixture, vec![ReadFrom { next, leader_epoch, ..from }]).await.unwrap();
        again.all().await.unwrap();
        assert_eq!(bodies(&again.seen[&start.partition]), ids(read.len()..100_000));
    }
}

#[tokio::test]
async fn what_the_pipeline_names_and_never_was_is_a_mistake() {
    let dir = Dir::new("mistake");
    let path = dir.write("a.log", &rows(0..3));
    for (other, says) in [("b.log", "does not exist"), ("*.csv", "matches no file")] {
        let mut run = Run::new(&[path.clone(), dir.path(other)]);
        let error = run.run().await.expect_err("a mistake");
        assert_eq!(error.fault, SourceFault::Config);
        assert!(error.message.contains(says), "{error}");
        assert!(run.known.is_empty());
    }
}

#[tokio::test]
async fn a_file_that_could_not_be_looked_for_is_not_called_gone() {
    let dir = Dir::new("not-looked-for");
    let path = dir.write("a.jsonl", &rows(0..3));
    let mut run = Run::new(std::slice::from_ref(&path));
    run.run().await.expect("read to its end");
    std::fs::remove_file(&path).expect("the file was there");
    let from = &run.known[0];
    let gone = place::find(from, &Around::nothing());
    assert!(matches!(gone, Ok(place::Place::Finished)), "{gone:?}");
    let failed = || Err(SourceError::new(SourceFault::Away, "cannot look into `/mnt`: it does not answer"));
    let error = place::find(from, &Around::new(failed)).expect_err("nobody has looked everywhere");
    assert_eq!((error.fault, error.message.contains("/mnt")), (SourceFault::Away, true), "{error}");
}

#[tokio::test]
async fn a_file_that_is_renamed_while_a_start_looks_is_no_second_partition() {
    let dir = Dir::new("looks");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(&[dir.path("a.log*")]);
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    // Between the two looks of a start.
    let source = &run.fixture.source;
    let shown = source.partitions().await.unwrap();
    std::fs::rename(&path, dir.path("a.log.1")).unwrap();
    std::fs::write(&path, rows(50..60)).unwrap();
    let recognized = source.recognize(shown, run.known.clone()).await.unwrap();
    assert_eq!(recognized.len(), 0, "{recognized:?}");
    assert_eq!(run.run().await.unwrap(), ids(50..60));
    // Within the first one: the name of the first file is looked at, it is renamed, and the other name is looked at.
    let (first, second) = (dir.write("b.log", &rows(60..70)), dir.path("c.log"));
    let mut looks = 0;
    let found = find::steady(|| {
        looks += 1;
        let one = find::at_one_moment(std::slice::from_ref(&first))?;
        if looks == 1 {
            std::fs::rename(&first, &second).unwrap();
        }
        Ok([one, find::at_one_moment(std::slice::from_ref(&second))?].concat())
    });
    let names: Vec<String> = found.unwrap().into_iter().map(|(path, _)| path).collect();
    assert_eq!((names, looks), (vec![second], 2));
}

#[tokio::test]
async fn a_hard_link_of_a_file_that_was_read_is_a_file_of_its_own() {
    let dir = Dir::new("links");
    let path = dir.write("1-a.log", &rows(0..50));
    let mut run = Run::new(&[dir.path("*.log")]);
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    std::fs::hard_link(&path, dir.path("2-a.log")).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    assert_eq!(run.run().await.unwrap(), ids(0..0));
}

/// Lines of the same widths behind the one line that the file was first seen with, so that neither beginning nor length tells.
fn behind_header(range: std::ops::Range<usize>) -> Vec<u8> {
    [&rows(0..1)[..], &rows(range)].concat()
}

#[tokio::test]
async fn a_file_that_is_written_over_behind_its_first_line_is_another_one() {
    for (case, grown) in [("longer", 30..99), ("as long", 30..50), ("empty line", 30..50)] {
        let dir = Dir::new(&format!("over-{}", case.len()));
        let path = dir.write("a.log", &rows(0..1));
        let mut run = Run::new(std::slice::from_ref(&path));
        assert_eq!(run.run().await.unwrap(), ids(0..1));
        append(&path, &rows(10..30));
        if case == "empty line" {
            append(&path, b"\n");
        }
        assert_eq!(run.run().await.unwrap(), ids(10..30));
        std::fs::write(&path, [&behind_header(grown.clone())[..], b"\n"].concat()).unwrap();
        assert_eq!(run.run().await.unwrap(), [ids(0..1), ids(grown)].concat(), "{case}");
        append(&path, &rows(99..100));
        assert_eq!(run.run().await.unwrap(), ids(99..100), "{case}");
    }
    // Not read to its end: what is lost nobody can tell.
    let dir = Dir::new("over-unread");
    let path = dir.write("a.log", &rows(0..1));
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..1));
    append(&path, &[&rows(10..30)[..], b"{\"half"].concat());
    assert_eq!(run.run().await.unwrap(), ids(10..30));
    std::fs::write(&path, behind_header(30..99)).unwrap();
    let message = run.refusal().await;
    assert!(message.contains("written over") && message.contains("--partition"), "{message}");
}

#[tokio::test]
async fn a_copied_file_is_read_on_though_the_next_one_begins_alike() {
    for next in [30..31, 30..99] {
        let dir = Dir::new(&format!("alike-{}", next.len()));
        let path = dir.write("a.log", &rows(0..3));
        let mut run = Run::new(std::slice::from_ref(&path));
        assert_eq!(run.run().await.unwrap(), ids(0..3));
        append(&path, &rows(10..20));
        assert_eq!(run.run().await.unwrap(), ids(10..20));
        append(&path, &rows(20..30));
        std::fs::copy(&path, dir.path("a.log.1")).unwrap();
        std::fs::write(&path, [&rows(0..3)[..], &rows(next.clone())].concat()).unwrap();
        let read = run.run().await.unwrap();
        assert_eq!(
            read,
            [ids(20..30), ids(0..3), ids(next)].concat(),
            "the rest, from the copy, and the new file"
        );
        assert_eq!(run.run().await.unwrap(), ids(0..0));
    }
}

#[tokio::test]
async fn a_copy_that_is_being_made_of_a_file_is_not_read_beside_it() {
    let dir = Dir::new("copying");
    let path = dir.write("a.log", &rows(0..150));
    let mut run = Run::new(&[dir.path("a.log*")]);
    assert_eq!(run.run().await.unwrap(), ids(0..150));
    append(&path, &rows(150..160));
    let whole = std::fs::read(&path).unwrap();
    // Half of it, and all of it.
    for bytes in [&whole[..whole.len() / 2], &whole[..]] {
        std::fs::write(dir.path("a.log.1"), bytes).unwrap();
        let read = run.run().await.unwrap();
        assert!(read.is_empty() || read == ids(150..160), "{read:?}");
    }
    std::fs::write(&path, rows(170..175)).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(170..175));
    assert_eq!(run.read, [ids(0..160), ids(170..175)].concat(), "each once");
    // A file that only begins like another one is one of its own.
    std::fs::write(dir.path("a.log.2"), [&rows(170..175)[..], &rows(180..185)].concat()).unwrap();
    assert_eq!(run.run().await.unwrap(), [ids(170..175), ids(180..185)].concat());
}

#[tokio::test]
async fn a_copy_of_a_file_that_was_renamed_is_not_read_beside_it() {
    let dir = Dir::new("copied-before");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(&[dir.path("a.log*")]);
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    std::fs::copy(&path, dir.path("a.log.bak")).unwrap();
    assert_eq!(run.run().await.unwrap(), ids(0..0));
    append(&path, &rows(50..60));
    std::fs::rename(&path, dir.path("a.log.1")).unwrap();
    std::fs::write(&path, rows(60..65)).unwrap();
    assert_eq!(run.run().await.unwrap(), [ids(50..60), ids(60..65)].concat());
    assert_eq!(run.run().await.unwrap(), ids(0..0), "each once");
}

#[tokio::test]
async fn a_file_that_begins_like_another_one_for_long_is_one_of_its_own() {
    let dir = Dir::new("alike-for-long");
    dir.write("a.log", &rows(0..150));
    let mut run = Run::new(&[dir.path("a.log*")]);
    assert_eq!(run.run().await.unwrap(), ids(0..150));
    dir.write("a.log.1", &[rows(0..40), rows(200..205)].concat());
    assert_eq!(run.run().await.unwrap(), [ids(0..40), ids(200..205)].concat());
}

#[tokio::test]
async fn a_file_that_was_first_seen_with_a_few_bytes_is_known_by_what_was_read_of_it() {
    for pattern in ["a.log", "a.log*"] {
        let dir = Dir::new(&format!("first-few-{}", pattern.len()));
        let path = dir.write("a.log", b"{\"row\":0}\n");
        let mut run = Run::new(&[dir.path(pattern)]);
        assert_eq!(run.run().await.unwrap(), ["{\"row\":0}"]);
        append(&path, &rows(1..50));
        assert_eq!(run.run().await.unwrap(), ids(1..50));
        // Another one with all of it is put in its place.
        let whole = std::fs::read(&path).unwrap();
        std::fs::rename(dir.write("b.tmp", &whole), &path).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{pattern}: replaced");
        // It is copied, and not emptied yet.
        std::fs::copy(&path, dir.path("a.log.1")).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{pattern}: copied");
        append(&path, &rows(50..60));
        std::fs::copy(&path, dir.path("a.log.1")).unwrap();
        std::fs::write(&path, rows(60..65)).unwrap();
        assert_eq!(run.run().await.unwrap(), [ids(50..60), ids(60..65)].concat(), "{pattern}: emptied");
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{pattern}: each once");
    }
}

#[tokio::test]
async fn a_copy_whose_original_is_emptied_while_a_start_compares_them_waits_for_the_next_run() {
    let dir = Dir::new("emptied-meanwhile");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    let copy = dir.path("a.log.1");
    std::fs::copy(&path, &copy).unwrap();
    for next in [0..0, 60..61] {
        std::fs::write(&path, rows(next)).unwrap();
        assert!(place::is_being_copied(&run.known[0], &path, &copy).unwrap(), "it is no file of its own");
    }
}

#[tokio::test]
async fn a_copy_that_has_the_inode_of_its_deleted_original_is_read_on() {
    let dir = Dir::new("inode-again");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    append(&path, &rows(50..60));
    let copy = dir.path("a.log.1");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::remove_file(&path).unwrap();
    // The system gives inodes of deleted files to new ones. Then only the time of its creation tells one from the other.
    let of_copy = Node::of(&std::fs::metadata(&copy).unwrap());
    let mut parts: Vec<String> = run.known[0].identity.split(':').map(str::to_owned).collect();
    parts[2] = of_copy.inode.to_string();
    parts[3] = (of_copy.birth_ns.max(2) - 1).to_string();
    run.known[0].identity = parts.join(":");
    assert_eq!(run.run().await.unwrap(), ids(50..60));
    assert_eq!(run.run().await.unwrap(), ids(0..0));
}

#[tokio::test]
async fn a_copy_that_has_the_inode_of_a_file_that_had_its_name_before_is_read_on() {
    let dir = Dir::new("inode-of-namesake");
    let path = dir.write("a.log", &rows(0..50));
    let copy = dir.write("a.log.1", &rows(100..150));
    let mut run = Run::new(&[dir.path("a.log*")]);
    assert_eq!(run.run().await.unwrap(), [ids(0..50), ids(100..150)].concat());
    append(&path, &rows(50..60));
    std::fs::remove_file(&copy).unwrap();
    std::fs::copy(&path, &copy).unwrap();
    std::fs::write(&path, rows(60..65)).unwrap();
    // Where no births are kept, as on many network disks, nothing but its bytes tells it from the deleted file.
    let of_copy = Node::of(&std::fs::metadata(&copy).unwrap());
    let mut parts: Vec<String> = run.known[1].identity.split(':').map(str::to_owned).collect();
    parts[2] = of_copy.inode.to_string();
    parts[3] = "0".to_owned();
    run.known[1].identity = parts.join(":");
    assert_eq!(run.run().await.unwrap(), [ids(50..60), ids(60..65)].concat());
    assert_eq!(run.run().await.unwrap(), ids(0..0));
}

#[tokio::test]
async fn the_end_of_a_file_that_was_renamed_is_that_of_its_own_partition() {
    let dir = Dir::new("renamed-ends");
    let path = dir.write("a.log", &rows(0..50));
    let old = dir.write("a.log.1", &rows(100..110));
    let mut run = Run::new(&[dir.path("a.log*")]);
    run.run().await.unwrap();
    std::fs::rename(&old, dir.path("a.log.2")).unwrap();
    std::fs::rename(&path, &old).unwrap();
    std::fs::write(&path, rows(60..65)).unwrap();
    run.run().await.unwrap();
    let end = |rows: Vec<u8>| rows.len() as Position;
    let expected = BTreeMap::from([
        (Partition::new(path.as_str(), 0), end(rows(0..50))),
        (Partition::new(path.as_str(), 1), end(rows(60..65))),
        (Partition::new(old.as_str(), 0), end(rows(100..110))),
    ]);
    let ends = run.source().ends().await.unwrap();
    assert_eq!((ends.len(), ends.into_iter().collect::<BTreeMap<_, _>>()), (3, expected.clone()));
    // One that has gone since has none.
    std::fs::remove_file(&old).unwrap();
    let ends = run.source().ends().await.unwrap();
    assert!(ends.len() == 2 && ends.iter().all(|(of, end)| expected[of] == *end), "{ends:?}");
}

#[tokio::test]
async fn of_two_copies_the_one_that_has_more_is_read_on() {
    let dir = Dir::new("two-copies");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    append(&path, &rows(50..51));
    std::fs::copy(&path, dir.path("a.log-before")).unwrap();
    append(&path, &rows(51..60));
    std::fs::copy(&path, dir.path("a.log.1")).unwrap();
    std::fs::write(&path, rows(60..65)).unwrap();
    assert_eq!(run.run().await.unwrap(), [ids(50..60), ids(60..65)].concat());
    assert_eq!(run.run().await.unwrap(), ids(0..0));
}

#[tokio::test]
async fn a_file_that_was_copied_emptied_and_then_renamed_is_read_on_in_its_copy() {
    for pattern in ["a.log", "a.log*"] {
        let dir = Dir::new(&format!("copied-renamed-{}", pattern.len()));
        let path = dir.write("a.log", &rows(0..50));
        let mut run = Run::new(&[dir.path(pattern)]);
        assert_eq!(run.run().await.unwrap(), ids(0..50));
        append(&path, &rows(50..60));
        std::fs::copy(&path, dir.path("a.log.2")).unwrap();
        std::fs::write(&path, rows(60..65)).unwrap();
        std::fs::rename(&path, dir.path("a.log.1")).unwrap();
        std::fs::write(&path, rows(70..75)).unwrap();
        let mut read = run.run().await.unwrap();
        read.sort();
        // Nobody has seen the one between under a name that is meant.
        let between = if pattern == "a.log" { ids(0..0) } else { ids(60..65) };
        assert_eq!(read, [ids(50..60), between, ids(70..75)].concat(), "{pattern}");
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{pattern}: each once");
    }
}

#[tokio::test]
async fn a_file_that_was_emptied_and_has_few_bytes_is_read_on_in_its_copy_or_waited_for() {
    let dir = Dir::new("few");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(std::slice::from_ref(&path));
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    append(&path, &rows(50..60));
    std::fs::copy(&path, dir.path("a.log.1")).unwrap();
    std::fs::write(&path, b"{\"r\":1}\n").unwrap();
    assert_eq!(run.run().await.unwrap(), [ids(50..60), vec!["{\"r\":1}".to_owned()]].concat());
    assert_eq!(run.run().await.unwrap(), ids(0..0), "each once");
    // Without a copy nobody can tell; the way out is to wait.
    append(&path, &rows(60..80));
    assert_eq!(run.run().await.unwrap(), ids(60..80));
    std::fs::remove_file(dir.path("a.log.1")).unwrap();
    std::fs::write(&path, b"{\"s\":2}\n").unwrap();
    let message = run.refusal().await;
    assert!(message.contains("once it has 16 bytes"), "{message}");
    append(&path, b"{\"s\":3}\n");
    assert_eq!(run.run().await.unwrap(), ["{\"s\":2}", "{\"s\":3}"]);
}

#[tokio::test]
async fn a_file_that_was_copied_emptied_and_deleted_is_known_by_its_copy() {
    for pattern in ["a.log", "a.log*"] {
        let dir = Dir::new(&format!("copied-deleted-{}", pattern.len()));
        let path = dir.write("a.log", &rows(0..50));
        let mut run = Run::new(&[dir.path(pattern)]);
        assert_eq!(run.run().await.unwrap(), ids(0..50));
        append(&path, &rows(50..60));
        std::fs::copy(&path, dir.path("a.log.1")).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(50..60), "{pattern}: the rest, from the copy");
        // The program that writes it begins anew, and rotates in the same way.
        std::fs::write(&path, rows(60..130)).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(60..130), "{pattern}");
        std::fs::rename(dir.path("a.log.1"), dir.path("a.log.2")).unwrap();
        std::fs::copy(&path, dir.path("a.log.1")).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, rows(130..140)).unwrap();
        assert_eq!(run.run().await.unwrap(), ids(130..140), "{pattern}: the copy has nothing new");
        for name in ["a.log", "a.log.1", "a.log.2"] {
            std::fs::remove_file(dir.path(name)).unwrap();
        }
        assert_eq!(run.run().await.unwrap(), ids(0..0), "{pattern}");
        assert_eq!(run.read, ids(0..140), "{pattern}: each once");
    }
}

#[tokio::test]
async fn a_file_that_only_begins_like_one_that_is_gone_is_no_copy() {
    let dir = Dir::new("no-copy");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(&[dir.path("*.log*")]);
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    std::fs::remove_file(&path).unwrap();
    // One has another end, one another name.
    dir.write("a.log.1", &[rows(0..49), rows(100..110)].concat());
    dir.write("b.log.1", &rows(0..50));
    let read: BTreeSet<String> = run.run().await.unwrap().into_iter().collect();
    assert_eq!(read, ids(0..50).into_iter().chain(ids(100..110)).collect());
    let few = dir.write("c.log", b"{\"r\":1}\n");
    assert_eq!(run.run().await.unwrap(), ["{\"r\":1}"]);
    std::fs::remove_file(&few).unwrap();
    dir.write("c.log.1", b"{\"r\":1}\n");
    assert_eq!(run.run().await.unwrap(), ["{\"r\":1}"], "so few bytes show nothing");
}

#[tokio::test]
async fn a_copy_that_is_read_as_a_file_of_its_own_stays_one_when_the_original_goes() {
    let dir = Dir::new("known-copy");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(&[dir.path("*.log*")]);
    assert_eq!(run.run().await.unwrap(), ids(0..50));
    let copy = dir.write("a.log.1", &[rows(0..50), rows(60..70)].concat());
    assert_eq!(
        run.run().await.unwrap(),
        [ids(0..50), ids(60..70)].concat(),
        "it has more than the file: another one"
    );
    std::fs::remove_file(&path).unwrap();
    append(&copy, &rows(70..75));
    assert_eq!(run.run().await.unwrap(), ids(70..75));
    assert_eq!(run.run().await.unwrap(), ids(0..0));
}

#[tokio::test]
async fn a_listing_that_is_older_than_a_rotation_is_made_again() {
    let dir = Dir::new("old-listing");
    let path = dir.write("a.log", &rows(0..50));
    let mut run = Run::new(std::slice::from_ref(&path));
    run.run().await.expect("read to its end");
    let around = Around::nothing();
    around.folder(Path::new(&dir.path(""))).expect("the folder can be listed");
    std::fs::rename(&path, dir.path("a.log.1")).unwrap();
    std::fs::write(&path, rows(90..95)).unwrap();
    let found = place::find(&run.known[0], &around);
    assert!(matches!(&found, Ok(place::Place::At(_, at)) if at.ends_with("a.log.1")), "{found:?}");
}

#[tokio::test]
async fn thousands_of_files_that_are_gone_are_looked_for_in_one_listing() {
    let dir = Dir::new("many-gone");
    let count = 2_000;
    let names = |first: u64| (first..first + count).map(|n| dir.path(&format!("{n}.json")));
    names(10_000).for_each(|name| std::fs::write(name, rows(0..3)).unwrap());
    let mut run = Run::new(&[dir.path("*.json")]);
    run.run().await.expect("all are read");
    names(10_000).for_each(|name| std::fs::remove_file(name).unwrap());
    names(20_000).for_each(|name| std::fs::write(name, rows(3..6)).unwrap());
    let around = Around::new(|| Ok(names(20_000).collect()));
    assert_eq!(run.known.len() as u64, count);
    assert!(run.known.iter().all(|from| matches!(place::find(from, &around), Ok(place::Place::Finished))));
    assert_eq!(around.made.load(Ordering::Relaxed), 2, "what the paths mean, and their folder");
}
