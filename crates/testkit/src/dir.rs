//! Directories of tests: under `target/testkit`, gone when the test passes, kept when it does not.
//!
//! Owns their names, their end, and how many of failed tests stay. Does not own what a service puts into one.

use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

/// Marks a directory that a failed test left for people to inspect.
const KEPT: &str = "KEPT";
/// So many kept directories stay; the oldest beyond them go when the next test process starts. Each may hold a broker's data.
const KEPT_MAX: usize = 10;

/// The workspace's root.
pub fn workspace_dir() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(2).expect("this crate is two levels below the workspace").to_path_buf()
}

/// A path below `.cache`, where `scripts/setup` puts what it fetches.
pub(crate) fn cached(path: &str) -> PathBuf {
    workspace_dir().join(".cache").join(path)
}

/// `target/testkit`, which may not be there yet.
pub(crate) fn base() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    workspace_dir().join(target).join("testkit")
}

/// A directory of one test, or of one service of a test.
///
/// Dropped while its thread panics, it stays and its path is printed; otherwise it is removed with everything in it.
#[derive(Debug)]
pub struct TestDir {
    path: PathBuf,
    keep: bool,
}

impl TestDir {
    /// Creates `target/testkit/NAME-PID-N`. Leftovers of test processes that are dead are removed on the first call.
    pub fn new(name: &str) -> Result<TestDir> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        static SWEEP: Once = Once::new();
        let base = base();
        fs::create_dir_all(&base).with_context(|| format!("cannot create `{}`", base.display()))?;
        SWEEP.call_once(|| sweep(&base));
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("{}-{}-{number}", plain(name), std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(TestDir { path, keep: false }),
                // Left by an earlier process with this one's id, as containers give the same ids again and again: no sweep takes it for dead.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot create `{}`", path.display()));
                }
            }
        }
    }

    /// The path of the directory, which exists.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the directory even when the test passes.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        if self.keep || std::thread::panicking() {
            let marked = fs::write(self.path.join(KEPT), "");
            eprintln!(
                "testkit: kept `{}`{}",
                self.path.display(),
                if marked.is_ok() { "" } else { " (unmarked)" }
            );
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("testkit: cannot remove `{}`: {error}", self.path.display());
        }
    }
}

/// Letters, digits and dashes of a name, so that it is one path segment.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Removes what dead test processes left: everything unmarked, and the oldest of the marked.
/// Another process may sweep at the same time, so what cannot be read or removed is left to the next sweep.
fn sweep(base: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    let mut kept = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        if owner(entry.file_name().as_os_str()).is_none_or(is_alive) {
            continue;
        }
        match fs::metadata(path.join(KEPT)).and_then(|marker| marker.modified()) {
            Ok(when) => kept.push((when, path)),
            Err(_) => drop(fs::remove_dir_all(&path)),
        }
    }
    kept.sort();
    for (_, path) in kept.iter().rev().skip(KEPT_MAX) {
        drop(fs::remove_dir_all(path));
    }
}

/// The process id in a directory's name.
fn owner(name: &OsStr) -> Option<i32> {
    name.to_str()?.rsplit('-').nth(1)?.parse().ok()
}

fn is_alive(pid: i32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[cfg(test)]
mod tests;
