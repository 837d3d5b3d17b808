//! Durations from the engine's histograms, and other numbers of its metrics, as Prometheus text tells them.
//!
//! Owns reading the buckets and the interpolation inside them. Does not own the measurement: the engine takes the time from a
//! record's own time to the positive answer of the insert that holds it.

use serde::Serialize;

/// From a record's time to the answer of its insert.
pub const END_TO_END: &str = "forebay_end_to_end_seconds";
/// From encoded frames to a durable seal: what Flink calls the duration of a checkpoint.
pub const SEAL: &str = "forebay_seal_seconds";
/// Time in which nothing was read because what is behind had no room.
pub const BACKPRESSURE: &str = "forebay_backpressure_seconds";
/// The clock minus the watermark of the newest batch.
pub const WATERMARK_LAG: &str = "forebay_watermark_lag_seconds";

/// Quantiles, in seconds. Each is interpolated inside one bucket, so it is no more exact than the buckets are narrow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Samples: one a block of records, not one a record.
    pub samples: u64,
    /// Half of the samples are below.
    pub p50_s: f64,
    /// Nine of ten are below.
    pub p90_s: f64,
    /// 99 of 100 are below.
    pub p99_s: f64,
    /// 999 of 1,000 are below.
    pub p999_s: f64,
}

/// The value of a metric without labels on a `/metrics` page.
pub fn number(page: &str, metric: &str) -> Option<f64> {
    let of_line = |line: &str| line.strip_prefix(metric)?.strip_prefix(' ')?.trim().parse().ok();
    page.lines().find_map(of_line)
}

/// The quantiles of a histogram on a `/metrics` page; `None` if it has no sample.
pub fn latency(page: &str, metric: &str) -> Option<Latency> {
    let buckets = buckets(page, metric);
    let samples = buckets.last()?.1;
    if samples == 0 {
        return None;
    }
    let quantile = |q: f64| quantile(&buckets, q);
    Some(Latency {
        samples,
        p50_s: quantile(0.5),
        p90_s: quantile(0.9),
        p99_s: quantile(0.99),
        p999_s: quantile(0.999),
    })
}

/// Upper bounds in seconds, the last infinite, and how many samples are at or below each.
fn buckets(page: &str, metric: &str) -> Vec<(f64, u64)> {
    let of_line = |line: &str| {
        let rest = line.strip_prefix(metric)?.strip_prefix("_bucket{")?;
        let (labels, count) = rest.rsplit_once("} ")?;
        let (_, bound) = labels.split_once("le=\"")?;
        let (bound, _) = bound.split_once('"')?;
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
        Some((bound, count.trim().parse().ok()?))
    };
    let mut buckets: Vec<(f64, u64)> = page.lines().filter_map(of_line).collect();
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    buckets
}

fn quantile(buckets: &[(f64, u64)], q: f64) -> f64 {
    let samples = buckets.last().map_or(0, |last| last.1);
    let rank = q * samples as f64;
    let mut below = (0.0, 0);
    for &(bound, count) in buckets {
        if count as f64 >= rank && count > below.1 {
            if bound.is_infinite() {
                // Nothing is known above the last bound but that it was passed.
                return below.0;
            }
            let inside = (rank - below.1 as f64) / (count - below.1) as f64;
            return below.0 + (bound - below.0) * inside.max(0.0);
        }
        below = (bound, count);
    }
    below.0
}

#[cfg(test)]
mod tests;
