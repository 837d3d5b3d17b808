//! What a child used: CPU seconds and peak memory, of an ended child from `wait4`, of a running one from `/proc`.
//!
//! Owns those figures and the reaping. Does not own when a child is waited for (`process`).

use super::*;

/// CPU time and memory of a process.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Seconds of CPU in its own code.
    pub user_s: f64,
    /// Seconds of CPU in the kernel on its behalf.
    pub system_s: f64,
    /// The most memory that it held at a time (resident set).
    pub rss_bytes_max: u64,
}

impl Usage {
    /// User and system seconds together.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// Reaps the child if it has ended.
pub(super) fn reap(pid: i32) -> io::Result<Option<Exit>> {
    let mut status = 0;
    // SAFETY: rusage is plain old data for which zeroes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live locals of the right type.
        let reaped = unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage) };
        match reaped {
            0 => return Ok(None),
            _ if reaped == pid => break,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let usage = Usage {
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        rss_bytes_max: usage.ru_maxrss.max(0) as u64 * 1024, // Linux counts kibibytes.
    };
    Ok(Some(Exit { status: ExitStatus::from_raw(status), usage }))
}

/// The usage of a process that has not been reaped, to a clock tick (10 ms as a rule).
pub(super) fn of_running(pid: i32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (user_ticks, system_ticks) =
        ticks(&stat).with_context(|| format!("`/proc/{pid}/stat` has another shape"))?;
    // SAFETY: sysconf() takes an integer.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    // A zombie has no memory left, hence no such line.
    let rss_bytes_max = peak_bytes(&fs::read_to_string(format!("/proc/{pid}/status"))?).unwrap_or(0);
    Ok(Usage {
        user_s: user_ticks as f64 / ticks_per_s,
        system_s: system_ticks as f64 / ticks_per_s,
        rss_bytes_max,
    })
}

/// Fields 14 and 15. The second field is the program's name in parentheses, which may hold spaces and parentheses itself.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn peak_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_ticks() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 17 5 0 0 20 0 1 0 100 1000 10";
        assert_eq!(ticks(stat), Some((17, 5)));
    }

    #[test]
    fn a_status_without_memory_gives_no_peak() {
        assert_eq!(peak_bytes("Name:\tx\nVmHWM:\t    2048 kB\n"), Some(2 << 20));
        assert_eq!(peak_bytes("Name:\tx\nState:\tZ (zombie)\n"), None);
    }
}
