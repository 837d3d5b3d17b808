//! What this machine bears: the highest rate of an open loop that the sender, the broker, the engine and ClickHouse keep up with,
//! all of them at work.
//!
//! Owns the search and the judgement of a probe. Does not own the load (`load`).
//!
//! A filled topic is drained first: nothing is sent meanwhile, so what that gives is more than the machine bears with a sender. Below
//! it the rate is halved in [`PROBES`] probes, each an open loop of [`PROBE`] with a table and a store of its own.
//!
//! | a rate is borne if                     | because                                                              |
//! |----------------------------------------|----------------------------------------------------------------------|
//! | the sender kept its pace               | a later one offers less than the rate                                |
//! | the lag did not grow                   | what grows for seconds grows for ever; the bound is a twenty-fifth of the rate |

use std::time::Duration;

use anyhow::Context;
use workloads::glassflow::{Spec, Workload};

use super::feed::Prepared;
use super::load::Loaded;
use super::{Bench, Server};
use crate::figure::whole;
use crate::topic::SENDER_LATE_MAX;

/// Halvings of the range between nothing and what a drain gives: the last one is a 64th of it.
const PROBES: u32 = 6;
/// How long a probe offers its rate: some twenty batches.
const PROBE: Duration = Duration::from_secs(5);
/// How much the lag may grow from the second to the last quarter of a probe, which are half of it apart.
const LAG_GROWTH_S_MAX: f64 = 0.1;

/// A rate, and how it was found.
pub(super) struct Capacity {
    /// Records a second.
    pub rate: f64,
    /// How it was found, for people.
    pub found: String,
}

impl Capacity {
    /// One that was given.
    pub(super) fn given(rate: f64) -> Self {
        Self { rate, found: format!("capacity: {} records a second, as given", whole(rate)) }
    }
}

/// What a probe saw.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    sender_late: Duration,
    /// `None` if nothing appeared in the last quarter.
    lag_growth_s: Option<f64>,
}

impl Bench<'_> {
    /// Searches below `drained`, which a backlog gave.
    ///
    /// # Errors
    /// When a part fails, or no rate is borne at all.
    pub(super) async fn capacity(&self, server: &Server, drained: f64) -> anyhow::Result<Capacity> {
        let (mut borne, mut not_borne, mut why) = (0.0, drained, "what a drain gives".to_owned());
        for number in 1..=PROBES {
            let rate = (borne + not_borne) / 2.0;
            self.place.say(&format!("probe {number} of {PROBES}: {} records a second", whole(rate)));
            let probe = self.probe(number, rate, server).await;
            match refusal(probe.with_context(|| format!("probe {number}"))?) {
                None => borne = rate,
                Some(reason) => (not_borne, why) = (rate, reason),
            }
        }
        anyhow::ensure!(borne > 0.0, "no rate was borne, not even {} records a second", whole(not_borne));
        let found = format!(
            "capacity: {} records a second, the highest of {PROBES} open loops of {} s that all parts bore, the sender among them \
             ({} were too many: {why})",
            whole(borne),
            PROBE.as_secs(),
            whole(not_borne),
        );
        self.place.say(&found);
        Ok(Capacity { rate: borne, found })
    }

    async fn probe(&self, number: u32, rate: f64, server: &Server) -> anyhow::Result<Seen> {
        let workload = scaled(&self.plan.workload, rate * PROBE.as_secs_f64())?;
        let table = format!("{}_probe_{number}", self.place.name);
        let prepared = Prepared::new(&workload)?.into();
        let rows = workload.uniques_total();
        let loaded = self.load(&table, rate as u64, prepared, rows, server).await?;
        self.place.drop_tables(server, &table).await?;
        let lags = lags(&workload, &loaded);
        Ok(Seen { sender_late: loaded.sent.late_max, lag_growth_s: growth(&lags, PROBE.as_secs_f64()) })
    }
}

/// The same workload with about so many records.
fn scaled(workload: &Workload, records: f64) -> anyhow::Result<Workload> {
    let share = records / workload.records_total() as f64;
    let of = |number: u64| (number as f64 * share).ceil() as u64;
    let spec = workload.spec();
    let (uniques, far_duplicates, cross_duplicates) =
        (of(spec.uniques).max(1), of(spec.far_duplicates), of(spec.cross_duplicates));
    Ok(Workload::new(Spec { uniques, far_duplicates, cross_duplicates, ..spec.clone() })?)
}

/// For each count, when it was answered and how long ago the newest record that it includes was due then, in seconds. Takes the
/// duplicates to be spread evenly.
fn lags(workload: &Workload, loaded: &Loaded) -> Vec<(f64, f64)> {
    let records_per_row = workload.records_total() as f64 / workload.uniques_total() as f64;
    let of_count = |count: &crate::visible::Count| {
        let due = loaded.sent.due((count.rows as f64 * records_per_row) as u64);
        let answered_s = count.answered.as_secs_f64();
        (answered_s, answered_s - due.as_secs_f64())
    };
    loaded.counts.rising.iter().map(of_count).collect()
}

/// By how much the lag is more in the last quarter of `length_s` than in the second, in the mean.
fn growth(lags: &[(f64, f64)], length_s: f64) -> Option<f64> {
    let quarter = |number: f64| {
        let (from, to) = (length_s * number / 4.0, length_s * (number + 1.0) / 4.0);
        let inside: Vec<f64> =
            lags.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, lag)| *lag).collect();
        (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
    };
    // Nothing at all in the second quarter is as if it had waited since the beginning: a lag of nothing flatters nobody.
    Some(quarter(3.0)? - quarter(1.0).unwrap_or(0.0))
}

/// Why a rate is not borne.
fn refusal(seen: Seen) -> Option<String> {
    if seen.sender_late > SENDER_LATE_MAX {
        return Some(format!("the sender was {:.2} s late", seen.sender_late.as_secs_f64()));
    }
    match seen.lag_growth_s {
        None => Some("nothing was visible in the last quarter".to_owned()),
        Some(growth) if growth > LAG_GROWTH_S_MAX => {
            Some(format!("the lag grew by {growth:.2} s within {:.1} s", PROBE.as_secs_f64() / 2.0))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lag_that_grows_or_a_sender_that_is_late_is_not_borne() {
        let seen = |late_ms, lag_growth_s| Seen { sender_late: Duration::from_millis(late_ms), lag_growth_s };
        assert_eq!(refusal(seen(50, Some(0.05))), None);
        assert_eq!(refusal(seen(50, Some(-0.3))), None);
        assert!(refusal(seen(150, Some(0.05))).is_some_and(|why| why.contains("sender")));
        assert!(refusal(seen(50, Some(0.2))).is_some_and(|why| why.contains("grew by 0.20 s")));
        assert!(refusal(seen(50, None)).is_some());
    }

    #[test]
    fn growth_compares_the_last_quarter_with_the_second() {
        let lags = [(0.5, 9.0), (1.5, 0.2), (1.6, 0.4), (2.5, 9.0), (3.5, 0.7), (4.5, 9.0)];
        assert!((growth(&lags, 4.0).expect("both quarters") - 0.4).abs() < 1e-9);
        assert_eq!(growth(&lags[..4], 4.0), None, "nothing appeared in the last quarter");
        assert_eq!(growth(&lags[4..], 4.0), Some(0.7), "nothing in the second one hides nothing");
    }

    #[test]
    fn a_probe_has_the_records_of_its_length_and_the_share_of_duplicates() {
        let spec = Spec { uniques: 1_000, cross_duplicates: 100, ..Spec::default() };
        let workload = Workload::new(spec).expect("valid");
        let half = scaled(&workload, workload.records_total() as f64 / 2.0).expect("valid");
        assert_eq!((half.spec().uniques, half.spec().cross_duplicates), (500, 50));
    }
}
