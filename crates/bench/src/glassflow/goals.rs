//! What the figures of `glassflow` are compared with.
//!
//! Owns the goals and their reasons. Does not own how a figure is measured ([`super`]).

use super::{FILTERED, FIRST_ROWS_S, FOREBAY, WITHOUT_DEDUP, load};
use crate::figure;
use crate::place::Common;
use crate::report::{Arm, Goal};

/// Records per engine CPU-second that the release build is to reach from a backlog.
const RECORDS_PER_CPU_S_GOAL: f64 = 1_000_000.0;

/// From the start of `forebay run` over a backlog to the first rows in the table, at the most.
const FIRST_ROWS_S_GOAL: f64 = 1.0;

/// The engine's CPU with the step over that without it, at the most.
const DEDUP_CPU_RATIO_GOAL: f64 = 1.15;

/// The latency that is to be reached at half the capacity, with batches of up to 200 ms.
const P99_S_GOAL: f64 = 1.0;

/// The arms of the program that is measured.
const OURS: [&str; 3] = [FOREBAY, WITHOUT_DEDUP, FILTERED];

pub(super) fn goals(arms: &[Arm], common: &Common) -> Vec<Goal> {
    let of = |figure| arms.first().and_then(|arm| arm.summary.get(figure));
    let rate = of(figure::RECORDS_PER_CPU_S).map(|rate| rate.median >= RECORDS_PER_CPU_S_GOAL);
    let mut goals = vec![
        Goal {
            text: format!("{} records per engine CPU-second", figure::whole(RECORDS_PER_CPU_S_GOAL)),
            met: rate,
        },
        Goal {
            text: format!("the first rows in the table within {FIRST_ROWS_S_GOAL} s of the start"),
            met: of(FIRST_ROWS_S).map(|first| first.median < FIRST_ROWS_S_GOAL),
        },
        // A peer has no budget of ours, and another build is not what is measured.
        common.memory_goal(arms.iter().filter(|arm| OURS.contains(&&*arm.name))),
    ];
    goals.extend(goal_of_dedup(arms));
    goals.extend(goal_of_filter(arms));
    goals
}

/// The engine's CPU of the first arm over that of the second, by their medians.
fn cpu_ratio(arms: &[Arm], name: &str, other: &str) -> Option<f64> {
    let cpu_s = |name: &str| {
        let arm = arms.iter().find(|arm| arm.name == name)?;
        Some(arm.summary.get(figure::ENGINE_CPU_S)?.median)
    };
    Some(cpu_s(name)? / cpu_s(other)?)
}

/// What the filter saves, if there was one.
fn goal_of_filter(arms: &[Arm]) -> Option<Goal> {
    let ratio = cpu_ratio(arms, FILTERED, FOREBAY)?;
    let text = format!("less engine CPU with the filter than without ({ratio:.2} times)");
    Some(Goal { text, met: Some(ratio < 1.0) })
}

/// What the step costs, if the pipeline ran without it too: by the medians of both arms.
fn goal_of_dedup(arms: &[Arm]) -> Option<Goal> {
    let ratio = cpu_ratio(arms, FOREBAY, WITHOUT_DEDUP)?;
    let text =
        format!("with dedup up to {DEDUP_CPU_RATIO_GOAL} times the engine CPU without ({ratio:.2} times)");
    Some(Goal { text, met: Some(ratio <= DEDUP_CPU_RATIO_GOAL) })
}

/// The name of a load's arm.
pub(super) fn load_name(load: f64) -> String {
    format!("load {} %", figure::whole(load * 100.0))
}

pub(super) fn goals_of_loads(arms: &[Arm], loads: &[f64], common: &Common) -> Vec<Goal> {
    let judged = loads.iter().filter(|load| **load <= 0.5);
    judged
        .map(|load| {
            let name = load_name(*load);
            let of_load = arms.iter().find(|arm| arm.name == name);
            let p99_s = of_load.and_then(|arm| arm.summary.get(load::LATENCY_P99));
            Goal {
                text: format!("99 of 100 records visible within {P99_S_GOAL} s of being produced ({name})"),
                met: p99_s.map(|p99_s| p99_s.median < P99_S_GOAL),
            }
        })
        .chain([common.memory_goal(arms)])
        .collect()
}
