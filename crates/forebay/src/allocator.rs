//! The program's allocator, and how often it looks for memory to give back.
//!
//! Owns the one option that differs from mimalloc's own. Does not own how much memory the parts hold (`wiring::bounds`).
//!
//! A record's memory changes threads: columns are made by a thread that computes and freed by the lane, the lane's table by whatever
//! thread runs the task. What another thread frees comes back to its page only when the thread that owns the page collects, which is
//! every 10,000 allocations that need more than a look into a list of free blocks. Here such an allocation is large, and 10,000 are
//! millions of records: the pages of sizes that a table has grown out of stay, whole, beside those that it has grown into.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_generic_collect` of mimalloc 3.
const GENERIC_COLLECT: c_int = 34;
/// What it is if nobody has said otherwise.
const USUAL: c_long = 10_000;
/// What it is here: mimalloc itself counts in thousands.
const HERE: c_long = 1_000;

unsafe extern "C" {
    fn mi_option_get(option: c_int) -> c_long;
    fn mi_option_set(option: c_int, value: c_long);
}

/// Makes every thread collect more often, unless the environment says how often. To be called before there are threads.
pub fn collect_often() {
    // SAFETY: numbers of options that do not exist are ignored, and no other thread runs yet. The value that is looked for is
    // that of this option alone, so a mimalloc that numbers its options in another way is left as it is.
    unsafe {
        if mi_option_get(GENERIC_COLLECT) == USUAL {
            mi_option_set(GENERIC_COLLECT, HERE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_where_this_mimalloc_has_it() {
        collect_often();
        // SAFETY: reads a number.
        let set = unsafe { mi_option_get(GENERIC_COLLECT) };
        let said = std::env::var("MIMALLOC_GENERIC_COLLECT").is_ok();
        assert!(set == HERE || said, "`{set}`: mimalloc numbers its options in another way now");
    }
}
