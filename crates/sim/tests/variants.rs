//! Broken engines are caught: what the simulation is worth.

use sim::{Plan, Variant};

#[test]
fn every_broken_variant_is_caught_within_its_seeds() {
    let mut missed = Vec::new();
    for variant in Variant::ALL {
        match variant.caught(variant.seeds_max()) {
            Some((seed, report)) => {
                let violation = report.violation.expect("it was caught by one");
                println!("| `{}` | {} | {} | {} |", variant.name(), variant.what(), violation.rule, seed + 1);
            }
            None => missed.push(variant.name()),
        }
    }
    assert!(missed.is_empty(), "not caught within their seeds: {missed:?}");
}

#[test]
fn a_failing_seed_shrinks_to_faults_that_still_break_the_rule() {
    let variant = Variant::SettleOverAHole;
    let (seed, report) = variant.caught(variant.seeds_max()).expect("it is caught");
    let plan = Plan::new(seed);
    let (faults, smaller) = sim::shrink(&plan, Some(variant)).expect("it still fails");
    assert!(
        faults.len() < plan.faults.len() && faults.len() <= 2,
        "{} of {}: {faults:?}",
        faults.len(),
        plan.faults.len()
    );
    assert_eq!(smaller.violation.map(|v| v.rule), report.violation.map(|v| v.rule));
    assert!(!smaller.trace.is_empty());
}
