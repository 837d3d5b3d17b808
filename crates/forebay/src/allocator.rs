//! The allocator of the whole program.
//!
//! Owns how long freed memory is kept before the system gets it back. Does not own bounds of memory: every queue and
//! buffer has its own.

use std::ffi::{c_int, c_long};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The environment variable that the allocator itself reads.
const VARIABLE: &str = "MIMALLOC_PURGE_DELAY";

/// A pipeline frees and takes the same tens of megabytes at every batch. The allocator's own second is as long as a batch
/// takes, so each batch got pages that the kernel had to clear again: a third of all CPU time. Ten seconds outlast a batch,
/// and a pipeline that has calmed down still gives its memory back.
const KEEP_MS: c_long = 10_000;

/// `mi_option_purge_delay` of the allocator's `mimalloc.h`, whose options keep their numbers.
const PURGE_DELAY: c_int = 15;

unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
}

/// Keeps freed memory for [`KEEP_MS`], unless the environment says how long. Call it first of all.
pub fn keep_freed_memory() {
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: the function is in the library that the allocator above links, and no other thread runs yet.
        unsafe { mi_option_set(PURGE_DELAY, KEEP_MS) };
    }
}
