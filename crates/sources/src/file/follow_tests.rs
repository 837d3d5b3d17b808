//! Files that are followed while they grow, are rotated and appear, by readers that are killed.

use std::path::Path;
use std::time::Duration;

use dataflow::conformance::source::{Watch, at};
use testkit::{Lcg, seed};

use super::tests::{Dir, FileFixture, append, bodies, fixture};
use super::*;

fn follow(paths: &[String]) -> FileFixture {
    fixture(FileOptions { follow: true, ..FileOptions::new(paths.to_vec()) })
}

/// A pipeline that follows files: what it has sealed.
struct Sealed {
    known: Vec<ReadFrom>,
    rows: Vec<String>,
}

/// A run of it.
struct Run<'a> {
    watch: Watch<'a>,
    from: Vec<ReadFrom>,
    before: Vec<String>,
}

impl<'a> Run<'a> {
    /// Starts as the engine does.
    async fn start(fixture: &'a FileFixture, sealed: &Sealed) -> Result<Run<'a>, SourceError> {
        let source = &fixture.source;
        let shown = source.partitions().await?;
        let shown = source.recognize(shown, sealed.known.clone()).await?;
        let mut from = sealed.known.clone();
        for start in &shown {
            match from.iter().find(|from| from.partition == start.partition) {
                Some(from) => assert_eq!(from.identity, start.identity, "what is known keeps its identity"),
                None => from.push(at(start, start.next)),
            }
        }
        let watch = Watch::start(fixture, from.clone()).await?;
        Ok(Self { watch, from, before: sealed.rows.clone() })
    }

    /// Reads for some time, and takes in what is found.
    async fn go(&mut self, ms: u64) -> Result<(), SourceError> {
        self.watch.linger(Duration::from_millis(ms)).await?;
        for start in std::mem::take(&mut self.watch.found) {
            self.from.push(at(&start, start.next));
            self.watch.add(at(&start, start.next)).await?;
        }
        Ok(())
    }

    /// Everything that was read so far.
    fn rows(&self) -> Vec<String> {
        let seen = self.watch.seen.values().flat_map(bodies);
        self.before.iter().cloned().chain(seen).collect()
    }

    fn seal(&self) -> Sealed {
        let known = self.from.iter().map(|from| {
            let next = self.watch.seen[&from.partition].next;
            let moved = next > from.next;
            let leader_epoch = if moved { self.watch.epochs[&from.partition] } else { from.leader_epoch };
            ReadFrom { next: next.max(from.next), leader_epoch, ..from.clone() }
        });
        Sealed { known: known.collect(), rows: self.rows() }
    }

    async fn until(&mut self, rows: &[String]) {
        for _ in 0..100 {
            if self.rows().len() >= rows.len() {
                break;
            }
            self.go(100).await.expect("it reads on");
        }
        assert_eq!(self.rows(), rows);
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

#[tokio::test]
async fn a_file_that_grows_is_read_on_and_one_that_appears_is_found() {
    let dir = Dir::new("follow-grow");
    let a = dir.write("a.log", &text(0..3));
    let fixture = follow(&[dir.path("*.log")]);
    let sealed = Sealed { known: Vec::new(), rows: Vec::new() };
    let mut run = Run::start(&fixture, &sealed).await.unwrap();
    run.until(&rows(0..3)).await;
    append(&a, &text(3..4)[..9]);
    run.go(300).await.unwrap();
    assert_eq!(run.rows(), rows(0..3), "half of a line is none");
    append(&a, &text(3..4)[9..]);
    run.until(&rows(0..4)).await;
    dir.write("b.log", &text(4..90));
    run.until(&rows(0..90)).await;
    // Nothing ends, and a packed file is left out.
    dir.write("c.log", b"\x1f\x8b\x08 and so on");
    run.go(1_500).await.unwrap();
    assert!(run.watch.seen.values().all(|seen| seen.caught_up && !seen.ended));
    assert_eq!(run.from.len(), 2);
    // A partition that waits can be taken away and read on by another reader.
    let partition = run.from[0].partition.clone();
    let left = run.watch.remove(&partition).await.unwrap();
    append(&a, &text(90..91));
    let from = ReadFrom { next: left.next, ..run.from[0].clone() };
    let mut other = Watch::start(&fixture, vec![from]).await.unwrap();
    other.until(|seen| !seen[&partition].records.is_empty()).await.unwrap();
    assert_eq!(bodies(&other.seen[&partition]), rows(90..91));
}

#[tokio::test]
async fn a_source_that_follows_waits_for_its_first_file_and_a_drain_ends() {
    let dir = Dir::new("follow-first");
    let fixture = follow(&[dir.path("*.log")]);
    let error = fixture.source.partitions().await.expect_err("there is none");
    assert_eq!((error.fault, error.message.contains("so far")), (SourceFault::Away, true), "{error}");
    dir.write("a.log", b"{\"row\":1}\n{\"half\"");
    let options = FileOptions { follow: true, ends: true, ..FileOptions::new(vec![dir.path("*.log")]) };
    let drained = super::tests::fixture(options);
    let sealed = Sealed { known: Vec::new(), rows: Vec::new() };
    let mut run = Run::start(&drained, &sealed).await.unwrap();
    run.watch.all().await.unwrap();
    assert!(run.watch.seen.values().all(|seen| seen.ended));
    assert_eq!(run.rows(), ["{\"row\":1}"]);
}

#[tokio::test]
async fn a_copy_is_no_new_file_and_takes_the_place_of_one_that_is_emptied() {
    let dir = Dir::new("follow-copy");
    let path = dir.write("a.log", &text(0..50));
    let fixture = follow(&[dir.path("a.log*")]);
    let sealed = Sealed { known: Vec::new(), rows: Vec::new() };
    let mut run = Run::start(&fixture, &sealed).await.unwrap();
    run.until(&rows(0..50)).await;
    std::fs::copy(&path, dir.path("a.log.1")).unwrap();
    run.go(1_500).await.unwrap();
    assert_eq!(run.rows(), rows(0..50), "it waits for what becomes of the original");
    // A pipeline that starts now knows as much.
    let mut again = Run::start(&fixture, &run.seal()).await.unwrap();
    again.go(300).await.unwrap();
    assert_eq!(again.rows(), rows(0..50));
    drop(again);
    std::fs::write(&path, text(50..60)).unwrap();
    run.until(&rows(0..60)).await;
    // Written over without a copy: what was there was read to its end.
    std::fs::write(&path, text(60..90)).unwrap();
    run.until(&rows(0..90)).await;
    assert_eq!(run.from.len(), 3);
}

#[tokio::test]
async fn a_file_that_is_lost_before_it_was_read_to_its_end_is_refused() {
    let dir = Dir::new("follow-lost");
    let path = dir.write("a.log", &[text(0..50), b"{\"half".to_vec()].concat());
    let fixture = follow(std::slice::from_ref(&path));
    let sealed = Sealed { known: Vec::new(), rows: Vec::new() };
    let mut run = Run::start(&fixture, &sealed).await.unwrap();
    run.until(&rows(0..50)).await;
    std::fs::write(&path, text(60..90)).unwrap();
    let error = run.watch.linger(Duration::from_secs(20)).await.expect_err("half of a line is lost");
    assert_eq!(error.fault, SourceFault::Refused);
    assert!(error.message.contains("written over") && error.message.contains("forget"), "{error}");
}

/// Writes rows, and rotates the file by another name or by a copy.
struct Writer {
    random: Lcg,
    dir: std::path::PathBuf,
    file: std::fs::File,
    rows: u64,
}

impl Writer {
    const KEPT: usize = 20;

    fn path(&self, number: usize) -> std::path::PathBuf {
        match number {
            0 => self.dir.join("a.log"),
            _ => self.dir.join(format!("a.log.{number}")),
        }
    }

    fn open(dir: &Path) -> std::fs::File {
        std::fs::OpenOptions::new().append(true).create(true).open(dir.join("a.log")).unwrap()
    }

    fn write(&mut self, count: u64) {
        use std::io::Write;
        for _ in 0..count {
            let line = text(self.rows..self.rows + 1);
            let (first, rest) = line.split_at(self.random.below(line.len() as u64) as usize);
            self.file.write_all(first).unwrap();
            self.file.write_all(rest).unwrap();
            self.rows += 1;
        }
    }

    fn rotate(&mut self) {
        if self.path(0).metadata().map_or(0, |metadata| metadata.len()) < 64 {
            return;
        }
        for number in (1..Self::KEPT).rev().filter(|number| self.path(*number).exists()) {
            std::fs::rename(self.path(number), self.path(number + 1)).unwrap();
        }
        if self.random.one_in(2) {
            std::fs::rename(self.path(0), self.path(1)).unwrap();
            // As long as nobody has told it, it writes into the file that it has open.
            let late = self.random.below(3);
            self.write(late);
            self.file = Self::open(&self.dir);
        } else {
            std::fs::copy(self.path(0), self.path(1)).unwrap();
            self.file.set_len(0).unwrap();
        }
    }
}

#[tokio::test]
async fn every_row_of_rotated_files_comes_once_over_kills() {
    let dir = Dir::new("follow-kills");
    let folder = Path::new(&dir.path("a.log")).parent().unwrap().to_owned();
    let file = Writer::open(&folder);
    let mut writer = Writer { random: Lcg::new(seed()), dir: folder, file, rows: 0 };
    writer.write(20);
    let fixture = follow(&[dir.path("a.log*")]);
    let mut sealed = Sealed { known: Vec::new(), rows: Vec::new() };
    let mut random = Lcg::new(seed() ^ 1);
    for life in 0..8 {
        let mut run =
            Run::start(&fixture, &sealed).await.unwrap_or_else(|error| panic!("life {life}: {error}"));
        for _ in 0..random.below(12) {
            let count = random.below(40);
            writer.write(count);
            if random.one_in(3) {
                writer.rotate();
            }
            run.go(random.below(300)).await.unwrap_or_else(|error| panic!("life {life}: {error}"));
            if random.one_in(2) {
                sealed = run.seal();
            }
        }
        // Partitions are recorded as they are added, whatever is sealed of them.
        for from in &run.from {
            if sealed.known.iter().all(|known| known.partition != from.partition) {
                sealed.known.push(from.clone());
            }
        }
        drop(run);
        let count = random.below(40);
        writer.write(count);
        if random.one_in(2) {
            writer.rotate();
        }
    }
    let mut run = Run::start(&fixture, &sealed).await.unwrap();
    for _ in 0..100 {
        if run.rows().len() as u64 >= writer.rows {
            break;
        }
        run.go(100).await.unwrap();
    }
    // Whatever would come twice has time to.
    run.go(1_500).await.unwrap();
    let mut got = run.rows();
    let mut wanted = rows(0..writer.rows);
    got.sort();
    wanted.sort();
    assert_eq!(got, wanted);
}
