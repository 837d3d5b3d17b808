//! What the table of results must hold in the end, and the query that says what it holds.
//!
//! Owns a count and a checksum of all results that ClickHouse can compute too, in any order of rows: the sum, wrapping at 2^64, of XXH64
//! (seed 0) over a text of each row,
//! ```text
//! sensor|window_start in ms|readings|sum|min|max|avg|sum|min|max|avg|…
//! ```
//! with the aggregates of the four metrics in their order, each as the number that its 64 bits are. Does not own sending the query. The
//! columns are `sensor Int32, window_start DateTime64(3), readings UInt64`, and for each metric `METRIC_sum`, `METRIC_min`, `METRIC_max` and
//! `METRIC_avg`, Float64.
//!
//! The sums are exact because of what the metrics are (see [`super`]), and an average is the sum divided by the count, once, with the rounding
//! that every processor has. So a result that differs in its last bit is wrong.

use std::collections::VecDeque;
use std::io::Write;

use xxhash_rust::xxh64::xxh64;

use super::{METRICS, Workload, value};
use crate::content::Content;

/// The names of the aggregates, in the order of the text that is hashed.
pub const AGGREGATES: [&str; 4] = ["sum", "min", "max", "avg"];

/// The query that answers one row with the three numbers of [`Content`], in order, all UInt64. `table` goes into the text as it stands:
/// quote it if it needs that.
pub fn sql(table: &str) -> String {
    let bits = METRICS.iter().flat_map(|metric| {
        AGGREGATES.map(|name| format!("'|', toString(reinterpretAsUInt64({metric}_{name}))"))
    });
    let bits: Vec<String> = bits.collect();
    format!(
        "SELECT count() AS rows, uniqExact(sensor, window_start) AS ids, sum(xxHash64(concat(toString(sensor), '|', \
         toString(toUnixTimestamp64Milli(window_start)), '|', toString(readings), {}))) AS checksum FROM {table}",
        bits.join(", ")
    )
}

/// The hash of a text, as the query computes it.
pub fn hash(text: &[u8]) -> u64 {
    xxh64(text, 0)
}

/// A result that others have written as CSV, with the columns of the table in their order: the sensor and the window's start, and the row's hash.
/// `None` for a line that is none.
pub fn of_csv(line: &str) -> Option<((i32, i64), u64)> {
    let mut columns = line.split(',');
    let (sensor, start_ms) = (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
    let mut text = Vec::new();
    write!(text, "{sensor}|{start_ms}|{}", columns.next()?.parse::<u64>().ok()?).ok()?;
    for _ in 0..METRICS.len() * AGGREGATES.len() {
        write!(text, "|{}", columns.next()?.parse::<f64>().ok()?.to_bits()).ok()?;
    }
    columns.next().is_none().then(|| ((sensor, start_ms), hash(&text)))
}

/// What is known of a sensor in a window.
#[derive(Clone, Copy)]
struct Total {
    readings: u64,
    /// In units of 2^-20, as in readings.
    metrics: [Metric; 4],
}

#[derive(Clone, Copy)]
struct Metric {
    sum: u64,
    min: u64,
    max: u64,
}

impl Total {
    const NONE: Self = Self { readings: 0, metrics: [Metric { sum: 0, min: u64::MAX, max: 0 }; 4] };
}

impl Workload {
    /// What the table must hold when all windows that close have closed. Makes every record once: about a second for thirty million.
    pub fn expected(&self) -> Content {
        self.each_window(|start_ms, totals, content| {
            let mut text = Vec::new();
            for (sensor, total) in totals.iter().enumerate().filter(|(_, total)| total.readings > 0) {
                text.clear();
                total.write(sensor, start_ms, &mut text);
                *content = content.plus(Content { rows: 1, ids: 1, checksum: xxh64(&text, 0) });
            }
        })
    }

    /// Results of each window, the first window first.
    pub fn results(&self) -> Vec<u64> {
        let mut results = Vec::new();
        self.each_window(|_, totals, _| {
            results.push(totals.iter().filter(|total| total.readings > 0).count() as u64);
        });
        results
    }

    /// Gives the totals of every window, by sensor, with the window's start. Holds no more windows than a record can be late for: two.
    fn each_window(&self, mut each: impl FnMut(i64, &[Total], &mut Content)) -> Content {
        let (window_ms, start_ms) = (i64::from(self.spec.window_ms), self.spec.start_time_ms);
        let disorder_ms = i64::from(self.spec.disorder_ms);
        let (mut content, mut closed) = (Content::default(), 0);
        let mut open: VecDeque<Vec<Total>> = VecDeque::new();
        for position in 0..self.records_total() {
            let Some(reading) = self.reading(position) else { break };
            while start_ms + (closed + 1) * window_ms + disorder_ms <= self.time_ms(position) {
                let totals = open.pop_front().unwrap_or_default();
                each(start_ms + closed * window_ms, &totals, &mut content);
                closed += 1;
            }
            let window = ((reading.time_ms - start_ms) / window_ms - closed) as usize;
            while open.len() <= window {
                open.push_back(vec![Total::NONE; self.spec.sensors as usize]);
            }
            let total = &mut open[window][reading.sensor as usize];
            total.readings += 1;
            for (metric, read) in total.metrics.iter_mut().zip(reading.metrics) {
                metric.sum += read;
                metric.min = metric.min.min(read);
                metric.max = metric.max.max(read);
            }
        }
        // The quarter behind them closes every window, unless a window is a few milliseconds long.
        for window in closed..i64::from(self.spec.windows) {
            each(start_ms + window * window_ms, &open.pop_front().unwrap_or_default(), &mut content);
        }
        content
    }
}

impl Total {
    /// Appends the text that is hashed.
    fn write(&self, sensor: usize, start_ms: i64, text: &mut Vec<u8>) {
        write!(text, "{sensor}|{start_ms}|{}", self.readings).expect("a vector takes every byte");
        for Metric { sum, min, max } in self.metrics {
            let average = value(sum) / self.readings as f64;
            for number in [value(sum), value(min), value(max), average] {
                write!(text, "|{}", number.to_bits()).expect("a vector takes every byte");
            }
        }
    }
}
