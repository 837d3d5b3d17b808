//! Child processes whose CPU and memory are accounted apart.
//!
//! Owns start, end and usage of one child. Does not own what a child does (`crate::engine`, `crate::server`), nor samples of its usage over
//! time (`crate::trace`). A child dies with its handle, and the kernel ends it if this process dies first, so that no measurement leaves a
//! server behind.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use super::figure::{self, Figures};

/// How often an end is looked for: the error of the wall time.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A killed process is gone at once, unless a disk holds it.
const KILL_MAX: Duration = Duration::from_secs(60);

/// What this process may grow by between reading its own memory and the fork.
const INHERITED_SLACK: u64 = 16 << 20;

/// CPU time and memory of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Seconds of CPU in its own code.
    pub user_s: f64,
    /// Seconds of CPU in the kernel on its behalf.
    pub system_s: f64,
    /// The most memory that it held at a time (resident set).
    pub rss_bytes_max: u64,
}

/// The memory of this process at this moment: what a child begins with, until it becomes another program.
fn own_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kilobytes(&status, "VmRSS:").unwrap_or(0)
}

impl Usage {
    /// What this process has used so far, all its threads.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn of_this_process() -> io::Result<Self> {
        // SAFETY: rusage is plain numbers, for which zeroes are a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a live local of the right type.
        match unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) } {
            0 => {}
            _ => return Err(io::Error::last_os_error()),
        }
        let status = std::fs::read_to_string("/proc/self/status")?;
        // The kernel's account for a process begins with the memory of the one that started it; this one does not.
        let rss_bytes_max = kilobytes(&status, "VmHWM:").ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { rss_bytes_max, ..Self::from(usage) })
    }

    /// What was used since `before`, of the same process.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { user_s: self.user_s - before.user_s, system_s: self.system_s - before.system_s, ..self }
    }

    /// With what another process used, such as the one that took this one's place: the CPU of both, and the memory of the one that had more.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            rss_bytes_max: self.rss_bytes_max.max(other.rss_bytes_max),
        }
    }

    /// User and system seconds together.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Self {
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Self {
            user_s: seconds(usage.ru_utime),
            system_s: seconds(usage.ru_stime),
            // Linux counts kibibytes.
            rss_bytes_max: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
        }
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it used in all, by `wait4`: of this child alone, its own children not counted. Its memory is as it was last seen, at
    /// most one look before the end, where this process held more when it forked.
    pub usage: Usage,
    /// From its start to its end.
    pub wall: Duration,
}

impl End {
    /// The figures of a process that is measured.
    pub fn put_into(&self, figures: &mut Figures) {
        figures.put(figure::WALL_S, self.wall.as_secs_f64());
        figures.put(figure::ENGINE_CPU_S, self.usage.cpu_s());
        figures.put(figure::ENGINE_USER_S, self.usage.user_s);
        figures.put(figure::ENGINE_SYSTEM_S, self.usage.system_s);
        figures.put(figure::ENGINE_RSS_BYTES_MAX, self.usage.rss_bytes_max as f64);
    }
}

/// A running process at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Now {
    /// CPU used so far, to a clock tick.
    pub cpu_s: f64,
    /// Memory (resident set).
    pub rss_bytes: u64,
}

/// A child process that runs, or has not been waited for yet.
#[derive(Debug)]
pub struct Child {
    name: &'static str,
    pid: libc::pid_t,
    started: Instant,
    /// Memory of this process when the child was forked from it. `wait4` counts that as the child's own, so that what it says
    /// tells something only where it is more.
    inherited_bytes: u64,
    /// The child's own peak, when it was inspected last.
    rss_bytes_max: u64,
    end: Option<End>,
}

impl Child {
    /// Starts `command` with its outputs in files of `dir`, and without this process's standard input. Files of an earlier process of this name are
    /// set aside.
    ///
    /// Call it on a thread that lives as long as the child is needed, such as the main thread: the kernel's order to end
    /// the child is bound to it.
    ///
    /// # Errors
    /// When the files cannot be made or the program cannot be started.
    pub fn start(name: &'static str, mut command: Command, dir: &Path) -> anyhow::Result<Self> {
        let log = |suffix: &str| {
            let path = dir.join(format!("{name}.{suffix}"));
            set_aside(&path);
            File::create(&path).with_context(|| format!("cannot write `{}`", path.display()))
        };
        // SAFETY: prctl is safe between fork and exec, and touches no memory of this process.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        let before_bytes = own_rss_bytes();
        let started = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(log("out")?).stderr(log("err")?).spawn();
        let child = child.with_context(|| format!("cannot start {name}"))?;
        // Other threads may take memory at this moment, before the child is made.
        let inherited_bytes = before_bytes.max(own_rss_bytes());
        let pid = libc::pid_t::try_from(child.id()).expect("a process id fits its own type");
        Ok(Self { name, pid, started, inherited_bytes, rss_bytes_max: 0, end: None })
    }

    /// What it has used so far, to a clock tick (10 ms as a rule).
    ///
    /// # Errors
    /// When it has ended.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        of_running(self.pid).with_context(|| format!("cannot see what {} uses", self.name))
    }

    /// What it is at this moment; `None` once it has ended.
    pub fn now(&self) -> Option<Now> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        Some(Now { cpu_s: self.usage().ok()?.cpu_s(), rss_bytes: kilobytes(&status, "VmRSS:")? })
    }

    /// CPU-seconds by the names of its threads, those of one name together; to a clock tick each.
    pub fn threads(&self) -> BTreeMap<String, f64> {
        /// An engine has a few dozen.
        const THREADS_MAX: usize = 4_096;
        let mut threads = BTreeMap::new();
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten();
        for task in tasks.take(THREADS_MAX).flatten() {
            // It may have ended since the list was read.
            let Ok(stat) = std::fs::read_to_string(task.path().join("stat")) else { continue };
            let name = stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')'));
            if let (Some((name, _)), Some((user, system))) = (name, ticks(&stat)) {
                *threads.entry(name.to_owned()).or_default() += (user + system) as f64 / ticks_per_s();
            }
        }
        threads
    }

    /// Asks it to end (SIGTERM). One that is suspended goes on to do so: a run that fails during an outage leaves ClickHouse suspended.
    pub fn terminate(&self) {
        self.signal(libc::SIGTERM);
        self.resume();
    }

    /// Kills it (SIGKILL), and waits until it is gone.
    ///
    /// # Errors
    /// When the system does not let it go.
    pub async fn kill(&mut self) -> anyhow::Result<End> {
        self.poll()?;
        self.signal(libc::SIGKILL);
        self.wait(KILL_MAX).await
    }

    /// Suspends it (SIGSTOP): it answers nobody, and its connections stay open.
    pub fn suspend(&self) {
        self.signal(libc::SIGSTOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Looks whether it has ended.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn poll(&mut self) -> anyhow::Result<Option<End>> {
        if self.end.is_none() {
            self.poll_memory();
            let reaped = reap(self.pid).with_context(|| format!("cannot wait for {}", self.name))?;
            let wall = self.started.elapsed();
            self.end = reaped.map(|(status, mut usage)| {
                if usage.rss_bytes_max <= self.inherited_bytes + INHERITED_SLACK {
                    usage.rss_bytes_max = self.rss_bytes_max;
                }
                End { status, usage, wall }
            });
        }
        Ok(self.end)
    }

    /// Keeps the child's peak of memory, which is gone once it has ended.
    fn poll_memory(&mut self) {
        let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", self.pid)) else { return };
        self.rss_bytes_max = self.rss_bytes_max.max(kilobytes(&status, "VmHWM:").unwrap_or(0));
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it runs for longer than `bound`; it is still running then.
    pub async fn wait(&mut self, bound: Duration) -> anyhow::Result<End> {
        let begun = Instant::now();
        loop {
            if let Some(end) = self.poll()? {
                return Ok(end);
            }
            if begun.elapsed() > bound {
                bail!("{} did not end within {:.0} s", self.name, bound.as_secs_f64());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn signal(&self, signal: libc::c_int) {
        if self.end.is_none() {
            // SAFETY: the child was not reaped, so the number is still its own.
            unsafe { libc::kill(self.pid, signal) };
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        // A killed child is reaped at once, unless a disk holds it; the system takes care of it then.
        for _ in 0..200 {
            if !matches!(self.poll(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Renames the log of an earlier process of this name, if there is one: `gateway.err` to `gateway.err.1`.
fn set_aside(path: &Path) {
    /// Processes of one name that a run starts.
    const STARTS_MAX: u32 = 1_000;
    if !path.exists() {
        return;
    }
    let other = |n: u32| path.with_added_extension(n.to_string());
    if let Some(free) = (1..STARTS_MAX).map(other).find(|path| !path.exists()) {
        // If this fails, the log is written anew, which nobody but people misses.
        let _ = std::fs::rename(path, free);
    }
}

fn reap(pid: libc::pid_t) -> io::Result<Option<(ExitStatus, Usage)>> {
    let mut status = 0;
    // SAFETY: rusage is plain numbers, for which zeroes are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live locals of the right type.
        match unsafe { libc::wait4(pid, &mut status, libc::WNOHANG, &mut usage) } {
            0 => return Ok(None),
            reaped if reaped == pid => break,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(Some((ExitStatus::from_raw(status), Usage::from(usage))))
}

fn of_running(pid: libc::pid_t) -> anyhow::Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (user, system) = ticks(&stat).with_context(|| format!("`/proc/{pid}/stat` has another shape"))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(Usage {
        user_s: user as f64 / ticks_per_s(),
        system_s: system as f64 / ticks_per_s(),
        // A process that has ended and was not reaped has no memory any more.
        rss_bytes_max: kilobytes(&status, "VmHWM:").unwrap_or(0),
    })
}

fn ticks_per_s() -> f64 {
    // SAFETY: sysconf takes a number and gives one.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}

/// The fields 14 and 15. The second field is the program's name in parentheses, and may hold spaces and parentheses.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let mut fields = behind_name.split_ascii_whitespace().skip(11);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// A field of `/proc/…/status` that is reported in kibibytes, in bytes.
fn kilobytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests;
