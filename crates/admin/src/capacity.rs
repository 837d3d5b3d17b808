//! How much hardware a pipeline needs for a load: cores, memory, store, parts, partitions and money.
//!
//! Owns the arithmetic, as pure functions from the pipeline file, the load and measured coefficients to lines of an answer. Does not own the
//! coefficients ([`coefficients`]), the prices ([`prices`]) nor what windows keep and give (`windows`).
//!
//! Every line names the assumption behind it: a figure that is neither of the file nor of the report says where it was measured, or that it is assumed. It is a model: what it knows was measured on two cores, and it takes costs to grow with the
//! number of records and their bytes.

pub mod coefficients;
pub mod prices;
mod windows;

use std::collections::BTreeSet;

use pipeline::config::model::source::Source;
use pipeline::config::model::step::Step;
use pipeline::config::model::{Input, Pipeline};
use pipeline::config::values::Window;
use serde::Serialize;

use coefficients::{Coefficients, GENERATOR, KAFKA, Kind, PULSAR};
use prices::Prices;

/// Cores are planned to be this busy, so that lag can be made good and latency stays low.
const BUSY: f64 = 0.7;
/// The part of a lane's work that runs on one core at a time, on a machine of a few cores.
const SERIAL: f64 = 0.137;
/// How often merges rewrite a row: with ten parts a merge, four times take parts of 200,000 rows to 2 billion.
const MERGES: f64 = 4.0;
/// CPU-seconds for merging a row once, of five columns and 200 bytes of JSON.
const MERGE_CPU_S_A_ROW: f64 = 0.57e-6;
/// Of a settled version of a temporal join in a file: its bytes there beside its columns, and in memory (`docs/joins.md`).
const VERSION_DISK_BYTES: f64 = 38.0;
const VERSION_INDEX_BYTES: f64 = 4.0;
/// Requests of a seal, and of each insert that its rows are sent with (`docs/stores.md`).
const PUTS_A_SEAL: f64 = 2.0;
const GETS_A_SEAL: f64 = 1.0;
const GETS_AN_INSERT: f64 = 2.0;
/// Bytes that a partition of a topic takes a second: brokers and their replicas are commonly planned so.
const PARTITION_BYTES_PER_S: f64 = 10e6;
/// Bytes that a record adds to a seal over the bytes of its body: columns are packed by LZ4.
const SEALED_SHARE: f64 = 0.3;
const HOURS_A_MONTH: f64 = 730.0;
const SECONDS_A_DAY: f64 = 86_400.0;

/// The load that hardware is computed for.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Records a second, of all inputs together.
    pub rate: f64,
    /// Different keys of a window, or of a join in its interval; `None` takes every record for a key of its own.
    pub keys: Option<f64>,
    /// Days that the totals are for.
    pub days: f64,
    /// Bytes of a record; `None` takes those of the measured workload.
    pub record_bytes: Option<f64>,
}

/// One line of the answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// What it is, for programs; the unit stands last.
    pub key: &'static str,
    /// What it is, for users.
    pub what: &'static str,
    /// How much.
    pub value: f64,
    /// The unit, for users; empty for a count.
    pub unit: &'static str,
    /// The formula with its numbers, and what it takes for granted.
    pub because: String,
}

/// What a key takes once it is spilled.
#[derive(Clone, Copy, Debug)]
struct Spilled {
    /// In the store.
    disk_bytes: f64,
    /// In memory, for the index.
    memory_bytes: f64,
    /// How much of the step's memory the index may take.
    index_share: f64,
}

/// Keys of `dedup`: 17 bytes on disk, 2 in memory.
const SPILLED_KEY: Spilled = Spilled { disk_bytes: 17.0, memory_bytes: 2.0, index_share: f64::INFINITY };

/// A pair of a key and an open window that takes so many bytes in memory: as many on disk, and a thousandth of them for the index (`docs/windows.md`, Memory).
fn spilled_pair(bytes_in_memory: f64) -> Spilled {
    Spilled { disk_bytes: bytes_in_memory, memory_bytes: bytes_in_memory / 1e3, index_share: f64::INFINITY }
}

/// A row of an interval join that takes so many bytes in memory: beside its columns 34 bytes on disk in place of 53 in memory (`docs/design/joins.md`, Figures).
fn spilled_row(bytes_in_memory: f64) -> Spilled {
    Spilled {
        disk_bytes: (bytes_in_memory - 53.0).max(0.0) + 34.0,
        memory_bytes: 6.0,
        index_share: 9.0 / 16.0,
    }
}

/// A version of a temporal join that takes so many bytes in memory, once it is settled (`docs/joins.md`, Memory and state).
fn spilled_version(bytes_in_memory: f64) -> Spilled {
    Spilled {
        disk_bytes: (bytes_in_memory - 53.0).max(0.0) + VERSION_DISK_BYTES,
        memory_bytes: VERSION_INDEX_BYTES,
        index_share: 9.0 / 16.0,
    }
}

/// What a pipeline keeps, by its file.
#[derive(Clone, Debug)]
struct Kept {
    /// Keys, pairs or rows at once.
    keys: f64,
    /// Bytes of each, at least.
    bytes_a_key: f64,
    /// Bytes of each at the most, as far as the file and the load say.
    bytes_a_key_max: f64,
    /// What makes the difference.
    open: Vec<String>,
    /// What their number is taken from, if that is not plain.
    note: &'static str,
    /// The step's own bound.
    memory: f64,
    /// Bytes of each in files, if what does not fit is spilled.
    spilled: Option<Spilled>,
    /// How many of them are in memory alone, whatever is spilled.
    waiting: f64,
    /// Where the bytes of a key are from.
    from: &'static str,
}

/// The lines of the answer, in the order in which they are read.
pub fn lines(pipeline: &Pipeline, load: Load, known: &Coefficients, prices: &Prices) -> Vec<Line> {
    let mut lines = Vec::new();
    let bytes = load.record_bytes.unwrap_or(known.record_bytes);
    let cores = forebay(&mut lines, pipeline, load, bytes, known);
    let rows = rows(&mut lines, pipeline, load);
    let seals = seals(pipeline, load.rate, rows, bytes);
    let state_disk = memory(&mut lines, pipeline, load, known);
    let inserts = inserts(pipeline, rows, seals);
    let requests = store(&mut lines, pipeline, load, (seals, inserts.0), bytes, state_disk);
    let clickhouse = clickhouse(&mut lines, rows, inserts, known);
    partitions(&mut lines, load, bytes);
    money(&mut lines, load, cores + clickhouse, state_disk, requests, prices);
    lines
}

/// What is to be said of inputs that read from something else than what was measured; empty if there are none.
fn other_sources(pipeline: &Pipeline, known: &Coefficients) -> String {
    let name = |input: &Input<'_>| match input.source {
        Source { kafka: Some(_), .. } => KAFKA,
        Source { pulsar: Some(_), .. } => PULSAR,
        Source { log: Some(_), .. } => "a log",
        Source { listen: Some(_), .. } => "requests",
        Source { file: Some(_), .. } => "files",
        _ => GENERATOR,
    };
    let read: BTreeSet<&str> =
        pipeline.inputs().iter().map(name).filter(|name| *name != known.read_from).collect();
    if read.is_empty() {
        return String::new();
    }
    let others = read.iter().copied().collect::<Vec<_>>().join(" and ");
    let way_out = match read.contains(PULSAR) {
        true => "; to measure Pulsar, give `--from` a report of `forebay bench flink --pulsar … --json`",
        false => "",
    };
    format!("; records of {others} are taken to cost what those of {} did{way_out}", known.read_from)
}

/// What a step keeps in its state, if it has one.
fn kind_of(step: &Step) -> Option<Kind> {
    match (&step.dedup, &step.window, &step.join) {
        (Some(_), _, _) => Some(Kind::Dedup),
        (None, Some(_), _) => Some(Kind::Window),
        (None, None, Some(_)) => Some(Kind::Join),
        (None, None, None) => None,
    }
}

/// What is to be said of steps whose cost was not measured: all but one of the measured kind. Empty if there are none.
fn other_steps(pipeline: &Pipeline, known: &Coefficients) -> String {
    let mut measured = known.step;
    let is_other = |step: &&Step| {
        let is_measured = measured.is_some() && kind_of(step) == measured;
        if is_measured {
            measured = None;
        }
        !is_measured
    };
    let mut words: BTreeSet<String> =
        pipeline.steps.iter().filter(is_other).map(|step| format!("`{}`", step.word())).collect();
    // The last rows of a table that takes rows back: neither their cost nor their memory.
    words.extend(pipeline.takes_rows_back().then(|| "`upsert`".to_owned()));
    match words.is_empty() {
        true => String::new(),
        false => format!(
            "; nothing is added for {} (assumed)",
            words.into_iter().collect::<Vec<_>>().join(" and ")
        ),
    }
}

fn forebay(lines: &mut Vec<Line>, pipeline: &Pipeline, load: Load, bytes: f64, known: &Coefficients) -> f64 {
    let longer = (bytes / known.record_bytes).max(1.0);
    let per_core = known.records_per_cpu_s / longer;
    let cores = load.rate / per_core / BUSY;
    let longer = match longer > 1.0 {
        true => format!(
            ", divided by {longer:.1} for records of {bytes:.0} bytes in place of {:.0}",
            known.record_bytes
        ),
        false => String::new(),
    };
    lines.push(Line {
        key: "forebay_cores",
        what: "Forebay",
        value: cores,
        unit: "cores",
        because: format!(
            "{:.0} records a second at {:.0} a CPU-second ({}){longer}; busy to {:.0} % (assumed){}{}",
            load.rate,
            known.records_per_cpu_s,
            known.from,
            100.0 * BUSY,
            other_steps(pipeline, known),
            other_sources(pipeline, known)
        ),
    });
    // Amdahl: of one lane, however many cores it has.
    let lane_max = per_core / SERIAL * BUSY;
    lines.push(Line {
        key: "pipelines",
        what: "processes",
        value: (load.rate / lane_max).ceil().max(1.0),
        unit: "",
        because: format!(
            "one process does up to {lane_max:.0} records a second: {:.1} % of its work is in order (measured with `dedup`, docs/capacity.md; assumed for \
             this pipeline); more are pipelines of their own, each with a part of the keys",
            100.0 * SERIAL
        ),
    });
    cores
}

/// Rows a second that come to each step: records, and behind a window its results.
fn rates(pipeline: &Pipeline, load: Load) -> Vec<f64> {
    let next = |rate: &mut f64, step: &Step| {
        let comes = *rate;
        if let Some(window) = &step.window {
            *rate = windows::results(window, load.keys, comes).0;
        }
        Some(comes)
    };
    pipeline.steps.iter().scan(load.rate, next).collect()
}

/// Rows a second that go to ClickHouse.
fn rows(lines: &mut Vec<Line>, pipeline: &Pipeline, load: Load) -> f64 {
    let mut windows = pipeline.steps.iter().zip(rates(pipeline, load)).filter_map(|(step, rate)| {
        step.window.as_ref().map(|window| windows::results(window, load.keys, rate))
    });
    let (rows, because) = match (windows.next(), windows.next_back()) {
        (None, _) => (
            load.rate,
            "a row for each record: nothing is known of what filters and duplicates drop".to_owned(),
        ),
        (Some(only), None) => only,
        (Some(_), Some((rows, because))) => (rows, format!("of the last window: {because}")),
    };
    lines.push(Line {
        key: "rows_per_s",
        what: "rows into ClickHouse",
        value: rows,
        unit: "a second",
        because,
    });
    rows
}

/// Seals a second, and why: what counts for `batch.rows` are rows that go to a table, not records.
fn seals(pipeline: &Pipeline, rate: f64, rows: f64, bytes: f64) -> (f64, &'static str) {
    let batch = &pipeline.sink.batch;
    let by_age = (1.0 / batch.age.duration().as_secs_f64(), "by `batch.age`");
    let by_rows = (rows / batch.rows as f64, "by `batch.rows`");
    let by_bytes = (rate * bytes / batch.bytes.bytes as f64, "by `batch.bytes`");
    [by_rows, by_bytes].into_iter().fold(by_age, |most, other| if other.0 > most.0 { other } else { most })
}

/// The state that does not fit into memory, in bytes of the store.
fn memory(lines: &mut Vec<Line>, pipeline: &Pipeline, load: Load, known: &Coefficients) -> f64 {
    let budget = pipeline.memory.bytes as f64;
    lines.push(Line {
        key: "memory_bytes",
        what: "memory of a process",
        value: 1.2 * budget / 1e6,
        unit: "MB",
        because: format!(
            "`memory: {}` and a fifth (assumed): it holds what is read ahead, batches, frames and state",
            pipeline.memory
        ),
    });
    let mut disk = 0.0;
    for (at, rate) in rates(pipeline, load).into_iter().enumerate() {
        let step = &pipeline.steps[at];
        let Some(kept) = kept(pipeline, at, Load { rate, ..load }, known) else { continue };
        let bytes = kept.keys * kept.bytes_a_key;
        let spilled = kept.keys - kept.memory / kept.bytes_a_key;
        let waiting = kept.waiting * kept.bytes_a_key;
        let has_index = |of_key: &Spilled| {
            let index = spilled * of_key.memory_bytes;
            let has_room = kept.waiting <= 0.0 || index + waiting <= kept.memory;
            index <= kept.memory * of_key.index_share && has_room
        };
        let held = match (bytes <= kept.memory, kept.spilled.filter(has_index)) {
            (true, _) if kept.keys * kept.bytes_a_key_max <= kept.memory => "which fits".to_owned(),
            (true, _) => {
                format!("which fits as long as a key takes no more than {:.0} bytes", kept.memory / kept.keys)
            }
            (false, Some(of_key)) => {
                disk += spilled * of_key.disk_bytes;
                format!(
                    "of which {:.0} MB are kept open; the rest is spilled to files, with {:.0} MB of memory for their index",
                    kept.memory / 1e6,
                    spilled * of_key.memory_bytes / 1e6
                )
            }
            (false, None) => format!(
                "MORE than the step's `memory` of {:.0} MB: the pipeline would stop. Give the step more, or the pipeline fewer keys",
                kept.memory / 1e6
            ),
        };
        lines.push(Line {
            key: "state_bytes",
            what: step.word(),
            value: bytes / 1e6,
            unit: "MB of state",
            because: format!("{:.0} keys of {}, {held}", kept.keys, each(&kept)),
        });
    }
    disk
}

/// What a key takes, in words.
fn each(kept: &Kept) -> String {
    match kept.open.is_empty() {
        true => format!("{:.0} bytes{} ({})", kept.bytes_a_key, kept.note, kept.from),
        false => format!("at least {:.0} bytes ({}; {})", kept.bytes_a_key, kept.open.join(", "), kept.from),
    }
}

/// What the step `at` keeps of so many rows a second.
fn kept(pipeline: &Pipeline, at: usize, load: Load, known: &Coefficients) -> Option<Kept> {
    let step = &pipeline.steps[at];
    let kind = kind_of(step)?;
    let plain = |keys, bytes_a_key, memory, spilled| {
        Some(Kept {
            keys,
            bytes_a_key,
            bytes_a_key_max: bytes_a_key,
            open: Vec::new(),
            note: "",
            memory,
            spilled,
            waiting: 0.0,
            from: known.bytes_from(kind),
        })
    };
    if let Some(dedup) = &step.dedup {
        let in_window = match dedup.window {
            Window::Unbounded => load.days * SECONDS_A_DAY * load.rate,
            Window::Within(period) => period.duration().as_secs_f64() * load.rate,
        };
        let keys = load.keys.unwrap_or(in_window).min(in_window);
        let memory = dedup.memory.bytes as f64;
        return plain(keys, known.bytes_a_key(kind), memory, Some(SPILLED_KEY));
    }
    if let Some(window) = &step.window {
        let keys = windows::open_keys(window, load.keys, load.rate);
        let memory = window.memory.bytes as f64;
        // The blocks of sessions are smaller, so their index is larger.
        let of_pair = |bytes: f64| match window.gap {
            Some(_) => Spilled { memory_bytes: bytes / 100.0, ..spilled_pair(bytes) },
            None => spilled_pair(bytes),
        };
        let has_sign = window.emit.as_ref().is_some_and(|emit| emit.sign.is_some());
        let spilled = |bytes: f64| (!has_sign).then(|| of_pair(bytes));
        let is_behind = pipeline.steps[..at].iter().any(|before| before.window.is_some());
        let bytes = windows::key_bytes(window, pipeline, load.keys, load.rate, is_behind);
        // The measured window has aggregates of its own, so it corrects the arithmetic and does not stand for it.
        let measured = known.measured_bytes_a_key(kind);
        let factor = measured.map_or(1.0, |measured| measured / windows::MEASURED_KEY_BYTES);
        let least = factor * bytes.least;
        let kept = plain(keys, least, memory, spilled(least))?;
        return Some(Kept { bytes_a_key_max: factor * bytes.most, open: bytes.open, ..kept });
    }
    let join = step.join.as_ref()?;
    let (before, after) = join.interval();
    let lateness_s = join.lateness.duration().as_secs_f64();
    let bytes_a_key = known.bytes_a_key(kind);
    let memory = join.memory.bytes as f64;
    if join.is_temporal() {
        // Half of the records are versions: without `--keys` each is of a key of its own. Left rows wait for `lateness`.
        let versions = load.keys.unwrap_or(load.days * SECONDS_A_DAY * load.rate / 2.0);
        let waiting = load.rate / 2.0 * lateness_s;
        let note =
            " (the newest version of each key stays for ever; half of the records are taken for versions)";
        let kept = plain(versions + waiting, bytes_a_key, memory, Some(spilled_version(bytes_a_key)))?;
        return Some(Kept { note, waiting, ..kept });
    }
    // A left row waits for `after`, a right row for `before`, and both for `lateness`; each side has half of the records.
    let waits = (before + after).as_secs_f64() / 2.0 + lateness_s;
    plain(load.rate * waits, bytes_a_key, memory, Some(spilled_row(bytes_a_key)))
}

/// Puts and gets a second.
fn store(
    lines: &mut Vec<Line>,
    pipeline: &Pipeline,
    load: Load,
    ((seals, why), inserts): ((f64, &'static str), f64),
    bytes: f64,
    state_disk: f64,
) -> (f64, f64) {
    let written = load.rate * bytes * SEALED_SHARE;
    lines.push(Line {
        key: "store_bytes_per_s",
        what: "written to the store",
        value: written / 1e6,
        unit: "MB/s",
        because: format!(
            "{:.0} % of the records' bytes (assumed), and deleted once settled",
            100.0 * SEALED_SHARE
        ),
    });
    let spool = pipeline.spool.bytes.bytes as f64;
    lines.push(Line {
        key: "store_bytes",
        what: "room in the store",
        value: (spool + state_disk) / 1e9,
        unit: "GB at the most",
        because: format!(
            "`spool.bytes` for an outage of ClickHouse ({:.0} s at this rate), and spilled keys",
            spool / written
        ),
    });
    let (puts, gets) = (PUTS_A_SEAL * seals, GETS_A_SEAL * seals + GETS_AN_INSERT * inserts);
    lines.push(Line {
        key: "store_requests_per_s",
        what: "puts and gets",
        value: puts + gets,
        unit: "a second",
        because: format!(
            "{seals:.1} seals a second ({why}) of {PUTS_A_SEAL:.0} puts and {GETS_A_SEAL:.0} get, and {GETS_AN_INSERT:.0} gets an insert (docs/stores.md)"
        ),
    });
    // Requests to a disk cost nothing.
    match pipeline.store.remote_scheme() {
        Some(_) => (puts, gets),
        None => (0.0, 0.0),
    }
}

/// Inserts a second into all tables, each a new part, and why.
fn inserts(pipeline: &Pipeline, rows: f64, (seals, why): (f64, &'static str)) -> (f64, String) {
    let tables = pipeline.sinks.len().max(1) as f64;
    // A seal without rows makes no insert. Of several tables one may take late rows, or none of the window's.
    let last = pipeline.steps.iter().rev().find_map(|step| step.window.as_ref());
    let with_results = last
        .filter(|_| tables <= 1.0)
        .and_then(windows::closings)
        .map(|closings| closings.max(rows / pipeline.sink.batch.rows as f64))
        .filter(|with_results| *with_results < seals);
    let when = match with_results {
        Some(with_results) => format!("a seal with results of a window every {:.1} s", 1.0 / with_results),
        None => format!("{seals:.1} seals a second ({why})"),
    };
    (with_results.unwrap_or(seals) * tables, format!("{when}, {tables:.0} tables"))
}

fn clickhouse(lines: &mut Vec<Line>, rows: f64, (inserts, when): (f64, String), known: &Coefficients) -> f64 {
    lines.push(Line {
        key: "parts_per_s",
        what: "new parts",
        value: inserts,
        unit: "a second",
        because: format!("{when}; times the table partitions that a batch falls into"),
    });
    let cores = rows * (known.clickhouse_cpu_s_a_row + MERGES * MERGE_CPU_S_A_ROW) / BUSY;
    lines.push(Line {
        key: "clickhouse_cores",
        what: "ClickHouse, writing",
        value: cores,
        unit: "cores",
        because: format!(
            "{:.2} µs a row to insert ({}), and {MERGES:.0} merges of each at {:.2} µs (assumed); busy to {:.0} % (assumed); no views, no queries",
            1e6 * known.clickhouse_cpu_s_a_row,
            known.from,
            1e6 * MERGE_CPU_S_A_ROW,
            100.0 * BUSY
        ),
    });
    cores
}

fn partitions(lines: &mut Vec<Line>, load: Load, bytes: f64) {
    lines.push(Line {
        key: "partitions",
        what: "partitions of the topic",
        value: (load.rate * bytes / PARTITION_BYTES_PER_S).ceil().max(1.0),
        unit: "at least",
        because: format!(
            "{:.0} MB/s a partition (assumed); Forebay reads any number of them in one process",
            PARTITION_BYTES_PER_S / 1e6
        ),
    });
}

fn money(
    lines: &mut Vec<Line>,
    load: Load,
    cores: f64,
    state_disk: f64,
    (puts, gets): (f64, f64),
    prices: &Prices,
) {
    let seconds = load.days * SECONDS_A_DAY;
    let hours = load.days / 30.0 * HOURS_A_MONTH;
    let of_cores = cores * hours * prices.core_hour;
    let of_requests = seconds * (puts * prices.thousand_puts + gets * prices.thousand_gets) / 1e3;
    let of_room = state_disk / 1e9 * prices.gigabyte_month * load.days / 30.0;
    lines.push(Line {
        key: "cost",
        what: "cost",
        value: of_cores + of_requests + of_room,
        unit: "USD",
        because: format!(
            "for {:.0} days: {of_cores:.2} for {cores:.1} cores at {} an hour, {of_requests:.2} for requests of object storage, \
             {of_room:.2} for spilled state ({}); without disks of ClickHouse, brokers and traffic",
            load.days, prices.core_hour, prices.from
        ),
    });
}

#[cfg(test)]
mod tests;
