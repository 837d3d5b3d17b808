//! Nexmark's queries as pipelines, each compared with a batch reading of the same events by DuckDB.
//!
//! A query is a folder of `tests/nexmark`: `pipeline.yaml`, `batch.sql`, and `table.sql` where not every row of the table is compared as it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use live::{Case, Table, case::binary};
use testkit::workspace_dir;
use workloads::nexmark::{Spec, Stream, Workload};

/// 50 s of event time: several windows of each query.
const EVENTS: u64 = 50_000;
const EVENTS_PER_S: u32 = 1_000;
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

/// Writes a file for each stream.
fn write_events(dir: &Path) {
    let spec = Spec { events: EVENTS, events_per_second: EVENTS_PER_S, ..Spec::default() };
    let workload = Workload::new(spec).expect("valid");
    let streams = [Stream::People, Stream::Auctions, Stream::Bids];
    let mut files = streams.map(|stream| (stream, Vec::new()));
    let mut event = Vec::new();
    for n in 0..EVENTS {
        event.clear();
        let stream = workload.write(n, &mut event).expect("within the run");
        let (_, file) = files.iter_mut().find(|(known, _)| *known == stream).expect("one of the three");
        file.extend_from_slice(&event);
        file.push(b'\n');
    }
    for (stream, bytes) in files {
        fs::write(dir.join(file_of(stream)), bytes).expect("a file of events");
    }
}

/// The folders of `tests/nexmark`, in order.
fn queries() -> Vec<PathBuf> {
    let entries = fs::read_dir(workspace_dir().join("tests/nexmark")).expect("the queries are there");
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a query over the files to its end, and compares; what is wrong in words.
fn answer(case: &Case, query: &Path) -> Result<(), String> {
    let name = query.file_name().expect("a name").to_string_lossy().into_owned();
    let table = format!("{}_{name}", case.name());
    let file = |stream| format!("file: {{ paths: '{}' }}", case.dir().join(file_of(stream)).display());
    let text = fs::read_to_string(query.join("pipeline.yaml")).expect("a pipeline");
    let text = text
        .replace("$PEOPLE", &file(Stream::People))
        .replace("$AUCTIONS", &file(Stream::Auctions))
        .replace("$BIDS", &file(Stream::Bids))
        .replace("$SIDE", &case.dir().join(SIDE).display().to_string())
        .replace("$URL", &case.server().url())
        .replace("$TABLE", &table);
    let pipeline = case.dir().join(format!("{name}.yaml"));
    let store = format!("store: {}\n", case.dir().join("store").display());
    fs::write(&pipeline, text + &store).expect("a pipeline file");
    let run = Command::new(binary().expect("the program is built")).arg("run").arg(&pipeline).output();
    let run = run.expect("the program starts");
    if !run.status.success() {
        return Err(format!("{name}: {}", said(&run)));
    }
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
        true => Ok(()),
        false => Err(said(&compared)),
    }
}

#[test]
fn every_query_of_nexmark_answers_as_a_batch_over_the_same_events_does() {
    let Some(case) = Case::begin("nexmark") else { return };
    write_events(case.dir());
    write_side(case.dir());
    let queries = queries();
    assert!(queries.len() >= 18, "{queries:?}");
    let wrong: Vec<String> = queries.iter().filter_map(|query| answer(&case, query).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
