//! Waiting with an end, and ports that nothing else takes.
//!
//! Owns the pause between two looks, and the range of ports. Does not own how long anything may take (each test says).

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::net::TcpListener;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::dir;
use crate::process::without_forks;

/// The pause between two checks of a condition is this part of the time waited so far: no wait gets longer by more than that, and a long one asks seldom. A look is
/// often a query, and five tests that looked every 10 ms kept a server busy with three quarters of a core, and every 50 ms with a tenth.
const LOOK_PART: u32 = 20;
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(100);

/// Waits for the next look of a wait that began at `start`.
fn pause(start: Instant) {
    std::thread::sleep((start.elapsed() / LOOK_PART).clamp(LOOK_MIN, LOOK_MAX));
}

/// Ports are taken from here. It ends below the range that Linux gives to outgoing connections (32768 and up), because a
/// client that keeps dialling a dead service on such a port ends up connected to itself, and the service cannot return.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Looks until `condition` holds; panics with `what` when `deadline` has passed since the call.
///
/// # Panics
/// When the condition does not hold in time. It is inspected once more after the deadline, so a slow look cannot fail a
/// condition that holds.
#[track_caller]
pub fn wait_until(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() >= deadline {
            if condition() {
                return;
            }
            panic!("waited {:.1} s in vain for {what}", start.elapsed().as_secs_f64());
        }
        pause(start);
    }
}

/// Like [`wait_until`], for callers that report an error: `Some` ends the wait, `None` after the deadline.
pub(crate) fn poll<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        if start.elapsed() >= deadline {
            return look();
        }
        pause(start);
    }
}

/// A port on 127.0.0.1 that is free now, and that no other call returns while this process lives, nor in another test process beside it: a
/// service takes seconds to bind what it was given.
///
/// # Panics
/// When none of the 12,000 candidates is free, or the lock of one cannot be made.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeMap<u16, File>> = Mutex::new(BTreeMap::new());
    let mut given = GIVEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let width = PORTS.end - PORTS.start;
    // Test processes that run side by side begin their search at different places.
    let first = std::process::id().wrapping_mul(2_654_435_761) >> 16;
    for step in 0..width {
        let port = PORTS.start + ((first % u32::from(width)) as u16 + step) % width;
        if given.contains_key(&port) || !is_free(port) {
            continue;
        }
        let Some(lock) = lock(port) else { continue };
        given.insert(port, lock);
        return port;
    }
    panic!("no port between {} and {} is free", PORTS.start, PORTS.end);
}

/// The lock of a port among test processes, which ends with the process that holds it; `None` while another does.
fn lock(port: u16) -> Option<File> {
    let dir = dir::base().join("ports");
    let made = std::fs::create_dir_all(&dir).and_then(|()| File::create(dir.join(port.to_string())));
    let file = made.unwrap_or_else(|error| panic!("no lock of port {port} in `{}`: {error}", dir.display()));
    match file.try_lock() {
        Ok(()) => Some(file),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => {
            panic!("port {port} cannot be locked in `{}`: {error}", dir.display())
        }
    }
}

fn is_free(port: u16) -> bool {
    // Closed again before the answer.
    without_forks(|| TcpListener::bind(("127.0.0.1", port)).is_ok())
}

#[cfg(test)]
mod tests;
