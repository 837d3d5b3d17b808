//! A world made from a seed: files that are written, rotated in every way, and read by a pipeline that is killed at any step.
//!
//! Owns the world and the rule: each line once. `FOREBAY_SEED` names the first seed, `FOREBAY_WORLDS` how many follow it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use dataflow::block::NO_LEADER_EPOCH;
use dataflow::conformance::source::{Fixture, Watch, at};
use dataflow::{ReadFrom, Source, SourceError};
use testkit::{Lcg, seed};

use crate::file::FileOptions;
use crate::file::tests::{Dir, FileFixture, fixture};

/// What the pipeline has sealed.
#[derive(Clone, Default)]
struct Sealed {
    known: Vec<ReadFrom>,
    rows: Vec<String>,
}

/// A run of the pipeline.
struct Run {
    watch: Watch<'static>,
    from: Vec<ReadFrom>,
    before: Vec<String>,
}

impl Run {
    /// Starts as the engine does: it asks again while the source is away.
    async fn start(fixture: &'static FileFixture, sealed: &Sealed) -> Result<Self, SourceError> {
        let source = &fixture.source;
        let shown = loop {
            let recognized =
                async { source.recognize(source.partitions().await?, sealed.known.clone()).await };
            match recognized.await {
                Err(error) if error.fault == dataflow::SourceFault::Away => {
                    fixture.runtime().sleep(Duration::from_millis(50)).await;
                }
                recognized => break recognized?,
            }
        };
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

    fn count(&self) -> usize {
        self.before.len() + self.watch.seen.values().map(|seen| seen.records.len()).sum::<usize>()
    }

    /// What is sealed now; of a partition that `cuts` names only a part, in the middle of a block.
    fn seal(&self, sealed_before: &Sealed, cuts: &mut dyn FnMut(usize) -> Option<usize>) -> Sealed {
        let mut sealed = Sealed { known: Vec::new(), rows: self.before.clone() };
        for from in &self.from {
            let seen = &self.watch.seen[&from.partition];
            // What is sealed stays sealed.
            let before = sealed_before.known.iter().find(|known| known.partition == from.partition);
            let least =
                before.map_or(0, |known| seen.records.partition_point(|record| record.0 < known.next));
            let cut = least + cuts(seen.records.len() - least).unwrap_or(seen.records.len() - least);
            let bodies = seen.records[..cut].iter().map(|record| record.2.clone().expect("a body"));
            sealed.rows.extend(bodies.map(|body| String::from_utf8(body).expect("text")));
            let (next, leader_epoch) = match seen.records.get(cut) {
                Some(record) if cut > least => (record.0, NO_LEADER_EPOCH),
                Some(_) => {
                    before.map_or((from.next, from.leader_epoch), |known| (known.next, known.leader_epoch))
                }
                None if seen.next > from.next => (seen.next, self.watch.epochs[&from.partition]),
                None => (from.next, from.leader_epoch),
            };
            sealed.known.push(ReadFrom { next, leader_epoch, ..from.clone() });
        }
        sealed
    }
}

/// One writer and its files: `NAME.log`, `NAME.log.1` and so on.
struct Writer {
    name: &'static str,
    dir: PathBuf,
    file: File,
    rows: u64,
}

impl Writer {
    const KEPT: usize = 12;

    fn new(dir: PathBuf, name: &'static str) -> Self {
        let file = Self::open(&dir.join(format!("{name}.log")));
        Self { name, dir, file, rows: 0 }
    }

    fn open(path: &std::path::Path) -> File {
        OpenOptions::new().append(true).create(true).open(path).expect("opens")
    }

    fn path(&self, number: usize) -> PathBuf {
        let number = if number == 0 { String::new() } else { format!(".{number}") };
        self.dir.join(format!("{}.log{number}", self.name))
    }

    fn row(&self, n: u64) -> String {
        let text = "x".repeat((n * 7 % 90) as usize);
        format!("{{\"from\":\"{}\",\"row\":{n},\"text\":\"{text}\"}}", self.name)
    }

    fn write(&mut self, random: &mut Lcg, count: u64) {
        for _ in 0..count {
            let line = format!("{}\n", self.row(self.rows));
            let (first, rest) = line.split_at(random.below(line.len() as u64) as usize);
            self.file.write_all(first.as_bytes()).expect("writes");
            self.file.write_all(rest.as_bytes()).expect("writes");
            self.rows += 1;
        }
    }

    /// Begins a line; whoever has the rest ends it.
    fn write_half(&mut self, random: &mut Lcg) -> String {
        let line = format!("{}\n", self.row(self.rows));
        let (first, rest) = line.split_at(random.below(line.len() as u64) as usize);
        self.file.write_all(first.as_bytes()).expect("writes");
        rest.to_owned()
    }

    fn write_rest(&mut self, rest: &str) {
        self.file.write_all(rest.as_bytes()).expect("writes");
        self.rows += 1;
    }

    fn bytes(&self) -> u64 {
        self.path(0).metadata().map_or(0, |metadata| metadata.len())
    }

    /// Makes room for `NAME.log.1`.
    fn shift(&self) {
        for number in (1..Self::KEPT * 4).rev().filter(|number| self.path(*number).exists()) {
            fs::rename(self.path(number), self.path(number + 1)).expect("renames");
        }
    }
}

struct World {
    fixture: &'static FileFixture,
    random: Lcg,
    writers: Vec<Writer>,
    sealed: Sealed,
    run: Option<Run>,
    /// What was done, for a failure.
    story: Vec<String>,
    world: u64,
}

impl World {
    fn fail(&self, what: &str) -> ! {
        panic!("FOREBAY_SEED={} FOREBAY_WORLDS=1: {what}\n{}", self.world, self.story.join("\n"))
    }

    async fn start(&mut self) {
        if self.run.is_none() {
            self.story.push("start".into());
            let start = Run::start(self.fixture, &self.sealed);
            match self.fixture.runtime().timeout(Duration::from_secs(600), start).await {
                Some(Ok(run)) => self.run = Some(run),
                Some(Err(error)) => self.fail(&format!("it does not start: {error}")),
                None => self.fail("it does not start within ten minutes"),
            }
        }
    }

    async fn go(&mut self, ms: u64) {
        self.start().await;
        self.story.push(format!("go {ms} ms"));
        let result = self.run.as_mut().expect("it runs").go(ms).await;
        if let Err(error) = result {
            self.fail(&error.to_string());
        }
    }

    fn seal(&mut self) {
        let random = &mut self.random;
        let mut cuts =
            |records: usize| (records > 0 && random.one_in(6)).then(|| random.below(records as u64) as usize);
        if let Some(run) = &self.run {
            self.sealed = run.seal(&self.sealed, &mut cuts);
            self.story.push(format!("seal {} rows", self.sealed.rows.len()));
        }
    }

    fn kill(&mut self) {
        if let Some(run) = self.run.take() {
            self.story.push("kill".into());
            // Partitions are recorded as they are added, whatever is sealed of them.
            for from in &run.from {
                if self.sealed.known.iter().all(|known| known.partition != from.partition) {
                    self.sealed.known.push(from.clone());
                }
            }
        }
    }

    /// Anything may happen between two steps of a rotation.
    async fn meanwhile(&mut self) {
        match self.random.below(10) {
            0..=3 => {}
            4 | 5 => {
                let ms = self.random.below(120);
                self.go(ms).await;
            }
            6 => self.seal(),
            7 => self.kill(),
            8 => {
                self.kill();
                let ms = self.random.below(40);
                self.go(ms).await;
            }
            _ => {
                let ms = self.random.below(400);
                self.go(ms).await;
                self.seal();
            }
        }
    }

    fn written(&self) -> u64 {
        self.writers.iter().map(|writer| writer.rows).sum()
    }

    /// Until everything that was written is read.
    async fn catch_up(&mut self) {
        self.start().await;
        for _ in 0..400 {
            if self.run.as_ref().is_some_and(|run| run.count() as u64 >= self.written()) {
                return;
            }
            self.go(50).await;
            // One line in the story is enough.
            self.story.pop();
        }
        self.check("lines are missing after 20 s");
        self.fail("lines are missing after 20 s");
    }

    /// Fails if the pipeline has other lines than were written.
    fn check(&self, what: &str) {
        let Some(run) = &self.run else { return };
        let mut got = run.seal(&self.sealed, &mut |_| None).rows;
        let rows = |writer: &Writer| (0..writer.rows).map(|n| writer.row(n)).collect::<Vec<_>>();
        let mut wanted: Vec<String> = self.writers.iter().flat_map(rows).collect();
        got.sort();
        wanted.sort();
        if got == wanted {
            return;
        }
        let twice: Vec<&String> =
            got.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
        let missed: Vec<&String> = wanted.iter().filter(|row| got.binary_search(row).is_err()).collect();
        let ends = |rows: &[&String]| format!("{} {:?} {:?}", rows.len(), rows.first(), rows.last());
        let known: Vec<String> = run.from.iter().map(|f| format!("{} {}", f.partition, f.identity)).collect();
        let files: Vec<String> = fs::read_dir(&self.writers[0].dir)
            .expect("lists")
            .map(|entry| {
                let entry = entry.expect("an entry");
                use std::os::unix::fs::MetadataExt;
                let metadata = entry.metadata().expect("metadata");
                format!("{:?} {} {}", entry.file_name(), metadata.ino(), metadata.len())
            })
            .collect();
        self.fail(&format!(
            "{what}: twice {}; missing {}\n{}\n{}",
            ends(&twice),
            ends(&missed),
            known.join("\n"),
            files.join("\n")
        ));
    }

    async fn rotate(&mut self, at: usize) {
        if self.writers[at].bytes() < 64 {
            return;
        }
        let kind = self.random.below(9);
        let name = self.writers[at].name;
        let (log, first) = (self.writers[at].path(0), self.writers[at].path(1));
        self.story.push(format!("rotate {name} in way {kind}"));
        match kind {
            // By another name; as long as nobody has told it, the writer writes into the file that it has open.
            0 | 1 => {
                self.writers[at].shift();
                self.meanwhile().await;
                fs::rename(&log, &first).expect("renames");
                self.meanwhile().await;
                let late = self.random.below(4);
                self.writers[at].write(&mut self.random, late);
                self.meanwhile().await;
                self.writers[at].file = Writer::open(&log);
            }
            // By a copy.
            2 => {
                self.writers[at].shift();
                fs::copy(&log, &first).expect("copies");
                self.writers[at].file.set_len(0).expect("truncates");
            }
            // By a copy that is being made while other things happen.
            3 | 4 => {
                self.writers[at].shift();
                self.meanwhile().await;
                let bytes = fs::read(&log).expect("reads");
                let (half, rest) = bytes.split_at(self.random.below(bytes.len() as u64) as usize);
                let mut copy = File::create_new(&first).expect("creates");
                self.meanwhile().await;
                copy.write_all(half).expect("writes");
                self.meanwhile().await;
                copy.write_all(rest).expect("writes");
                self.meanwhile().await;
                self.writers[at].file.set_len(0).expect("truncates");
                self.meanwhile().await;
                // What comes next begins with a few bytes.
                let rest = self.writers[at].write_half(&mut self.random);
                self.meanwhile().await;
                self.writers[at].write_rest(&rest);
            }
            // By a hard link, and another file that takes the name.
            5 => {
                self.writers[at].shift();
                fs::hard_link(&log, &first).expect("links");
                self.meanwhile().await;
                let new = self.writers[at].dir.join(format!("{name}.new"));
                self.writers[at].file = Writer::open(&new);
                fs::rename(&new, &log).expect("renames");
                self.meanwhile().await;
            }
            // What was read may be compressed, emptied without a copy, deleted and made anew.
            _ => {
                self.catch_up().await;
                self.story.push("caught up".into());
                self.sealed = self.run.as_ref().expect("it runs").seal(&self.sealed, &mut |_| None);
                let old: Vec<usize> =
                    (1..Writer::KEPT * 4).filter(|n| self.writers[at].path(*n).exists()).collect();
                match kind {
                    6 if !old.is_empty() => {
                        let old = self.writers[at].path(*self.random.pick(&old));
                        let bytes = fs::read(&old).expect("reads");
                        let mut packed = flate2::write::GzEncoder::new(
                            File::create(format!("{}.gz", old.display())).expect("creates"),
                            flate2::Compression::fast(),
                        );
                        packed.write_all(&bytes).expect("packs");
                        packed.finish().expect("packs");
                        self.meanwhile().await;
                        fs::remove_file(&old).expect("removes");
                    }
                    6 | 7 => {
                        self.writers[at].file.set_len(0).expect("truncates");
                        self.meanwhile().await;
                    }
                    _ => {
                        fs::remove_file(&log).expect("removes");
                        self.meanwhile().await;
                        self.writers[at].file = Writer::open(&log);
                    }
                }
            }
        }
    }
}

async fn live(world: u64) {
    let dir = Dir::new(&format!("follow-world-{world}"));
    let folder = PathBuf::from(dir.path("x")).parent().expect("a folder").to_owned();
    let options = FileOptions { follow: true, ..FileOptions::new(vec![dir.path("*.log*")]) };
    let mut random = Lcg::new(world);
    // The last one is never rotated: without any file a start waits.
    let names = ["app", "web", "sys"];
    let mut writers: Vec<Writer> = names.map(|name| Writer::new(folder.clone(), name)).into();
    writers[2].write(&mut random, 20);
    let mut world = World {
        fixture: Box::leak(Box::new(fixture(options))),
        random,
        writers,
        sealed: Sealed::default(),
        run: None,
        story: Vec::new(),
        world,
    };
    for _ in 0..40 {
        let at = world.random.below(2) as usize;
        let count = world.random.below(40);
        world.writers[at].write(&mut world.random, count);
        world.story.push(format!("write {} to {}", world.writers[at].rows, world.writers[at].name));
        if world.random.one_in(2) {
            world.rotate(at).await;
        }
        world.meanwhile().await;
    }
    world.catch_up().await;
    // Whatever would come twice has time to.
    world.go(2_500).await;
    world.check("at the end");
    // And for a start that finds it all.
    world.sealed = world.run.as_ref().expect("it runs").seal(&world.sealed, &mut |_| None);
    world.kill();
    world.go(1_500).await;
    world.check("after one more start");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_comes_once_whatever_becomes_of_its_file() {
    let first = seed();
    let worlds = std::env::var("FOREBAY_WORLDS").map_or(8, |text| text.parse().expect("a number"));
    let mut tasks = tokio::task::JoinSet::new();
    for world in first..first + worlds {
        tasks.spawn(live(world));
    }
    let mut failed = 0;
    while let Some(result) = tasks.join_next().await {
        failed += u64::from(result.is_err());
    }
    assert_eq!(failed, 0, "of {worlds} worlds");
}
