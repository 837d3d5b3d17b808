//! Where the metrics of this process are kept, and their text for Prometheus.
//!
//! Owns the buckets of histograms and the text format 0.0.4. Does not own names and labels (whoever counts gives them), the registry
//! (`metrics-util`), nor the way to a scraper ([`crate::http`]).
//!
//! Everything is an atomic number: nothing is sampled, nothing grows between scrapes, and a start costs nothing. The exporter that is usual
//! beside `metrics` calibrates a clock when it is made, at the price of up to 0.2 s of CPU.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{
    Counter, Gauge, GaugeFn as _, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString,
    Unit,
};
use metrics_util::registry::{Registry, Storage};

/// Upper bounds of histograms, in seconds: from a fast local insert to an outage.
const SECONDS: [f64; 23] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5,
    5.0, 10.0, 30.0, 120.0, 600.0,
];

/// All metrics of a process. Clones are the same.
#[derive(Clone)]
pub struct Metrics(Arc<Registry<Key, Numbers>>);

impl Default for Metrics {
    fn default() -> Self {
        Self(Arc::new(Registry::new(Numbers)))
    }
}

impl Metrics {
    /// Makes the one that all metrics of this process go to.
    ///
    /// # Errors
    /// When there is one already.
    pub fn install() -> anyhow::Result<Self> {
        let metrics = Self::default();
        metrics::set_global_recorder(metrics.clone())
            .map_err(|_| anyhow::anyhow!("the metrics of this process have a recorder already"))?;
        Ok(metrics)
    }

    /// The values of this moment as Prometheus reads them, in the order of their names.
    pub fn text(&self) -> String {
        let mut families = Families::default();
        self.0.visit_counters(|key, value| {
            families.of(key, "counter").push(Line::new(key, value.load(Ordering::Relaxed)));
        });
        self.0.visit_gauges(|key, value| {
            let value = Number(f64::from_bits(value.load(Ordering::Relaxed)));
            families.of(key, "gauge").push(Line::new(key, value));
        });
        self.0.visit_histograms(|key, value| value.lines(key, families.of(key, "histogram")));
        families.text()
    }
}

impl Recorder for Metrics {
    // The reference page describes each metric; the text carries their types alone.
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.0.get_or_create_counter(key, |counter| Counter::from_arc(counter.clone()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.0.get_or_create_gauge(key, |gauge| Gauge::from_arc(gauge.clone()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.0.get_or_create_histogram(key, |histogram| Histogram::from_arc(histogram.clone()))
    }
}

/// Makes the numbers that the registry keeps.
struct Numbers;

impl Storage<Key> for Numbers {
    type Counter = Arc<AtomicU64>;
    type Gauge = Arc<AtomicU64>;
    type Histogram = Arc<Buckets>;

    fn counter(&self, _: &Key) -> Self::Counter {
        Arc::default()
    }

    fn gauge(&self, _: &Key) -> Self::Gauge {
        Arc::default()
    }

    fn histogram(&self, _: &Key) -> Self::Histogram {
        Arc::default()
    }
}

/// A histogram: observations by bucket, and their sum.
#[derive(Default)]
struct Buckets {
    /// Of each bucket alone; the last one holds what is beyond all bounds.
    counts: [AtomicU64; SECONDS.len() + 1],
    /// The bits of an `f64`.
    sum: AtomicU64,
}

impl HistogramFn for Buckets {
    fn record(&self, value: f64) {
        let bucket = SECONDS.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.increment(value);
    }
}

impl Buckets {
    fn lines(&self, key: &Key, to: &mut Vec<Line>) {
        let mut total = 0;
        for (n, count) in self.counts.iter().enumerate() {
            total += count.load(Ordering::Relaxed);
            let bound = Number(SECONDS.get(n).copied().unwrap_or(f64::INFINITY));
            to.push(Line { suffix: "_bucket", labels: labels(key, Some(bound)), value: total.to_string() });
        }
        let sum = Number(f64::from_bits(self.sum.load(Ordering::Relaxed)));
        to.push(Line { suffix: "_sum", labels: labels(key, None), value: sum.to_string() });
        to.push(Line { suffix: "_count", labels: labels(key, None), value: total.to_string() });
    }
}

/// A line of the text, without the name that its family shares.
struct Line {
    suffix: &'static str,
    labels: String,
    value: String,
}

impl Line {
    fn new(key: &Key, value: impl fmt::Display) -> Self {
        Self { suffix: "", labels: labels(key, None), value: value.to_string() }
    }
}

/// Lines by name.
#[derive(Default)]
struct Families(BTreeMap<String, (&'static str, Vec<Line>)>);

impl Families {
    fn of(&mut self, key: &Key, kind: &'static str) -> &mut Vec<Line> {
        &mut self.0.entry(key.name().to_owned()).or_insert((kind, Vec::new())).1
    }

    fn text(self) -> String {
        let mut text = String::new();
        for (name, (kind, lines)) in self.0 {
            // Writing to a text does not fail.
            let _ = writeln!(text, "# TYPE {name} {kind}");
            for line in lines {
                let _ = writeln!(text, "{name}{}{} {}", line.suffix, line.labels, line.value);
            }
        }
        text
    }
}

/// `{name="value",…}`, with the bound of a bucket at its end; nothing without any.
fn labels(key: &Key, bound: Option<Number>) -> String {
    let mut pairs: Vec<String> =
        key.labels().map(|label| format!("{}=\"{}\"", label.key(), escaped(label.value()))).collect();
    pairs.extend(bound.map(|bound| format!("le=\"{bound}\"")));
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

/// A label's value as the format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// A number as the format writes it: `+Inf` and `NaN` are among them.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_infinite() {
            f.write_str(if self.0 > 0.0 { "+Inf" } else { "-Inf" })
        } else {
            write!(f, "{}", self.0)
        }
    }
}

#[cfg(test)]
mod tests;
