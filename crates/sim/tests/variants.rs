//! Broken engines are caught: what the simulation is worth.

use std::sync::atomic::{AtomicUsize, Ordering};

use sim::{Plan, Variant};

#[test]
fn every_broken_variant_is_caught_within_its_seeds() {
    let next = AtomicUsize::new(0);
    let hunt = || {
        let mut missed = Vec::new();
        while let Some(variant) = Variant::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            match variant.caught(variant.seeds_max()) {
                Some((seed, report)) => {
                    let rule = report.violation.expect("it was caught by one").rule;
                    println!("| `{}` | {} | {rule} | {} |", variant.name(), variant.what(), seed + 1);
                }
                None => missed.push(variant.name()),
            }
        }
        missed
    };
    // One after the other they take as long as all other tests of the simulation, on one core.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let missed: Vec<&str> = std::thread::scope(|scope| {
        let hunts: Vec<_> = (0..cores).map(|_| scope.spawn(hunt)).collect();
        hunts.into_iter().flat_map(|hunt| hunt.join().expect("a hunt ends")).collect()
    });
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
