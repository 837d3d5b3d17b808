//! What the workload `buffer` is to reach.
//!
//! Owns the goals and their judgement: by the medians, and of memory by the most. Does not own the figures (`buffer::figures`, `buffer::costs`).

use super::costs::{PUBLISHED_BY_KIND, PUBLISHED_MONTH};
use super::figures::{GATEWAY_RSS_BYTES_MAX, VISIBLE_P99};
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
    // By name: an arm of which no run was valid has no figure that would tell.
    let rates = plan.rates.iter().map(|rate| plan.arm(Some(*rate)));
    let ours: Vec<String> = rates.chain([plan.arm(None)]).collect();
    let arms: Vec<&Arm> = arms.iter().filter(|arm| ours.contains(&arm.name)).collect();
    let mut goals = Vec::new();
    if plan.rates.is_empty() {
        goals.extend(drained(&arms, plan));
    } else if plan.trouble == Trouble::None {
        // What waits for the end of an outage, or for a process that was killed, is late.
        goals.extend(latencies(&arms, plan));
    }
    if plan.bucket.is_some() && !plan.rates.is_empty() {
        let month = arms.iter().rev().find_map(|arm| median(arm, PUBLISHED_BY_KIND));
        goals.push(Goal {
            text: format!("requests and storage up to ${MONTH_COST_GOAL:.0} a month at 175,000 records/s"),
            met: month.map(|dollars| dollars <= MONTH_COST_GOAL),
        });
    }
    if !plan.direct {
        // That no run had more, as with the memory of a pipeline.
        let peaks = arms.iter().filter_map(|arm| arm.summary.get(GATEWAY_RSS_BYTES_MAX));
        let peak = peaks.map(|bytes| bytes.max).reduce(f64::max);
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

/// The strict latency of each rate, also of one at which no run was valid.
fn latencies(arms: &[&Arm], plan: &Plan) -> Vec<Goal> {
    let of = |rate: &u64| {
        let name = plan.arm(Some(*rate));
        let arm = arms.iter().find(|arm| arm.name == name);
        Goal {
            text: format!(
                "p99 from the sender's clock to visible up to {P99_S_GOAL} s at {} records/s",
                figure::whole(*rate as f64)
            ),
            met: arm.and_then(|arm| median(arm, VISIBLE_P99)).map(|p99| p99 <= P99_S_GOAL),
        }
    };
    plan.rates.iter().map(of).collect()
}
