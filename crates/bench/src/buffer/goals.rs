//! What the workload `buffer` is to reach.
//!
//! Owns the goals and their judgement by the medians. Does not own the figures (`buffer::figures`, `buffer::costs`).

use super::costs::{PUBLISHED_LEAST, PUBLISHED_MONTH, PUBLISHED_MOST};
use super::figures::{GATEWAY_RSS_BYTES_MAX, OFFERED, VISIBLE_P99, is_ours};
use super::{Plan, Trouble};
use crate::figure::{self, Figure};
use crate::report::{Arm, Goal};

/// What is aimed at where the load is a backlog, by the size of a record: records per CPU-second of both processes.
const RECORDS_PER_CPU_S_GOALS: [(usize, f64); 2] = [(1_000, 300_000.0), (usize::MAX, 80_000.0)];
/// The same without a log, for small records.
const DIRECT_PER_CPU_S_GOAL: f64 = 400_000.0;
/// From the sender's clock to a SELECT, under a steady load.
const P99_S_GOAL: f64 = 2.0;
/// Memory of the gateway.
const GATEWAY_RSS_BYTES_GOAL: f64 = 512e6;
/// What the published system pays for requests and storage in a month, and the share of it that is aimed at.
const MONTH_COST_GOAL: f64 = PUBLISHED_MONTH * 0.6;

/// The goals of a plan, judged by the arms of ours.
pub fn goals(arms: &[Arm], plan: &Plan) -> Vec<Goal> {
    let arms: Vec<&Arm> = arms.iter().filter(|arm| is_ours(arm)).collect();
    let mut goals = Vec::new();
    if plan.rates.is_empty() {
        goals.extend(drained(&arms, plan));
    } else if plan.trouble == Trouble::None {
        // What waits for the end of an outage, or for a process that was killed, is late.
        goals.extend(latencies(&arms));
    }
    if plan.bucket.is_some() && !plan.rates.is_empty() {
        let bound = |figure: Figure| arms.iter().rev().find_map(|arm| median(arm, figure));
        goals.push(Goal {
            text: format!("requests and storage up to ${MONTH_COST_GOAL:.0} a month at 175,000 records/s"),
            met: is_below(bound(PUBLISHED_LEAST), bound(PUBLISHED_MOST), MONTH_COST_GOAL),
        });
    }
    if !plan.direct {
        let peak = arms.iter().filter_map(|arm| median(arm, GATEWAY_RSS_BYTES_MAX)).reduce(f64::max);
        goals.push(Goal {
            text: format!("gateway memory up to {} MB", figure::whole(GATEWAY_RSS_BYTES_GOAL / 1e6)),
            met: peak.map(|bytes| bytes <= GATEWAY_RSS_BYTES_GOAL),
        });
    }
    goals
}

fn median(arm: &Arm, figure: Figure) -> Option<f64> {
    arm.summary.get(figure).map(|spread| spread.median)
}

/// Records per CPU-second of a backlog.
fn drained(arms: &[&Arm], plan: &Plan) -> Option<Goal> {
    let record_bytes = plan.workload.spec().record_bytes;
    let (bytes, wanted) = RECORDS_PER_CPU_S_GOALS.iter().find(|(bytes, _)| record_bytes <= *bytes)?;
    let wanted = match plan.direct {
        true if *bytes < usize::MAX => DIRECT_PER_CPU_S_GOAL,
        _ => *wanted,
    };
    let rate = arms.first().and_then(|arm| median(arm, figure::RECORDS_PER_CPU_S));
    Some(Goal {
        text: format!("{} records per CPU-second of gateway and pipeline", figure::whole(wanted)),
        met: rate.map(|rate| rate >= wanted),
    })
}

/// The strict latency of each rate.
fn latencies(arms: &[&Arm]) -> Vec<Goal> {
    let of = |arm: &&Arm| {
        let rate = median(arm, OFFERED)?;
        Some(Goal {
            text: format!(
                "p99 from the sender's clock to visible up to {P99_S_GOAL} s at {} records/s",
                figure::whole(rate)
            ),
            met: median(arm, VISIBLE_P99).map(|p99| p99 <= P99_S_GOAL),
        })
    };
    arms.iter().filter_map(of).collect()
}

/// Whether a cost is up to `wanted` of which only bounds are known; `None` if it may be either.
fn is_below(least: Option<f64>, most: Option<f64>, wanted: f64) -> Option<bool> {
    match (least?, most?) {
        (_, most) if most <= wanted => Some(true),
        (least, _) if least > wanted => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_between_bounds_is_judged_where_both_say_the_same() {
        assert_eq!(is_below(Some(50.0), Some(100.0), 108.0), Some(true));
        assert_eq!(is_below(Some(110.0), Some(300.0), 108.0), Some(false));
        assert_eq!(is_below(Some(50.0), Some(300.0), 108.0), None);
        assert_eq!(is_below(None, None, 108.0), None);
    }
}
