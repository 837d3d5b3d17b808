//! What one run did over time: samples of a process, CPU by stage and by thread, percentiles of latency.
//!
//! Owns their bound and their shape in `--json`. Does not own the plots (`html`).
//!
//! A sample is taken at most every [`EVERY`]. A run that is so long that it has [`SAMPLES_MAX`] of them loses every second one and
//! goes on at half the pace, so that no run writes more than that.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// How often a sample is taken at first.
const EVERY: Duration = Duration::from_millis(100);
/// Samples at the most: more than a plot has points.
const SAMPLES_MAX: usize = 1_000;
/// Seconds that a rate is taken over: several batches of a pipeline under load.
const RATE_OVER_S: f64 = 1.0;

/// A process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start of the run.
    pub at_s: f64,
    /// Rows settled so far.
    pub rows: u64,
    /// CPU used so far.
    pub cpu_s: f64,
    /// Memory (resident set).
    pub rss_bytes: u64,
    /// Records that wait in the source, where that is known.
    pub lag_records: Option<u64>,
}

/// The share of samples that is at or below a latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentile {
    /// Above 0, at most 1.
    pub share: f64,
    /// Seconds.
    pub latency_s: f64,
}

/// All of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Trace {
    /// In the order of time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// CPU-seconds by the names of threads, those of one name together, as last seen. What a thread used after that, and
    /// threads that ended between two looks, are left out.
    #[serde(rename = "cpu_s_by_thread", skip_serializing_if = "BTreeMap::is_empty")]
    pub threads: BTreeMap<String, f64>,
    /// CPU-seconds by stage: what the engine accounts to those that compute, as last seen, the client's threads, and all else.
    #[serde(rename = "cpu_s_by_stage", skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, f64>,
    /// By rising share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<Percentile>,
    /// How many times the pace was halved.
    #[serde(skip)]
    halved: u32,
}

impl Trace {
    /// Whether a sample may be taken now.
    pub fn is_due(&self, at: Duration) -> bool {
        let every = EVERY * 2_u32.saturating_pow(self.halved);
        self.samples.last().is_none_or(|last| at.as_secs_f64() - last.at_s >= every.as_secs_f64())
    }

    /// Completes the stages of a process that took `cpu_s` in all.
    pub fn complete_stages(&mut self, cpu_s: f64) {
        if self.stages.is_empty() {
            return;
        }
        let fetching = self.threads.iter().filter(|(name, _)| is_fetching(name));
        let fetch_s: f64 = fetching.map(|(_, cpu_s)| cpu_s).sum();
        if fetch_s > 0.0 {
            self.stages.insert("fetch".to_owned(), fetch_s);
        }
        let known_s: f64 = self.stages.values().sum();
        self.stages.insert("store, inserts and the rest".to_owned(), (cpu_s - known_s).max(0.0));
    }

    /// Adds a sample.
    pub fn push(&mut self, sample: Sample) {
        if self.samples.len() >= SAMPLES_MAX {
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.halved += 1;
        }
        self.samples.push(sample);
    }

    /// The rate of a rising number over [`RATE_OVER_S`], or over a fifth of a shorter run, at the middle of each such stretch. A batch is
    /// settled at once, a few times a second: from one sample to the next the rate would be nothing, or several times the true one.
    pub fn rate(&self, number: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return Vec::new();
        };
        let over_s = RATE_OVER_S.min((last.at_s - first.at_s) / 5.0);
        let mut earlier = self.samples.iter().peekable();
        let mut begin = first;
        let mut rates = Vec::new();
        for end in self.samples.iter().filter(|end| end.at_s > first.at_s && end.at_s - first.at_s >= over_s)
        {
            while let Some(next) = earlier.next_if(|next| next.at_s <= end.at_s - over_s) {
                begin = next;
            }
            let time_s = end.at_s - begin.at_s;
            rates.push((begin.at_s + time_s / 2.0, (number(end) - number(begin)) / time_s));
        }
        rates
    }
}

/// True of threads that do nothing but fetch.
fn is_fetching(thread: &str) -> bool {
    matches!(thread, "kafka-fetch" | "file-read") || thread.starts_with("rdk:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(n: u32) -> Sample {
        Sample { at_s: f64::from(n), rows: u64::from(n) * 10, cpu_s: 0.0, rss_bytes: 1, lag_records: None }
    }

    #[test]
    fn a_long_run_keeps_its_whole_length_at_half_the_pace() {
        let mut trace = Trace::default();
        (0..=SAMPLES_MAX as u32).for_each(|n| trace.push(sample(n)));
        assert_eq!(trace.samples.len(), SAMPLES_MAX / 2 + 1);
        assert_eq!((trace.samples[0].at_s, trace.samples[1].at_s), (0.0, 2.0));
        let last = Duration::from_secs(SAMPLES_MAX as u64);
        assert!(!trace.is_due(last + EVERY) && trace.is_due(last + 2 * EVERY));
    }

    #[test]
    fn a_rate_is_that_between_two_samples() {
        let mut trace = Trace::default();
        [sample(0), sample(2)].into_iter().for_each(|sample| trace.push(sample));
        assert_eq!(trace.rate(|sample| sample.rows as f64), [(1.0, 10.0)]);
    }

    #[test]
    fn stages_add_up_to_the_process() {
        let mut trace = Trace::default();
        trace.complete_stages(2.0);
        assert!(trace.stages.is_empty(), "nothing is known of a peer");
        trace.stages.insert("decode".to_owned(), 0.5);
        trace.threads = [("kafka-fetch".to_owned(), 0.25), ("compute-0".to_owned(), 0.5)].into();
        trace.complete_stages(2.0);
        assert_eq!(trace.stages["fetch"], 0.25);
        assert_eq!(trace.stages["store, inserts and the rest"], 1.25);
    }

    #[test]
    fn batches_do_not_make_a_saw_of_a_steady_rate() {
        let mut trace = Trace::default();
        for n in 0..100_u32 {
            // Twenty rows at once, every second sample.
            trace.push(Sample { at_s: f64::from(n) / 10.0, rows: u64::from(n / 2) * 20, ..sample(0) });
        }
        let rates = trace.rate(|sample| sample.rows as f64);
        assert_eq!(rates.len(), 90);
        assert!(rates.iter().all(|(_, rate)| (85.0..=115.0).contains(rate)), "{rates:?}");
        assert!(Trace::default().rate(|sample| sample.rows as f64).is_empty());
    }
}
