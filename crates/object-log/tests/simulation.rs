//! The log in a world made from a seed: producers, clients that name their requests, files that are followed, owners, consumers, collectors, lost
//! answers, sleepers, logs that are created again, clocks that jump; and an oracle that checks L1 to L9 at every change of the store. docs/design/log.md has the invariants.
//!
//! ```sh
//! cargo test -p object-log --test simulation                                       # the short form
//! FOREBAY_LOG_SEEDS=10000 cargo test -p object-log --test simulation -- --nocapture   # the long one
//! FOREBAY_LOG_VARIANTS=NotPinned cargo test -p object-log --test simulation broken -- --nocapture   # one of the broken ones
//! FOREBAY_SEED=17 cargo test -p object-log --test simulation honest -- --nocapture     # one seed, with its history
//! ```
//! Clock, scheduler and randomness are those of `crates/sim`. What is simulated stands behind `store::Store` and `dataflow::Runtime`; the log itself
//! is the real one. A broken variant is made by a seam that lies, or by a caller that does wrong, never by a switch in what ships.

#[allow(dead_code)]
#[path = "../../sim/src/executor.rs"]
mod executor;
#[allow(dead_code)]
#[path = "../../sim/src/random.rs"]
mod random;

#[path = "simulation/actors.rs"]
mod actors;
#[path = "simulation/drive.rs"]
mod drive;
#[path = "simulation/followed.rs"]
mod followed;
#[path = "simulation/names.rs"]
mod names;
#[path = "simulation/oracle.rs"]
mod oracle;
#[path = "simulation/store.rs"]
mod sim_store;
#[path = "simulation/variant.rs"]
mod variant;

use drive::{COUNTS, Plan, run};
use variant::Variant;

/// Seeds of the short form: some seconds.
const SEEDS: u64 = 40;

/// Seeds in which each broken variant is caught. Names and files are in every second seed or so.
const VARIANT_SEEDS: u64 = 100;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.trim().parse().expect("a number"))
}

#[test]
fn the_honest_log_holds_every_invariant() {
    let (from, to, is_told) = match number("FOREBAY_SEED") {
        Some(seed) => (seed, seed + 1, true),
        None => {
            (number("FOREBAY_LOG_FROM").unwrap_or(0), number("FOREBAY_LOG_SEEDS").unwrap_or(SEEDS), false)
        }
    };
    let mut totals = [0u64; COUNTS];
    for seed in from..to {
        let report = run(&Plan::of(seed), None, is_told);
        assert!(
            report.violations.is_empty(),
            "seed {seed}: {:#?}\nrepeat it: FOREBAY_SEED={seed} cargo test -p object-log --test simulation honest -- --nocapture",
            report.violations
        );
        for (total, one) in totals.iter_mut().zip(report.counts()) {
            *total += one;
        }
    }
    let [appends, repeats, swaps, deletes, claims, lost, recreated, records, lines, notes, dropped] = totals;
    println!(
        "{} seeds: {appends} appends answered, {repeats} of them known from before, {swaps} swaps, {deletes} deletes, {claims} claims, \
         {lost} lost answers, {recreated} logs created again, {records} records read, {lines} lines of files, {notes} notes, \
         {dropped} records dropped by bytes",
        to - from
    );
    // A world in which nothing happens would hold anything.
    assert!(is_told || totals.iter().all(|count| *count > 0), "{totals:?}");
}

#[test]
fn one_seed_gives_one_run() {
    for seed in 0..3 {
        let hashes = [0, 1].map(|_| run(&Plan::of(seed), None, false).hash);
        assert_eq!(hashes[0], hashes[1], "seed {seed}");
    }
}

#[test]
fn every_broken_variant_is_caught() {
    let mut missed = Vec::new();
    let only = std::env::var("FOREBAY_LOG_VARIANTS").ok();
    let is_meant =
        |variant: &Variant| only.as_ref().is_none_or(|only| only.contains(&format!("{variant:?}")));
    for variant in Variant::ALL.into_iter().filter(is_meant) {
        let caught = (0..VARIANT_SEEDS).find_map(|seed| {
            let report = run(&Plan::of(seed), Some(variant), false);
            report.violations.first().map(|violation| (seed, violation.clone()))
        });
        match caught {
            Some((seed, violation)) => println!("{variant:?}: seed {seed}: {violation}"),
            None => missed.push(variant),
        }
    }
    assert!(missed.is_empty(), "not caught in {VARIANT_SEEDS} seeds: {missed:?}");
}
