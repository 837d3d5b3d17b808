//! The program's allocator, how often it looks for memory to give back, and how long it keeps what is free.
//!
//! Owns the two options that differ from mimalloc's own. Does not own how much memory the parts hold (`wiring::bounds`).
//!
//! A record's memory changes threads: columns are made by a thread that computes and freed by the lane, the lane's table by whatever
//! thread runs the task. What another thread frees comes back to its page only when the thread that owns the page collects, which is
//! every 10,000 allocations that need more than a look into a list of free blocks. Here such an allocation is large, and 10,000 are
//! millions of records: the pages of sizes that a table has grown out of stay, whole, beside those that it has grown into.
//!
//! What is free goes back to the kernel after a second, unless it is in use again at the moment: under a load that is most of the memory between two
//! batches, and the kernel clears it again for the next one. A virtual machine pays more, because its host takes such memory back in turn.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// An option of mimalloc 3: its number, what it is if nobody has said otherwise, and what it is here.
struct Choice {
    option: c_int,
    usual: c_long,
    here: c_long,
}

const CHOICES: [Choice; 2] = [
    // `mi_option_generic_collect`, in allocations. mimalloc itself counts in thousands.
    Choice { option: 34, usual: 10_000, here: 1_000 },
    // `mi_option_purge_delay`, in milliseconds: longer than the pause between two batches of any pipeline under load.
    Choice { option: 15, usual: 1_000, here: 10_000 },
];

unsafe extern "C" {
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
}

/// Makes every thread collect more often, and keep free memory for longer, unless the environment says how. To be called before there are threads.
pub fn set_up() {
    for Choice { option, usual, here } in CHOICES {
        // SAFETY: numbers of options that do not exist are ignored, and no other thread runs yet. The value that is looked for is
        // that of this option alone, so a mimalloc that numbers its options in another way is left as it is.
        unsafe {
            if mi_option_get(option) == usual {
                mi_option_set(option, here);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_are_where_this_mimalloc_has_them() {
        set_up();
        for (choice, name) in CHOICES.iter().zip(["MIMALLOC_GENERIC_COLLECT", "MIMALLOC_PURGE_DELAY"]) {
            // SAFETY: reads a number.
            let set = unsafe { mi_option_get(choice.option) };
            let said = std::env::var(name).is_ok();
            assert!(
                set == choice.here || said,
                "`{set}` in `{name}`: mimalloc numbers its options in another way now"
            );
        }
    }
}
