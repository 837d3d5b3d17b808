//! Child processes: started with their output in log files, signalled, awaited with an end, and never left behind.
//!
//! Owns spawning, signals, exit and resource usage. Does not own what a child does, nor when it is ready: each service's module knows that.
//!
//! A child dies in three ways at the latest: its handle is dropped (its whole process group is killed), the test process ends
//! for any reason (the kernel kills the child), or the child was born after the test process died (it exits at once).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

mod spawner;
mod usage;

pub(crate) use spawner::without_forks;
pub use usage::Usage;

/// So many bytes of a log's end go into an error.
const TAIL_BYTES: u64 = 4_000;
/// A killed child has this long to be reaped. A process in an uninterruptible disk wait can take seconds, not minutes.
const REAP_MAX: Duration = Duration::from_secs(120);

/// What to start. The child gets the parent's environment and the changes made here.
#[derive(Debug)]
pub struct Spawn {
    name: String,
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, Option<OsString>)>,
    cwd: Option<PathBuf>,
}

impl Spawn {
    /// A child called `name` in logs and errors.
    pub fn new(name: &str, program: impl AsRef<OsStr>) -> Spawn {
        Spawn {
            name: name.to_owned(),
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
        }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Spawn {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item = A>, A: AsRef<OsStr>>(mut self, args: I) -> Spawn {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Spawn {
        self.env.push((key.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, key: impl AsRef<OsStr>) -> Spawn {
        self.env.push((key.as_ref().to_owned(), None));
        self
    }

    /// The directory that the child starts in; the parent's otherwise.
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Spawn {
        self.cwd = Some(dir.as_ref().to_owned());
        self
    }

    /// Starts the child; its output is appended to `NAME.out.log` and `NAME.err.log` in `log_dir`.
    pub fn start(self, log_dir: &Path) -> Result<Process> {
        let open = |suffix: &str| -> Result<(PathBuf, File, u64)> {
            let path = log_dir.join(format!("{}.{suffix}.log", self.name));
            let file = OpenOptions::new().create(true).append(true).open(&path);
            let file = file.with_context(|| format!("cannot open the log `{}`", path.display()))?;
            let start_bytes = file.metadata()?.len();
            Ok((path, file, start_bytes))
        };
        let (out_path, out_file, out_start_bytes) = open("out")?;
        let (err_path, err_file, err_start_bytes) = open("err")?;

        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(out_file).stderr(err_file).process_group(0);
        for (key, value) in &self.env {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        let pid = spawner::spawn(command)
            .with_context(|| format!("cannot start {} (`{}`)", self.name, self.program.to_string_lossy()))?;
        Ok(Process {
            name: self.name,
            pid,
            exit: None,
            out: Log { path: out_path, start_bytes: out_start_bytes },
            err: Log { path: err_path, start_bytes: err_start_bytes },
        })
    }

    /// Runs the child to its end, or kills it after `timeout`, which is an error.
    pub fn run(self, log_dir: &Path, timeout: Duration) -> Result<Output> {
        let mut child = self.start(log_dir)?;
        match child.wait_timeout(timeout)? {
            Some(exit) => Ok(Output { exit, stdout: child.out.read()?, stderr: child.err.read()? }),
            None => {
                let why = anyhow!(
                    "{} did not end within {:.0} s{}",
                    child.name,
                    timeout.as_secs_f64(),
                    child.tails()
                );
                child.kill9()?;
                Err(why)
            }
        }
    }
}

/// The end of a child that was run to it.
#[derive(Debug)]
pub struct Output {
    /// How it ended and what it used.
    pub exit: Exit,
    /// All it wrote, with bytes that are not UTF-8 replaced.
    pub stdout: String,
    /// As `stdout`.
    pub stderr: String,
}

impl Output {
    /// The output when the child answered 0; otherwise an error that shows both streams.
    pub fn success(self) -> Result<Output> {
        if self.exit.status.success() {
            return Ok(self);
        }
        bail!("{}\nstdout: {}\nstderr: {}", self.exit.status, self.stdout.trim_end(), self.stderr.trim_end())
    }
}

/// How a child ended.
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// What it used from start to end, together with those of its own children that it awaited.
    pub usage: Usage,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    /// Where this child's output begins; an earlier one of the same name may have written before.
    start_bytes: u64,
}

impl Log {
    fn read(&self) -> io::Result<String> {
        read_from(&self.path, self.start_bytes)
    }

    fn tail(&self) -> String {
        let length = fs::metadata(&self.path).map_or(0, |meta| meta.len());
        let from = self.start_bytes.max(length.saturating_sub(TAIL_BYTES));
        read_from(&self.path, from).unwrap_or_else(|error| format!("(cannot read the log: {error})"))
    }
}

fn read_from(path: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A running or ended child.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: i32,
    exit: Option<Exit>,
    out: Log,
    err: Log,
}

impl Process {
    /// Its process id, which is also its process group.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What it wrote to stdout so far, with bytes that are not UTF-8 replaced.
    pub fn stdout(&self) -> Result<String> {
        self.out.read().with_context(|| format!("cannot read `{}`", self.out.path.display()))
    }

    /// As [`Process::stdout`], of stderr.
    pub fn stderr(&self) -> Result<String> {
        self.err.read().with_context(|| format!("cannot read `{}`", self.err.path.display()))
    }

    /// True until it has ended. A stopped child runs, in this sense.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.try_wait()?.is_none())
    }

    /// What it has used so far; after its end, in all.
    pub fn usage(&self) -> Result<Usage> {
        match self.exit {
            Some(exit) => Ok(exit.usage),
            None => {
                usage::of_running(self.pid).with_context(|| format!("cannot read the usage of {}", self.name))
            }
        }
    }

    /// SIGKILL, to it and its process group, and waits for its end. Of an ended child, the way it ended.
    pub fn kill9(&mut self) -> Result<Exit> {
        self.signal(libc::SIGKILL)?;
        self.wait_timeout(REAP_MAX)?
            .with_context(|| format!("{} (pid {}) was killed but did not go away", self.name, self.pid))
    }

    /// SIGTERM; returns at once.
    pub fn term(&mut self) -> Result<()> {
        self.signal(libc::SIGTERM)
    }

    /// SIGINT; returns at once.
    pub fn interrupt(&mut self) -> Result<()> {
        self.signal(libc::SIGINT)
    }

    /// SIGTERM, and SIGKILL if it has not ended after `timeout`, which is an error.
    pub fn term_and_wait(&mut self, timeout: Duration) -> Result<Exit> {
        self.term()?;
        if let Some(exit) = self.wait_timeout(timeout)? {
            return Ok(exit);
        }
        let why = anyhow!("{} ignored SIGTERM for {:.0} s{}", self.name, timeout.as_secs_f64(), self.tails());
        self.kill9()?;
        Err(why)
    }

    /// SIGSTOP: it freezes, as a process does whose machine sleeps.
    pub fn stop_signal(&mut self) -> Result<()> {
        self.signal(libc::SIGSTOP)
    }

    /// SIGCONT: it goes on.
    pub fn continue_signal(&mut self) -> Result<()> {
        self.signal(libc::SIGCONT)
    }

    /// Waits for its end; `None` when it still runs after `timeout`.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<Exit>> {
        let start = Instant::now();
        // Short commands end soon, long ones need no quick answer: the pause grows to 20 ms.
        let mut pause = Duration::from_micros(500);
        loop {
            if let Some(exit) = self.try_wait()? {
                return Ok(Some(exit));
            }
            if start.elapsed() >= timeout {
                return Ok(None);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
    }

    /// Waits until a line of its stdout contains `needle`, and returns the line. Fails as soon as the child has ended.
    pub fn wait_for_stdout(&mut self, needle: &str, timeout: Duration) -> Result<String> {
        let start = Instant::now();
        loop {
            // The exit is inspected before the log, so a line that was written just before the end is still found.
            let ended = self.try_wait()?;
            let text = self.stdout()?;
            if let Some(line) =
                text.split_inclusive('\n').find(|line| line.ends_with('\n') && line.contains(needle))
            {
                return Ok(line.trim_end().to_owned());
            }
            if let Some(exit) = ended {
                bail!("{} ended ({}) without saying `{needle}`{}", self.name, exit.status, self.tails());
            }
            if start.elapsed() >= timeout {
                bail!(
                    "{} did not say `{needle}` within {:.0} s{}",
                    self.name,
                    timeout.as_secs_f64(),
                    self.tails()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The ends of both logs, for an error.
    pub(crate) fn tails(&self) -> String {
        format!(
            "\n--- end of stdout\n{}\n--- end of stderr\n{}",
            self.out.tail().trim_end(),
            self.err.tail().trim_end()
        )
    }

    fn signal(&mut self, signal: i32) -> Result<()> {
        if self.try_wait()?.is_some() {
            return Ok(()); // Its id may belong to somebody else by now.
        }
        // SAFETY: kill() takes two integers. The child is not reaped yet, so the group is still its own.
        if unsafe { libc::kill(-self.pid, signal) } != 0 {
            return Err(io::Error::last_os_error())
                .with_context(|| format!("cannot signal {} (pid {})", self.name, self.pid));
        }
        Ok(())
    }

    fn try_wait(&mut self) -> Result<Option<Exit>> {
        if self.exit.is_none() {
            self.exit = usage::reap(self.pid)
                .with_context(|| format!("cannot wait for {} (pid {})", self.name, self.pid))?;
        }
        Ok(self.exit)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill9() {
            eprintln!("testkit: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests;
