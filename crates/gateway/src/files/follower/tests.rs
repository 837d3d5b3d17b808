//! The follower over a folder of its own, with a log that the test keeps.

mod rotations;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::records::Rows;
use crate::refusal::{Kind, Refusal};
use crate::support::roomy;

/// A day before the files of a test are created, so that all of them are young.
fn start_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_millis() as i64 - 86_400_000
}

/// A folder, a follower, and the log that it fills.
struct World {
    dir: PathBuf,
    rules: Rules,
    patterns: Vec<String>,
    follower: Follower,
    now_ms: i64,
    /// Appends: the file's number, the offset behind its lines, and the lines as `file@offset line`.
    log: Vec<(u64, u64, Vec<String>)>,
    /// What was noted, and how many appends it stands for.
    note: (Vec<u8>, usize),
}

impl World {
    fn new(name: &str, patterns: &[&str]) -> Self {
        let dir = std::env::temp_dir().join(format!("forebay-follow-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let patterns: Vec<String> =
            patterns.iter().map(|pattern| dir.join(pattern).to_str().unwrap().to_owned()).collect();
        let rules = Rules {
            stream: "test".to_owned(),
            host: String::new(),
            from_end: false,
            is_json: false,
            line_bytes_max: 64 << 10,
            open_max: 100,
            round_bytes_max: 1 << 20,
            quiet_ms: 5_000,
            forget_ms: 86_400_000,
        };
        let follower = Self::follower(&rules, &patterns, Table::default());
        let note = (Table::default().to_bytes(), 0);
        Self { dir, rules, patterns, follower, now_ms: start_ms(), log: Vec::new(), note }
    }

    fn follower(rules: &Rules, patterns: &[String], table: Table) -> Follower {
        static DRAWN: AtomicU64 = AtomicU64::new(1);
        let patterns = Patterns::new(patterns.to_vec(), &[]).unwrap();
        Follower::new(rules.clone(), patterns, table, Box::new(|| DRAWN.fetch_add(1, Ordering::Relaxed)))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn add(&self, name: &str, text: &str) {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(self.path(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Renames, as rotation does.
    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.path(from), self.path(to)).unwrap();
    }

    /// Copies and empties, as the other rotation does.
    fn copy_and_empty(&self, from: &str, to: &str) {
        std::fs::copy(self.path(from), self.path(to)).unwrap();
        std::fs::OpenOptions::new().write(true).open(self.path(from)).unwrap().set_len(0).unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).unwrap();
    }

    fn scan(&mut self) {
        self.now_ms += 1_000;
        self.follower.scan(self.now_ms);
    }

    fn round(&mut self) -> Vec<Batch> {
        let now_ms = self.now_ms;
        self.follower.round(now_ms, now_ms, &|| Rows::new(now_ms, roomy(), 0))
    }

    fn write_note(&mut self) {
        self.note = (self.follower.table().to_bytes(), self.log.len());
        self.follower.noted();
    }

    /// Appends a batch to the log; the follower is not told.
    fn append(&mut self, batch: &Batch) {
        let records = &batch.records.records;
        let line = |row| {
            let record: serde_json::Value = serde_json::from_slice(records.payloads.get(row)).expect("JSON");
            let name =
                Path::new(record["file"].as_str().unwrap()).file_name().unwrap().to_str().unwrap().to_owned();
            let cut = if record["truncated"] == true { "~" } else { "" };
            format!("{name}@{} {}{cut}", record["offset"], record["line"].as_str().unwrap())
        };
        self.log.push((batch.number, batch.to, (0..records.len()).map(line).collect()));
    }

    /// Appends batches as the gateway does.
    fn settle(&mut self, batches: Vec<Batch>) {
        if self.follower.must_note() {
            self.write_note();
        }
        for batch in batches {
            self.append(&batch);
            self.follower.appended(batch.number, batch.to);
        }
    }

    /// Looks and reads until nothing comes any more.
    fn follow(&mut self) {
        loop {
            self.scan();
            let batches = self.round();
            let is_done = batches.is_empty() && !self.follower.is_stale();
            self.settle(batches);
            if is_done {
                return;
            }
        }
    }

    /// Long enough for a file that was renamed or deleted to be let go.
    fn wait(&mut self) {
        for _ in 0..4 {
            self.follow();
            self.now_ms += 10_000;
        }
    }

    /// The process is killed, and another one goes on with what the log says.
    fn kill(&mut self) {
        let mut table = Table::from_bytes(&self.note.0).unwrap();
        for (number, to, _) in &self.log[self.note.1..] {
            table.reached(*number, *to);
        }
        self.follower = Self::follower(&self.rules, &self.patterns, table);
    }

    fn sorted(&self) -> Vec<&str> {
        let mut lines = self.lines();
        lines.sort_unstable();
        lines
    }

    fn lines(&self) -> Vec<&str> {
        self.log.iter().flat_map(|(.., lines)| lines).map(String::as_str).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn lines_are_read_once_as_files_grow_and_over_a_kill() {
    let mut world = World::new("grow", &["*.log"]);
    world.follow();
    world.add("a.log", "one\ntwo\nthr");
    world.add("b.log", "");
    world.add("c.txt", "none\n");
    world.follow();
    assert_eq!(world.lines(), ["a.log@0 one", "a.log@4 two"]);
    world.kill();
    world.add("a.log", "ee\n\n\nfour\n");
    world.add("b.log", "b\r\n");
    world.follow();
    let lines = world.lines();
    assert_eq!(lines[2..], ["a.log@8 three", "a.log@16 four", "b.log@0 b"]);
    world.kill();
    world.follow();
    assert_eq!(world.lines().len(), 5);
    let counts = world.follower.counts();
    assert_eq!((counts.known, counts.behind), (2, 0));
}

#[test]
fn an_append_that_nobody_was_told_of_is_known_after_a_kill_and_one_that_was_lost_is_made_again() {
    for is_lost in [false, true] {
        let mut world = World::new(&format!("answer-{is_lost}"), &["*.log"]);
        world.add("a.log", "one\n");
        world.follow();
        world.add("a.log", "two\n");
        world.now_ms += 1_000;
        let batches = world.round();
        assert_eq!(batches.len(), 1);
        if !is_lost {
            world.append(&batches[0]);
        }
        world.kill();
        world.follow();
        assert_eq!(world.lines(), ["a.log@0 one", "a.log@4 two"], "{is_lost}");
    }
}

#[test]
fn a_file_that_was_renamed_is_read_to_its_end_under_its_first_name() {
    // Rotated names are meant by the second pattern alone.
    for (at, pattern) in ["app.log", "app.log*"].into_iter().enumerate() {
        let mut world = World::new(&format!("rename-{at}"), &[pattern]);
        world.add("app.log", "one\n");
        world.follow();
        for kills in [false, true] {
            world.add("app.log", "late\n");
            if kills {
                world.kill();
            }
            if world.path("app.log.1").exists() {
                world.rename("app.log.1", "app.log.2");
            }
            world.rename("app.log", "app.log.1");
            world.add("app.log", "new\n");
            world.follow();
            // Its writer has not noticed yet.
            world.add("app.log.1", "later");
            world.wait();
        }
        let expected = ["one", "late", "new", "later", "late", "new", "later"];
        let lines: Vec<&str> =
            world.lines().iter().map(|line| line.split(' ').next_back().unwrap()).collect();
        let mut sorted = lines.clone();
        sorted.sort_unstable();
        let mut wanted = expected.to_vec();
        wanted.sort_unstable();
        assert_eq!(sorted, wanted, "{pattern}: {lines:?}");
        assert!(world.lines().iter().all(|line| line.starts_with("app.log@")));
        assert_eq!(world.follower.take_lost(), Lost::default());
    }
}

#[test]
fn the_rest_of_an_emptied_file_is_read_from_its_copy() {
    for (at, pattern) in ["app.log", "app.log*"].into_iter().enumerate() {
        for kills in [false, true] {
            let mut world = World::new(&format!("copy-{at}-{kills}"), &[pattern]);
            world.add("app.log", "one\n");
            world.follow();
            world.add("app.log", "two\n");
            if kills {
                world.kill();
            }
            world.copy_and_empty("app.log", "app.log.1");
            world.add("app.log", "three\n");
            world.wait();
            let expected = ["app.log@0 one", "app.log@0 three", "app.log@4 two"];
            assert_eq!(world.sorted(), expected, "{pattern} {kills}: the order of files is not kept");
            world.rename("app.log.1", "app.log.2");
            world.copy_and_empty("app.log", "app.log.1");
            world.add("app.log", "4\n");
            world.wait();
            assert_eq!(world.lines()[3..], ["app.log@0 4"], "{pattern} {kills}");
            assert_eq!(world.follower.take_lost(), Lost::default());
        }
    }
}

#[test]
fn a_copy_that_is_being_made_is_held_back_until_its_original_is_emptied() {
    let mut world = World::new("held", &["app.log*"]);
    world.add("app.log", "one\ntwo\n");
    world.follow();
    world.add("app.log.1", "one\n");
    world.follow();
    world.add("app.log.1", "two\n");
    world.follow();
    world.add("app.log", "three\n");
    world.follow();
    assert_eq!(world.lines().len(), 3, "it is a copy so far: {:?}", world.lines());
    world.add("app.log.1", "three\n");
    world.copy_and_empty("app.log", "app.log.1");
    world.add("app.log", "four and more\n");
    world.wait();
    let texts = ["app.log@0 four and more", "app.log@0 one", "app.log@4 two", "app.log@8 three"];
    assert_eq!(world.sorted(), texts);

    // One that goes its own way is a file of its own.
    world.add("app.log.new", "four and more\n");
    world.follow();
    assert_eq!(world.lines().len(), 4);
    world.add("app.log.new", "its own\n");
    world.wait();
    assert_eq!(world.lines()[4..], ["app.log.new@0 four and more", "app.log.new@14 its own"]);
}

#[test]
fn a_copy_stands_for_its_original_that_was_deleted() {
    let mut world = World::new("kept", &["app.log*"]);
    world.add("app.log", "one\n");
    world.follow();
    world.add("app.log.kept", "one\n");
    world.follow();
    world.remove("app.log");
    world.wait();
    world.add("app.log.kept", "two\n");
    world.wait();
    assert_eq!(world.lines(), ["app.log@0 one", "app.log@4 two"]);
}

#[test]
fn a_file_that_was_replaced_by_one_with_all_that_was_read_is_read_on() {
    let line = |n: usize| format!("line {n} is known by its bytes\n");
    let text = |lines: std::ops::Range<usize>| lines.map(line).collect::<String>();
    for kills in [false, true] {
        let mut world = World::new(&format!("replaced-{kills}"), &["*.log"]);
        world.add("a.log", &text(0..40));
        world.follow();
        world.write_note();
        let replace = |world: &mut World, text: &str| {
            if kills {
                world.write_note();
                world.kill();
            }
            // As `rsync` and editors do.
            world.add("new.tmp", text);
            world.rename("new.tmp", "a.log");
            world.wait();
        };
        replace(&mut world, &text(0..50));
        replace(&mut world, &text(0..50));
        world.add("a.log", &text(50..51));
        world.wait();
        let lines: Vec<String> = (0..51).map(|n| line(n).trim_end().to_owned()).collect();
        let read = |world: &World| -> Vec<String> {
            world.lines().iter().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
        };
        assert_eq!(read(&world), lines, "{kills}");
        assert_eq!(world.follower.take_lost(), Lost::default());
        // What only begins alike is the next file.
        replace(&mut world, &[text(0..45), text(100..120)].concat());
        assert_eq!(read(&world).len(), 51 + 45 + 20, "{kills}");
    }
}

#[test]
fn what_was_deleted_before_it_was_read_is_counted_once_unless_it_is_open() {
    let mut world = World::new("deleted", &["*.log"]);
    world.add("open.log", "one\n");
    world.add("closed.log", "one\ntwo");
    world.follow();
    world.write_note();
    world.add("open.log", "two\nthree");
    world.remove("open.log");
    world.wait();
    assert_eq!(world.lines()[2..], ["open.log@4 two", "open.log@8 three"], "its last line too");
    world.kill();
    world.remove("closed.log");
    world.wait();
    assert_eq!(world.follower.take_lost(), Lost { deleted: 1, truncated: 0, bytes: 3 });
    world.write_note();
    world.kill();
    world.wait();
    assert_eq!(world.follower.take_lost(), Lost::default());
    // Nothing is known of them after a day.
    world.now_ms += 2 * 86_400_000;
    world.follow();
    assert_eq!(world.follower.counts().known, 0);
}

#[test]
fn what_was_emptied_without_a_copy_is_counted() {
    let mut world = World::new("emptied", &["*.log"]);
    world.add("a.log", "one\ntwo");
    world.follow();
    world.kill();
    std::fs::write(world.path("a.log"), "another\n").unwrap();
    world.wait();
    assert_eq!(world.lines(), ["a.log@0 one", "a.log@0 another"]);
    assert_eq!(world.follower.take_lost(), Lost { deleted: 0, truncated: 1, bytes: 3 });
    std::fs::write(world.path("a.log"), "4\n").unwrap();
    world.wait();
    assert_eq!(world.lines()[2..], ["a.log@0 4"]);
    assert_eq!(world.follower.take_lost(), Lost::default(), "nothing was left of it");
}

/// As with a file of comma-separated values that is written anew with its header, or a log that begins with a banner.
#[test]
fn what_was_written_over_with_the_same_beginning_is_read_from_its_start() {
    let head = "a line of the header that every version begins with\n".repeat(25);
    assert!(head.len() > 1_024);
    for kills in [false, true] {
        let mut world = World::new(&format!("over-{kills}"), &["*.log"]);
        world.add("a.log", &format!("{head}one\ntwo"));
        world.follow();
        assert_eq!(world.lines().len(), 26);
        let at = head.len();
        for (text, lost) in [("1\n2, and more than before\n", 3), ("uno, dos and tres, and still more\n", 0)]
        {
            if kills {
                world.kill();
            }
            let before = world.lines().len();
            std::fs::write(world.path("a.log"), format!("{head}{text}")).unwrap();
            world.wait();
            let lines = world.lines()[before..].to_vec();
            assert_eq!(lines.len(), 25 + text.lines().count(), "{kills}: {lines:?}");
            let first = text.lines().next().unwrap();
            assert_eq!(lines[25], format!("a.log@{at} {first}"), "{kills}");
            let truncated = u64::from(lost > 0);
            assert_eq!(world.follower.take_lost(), Lost { deleted: 0, truncated, bytes: lost }, "{kills}");
        }
        // What is added is read on.
        world.kill();
        world.add("a.log", "the next\n");
        let before = world.lines().len();
        world.wait();
        assert_eq!(world.lines().len(), before + 1, "{kills}");
    }
}

/// Where names change while they are listed, a look may find a file under none of them.
#[test]
fn a_copy_that_a_look_missed_is_read_on_by_the_next_one() {
    for kills in [false, true] {
        let mut world = World::new(&format!("missed-{kills}"), &["*.log*"]);
        world.add("app.log", "one\ntwo\n");
        world.follow();
        if kills {
            world.kill();
        }
        std::fs::create_dir(world.path("unseen")).unwrap();
        world.copy_and_empty("app.log", "unseen/app.log.1");
        world.add("app.log", "three, and more than before\n");
        world.follow();
        assert_eq!(world.lines().len(), 2, "{kills}: what has replaced a file waits until that is judged");
        world.rename("unseen/app.log.1", "app.log.2");
        world.rename("app.log", "app.log.1");
        world.add("app.log", "four\n");
        world.wait();
        let expected =
            ["app.log.1@0 three, and more than before", "app.log@0 four", "app.log@0 one", "app.log@4 two"];
        assert_eq!(world.sorted(), expected, "{kills}");
        assert_eq!(world.follower.take_lost(), Lost::default(), "{kills}");
    }
}

#[test]
fn files_of_the_first_start_are_read_from_their_end_if_that_is_asked_for() {
    let mut world = World::new("end", &["*.log"]);
    world.rules.from_end = true;
    world.kill();
    world.add("a.log", "old\nhalf");
    world.follow();
    world.add("b.log", "new\n");
    world.add("a.log", " a line\n");
    world.follow();
    assert_eq!(world.sorted(), ["a.log@4 half a line", "b.log@0 new"]);
    world.kill();
    world.add("c.log", "c\n");
    world.follow();
    assert_eq!(world.lines()[2..], ["c.log@0 c"], "the first start is over");
}

#[test]
fn bounds_hold_and_nothing_is_lost_by_them() {
    let mut world = World::new("bounds", &["*.log"]);
    (world.rules.open_max, world.rules.round_bytes_max, world.rules.line_bytes_max) = (3, 10_000, 1_000);
    world.kill();
    for file in 0..20 {
        let text: String = (0..100).map(|line| format!("{file}-{line} {}\n", "x".repeat(40))).collect();
        world.add(&format!("{file}.log"), &text);
    }
    let long = "y".repeat(3 << 20);
    world.add("long.log", &format!("{long}\nz\n{long}"));
    loop {
        world.scan();
        let batches = world.round();
        let bytes: u64 = batches.iter().map(|batch| batch.bytes).sum();
        assert!(bytes <= 10_000 + 5_000 || batches.iter().any(|batch| batch.bytes > 3 << 20), "{bytes}");
        assert!(world.follower.counts().open <= 3);
        if batches.is_empty() {
            break;
        }
        world.settle(batches);
    }
    let mut lines: Vec<String> = world.lines().iter().map(|line| (*line).to_owned()).collect();
    assert_eq!(lines.len(), 2_000 + 2);
    let cut = format!("long.log@0 {}~", "y".repeat(1_000));
    assert!(lines.contains(&cut) && lines.contains(&format!("long.log@{} z", (3 << 20) + 1)));
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 2_002);
    world.rename("long.log", "long.old");
    world.wait();
    assert_eq!(world.lines().len(), 2_003, "the last line, which nobody will end");
}

#[test]
fn files_wait_while_there_is_no_room() {
    let mut world = World::new("room", &["*.log"]);
    world.add("a.log", "one\n");
    world.scan();
    let busy = || Err(Refusal::new(Kind::Busy, "no room"));
    assert!(world.follower.round(world.now_ms, world.now_ms, &busy).is_empty());
    world.follow();
    assert_eq!(world.lines(), ["a.log@0 one"]);
}

#[test]
fn compressed_files_and_links_to_known_ones_are_left_out() {
    let mut world = World::new("left-out", &["*", "one"]);
    world.add("one", "1\n");
    std::os::unix::fs::symlink(world.path("one"), world.path("two")).unwrap();
    std::fs::hard_link(world.path("one"), world.path("three")).unwrap();
    std::os::unix::fs::symlink(world.path("nowhere"), world.path("broken")).unwrap();
    std::fs::create_dir(world.path("folder")).unwrap();
    std::fs::write(world.path("packed.gz"), b"\x1f\x8b\x08\n\n").unwrap();
    world.wait();
    assert_eq!(world.lines().len(), 1, "{:?}", world.lines());
}

#[test]
fn a_file_that_is_renamed_while_folders_are_looked_at_is_followed_once() {
    let mut world = World::new("renamed-meanwhile", &["*.log*"]);
    let text: String = (0..100).map(|n| format!("line {n} of the file that is renamed\n")).collect();
    world.add("a.log.1", &text);
    world.add("a.log.2", "another one, so that its name is listed\n");
    // Right after the first of the two was met, all of them get other names.
    let names = ["a.log.2", "a.log.3", "a.log.1", "a.log.2"].map(|name| world.path(name));
    let mut drawn = 0;
    let draw = move || {
        drawn += 1;
        if drawn == 1 {
            names.chunks(2).for_each(|pair| std::fs::rename(&pair[0], &pair[1]).unwrap());
        }
        drawn
    };
    let patterns = Patterns::new(world.patterns.clone(), &[]).unwrap();
    world.follower = Follower::new(world.rules.clone(), patterns, Table::default(), Box::new(draw));
    world.follow();
    let mut texts: Vec<&str> =
        world.lines().iter().map(|line| line.split_once(' ').expect("a line").1).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!((world.lines().len(), texts.len()), (101, 101));
}

#[test]
fn a_file_whose_name_is_not_utf8_is_left_out_and_counted_and_its_neighbours_are_followed() {
    use std::os::unix::ffi::OsStrExt;
    let mut world = World::new("not-utf8", &["*.log", "**/*.log"]);
    let name = |bytes: &[u8]| std::ffi::OsStr::from_bytes(bytes).to_owned();
    let unreadable = world.dir.join(name(b"b\xff.log"));
    std::fs::write(&unreadable, "two\n").unwrap();
    std::fs::create_dir(world.dir.join(name(b"in\xff"))).unwrap();
    world.add("a.log", "one\n");
    world.add("b.txt", "none\n");
    world.follow();
    assert_eq!(world.lines(), ["a.log@0 one"]);
    assert_eq!(world.follower.left_out(Why::NotUtf8), 2, "the file and the folder, once each");
    std::fs::rename(&unreadable, world.path("b.log")).unwrap();
    std::fs::remove_dir(world.dir.join(name(b"in\xff"))).unwrap();
    world.follow();
    assert_eq!(world.lines()[1..], ["b.log@0 two"]);
    assert_eq!(world.follower.left_out(Why::NotUtf8), 0);
    std::fs::write(&unreadable, "three\n").unwrap();
    let exclude = [world.path("b?.log").to_str().unwrap().to_owned()];
    let patterns = Patterns::new(world.patterns.clone(), &exclude).unwrap();
    assert_eq!(patterns.found().not_utf8.len(), 0, "what is excluded is meant to be left out");
}

#[test]
fn files_that_find_no_room_in_the_table_wait_and_are_counted() {
    let mut world = World::new("full", &["*.log"]);
    for file in 0..1_800 {
        std::fs::write(world.path(&format!("{file:0>120}.log")), format!("{file}\n")).unwrap();
    }
    world.add("zip.log", "");
    std::fs::write(world.path("zip.log"), b"\x1f\x8b\x08\0\0\0\0\0").unwrap();
    world.follow();
    let (known, waiting) = (world.follower.counts().known, world.follower.left_out(Why::NoRoom));
    assert!(known > 500 && waiting > 0, "{known}, {waiting}");
    assert_eq!(known + waiting, 1_800);
    assert_eq!(world.lines().len(), known);
    assert_eq!(world.follower.left_out(Why::Compressed), 1);
}
