//! Does one step of the hot path once: `cargo run -p guards --example one-step -- decode`. Valgrind counts what it takes.
//!
//! Owns the name on the command line. Does not own the step (`guards`), nor the counting and its baseline (`cargo xtask guards`).

use guards::{STEPS, Step, measured};

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(step) = Step::named(&name) else {
        STEPS.iter().for_each(|step| println!("{} {} {}", step.name, step.units, step.unit));
        return;
    };
    let done = measured(step.prepare());
    assert_eq!(done, step.units, "`{name}` did not do all of its work");
}
