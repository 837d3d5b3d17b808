//! Panics within the evaluation of an expression.
//!
//! Owns that a panic fails the evaluation and not the program, and that each place in the code is printed once. Does not own which records
//! fail (`program`).
//!
//! Functions that are called with millions of different values meet a case that nobody thought of. A panic would end the program, and the records
//! that caused it are read again at each start. Evaluators keep no state, so nothing is half done after a panic.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once, PoisonError};

thread_local! {
    /// Whether this thread evaluates an expression.
    static EVALUATES: Cell<bool> = const { Cell::new(false) };
}

/// What `evaluate` returns, or the message of its panic.
pub(crate) fn caught<T>(evaluate: impl FnOnce() -> T) -> Result<T, String> {
    print_each_place_once();
    let before = EVALUATES.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(evaluate));
    EVALUATES.set(before);
    outcome.map_err(|panic| message(&*panic))
}

/// The message of a panic.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic").to_owned()
}

/// A batch that panics is evaluated again for each of its halves, so the same place panics many times.
fn print_each_place_once() {
    static HOOK: Once = Once::new();
    static PRINTED: Mutex<BTreeSet<(String, u32)>> = Mutex::new(BTreeSet::new());
    HOOK.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if EVALUATES.get() {
                let place = panic.location().map(|at| (at.file().to_owned(), at.line())).unwrap_or_default();
                if !PRINTED.lock().unwrap_or_else(PoisonError::into_inner).insert(place) {
                    return;
                }
            }
            print(panic);
        }));
    });
}
