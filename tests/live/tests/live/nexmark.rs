//! Nexmark's queries as pipelines, each compared with a batch reading of the same events by DuckDB.
//!
//! A query is a folder of `tests/nexmark`: `pipeline.yaml`, `batch.sql`, and `table.sql` where not every row of the table is compared as it is.
//!
//! Its long form measures each query, too: `FOREBAY_NEXMARK_EVENTS=2000000 cargo test … nexmark -- --nocapture`, with a release build in `FOREBAY_BIN`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use live::{Case, Table, case::binary};
use testkit::{Spawn, workspace_dir};
use workloads::nexmark::{Spec, Stream, Workload};

const EVENTS: u64 = 50_000;
/// Of event time, however many the events are: several windows of each query.
const SECONDS: u64 = 50;
const STREAMS: [Stream; 3] = [Stream::People, Stream::Auctions, Stream::Bids];
const SIDE: &str = "side.csv";

fn file_of(stream: Stream) -> &'static str {
    match stream {
        Stream::People => "people.ndjson",
        Stream::Auctions => "auctions.ndjson",
        Stream::Bids => "bids.ndjson",
    }
}

/// The table on the side of q13: a value for all but each seventh of the 500 keys, some of them hard to write in CSV.
fn write_side(dir: &Path) {
    let mut rows = String::from("key,value\n");
    for key in (0..500).filter(|key| key % 7 != 3) {
        rows += &match key % 3 {
            0 => format!("{key},value {key}\n"),
            1 => format!("{key},\"{key}, \"\"quoted\"\"\"\n"),
            _ => format!("{key},\"two\nlines of {key}\"\n"),
        };
    }
    fs::write(dir.join(SIDE), rows).expect("a file on the side");
}

/// Writes a file for each stream; how many events each has.
fn write_events(dir: &Path, events: u64) -> Vec<(Stream, u64)> {
    let per_second = u32::try_from(events / SECONDS).expect("not too many");
    let spec = Spec { events, events_per_second: per_second, ..Spec::default() };
    let workload = Workload::new(spec).expect("valid");
    let mut files = STREAMS.map(|stream| (stream, 0, Vec::new()));
    let mut event = Vec::new();
    for n in 0..events {
        event.clear();
        let stream = workload.write(n, &mut event).expect("within the run");
        let (_, count, file) =
            files.iter_mut().find(|(known, ..)| *known == stream).expect("one of the three");
        file.extend_from_slice(&event);
        file.push(b'\n');
        *count += 1;
    }
    let counts = files.map(|(stream, count, bytes)| {
        fs::write(dir.join(file_of(stream)), bytes).expect("a file of events");
        (stream, count)
    });
    counts.to_vec()
}

/// The folders of `tests/nexmark`, in order.
fn queries() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace_dir().join("tests/nexmark")).expect("the queries are there");
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

/// Where a pipeline file has the source of a stream.
fn place_of(stream: Stream) -> &'static str {
    match stream {
        Stream::People => "$PEOPLE",
        Stream::Auctions => "$AUCTIONS",
        Stream::Bids => "$BIDS",
    }
}

/// Runs a query over the files to its end, and compares. Says what it took, or what is wrong.
fn answer(case: &Case, query: &Path, events: &[(Stream, u64)]) -> Result<String, String> {
    let name = query.file_name().expect("a name").to_string_lossy().into_owned();
    let table = format!("{}_{name}", case.name());
    let file = |stream| format!("file: {{ paths: '{}' }}", case.dir().join(file_of(stream)).display());
    let text = fs::read_to_string(query.join("pipeline.yaml")).expect("a pipeline");
    let read: u64 =
        events.iter().filter(|(stream, _)| text.contains(place_of(*stream))).map(|(_, count)| count).sum();
    let text = STREAMS
        .into_iter()
        .fold(text, |text, stream| text.replace(place_of(stream), &file(stream)))
        .replace("$SIDE", &case.dir().join(SIDE).display().to_string())
        .replace("$URL", &case.server().url())
        .replace("$TABLE", &table);
    let pipeline = case.dir().join(format!("{name}.yaml"));
    let store = format!("store: {}\n", case.dir().join("store").display());
    fs::write(&pipeline, text + &store).expect("a pipeline file");
    let spawn = Spawn::new(&name, binary().expect("the program is built")).arg("run").arg(&pipeline);
    let run = spawn.run(case.dir(), live::PATIENCE).expect("the program starts");
    if !run.exit.status.success() {
        return Err(format!("{name}: {}{}", run.stdout, run.stderr));
    }
    let cpu_s = run.exit.usage.cpu_s();
    let took = format!(
        "{name}: {read} events, {cpu_s:.2} s of CPU, {:.0} events per CPU-second",
        read as f64 / cpu_s
    );
    let select =
        fs::read_to_string(query.join("table.sql")).unwrap_or_else(|_| "SELECT * FROM {t}".to_owned());
    let plain =
        " SETTINGS output_format_json_quote_64bit_integers = 0, output_format_json_quote_decimals = 0";
    let rows =
        Table::at(&case.server().url(), &table).ask(&format!("{} {plain} FORMAT JSONEachRow", select.trim()));
    let path = case.dir().join(format!("{name}.ndjson"));
    fs::write(&path, rows).expect("rows");
    let python = std::env::var_os("FOREBAY_PYTHON").expect("the ladder names a Python with DuckDB");
    let compared = Command::new(python)
        .arg(workspace_dir().join("tests/nexmark/compare.py"))
        .args([case.dir(), query, &path])
        .output()
        .expect("Python starts");
    match compared.status.success() {
        true => Ok(took),
        false => Err(String::from_utf8_lossy(&compared.stdout).into_owned()
            + &String::from_utf8_lossy(&compared.stderr)),
    }
}

#[test]
fn every_query_of_nexmark_answers_as_a_batch_over_the_same_events_does() {
    let Some(case) = Case::begin("nexmark") else { return };
    let asked = std::env::var("FOREBAY_NEXMARK_EVENTS").ok();
    let events = asked.map_or(EVENTS, |count| count.parse().expect("`FOREBAY_NEXMARK_EVENTS` is a number"));
    let events = write_events(case.dir(), events);
    write_side(case.dir());
    let queries = queries();
    assert!(queries.len() >= 18, "{queries:?}");
    let mut wrong = Vec::new();
    for query in &queries {
        match answer(&case, query, &events) {
            Ok(took) => println!("{took}"),
            Err(words) => wrong.push(words),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
