//! How much memory a call takes at most.
//!
//! Owns an allocator that counts what each thread holds. A crate whose parsers are fuzzed installs it for its tests:
//!
//! ```ignore
//! #[cfg(test)]
//! #[global_allocator]
//! static MEMORY: testkit::CountingAllocator = testkit::CountingAllocator;
//! ```
//!
//! Does not own the limits: see [`Fuzz::memory_max`](crate::Fuzz::memory_max).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread holds; negative if it freed memory of others.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The most that it held since [`peak_bytes`] began to watch.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, counted by thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

fn count(bytes: isize) {
    // A thread that ends has no counters any more, and nobody asks for them.
    let _ = HELD.try_with(|held| {
        held.set(held.get().wrapping_add(bytes));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call goes to the system's allocator as it is; counting neither allocates nor panics.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

/// What `call` gives, and the most bytes that this thread held for it at one time. Zero bytes where the allocator is not installed.
pub fn peak_bytes<T>(call: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    let value = call();
    let peak = PEAK.with(Cell::get);
    (value, usize::try_from(peak.wrapping_sub(before)).unwrap_or(0))
}
