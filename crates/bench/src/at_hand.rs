//! Memory that the machine has at hand when a run begins.
//!
//! Owns the touching of memory before a run, and what that took. Does not own how much (`place`), nor what is measured.
//!
//! A virtual machine may hand memory that was free for some seconds back to its host. Whoever touches it next waits for the host, which
//! counts as that process's time in the kernel: on the machine of docs/performance.md 80 ms for 100 MB instead of 14. So a run paid for what the
//! machine had done before it, and an arm that touches more memory than the run before it paid most. Before each run as much is touched
//! and given back as any run needs, all of it at the expense of nobody that is measured.

use std::io;
use std::ptr;

/// A huge page; memory is asked for in these, as the engine's allocator does.
const HUGE: usize = 2 << 20;

/// What every processor's pages are multiples of.
const PAGE: usize = 4096;

/// Touches `bytes` of memory, at the most a quarter of what is free, and gives it back. Milliseconds of CPU for each 100 MB; `None` if
/// nothing was to be touched.
///
/// # Errors
/// When the system gives no memory.
pub fn touch(bytes: u64) -> io::Result<Option<f64>> {
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|info| available(&info));
    let bytes = free.map_or(bytes, |free| bytes.min(free / 4));
    let len = usize::try_from(bytes).unwrap_or(usize::MAX) / HUGE * HUGE;
    if len == 0 {
        return Ok(None);
    }
    let memory = Memory::take(len)?;
    let before = thread_cpu_s()?;
    memory.touch();
    let took_s = thread_cpu_s()? - before;
    Ok(Some(took_s * 1e3 / (len as f64 / 1e8)))
}

/// Bytes that `/proc/meminfo` says can be had.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Memory of its own, given back with it: none of it stays with the allocator.
struct Memory {
    at: *mut libc::c_void,
    len: usize,
}

impl Memory {
    fn take(len: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address that the system chooses touches no memory of this program.
        let at =
            unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = Self { at, len };
        // SAFETY: the range is the mapping. A system without huge pages refuses, and then small ones do.
        let _ = unsafe { libc::madvise(at, len, libc::MADV_HUGEPAGE) };
        Ok(memory)
    }

    fn touch(&self) {
        let first = self.at.cast::<u8>();
        for at in (0..self.len).step_by(PAGE) {
            // SAFETY: `at` is below the length of the mapping, which may be written and is nobody else's.
            unsafe { first.add(at).write_volatile(1) };
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this one's own, and nothing points into it any more. It cannot fail for a whole mapping.
        let _ = unsafe { libc::munmap(self.at, self.len) };
    }
}

/// CPU of this thread so far.
fn thread_cpu_s() -> io::Result<f64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local of the right type.
    match unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) } {
        0 => Ok(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_read_in_bytes() {
        let info = "MemTotal:       24731708 kB\nMemFree:         8656384 kB\nMemAvailable:   23748572 kB\n";
        assert_eq!(available(info), Some(23_748_572 * 1024));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn every_page_is_touched() {
        let memory = Memory::take(8 << 20).expect("8 MB can be had");
        let resident = || {
            let mut pages = vec![0; memory.len / PAGE];
            // SAFETY: the range is a mapping that lives, and there is a byte for each of its pages.
            assert_eq!(unsafe { libc::mincore(memory.at, memory.len, pages.as_mut_ptr()) }, 0);
            pages.iter().filter(|page| **page & 1 == 1).count()
        };
        assert_eq!(resident(), 0);
        memory.touch();
        assert_eq!(resident(), memory.len / PAGE);
    }

    #[test]
    fn what_it_took_is_reported() {
        assert!(touch(32 << 20).expect("it can be had").is_some_and(|ms| ms > 0.0));
        assert_eq!(touch(0).expect("nothing to do"), None);
    }
}
