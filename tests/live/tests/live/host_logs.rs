//! Files that a gateway or a pipeline follows while they are rotated and the program is killed: every line is in the table once.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use live::pipeline::term;
use live::{Accounts, Case, PATIENCE};
use testkit::{Lcg, seed, wait_until};

use super::logs::{program, start_gateway};

/// The exit code of what waits for a person.
const PERSON: i32 = 4;

/// Kills of the program.
const KILLS: u64 = 10;

/// Rotated files that stay: all of them, however slow the machine is, for what is deleted before it was read is lost, which a gateway counts and for which a
/// pipeline stops.
const KEPT: usize = 1_000;

/// Writes numbered lines into `NAME.log`, and rotates it: by another name, or by a copy. Returns how many lines there are.
fn write(dir: &Path, name: &str, over: &AtomicBool, written: &AtomicU64) -> u64 {
    let line = |n: &str, text: &str| format!("{name} {n} {text}\n");
    write_lines((dir, name), over, written, &line)
}

fn write_lines(
    (dir, name): (&Path, &str),
    over: &AtomicBool,
    written: &AtomicU64,
    line: &dyn Fn(&str, &str) -> String,
) -> u64 {
    let mut random = Lcg::new(seed() ^ u64::from(name.as_bytes()[0]));
    let path = |number: usize| match number {
        0 => dir.join(format!("{name}.log")),
        _ => dir.join(format!("{name}.log.{number}")),
    };
    let open = || {
        OpenOptions::new().append(true).create(true).open(path(0)).expect("the test's folder can be written")
    };
    let (mut file, mut lines): (File, u64) = (open(), 0);
    while !over.load(Ordering::Acquire) {
        for _ in 0..random.below(200) {
            let line = line(&lines.to_string(), &"x".repeat(random.below(80) as usize));
            let (first, rest) = line.split_at(random.below(line.len() as u64) as usize);
            for part in [first, rest] {
                file.write_all(part.as_bytes()).expect("writes");
            }
            lines += 1;
            written.fetch_add(1, Ordering::Relaxed);
        }
        if random.one_in(10) && path(0).metadata().is_ok_and(|metadata| metadata.len() > 0) {
            for number in (1..KEPT).rev().filter(|number| path(*number).exists()) {
                std::fs::rename(path(number), path(number + 1)).expect("renames");
            }
            match random.one_in(2) {
                true => {
                    std::fs::rename(path(0), path(1)).expect("renames");
                    // As long as nobody has told it, it writes into the file that it has open.
                    file.write_all(line(&lines.to_string(), "late").as_bytes()).expect("writes");
                    lines += 1;
                    std::thread::sleep(Duration::from_millis(random.below(300)));
                    file = open();
                }
                false => {
                    std::fs::copy(path(0), path(1)).expect("copies");
                    std::thread::sleep(Duration::from_millis(random.below(300)));
                    file.set_len(0).expect("empties");
                }
            }
        }
        std::thread::sleep(Duration::from_millis(random.below(30)));
    }
    lines
}

/// The gateway is killed at random while two writers rotate their files.
#[test]
fn kill_test_every_line_of_rotated_files_is_in_the_table_once() {
    let Some(case) = Case::begin("host-logs") else { return };
    let (dir, logs) = (case.dir(), case.dir().join("var"));
    std::fs::create_dir(&logs).expect("the test's folder can be written");
    let file = "gateway: host\nlisten: '127.0.0.1:0'\nstore: ./logs\nhttp: { listen: none }\nshutdown: { timeout: 20s }\n\
                files: [{ paths: ['var/*.log*'], host: here, ahead: 1MiB, open: 4 }]\nstreams: { files: { linger: 50ms } }\n";
    std::fs::write(dir.join("gateway.yaml"), file).expect("the test's folder can be written");
    let table = case.table(
        "line String, file LowCardinality(String), offset UInt64, host String, truncated Bool",
        "line",
    );
    let pipeline = case
        .pipeline()
        .input_of("events", "{ log: { url: ./logs/files } }")
        .batch("{ rows: 2000, age: 50ms }");
    let mut gateway = start_gateway(dir);
    let has_log = || {
        let listed =
            Command::new(program()).args(["log", "ls", "logs/files", "--json"]).current_dir(dir).output();
        listed.expect("the program starts").status.success()
    };
    wait_until(PATIENCE, "the log", has_log);
    let running = pipeline.run();
    let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let lines: u64 = std::thread::scope(|scope| {
        let writers = ["app", "web"].map(|name| {
            let (over, written, logs) = (&over, &written, &logs);
            scope.spawn(move || write(logs, name, over, written))
        });
        let _end = super::logs::End(&over);
        let mut random = Lcg::new(seed());
        for _ in 0..KILLS {
            std::thread::sleep(Duration::from_millis(300 + random.below(2_000)));
            gateway.kill9().expect("the gateway dies");
            std::thread::sleep(Duration::from_millis(random.below(500)));
            gateway = start_gateway(dir);
        }
        over.store(true, Ordering::Release);
        writers.into_iter().map(|writer| writer.join().expect("a writer")).sum()
    });
    assert!(lines > 1_000, "the writers have written");
    table.wait_for(lines);
    // Whatever would come twice has time to.
    std::thread::sleep(Duration::from_secs(3));
    term(gateway);
    term(running);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("line"), (lines, lines));
    let others = table
        .value("SELECT count() FROM {t} WHERE truncated OR host != 'here' OR file NOT LIKE 'var/%.log%'");
    assert_eq!(others, "0");
    assert_eq!(pipeline.accounts(), Accounts { read: lines, written: lines, ..Accounts::default() });
}

/// The pipeline itself follows the files, and is killed at random.
#[test]
fn kill_test_every_line_of_rotated_files_that_a_pipeline_follows_is_in_the_table_once() {
    let Some(case) = Case::begin("followed") else { return };
    let logs = case.dir().join("var");
    std::fs::create_dir(&logs).expect("the test's folder can be written");
    let table = case.table("id String, text String", "id");
    let paths = logs.join("*.log*").display().to_string();
    let pipeline = case
        .pipeline()
        .input_of("events", &format!("{{ file: {{ paths: '{paths}', follow: true }} }}"))
        .batch("{ rows: 2000, age: 50ms }");
    // No file is there at the first start.
    let mut running = pipeline.run();
    let (over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let lines: u64 = std::thread::scope(|scope| {
        let writers = ["app", "web"].map(|name| {
            let (over, written, logs) = (&over, &written, &logs);
            let line = move |n: &str, text: &str| format!("{{\"id\":\"{name} {n}\",\"text\":\"{text}\"}}\n");
            scope.spawn(move || write_lines((logs, name), over, written, &line))
        });
        let _end = super::logs::End(&over);
        let mut random = Lcg::new(seed());
        for _ in 0..KILLS {
            std::thread::sleep(Duration::from_millis(500 + random.below(2_500)));
            running.kill9().expect("the pipeline dies");
            std::thread::sleep(Duration::from_millis(random.below(500)));
            running = pipeline.run();
        }
        over.store(true, Ordering::Release);
        writers.into_iter().map(|writer| writer.join().expect("a writer")).sum()
    });
    assert!(lines > 1_000, "the writers have written");
    table.wait_for(lines);
    // Whatever would come twice has time to.
    std::thread::sleep(Duration::from_secs(3));
    term(running);
    pipeline.drain();
    assert_eq!(table.count_and_distinct("id"), (lines, lines));
    assert_eq!(pipeline.accounts(), Accounts { read: lines, written: lines, ..Accounts::default() });
}

/// A rotated file that is deleted before it was read to its end stops the pipeline. Each of the ways out that are named then is one: what can be read
/// is read on, and nothing twice.
#[test]
fn a_followed_file_that_is_lost_stops_the_pipeline_and_both_ways_out_go_on() {
    let line = |n: u64| format!("{{\"id\":\"{n}\",\"text\":\"{}\"}}\n", "x".repeat(n as usize % 70));
    let lines = |range: std::ops::Range<u64>| range.map(line).collect::<String>();
    for (way, back) in [("brought-back", 1), ("forgotten", 0)] {
        let Some(case) = Case::begin(&format!("lost-{way}")) else { return };
        let logs = case.dir().join("var");
        std::fs::create_dir(&logs).expect("the test's folder can be written");
        let table = case.table("id String, text String", "id");
        let (path, rotated) = (logs.join("web.log"), logs.join("web.log.1"));
        let pipeline = case
            .pipeline()
            .input_of("events", &format!("{{ file: {{ paths: '{}*', follow: true }} }}", path.display()))
            .batch("{ rows: 2000, age: 50ms }");
        let write =
            |path: &Path, text: &str| std::fs::write(path, text).expect("the test's folder can be written");
        let last = line(1_000);
        let (half, rest) = last.split_at(9);
        write(&path, &(lines(0..100) + half));
        pipeline.drain();
        std::fs::rename(&path, &rotated).expect("renames");
        write(&path, &lines(100..150));
        pipeline.drain();
        assert_eq!(table.count_and_distinct("id"), (150, 150));
        std::fs::remove_file(&rotated).expect("removes");
        let (exit, log) = live::pipeline::ended(pipeline.run());
        assert_eq!(exit.status.code(), Some(PERSON), "{log}");
        assert!(log.contains("is gone, and was not read to its end"), "{log}");
        let said = |before: &str| {
            let rest = log.split_once(before).unwrap_or_else(|| panic!("no `{before}` in {log}")).1;
            rest.split_once('`').expect("the end of a command").0.to_owned()
        };
        if back > 0 {
            write(Path::new(&said("`cp whole ")), &(lines(0..100) + half + rest));
        } else {
            let partition = said("`forebay forget FILE --partition ");
            let forgotten = pipeline.run_tool(&["forget"], &["--partition", &partition, "--yes"]);
            assert_eq!(forgotten.exit.status.code(), Some(0), "{}", forgotten.stderr);
        }
        pipeline.drain();
        assert_eq!(table.count_and_distinct("id"), (150 + back, 150 + back), "{way}");
        let mut file = OpenOptions::new().append(true).open(&path).expect("the test's folder can be written");
        file.write_all(lines(150..160).as_bytes()).expect("writes");
        pipeline.drain();
        assert_eq!(table.count_and_distinct("id"), (160 + back, 160 + back), "{way}");
    }
}
