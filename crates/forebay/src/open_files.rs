//! How many files and connections the process may have open at a time.
//!
//! Owns raising the limit that shells and service managers set low to the one that they allow (`ulimit -Hn`), and the warning where that is less than a
//! gateway's file asks for. Does not own the bounds on connections themselves (`listener`).

use libc::{RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, rlimit, setrlimit};

/// Files that a process has open beside its connections: logs, the store's, sockets of its own, and what libraries open.
const OTHERS: u64 = 128;

/// Raises the limit as far as the system lets a process do so by itself. Where it refuses, the limit stays what it was.
pub fn raise() {
    let Some(limit) = limit() else { return };
    if limit.rlim_cur < limit.rlim_max {
        let raised = rlimit { rlim_cur: limit.rlim_max, ..limit };
        // SAFETY: the system reads one value of its own type, which lives until it has.
        unsafe { setrlimit(RLIMIT_NOFILE, &raised) };
    }
}

/// What to say to somebody whose settings ask for so many connections and files at a time; `None` if as many may be open.
pub fn lack(asked: u64) -> Option<String> {
    let limit = limit()?;
    lack_of(asked, (limit.rlim_cur != RLIM_INFINITY).then_some(limit.rlim_cur))
}

fn lack_of(asked: u64, limit: Option<u64>) -> Option<String> {
    let (limit, needed) = (limit?, asked.saturating_add(OTHERS));
    (limit < needed).then(|| {
        format!(
            "the settings of this file allow up to {asked} connections and files, and the process may have {limit} files open: beyond that, new connections \
             wait until others are closed; raise the limit to {needed} (`LimitNOFILE={needed}` of a systemd unit, `ulimit -n {needed}` as root before it starts), or lower `connections`"
        )
    })
}

fn limit() -> Option<rlimit> {
    let mut limit = rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the system writes one value of its own type into a place that lives until it has.
    let is_known = unsafe { getrlimit(RLIMIT_NOFILE, &mut limit) } == 0;
    is_known.then_some(limit)
}

#[cfg(test)]
mod tests;
