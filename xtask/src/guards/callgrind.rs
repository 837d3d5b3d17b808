//! One run under callgrind, and its file.
//!
//! Owns the flags and what is read of the file: instructions by object file. Does not own the baseline and the verdict (`xtask::guards`),
//! nor what a step does (the crate `guards`). The format is `callgrind-format` of valgrind's manual; names and positions are asked for
//! uncompressed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

/// Instructions inside of the measured function and all that it calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// In the program's own file.
    pub(super) own: u64,
    /// In all others.
    pub(super) libraries: u64,
}

/// Runs a step once and counts.
pub(super) fn count(program: &Path, step: &str) -> anyhow::Result<Counts> {
    let file = program.with_file_name(format!("one-step.{step}.callgrind"));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--quiet", "--tool=callgrind", "--collect-atstart=no"])
        .args(["--toggle-collect=guards::measured*", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .args([program.as_os_str(), step.as_ref()])
        .stdin(Stdio::null())
        // The environment stands on the stack and would move what is on it.
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let done = valgrind.output().context("valgrind does not start; `scripts/setup test` installs it")?;
    ensure!(
        done.status.success(),
        "step `{step}` under valgrind: {}\n{}",
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let counts = parse(&text, &program.to_string_lossy())?;
    ensure!(counts.own > 0, "nothing was counted for `{step}`: is `guards::measured` inlined?");
    Ok(counts)
}

/// Sums what each object file spent itself.
fn parse(text: &str, program: &str) -> anyhow::Result<Counts> {
    let (mut counts, mut is_own, mut is_call) = (Counts::default(), false, false);
    let mut totals = None;
    for line in text.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            is_own = object == program;
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if let Some(sum) = line.strip_prefix("totals: ") {
            totals = Some(sum.trim().parse::<u64>().context("callgrind's `totals`")?);
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            // The line after `calls=` is what the callee spent, and stands there too.
            if std::mem::take(&mut is_call) {
                continue;
            }
            let spent = line.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
            let Some(spent) = spent else { bail!("callgrind's file has a line `{line}`") };
            *(if is_own { &mut counts.own } else { &mut counts.libraries }) += spent;
        }
    }
    let sum = counts.own + counts.libraries;
    ensure!(totals == Some(sum), "callgrind's file says {totals:?} in all, its lines {sum}");
    Ok(counts)
}

#[cfg(test)]
mod tests;
