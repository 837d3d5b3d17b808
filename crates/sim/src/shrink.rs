//! A failing seed with as few faults as can be found.
//!
//! Owns the search: faults are left out, half of them first and then fewer at a time, as long as the same rule is still broken. Does not
//! own a run (`sim::drive`), nor the rest of the plan, which it leaves as it is: what is left is a run of the same records in the same
//! pipeline.

use crate::drive::{Report, run};
use crate::plan::{Fault, Plan};
use crate::variant::Variant;

/// Runs at the most: a seed has some forty faults, and each run takes some ten milliseconds.
const RUNS_MAX: u32 = 400;

/// The faults that are left, and the run that they give, with its trace. `None` if the seed breaks no rule.
pub fn shrink(plan: &Plan, variant: Option<Variant>) -> Option<(Vec<Fault>, Report)> {
    let rule = run(plan, variant, false).violation?.rule;
    let mut faults = plan.faults.clone();
    let mut runs = 0;
    let mut still = |faults: &[Fault]| {
        runs += 1;
        let report = run(&plan.with_faults(faults.to_vec()), variant, false);
        runs <= RUNS_MAX && report.violation.is_some_and(|v| v.rule == rule)
    };
    let mut chunk = faults.len().div_ceil(2).max(1);
    while !faults.is_empty() {
        let mut at = 0;
        let mut has_shrunk = false;
        while at < faults.len() {
            let mut fewer = faults.clone();
            fewer.drain(at..(at + chunk).min(faults.len()));
            if still(&fewer) {
                (faults, has_shrunk) = (fewer, true);
            } else {
                at += chunk;
            }
        }
        if chunk == 1 && !has_shrunk {
            break;
        }
        chunk = chunk.div_ceil(2).max(1);
    }
    let report = run(&plan.with_faults(faults.clone()), variant, true);
    Some((faults, report))
}
