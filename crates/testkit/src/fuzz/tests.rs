use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

#[test]
fn equal_runs_give_equal_inputs_and_most_of_them_differ() {
    let inputs = || {
        let seen = RefCell::new(Vec::new());
        let fuzz = Fuzz::new("inputs").example(b"{\"a\": 1}").words(["null"]);
        fuzz.run(500, |input| seen.borrow_mut().push(input.to_vec()));
        seen.into_inner()
    };
    let (first, second) = (inputs(), inputs());
    if std::env::var_os(SECONDS_VARIABLE).is_some() {
        return; // A long run ends by the clock.
    }
    assert!(first == second);
    let mut different = first.clone();
    different.sort();
    different.dedup();
    assert!(different.len() > 400, "{} of {}", different.len(), first.len());
}

#[test]
fn a_parser_that_trusts_a_length_is_caught_and_its_input_made_small() {
    // Two bytes of length, and a body that is taken for that long.
    let trusting = |input: &[u8]| {
        if let [b'L', length, body @ ..] = input {
            let _ = &body[..usize::from(*length)];
        }
    };
    let fuzz = Fuzz::new("trusting").example(b"L\x04body, and more that does not matter");
    let caught = catch_unwind(AssertUnwindSafe(|| fuzz.run(10_000, trusting))).expect_err("must be caught");
    let told = caught.downcast_ref::<String>().expect("a sentence");
    let bytes: usize = told.split(' ').nth(3).and_then(|n| n.parse().ok()).expect("a count of bytes");
    assert!(told.starts_with("trusting fails for") && bytes <= 8, "{told}");
}

#[global_allocator]
static MEMORY: crate::CountingAllocator = crate::CountingAllocator;

#[test]
fn a_parser_that_allocates_what_its_input_claims_is_caught() {
    let trusting = |input: &[u8]| {
        if let [b'N', count, ..] = input {
            drop(std::hint::black_box(Vec::<u64>::with_capacity(usize::from(*count) << 10)));
        }
    };
    let fuzz = Fuzz::new("trusting").example(b"N\x01 and more").memory_max(64 << 10, 16);
    let caught = catch_unwind(AssertUnwindSafe(|| fuzz.run(10_000, trusting))).expect_err("must be caught");
    let told = caught.downcast_ref::<String>().expect("a sentence");
    assert!(told.starts_with("trusting fails for 2 bytes"), "{told}");
}
