//! Files that are followed while they grow, are rotated and appear.

use std::fs::{self, OpenOptions};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dataflow::conformance::source::{self, Fixture, Watch, at};
use dataflow::{Partition, Runtime, Source, SourceFault};

use crate::file::tests::{Dir, FileFixture, append, bodies, fixture};
use crate::file::*;

fn follow(paths: &[String]) -> FileFixture {
    fixture(FileOptions { follow: true, ..FileOptions::new(paths.to_vec()) })
}

/// A pipeline that follows files, from start to start.
struct Run<'a> {
    fixture: &'a FileFixture,
    watch: Watch<'a>,
    from: Vec<ReadFrom>,
    before: Vec<String>,
}

impl<'a> Run<'a> {
    /// Starts as the engine does, with what was sealed.
    async fn start(fixture: &'a FileFixture, known: Vec<ReadFrom>, before: Vec<String>) -> Run<'a> {
        let shown = fixture.source.partitions().await.expect("they are listed");
        let shown = loop {
            match fixture.source.recognize(shown.clone(), known.clone()).await {
                // A file that was written just now.
                Err(error) if error.fault == SourceFault::Away => {
                    fixture.runtime().sleep(Duration::from_millis(50)).await;
                }
                recognized => break recognized.expect("they are recognized"),
            }
        };
        let mut from = known;
        for start in &shown {
            match from.iter().find(|from| from.partition == start.partition) {
                Some(from) => assert_eq!(from.identity, start.identity, "what is known keeps its identity"),
                None => from.push(at(start, start.next)),
            }
        }
        let watch = Watch::start(fixture, from.clone()).await.expect("reading starts");
        Self { fixture, watch, from, before }
    }

    async fn first(fixture: &'a FileFixture) -> Run<'a> {
        Self::start(fixture, Vec::new(), Vec::new()).await
    }

    async fn again(self) -> Run<'a> {
        let (known, rows) = (self.sealed(), self.rows());
        let fixture = self.fixture;
        drop(self);
        Self::start(fixture, known, rows).await
    }

    async fn try_go(&mut self, ms: u64) -> Result<(), SourceError> {
        self.watch.linger(Duration::from_millis(ms)).await?;
        for start in std::mem::take(&mut self.watch.found) {
            self.from.push(at(&start, start.next));
            self.watch.add(at(&start, start.next)).await?;
        }
        Ok(())
    }

    async fn go(&mut self, ms: u64) {
        self.try_go(ms).await.expect("it reads on");
    }

    fn rows(&self) -> Vec<String> {
        let seen = self.watch.seen.values().flat_map(bodies);
        self.before.iter().cloned().chain(seen).collect()
    }

    fn sealed(&self) -> Vec<ReadFrom> {
        let sealed = self.from.iter().map(|from| {
            let next = self.watch.seen[&from.partition].next;
            let epoch = self.watch.epochs[&from.partition];
            ReadFrom { next, leader_epoch: epoch, ..from.clone() }
        });
        sealed.collect()
    }

    async fn until(&mut self, mut rows: Vec<String>) {
        for _ in 0..600 {
            if self.rows().len() >= rows.len() {
                break;
            }
            self.go(100).await;
        }
        let mut got = self.rows();
        got.sort();
        rows.sort();
        assert_eq!(got, rows);
    }

    /// The refusal that comes.
    async fn refusal(&mut self) -> String {
        for _ in 0..100 {
            if let Err(error) = self.try_go(100).await {
                assert_eq!(error.fault, SourceFault::Refused, "{error}");
                return error.message;
            }
        }
        panic!("nothing is refused");
    }
}

fn row(n: u64) -> String {
    format!("{{\"row\":{n},\"text\":\"{}\"}}", "x".repeat((n % 70) as usize))
}

fn rows(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(row).collect()
}

fn text(range: std::ops::Range<u64>) -> Vec<u8> {
    range.flat_map(|n| format!("{}\n", row(n)).into_bytes()).collect()
}

fn empty(path: &str) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(0).unwrap();
}

/// Files that grow, for the rules of every source.
struct Growing {
    dir: Dir,
    files: FileFixture,
}

#[async_trait]
impl Fixture for Growing {
    fn source(&self) -> &dyn Source {
        &self.files.source
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        self.files.runtime()
    }

    async fn append(&self, partition: &Partition, payload: &[u8]) -> bool {
        append(&partition.stream, &[payload, b"\n"].concat());
        true
    }

    async fn open(&self) -> Option<Partition> {
        // A file without a byte is none.
        Some(Partition::new(self.dir.write("new.log", b"\n"), 0))
    }
}

#[tokio::test]
async fn followed_files_keep_the_rules_of_a_source() {
    let count = std::sync::atomic::AtomicU32::new(0);
    source::run(async || {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let dir = Dir::new(&format!("follow-rules-{number}"));
        for n in 0..3 {
            dir.write(&format!("{n}.log"), &text(0..20 + 3_000 * n));
        }
        let files = follow(&[dir.path("*.log")]);
        Box::new(Growing { dir, files }) as Box<dyn Fixture>
    })
    .await;
}

#[tokio::test]
async fn a_file_that_grows_is_read_on_and_one_that_appears_is_found() {
    let dir = Dir::new("follow-grow");
    let a = dir.write("a.log", &text(0..3));
    let fixture = follow(&[dir.path("*.log")]);
    let mut run = Run::first(&fixture).await;
    run.until(rows(0..3)).await;
    append(&a, &text(3..4)[..9]);
    run.go(300).await;
    assert_eq!(run.rows(), rows(0..3), "half of a line is none");
    append(&a, &text(3..4)[9..]);
    run.until(rows(0..4)).await;
    dir.write("b.log", &text(4..90));
    run.until(rows(0..90)).await;
    // Nothing ends, and a packed file is left out.
    dir.write("c.log", b"\x1f\x8b\x08 and so on");
    run.go(600).await;
    run.watch.until(|seen| seen.values().all(|seen| seen.caught_up)).await.unwrap();
    assert!(run.watch.seen.values().all(|seen| !seen.ended));
    assert_eq!(run.from.len(), 2);
    let ends = fixture.source.ends().await.unwrap();
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|(partition, end)| run.watch.seen[partition].next == *end), "{ends:?}");
}

#[tokio::test]
async fn a_source_that_follows_waits_for_its_first_file_and_a_drain_ends() {
    let dir = Dir::new("follow-first");
    let fixture = follow(&[dir.path("*.log")]);
    let shown = fixture.source.partitions().await.expect("an empty list");
    let error = fixture.source.recognize(shown, Vec::new()).await.expect_err("there is none");
    assert_eq!((error.fault, error.message.contains("so far")), (SourceFault::Away, true), "{error}");
    dir.write("a.log", b"{\"row\":1}\n{\"half\"");
    fixture.runtime().sleep(Duration::from_millis(200)).await;
    let options = FileOptions { follow: true, ends: true, ..FileOptions::new(vec![dir.path("*.log")]) };
    let drained = super::super::tests::fixture(options);
    let mut run = Run::first(&drained).await;
    run.watch.until(|seen| seen.values().all(|seen| seen.ended)).await.unwrap();
    assert_eq!(run.rows(), ["{\"row\":1}"]);
}

#[tokio::test]
async fn a_small_file_that_was_written_just_now_is_no_source_that_is_away() {
    let dir = Dir::new("follow-fresh");
    let path = dir.write("a.log", &text(0..2));
    let fixture = follow(std::slice::from_ref(&path));
    let shown = fixture.source.partitions().await.unwrap();
    let recognized = fixture.source.recognize(shown, Vec::new()).await.expect("it is waited for");
    assert_eq!(recognized.len(), 1);
    let none = follow(&[dir.path("b.log")]);
    let error = none.source.recognize(Vec::new(), Vec::new()).await.expect_err("there is no file");
    assert_eq!(error.fault, SourceFault::Away);
}

#[tokio::test]
async fn a_copy_is_no_new_file_and_takes_the_place_of_one_that_is_emptied() {
    let dir = Dir::new("follow-copy");
    let path = dir.write("a.log", &text(0..50));
    let fixture = follow(&[dir.path("a.log*")]);
    let mut run = Run::first(&fixture).await;
    run.until(rows(0..50)).await;
    fs::copy(&path, dir.path("a.log.1")).unwrap();
    run.go(600).await;
    assert_eq!(run.rows(), rows(0..50), "it waits for what becomes of the original");
    // A pipeline that starts now knows as much.
    let mut run = run.again().await;
    run.go(600).await;
    assert_eq!(run.rows(), rows(0..50));
    fs::write(&path, text(50..60)).unwrap();
    run.until(rows(0..60)).await;
    // Written over without a copy: what was there was read to its end.
    fs::write(&path, text(60..90)).unwrap();
    run.until(rows(0..90)).await;
    assert_eq!(run.from.len(), 3);
}

#[tokio::test]
async fn a_copy_is_no_new_file_once_its_original_has_gone_too() {
    let dir = Dir::new("follow-copy-gone");
    let path = dir.write("a.log", &text(0..50));
    let fixture = follow(&[dir.path("a.log*")]);
    let mut run = Run::first(&fixture).await;
    run.until(rows(0..50)).await;
    // While nobody looks: copied and emptied, renamed, deleted.
    let sealed = run.sealed();
    drop(run);
    fs::copy(&path, dir.path("a.log.2")).unwrap();
    empty(&path);
    append(&path, &text(50..60));
    fs::rename(&path, dir.path("a.log.1")).unwrap();
    fs::write(&path, text(60..70)).unwrap();
    let mut run = Run::start(&fixture, sealed.clone(), rows(0..50)).await;
    run.until(rows(0..70)).await;
    drop(run);
    fs::remove_file(dir.path("a.log.1")).unwrap();
    let mut run = Run::start(&fixture, sealed, rows(0..50)).await;
    run.until([rows(0..50), rows(60..70)].concat()).await;
    run.go(600).await;
    assert_eq!(run.rows().len(), 60, "the copy is none");
    // More in the copy than was read belongs to the file that it is a copy of.
    append(&dir.path("a.log.2"), &text(90..95));
    run.until([rows(0..50), rows(60..70), rows(90..95)].concat()).await;
}

#[tokio::test]
async fn a_file_behind_a_link_that_was_rotated_while_nobody_followed_it_is_read_to_its_end() {
    for (how, count) in [("renamed", 20), ("copied", 20), ("retargeted", 20)] {
        let dir = Dir::new(&format!("behind-link-{how}"));
        for folder in ["containers", "pods", "others"] {
            fs::create_dir(dir.path(folder)).unwrap();
        }
        let real = dir.write("pods/0.log", &text(0..count));
        std::os::unix::fs::symlink("../pods/0.log", dir.path("containers/x.log")).unwrap();
        let fixture = follow(&[dir.path("containers/*.log")]);
        let mut run = Run::first(&fixture).await;
        run.until(rows(0..count)).await;
        let (known, before) = (run.sealed(), run.rows());
        drop(run);
        append(&real, &text(20..40));
        match how {
            "renamed" => {
                fs::rename(&real, dir.path("pods/0.log.2026")).unwrap();
                dir.write("pods/0.log", &text(40..60));
            }
            "copied" => {
                fs::copy(&real, dir.path("pods/0.log.2026")).unwrap();
                empty(&real);
                append(&real, &text(40..60));
            }
            _ => {
                dir.write("others/1.log", &text(40..60));
                fs::remove_file(dir.path("containers/x.log")).unwrap();
                std::os::unix::fs::symlink("../others/1.log", dir.path("containers/x.log")).unwrap();
            }
        }
        let mut run = Run::start(&fixture, known, before).await;
        run.until(rows(0..60)).await;
    }
}

#[allow(clippy::disallowed_methods, reason = "whoever waits for a FIFO must not hold the test up")]
#[tokio::test]
async fn a_followed_name_that_is_given_to_a_fifo_has_no_file() {
    let dir = Dir::new("follow-fifo");
    let (one, other) = (dir.write("a.log", &text(0..20)), dir.write("b.log", &text(20..40)));
    let fixture = follow(&[dir.path("*.log")]);
    let mut run = Run::first(&fixture).await;
    run.until(rows(0..40)).await;
    let (known, before) = (run.sealed(), run.rows());
    drop(run);
    fs::remove_file(&one).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&one).status().unwrap().success());
    append(&other, &text(40..60));
    let again = Run::start(&fixture, known, before);
    let mut run = tokio::time::timeout(Duration::from_secs(60), again).await.expect("nothing waits");
    run.until(rows(0..60)).await;
}

/// Such as a file that is being copied into the folder by somebody else, and has its permissions last.
#[tokio::test]
async fn what_cannot_be_looked_at_for_a_while_ends_no_read_that_is_running() {
    use std::os::unix::ffi::OsStrExt;

    let dir = Dir::new("follow-unreadable");
    let path = dir.write("a.log", &text(0..20));
    let fixture = follow(&[dir.path("*.log")]);
    let mut run = Run::first(&fixture).await;
    run.until(rows(0..20)).await;
    // A name that is no text is refused as a missing permission is, which the tests may not lack.
    let odd = std::path::Path::new(&dir.path("")).join(std::ffi::OsStr::from_bytes(b"b\xff.log"));
    fs::write(&odd, text(40..60)).unwrap();
    run.go(600).await;
    append(&path, &text(20..40));
    run.until(rows(0..40)).await;
    fs::rename(&odd, dir.path("b.log")).unwrap();
    run.until(rows(0..60)).await;
    // At a start it is a mistake.
    fs::write(&odd, text(60..80)).unwrap();
    let error = fixture.source.partitions().await.expect_err("it is refused");
    assert_eq!(error.fault, SourceFault::Config);
    assert!(error.message.contains("is not UTF-8"), "{error}");
}

#[tokio::test]
async fn a_hard_link_is_no_file_of_its_own() {
    let dir = Dir::new("follow-link");
    let path = dir.write("a.log", &text(0..50));
    let fixture = follow(&[dir.path("a.log*")]);
    let mut run = Run::first(&fixture).await;
    fs::hard_link(&path, dir.path("a.log.1")).unwrap();
    run.until(rows(0..50)).await;
    run.go(600).await;
    let mut run = run.again().await;
    run.go(600).await;
    fs::remove_file(&path).unwrap();
    append(&dir.path("a.log.1"), &text(50..60));
    fs::write(&path, text(60..80)).unwrap();
    run.until(rows(0..80)).await;
    assert_eq!(run.from.len(), 2);
}

#[tokio::test]
async fn a_deleted_file_is_read_to_its_end_and_let_go() {
    let dir = Dir::new("follow-deleted");
    let path = dir.write("a.log", &text(0..50));
    let fixture = follow(&[dir.path("a.log*")]);
    let mut run = Run::first(&fixture).await;
    run.until(rows(0..50)).await;
    let mut writer = OpenOptions::new().append(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    use std::io::Write;
    writer.write_all(&text(50..60)).unwrap();
    run.until(rows(0..60)).await;
    assert_eq!(descriptors(&path), 2, "the writer's and the reader's");
    run.go(2_500).await;
    assert_eq!(descriptors(&path), 1, "let go");
    fs::write(&path, text(60..70)).unwrap();
    run.until(rows(0..70)).await;
}

/// Open files of this process that are, or were, at a path.
fn descriptors(path: &str) -> usize {
    let links =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_str().is_some_and(|link| link.starts_with(path))).count()
}

#[tokio::test]
async fn what_is_lost_before_it_was_read_to_its_end_is_refused() {
    for (what, says) in
        [("over", "written over"), ("gone", "is gone"), ("emptied", "was emptied"), ("cut", "was cut")]
    {
        let dir = Dir::new(&format!("follow-lost-{what}"));
        let path = dir.write("a.log", &[text(0..50), b"{\"half".to_vec()].concat());
        let fixture = follow(std::slice::from_ref(&path));
        let mut run = Run::first(&fixture).await;
        run.until(rows(0..50)).await;
        run.go(200).await;
        match what {
            "over" => fs::write(&path, text(60..90)).unwrap(),
            "gone" => fs::remove_file(&path).unwrap(),
            "emptied" => empty(&path),
            _ => OpenOptions::new().write(true).open(&path).unwrap().set_len(700).unwrap(),
        }
        let message = run.refusal().await;
        assert!(message.contains(says) && message.contains("forget"), "{what}: {message}");
        assert_eq!(message.contains("or remove what is left of it and take"), what == "cut", "{message}");
    }
}

#[tokio::test]
async fn a_record_is_read_again_wherever_its_file_is_now() {
    let dir = Dir::new("follow-record");
    let path = dir.write("a.log", &text(0..50));
    let fixture = follow(&[dir.path("a.log*")]);
    let mut run = Run::first(&fixture).await;
    run.until(rows(0..50)).await;
    let from = run.from[0].clone();
    let position = run.watch.seen[&from.partition].records[7].0;
    fs::copy(&path, dir.path("a.log.1")).unwrap();
    fs::write(&path, text(50..60)).unwrap();
    run.until(rows(0..60)).await;
    let record =
        fixture.source.record(ReadFrom { next: position, ..from }).await.unwrap().expect("it is there");
    assert_eq!(record.payloads.get(0), row(7).as_bytes());
}

#[tokio::test]
async fn a_file_that_is_replaced_by_one_with_all_that_was_read_is_read_on() {
    let dir = Dir::new("follow-replaced");
    let path = dir.write("a.log", &text(0..50));
    let replace = |body: &[u8]| fs::rename(dir.write("b.tmp", body), &path).unwrap();
    let fixture = follow(std::slice::from_ref(&path));
    let mut run = Run::first(&fixture).await;
    run.until(rows(0..50)).await;
    // As `rsync` and editors do, while it is followed.
    replace(&text(0..60));
    run.until(rows(0..60)).await;
    // While nobody follows it, as when a folder is moved to another disk; then once more at once.
    replace(&text(0..70));
    let mut run = run.again().await;
    run.until(rows(0..70)).await;
    replace(&text(0..75));
    replace(&text(0..80));
    run.until(rows(0..80)).await;
    append(&path, &text(80..81));
    run.until(rows(0..81)).await;
    run.go(500).await;
    assert_eq!(run.rows().len(), 81);
    assert_eq!(run.from.len(), 1, "it is one file to the pipeline");
    // Another file, though it begins alike.
    replace(&[text(0..50), text(100..150)].concat());
    let all = [rows(0..81), rows(0..50), rows(100..150)].concat();
    run.until(all).await;
}

#[tokio::test]
async fn thousands_of_files_are_followed_with_few_open() {
    let dir = Dir::new("follow-many");
    let count = 2_000;
    for n in 0..count {
        dir.write(&format!("{n}.log"), &text(n..n + 1));
    }
    let fixture = follow(&[dir.path("*.log")]);
    let mut run = Run::first(&fixture).await;
    let mut most = 0;
    while run.rows().len() < count as usize {
        run.go(20).await;
        most = most.max(descriptors(&dir.path("")));
    }
    run.until(rows(0..count)).await;
    // While they are read for the first time, and between two looks: the bound, those that two threads have, and one that is compared.
    assert!(most <= 520, "{most} were open");
    // Few may be open for a moment while files are still found to have ended: few have to stay open.
    let (mut few, mut open) = (0, 0);
    for _ in 0..3_000 {
        open = descriptors(&dir.path(""));
        few = if open <= 260 { few + 1 } else { 0 };
        if few == 10 {
            break;
        }
        run.go(100).await;
    }
    assert_eq!(few, 10, "{open} are open");
    for n in (0..count).step_by(7) {
        append(&dir.path(&format!("{n}.log")), &text(count + n..count + n + 1));
    }
    let more = (0..count).step_by(7).map(|n| row(count + n));
    run.until(rows(0..count).into_iter().chain(more).collect()).await;
}

#[tokio::test]
async fn a_file_that_was_lost_is_read_on_once_it_is_brought_back_beside_what_took_its_place() {
    for what in ["over", "gone", "emptied", "cut"] {
        let dir = Dir::new(&format!("follow-back-{what}"));
        let whole = [text(0..50), b"{\"half".to_vec()].concat();
        let path = dir.write("a.log", &whole);
        let fixture = follow(std::slice::from_ref(&path));
        let mut run = Run::first(&fixture).await;
        run.until(rows(0..50)).await;
        let sealed = run.sealed();
        drop(run);
        match what {
            "over" => fs::write(&path, text(60..90)).unwrap(),
            "gone" => fs::remove_file(&path).unwrap(),
            "emptied" => empty(&path),
            _ => OpenOptions::new().write(true).open(&path).unwrap().set_len(700).unwrap(),
        }
        // As the refusal says, with the rest of the line that was not read.
        fs::write(dir.path("a.log.back"), [&whole[..], b"\":1}\n"].concat()).unwrap();
        let more = if what == "over" { rows(60..90) } else { Vec::new() };
        let wanted = [rows(0..50), vec!["{\"half\":1}".to_owned()], more].concat();
        let mut run = Run::start(&fixture, sealed, rows(0..50)).await;
        run.until(wanted.clone()).await;
        run.go(600).await;
        assert_eq!(run.rows().len(), wanted.len(), "{what}");
    }
}

#[tokio::test]
async fn a_file_that_was_lost_and_is_taken_out_leaves_the_others_where_they_are() {
    let dir = Dir::new("follow-out");
    let path = dir.write("a.log", &[text(0..50), b"{\"half".to_vec()].concat());
    let fixture = follow(&[dir.path("a.log*")]);
    let mut run = Run::first(&fixture).await;
    run.until(rows(0..50)).await;
    // Others have had the name before and since.
    fs::rename(&path, dir.path("a.log.1")).unwrap();
    fs::write(&path, text(50..90)).unwrap();
    run.until(rows(0..90)).await;
    let sealed = run.sealed();
    drop(run);
    fs::remove_file(dir.path("a.log.1")).unwrap();
    let mut run = Run::start(&fixture, sealed.clone(), rows(0..90)).await;
    let message = run.refusal().await;
    assert!(message.contains(&format!("--partition {path}/0`")), "{message}");
    drop(run);
    let others =
        sealed.into_iter().filter(|from| from.partition != Partition::new(path.clone(), 0)).collect();
    let mut run = Run::start(&fixture, others, rows(0..90)).await;
    append(&path, &text(90..95));
    run.until(rows(0..95)).await;
    run.go(600).await;
    assert_eq!(run.rows().len(), 95);
}

#[tokio::test]
async fn a_followed_file_that_was_taken_out_and_has_grown_keeps_its_identity() {
    let dir = Dir::new("follow-again");
    let path = dir.write("a.log", &text(0..6));
    let fixture = follow(std::slice::from_ref(&path));
    let run = Run::first(&fixture).await;
    let before = run.from[0].clone();
    drop(run);
    append(&path, &text(6..60));
    let shown = fixture.source.partitions().await.unwrap();
    assert_ne!(shown[0].identity, before.identity, "more is known of it");
    // As the engine asks: it knows what was left, and that this is it.
    let shown = PartitionStart { identity: before.identity.clone(), ..shown[0].clone() };
    let found = fixture.source.recognize(vec![shown.clone()], Vec::new()).await.unwrap();
    assert_eq!(found, std::slice::from_ref(&shown));
    // Another file under its name is another one.
    fs::write(&path, text(100..160)).unwrap();
    let found = fixture.source.recognize(vec![shown.clone()], Vec::new()).await.unwrap();
    assert_ne!(found[0].identity, before.identity);
}

#[tokio::test]
async fn what_is_left_of_a_file_that_was_cut_is_no_new_file() {
    for again in [true, false] {
        let dir = Dir::new(&format!("follow-cut-{again}"));
        let path = dir.write("a.log", &text(0..50));
        let fixture = follow(std::slice::from_ref(&path));
        let mut run = Run::first(&fixture).await;
        run.until(rows(0..50)).await;
        OpenOptions::new().write(true).open(&path).unwrap().set_len(700).unwrap();
        run.go(1_000).await;
        assert_eq!(run.rows(), rows(0..50));
        // A start knows as much.
        let mut run = run.again().await;
        run.go(1_000).await;
        assert_eq!(run.rows(), rows(0..50));
        fs::write(&path, if again { text(0..55) } else { text(60..65) }).unwrap();
        let more = if again { rows(50..55) } else { rows(60..65) };
        run.until([rows(0..50), more].concat()).await;
    }
}
