//! What the store costs at list prices, beside what the published system and its Kafka cluster were said to cost.
//!
//! Owns the prices, the reckoning and its table, with each assumption in words. Does not own the counting of requests (`buffer::proxy`). No
//! row holds a machine of ours: the published $180 holds none either, and what the cluster's figure holds is its publisher's account.
//!
//! Requests follow the time more than the records as long as time cuts objects: an idle log commits nothing, a slow one commits as often as a fast one, and objects
//! grow before there are more of them. Once size cuts them, objects follow the bytes. So a month is reckoned at the rate that was measured, and for the published rate
//! by kind: objects, and records of the journal, by the bytes that fill them, where those are more than time cuts, and all else by time. Beside that stand two bounds that assume nothing of the kinds.

use std::time::Duration;

use super::proxy::Counted;
use crate::figure::{Figure, Figures, Shown, whole};
use crate::grid::Grid;
use crate::report::Arm;

/// Seconds of a month of 30 days.
const MONTH_S: f64 = 2_592_000.0;
/// The published system: records a second, bytes of one as sent, and dollars a month for requests and storage.
pub const PUBLISHED_RECORDS_PER_S: f64 = 175_000.0;
const PUBLISHED_RECORD_BYTES: f64 = 786.0;
/// What it pays for requests and storage.
pub const PUBLISHED_MONTH: f64 = 180.0;
/// What the Kafka cluster was said to cost that it stands in the place of.
const KAFKA_MONTH: f64 = 24_667.0;

const PUTS_PER_S: Figure = Figure::new("store_puts_per_s", "PUTs a second", Shown::Decimals(2));
const OBJECTS_PER_S: Figure =
    Figure::new("store_objects_per_s", "  of them data objects of the log", Shown::Decimals(2));
const COMMITS_PER_S_DONE: Figure =
    Figure::new("store_commits_per_s", "  of them commits of the log", Shown::Decimals(2));
const RECORDS_PER_S: Figure =
    Figure::new("store_journal_per_s", "  of them records of the journal", Shown::Decimals(2));
const GETS_PER_S: Figure = Figure::new("store_gets_per_s", "GETs a second", Shown::Decimals(2));
const REQUESTS: Figure = Figure::new("month_requests_dollars", "  of it requests", Shown::Decimals(2));
const STORAGE: Figure = Figure::new("month_storage_dollars", "  of it storage", Shown::Decimals(2));
/// Requests and storage at the rate that was measured.
pub const MONTH: Figure = Figure::new("month_dollars", "requests and storage, $ a month", Shown::Decimals(2));
const TERABYTE: Figure =
    Figure::new("terabyte_dollars", "requests and storage, $ a TB as sent", Shown::Decimals(2));
/// The same at the published rate if a second has as many requests as it had.
const PUBLISHED_LEAST: Figure = Figure::new(
    "month_dollars_at_175000_least",
    "  at 175,000/s, as many requests a second",
    Shown::Decimals(2),
);
/// The same if a record has as many requests as it had.
const PUBLISHED_MOST: Figure = Figure::new(
    "month_dollars_at_175000_most",
    "  at 175,000/s, as many requests a record",
    Shown::Decimals(2),
);

/// The same if objects follow the bytes, and all other requests the time.
pub const PUBLISHED_BY_KIND: Figure = Figure::new(
    "month_dollars_at_175000_by_kind",
    "  at 175,000/s, objects by their bytes",
    Shown::Decimals(2),
);

const COLUMNS: [Figure; 6] = [
    PUTS_PER_S.labelled("PUT/s"),
    GETS_PER_S.labelled("GET/s"),
    REQUESTS.labelled("requests, $"),
    STORAGE.labelled("storage, $"),
    MONTH.labelled("$ a month"),
    TERABYTE.labelled("$ a TB"),
];

/// List prices of object storage, dollars.
struct Prices {
    put: f64,
    get: f64,
    gigabyte_month: f64,
    /// How long what is put is kept.
    kept_s: f64,
}

/// S3 Standard in us-east-1. What is acknowledged goes within minutes, names of requests are kept for ten: a quarter of an hour is more than both.
const LIST: Prices = Prices { put: 5e-6, get: 4e-7, gigabyte_month: 0.023, kept_s: 900.0 };

/// Bytes of rows at which a pipeline of the published rate makes a seal: `batch: { bytes: 256MiB }`, which its memory holds with `memory: 4GiB` or more. With the defaults
/// it would make four times as many.
const SEAL_BYTES: f64 = 256.0 * 1_048_576.0;

/// Commits of a log under load.
const COMMITS_PER_S: f64 = 2.0;

/// Bytes at which the gateway of a run cuts an object, by the memory that its file gives the stream.
fn object_bytes() -> f64 {
    let stream = pipeline::config::gateway::Stream::default();
    stream.object.bytes.min((super::gateway::STREAM_MIB << 20) / 4) as f64
}

/// What a second of a steady load asks of the store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    puts_per_s: f64,
    /// Of those: data objects, commits, records of the journal.
    kinds_per_s: [f64; 3],
    gets_per_s: f64,
    stored_bytes_per_s: f64,
    records_per_s: f64,
    /// Bytes of a record as sent, and as a row.
    record_bytes: f64,
    row_bytes: f64,
}

impl Flow {
    /// What was counted while `records`, each of so many bytes as sent and as a row, were sent within `took`.
    pub fn of(counted: Counted, records: f64, (record_bytes, row_bytes): (f64, f64), took: Duration) -> Self {
        let a_second = |number: u64| number as f64 / took.as_secs_f64();
        Self {
            puts_per_s: a_second(counted.puts),
            kinds_per_s: [counted.objects, counted.roots, counted.records].map(a_second),
            gets_per_s: a_second(counted.gets),
            stored_bytes_per_s: a_second(counted.put_bytes),
            records_per_s: records / took.as_secs_f64(),
            record_bytes,
            row_bytes,
        }
    }

    /// The same of another rate: as many bytes a record, and `requests` times as many requests a second.
    fn at(self, records_per_s: f64, requests: f64) -> Self {
        Self {
            puts_per_s: self.puts_per_s * requests,
            gets_per_s: self.gets_per_s * requests,
            stored_bytes_per_s: self.stored_bytes_per_s * records_per_s / self.records_per_s,
            records_per_s,
            ..self
        }
    }

    /// With as many requests a second as now, and with as many a record: what is between them is to be expected. Neither has fewer PUTs than its bytes fill objects.
    fn at_published(self) -> [Self; 2] {
        let times = PUBLISHED_RECORDS_PER_S / self.records_per_s;
        // Of a faster load than the published one the second is the lesser.
        [times.min(1.0), times.max(1.0)].map(|requests| {
            let flow = self.at(PUBLISHED_RECORDS_PER_S, requests);
            Self { puts_per_s: flow.puts_per_s.max(flow.full_objects_per_s() + COMMITS_PER_S), ..flow }
        })
    }

    /// Objects that its bytes fill.
    fn full_objects_per_s(self) -> f64 {
        self.record_bytes * self.records_per_s / object_bytes()
    }

    /// With as many objects as its bytes fill, if those are more than there were, each of which is read once; with the commits of a log under load; with as many records
    /// of the journal as its rows fill seals, if those are more than there were; and with as many other requests a second as now.
    /// Nothing where no object was counted.
    fn at_published_by_kind(self) -> Option<Self> {
        let [objects_per_s, commits_per_s, seals_per_s] = self.kinds_per_s;
        let flow = self.at(PUBLISHED_RECORDS_PER_S, 1.0);
        let objects = (flow.full_objects_per_s() - objects_per_s).max(0.0);
        let commits = (COMMITS_PER_S - commits_per_s).max(0.0);
        let seals = (flow.row_bytes * flow.records_per_s / SEAL_BYTES - seals_per_s).max(0.0);
        let puts_per_s = flow.puts_per_s + objects + commits + seals;
        let by_kind = Self { puts_per_s, gets_per_s: flow.gets_per_s + objects, ..flow };
        (objects_per_s > 0.0).then_some(by_kind)
    }

    fn requests(self) -> f64 {
        (self.puts_per_s * LIST.put + self.gets_per_s * LIST.get) * MONTH_S
    }

    fn storage(self) -> f64 {
        self.stored_bytes_per_s * LIST.kept_s / 1e9 * LIST.gigabyte_month
    }

    /// Dollars a month.
    pub fn month(self) -> f64 {
        self.requests() + self.storage()
    }

    fn terabyte(self) -> f64 {
        a_terabyte(self.month(), self.records_per_s * self.record_bytes)
    }
}

/// Dollars a terabyte, of dollars a month.
fn a_terabyte(month: f64, bytes_per_s: f64) -> f64 {
    month / (bytes_per_s * MONTH_S / 1e12)
}

/// Adds the figures of a run.
pub fn put(flow: &Flow, figures: &mut Figures) {
    let [least, most] = flow.at_published();
    figures.put(PUTS_PER_S, flow.puts_per_s);
    for (figure, a_second) in
        [OBJECTS_PER_S, COMMITS_PER_S_DONE, RECORDS_PER_S].into_iter().zip(flow.kinds_per_s)
    {
        figures.put(figure, a_second);
    }
    figures.put(GETS_PER_S, flow.gets_per_s);
    figures.put(MONTH, flow.month());
    figures.put(REQUESTS, flow.requests());
    figures.put(STORAGE, flow.storage());
    figures.put_if(PUBLISHED_BY_KIND, flow.at_published_by_kind().map(Flow::month));
    figures.put(PUBLISHED_LEAST, least.month());
    figures.put(PUBLISHED_MOST, most.month());
    figures.put(TERABYTE, flow.terabyte());
}

/// Every arm beside the published system; nothing where no store was asked.
pub fn grid(arms: &[Arm]) -> Option<Grid> {
    let counted: Vec<&Arm> =
        arms.iter().filter(|arm| super::figures::is_ours(arm) && arm.summary.get(MONTH).is_some()).collect();
    let last = counted.last()?;
    let mut grid = Grid::new("the store, at list prices", &COLUMNS);
    for arm in &counted {
        grid.push(&arm.name, |column| Some(arm.summary.get(column)?.median));
    }
    let published = PUBLISHED_RECORDS_PER_S * PUBLISHED_RECORD_BYTES;
    let alone = |month: f64, bytes_per_s: f64| {
        move |column: Figure| match column.key {
            key if key == MONTH.key => Some(month),
            key if key == TERABYTE.key => Some(a_terabyte(month, bytes_per_s)),
            _ => None,
        }
    };
    let bounds = [
        (PUBLISHED_BY_KIND, "at 175,000 records/s, objects by their bytes"),
        (PUBLISHED_LEAST, "at 175,000 records/s, the same requests a second"),
        (PUBLISHED_MOST, "at 175,000 records/s, the same requests a record"),
    ];
    for (figure, name) in bounds {
        // A median of each: the bytes of a record follow from what a TB costs.
        let of = |figure: Figure| last.summary.get(figure).map(|spread| spread.median);
        if let (Some(bound), Some(bytes)) = (of(figure), of(super::figures::WIRE_BYTES)) {
            grid.push(name, alone(bound, PUBLISHED_RECORDS_PER_S * bytes));
        }
    }
    grid.push("published: requests and storage", alone(PUBLISHED_MONTH, published));
    grid.push("published: the Kafka cluster", alone(KAFKA_MONTH, published));
    grid.notes = notes(&last.name);
    Some(grid)
}

/// Each coefficient with what it assumes.
fn notes(last: &str) -> Vec<String> {
    vec![
        format!("a month: 30 days, {} s, at the rate of the row", whole(MONTH_S)),
        format!(
            "requests: as the proxy counted them from the first request until the last row was settled, those sent again too, over the time of \
             sending; ${:.3} a thousand PUTs, POSTs and lists, ${:.4} a thousand GETs and HEADs, deletions free: S3 Standard, us-east-1",
            LIST.put * 1e3,
            LIST.get * 1e3
        ),
        format!(
            "storage: bytes of all PUTs, the log's and the pipeline's, each kept for {} s, which is an assumption; ${} a GB and month",
            LIST.kept_s, LIST.gigabyte_month
        ),
        "a TB: 10^12 bytes as sent, compressed; no machines, and no traffic, which is free within a region"
            .to_owned(),
        format!(
            "at 175,000 records/s: reckoned from `{last}`; bytes in proportion to the records. By their bytes: an object for each {} MiB as sent, where those are \
             more than time cuts, each read once; a record of the journal for each {} MiB of rows, where those are more than time cuts (`batch.bytes`, with `memory: 4GiB`); \
             all other requests by time, as now. The rows below assume nothing of the kinds, but for at least {COMMITS_PER_S:.0} commits a second",
            whole(object_bytes() / f64::from(1 << 20)),
            whole(SEAL_BYTES / f64::from(1 << 20))
        ),
        format!(
            "published: dollars as its publisher gives them, for {} records/s of {PUBLISHED_RECORD_BYTES:.0} B compressed; of what the cluster's figure \
             consists is not known here",
            whole(PUBLISHED_RECORDS_PER_S)
        ),
    ]
}

#[cfg(test)]
mod tests;
