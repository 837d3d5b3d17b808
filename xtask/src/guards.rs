//! `cargo xtask guards`: instruction counts of the hot path's steps against a committed baseline.
//!
//! Owns the counting (valgrind's callgrind over `crates/guards`, one process a step), the baseline's file and the verdict.
//! Does not own what a step does (`guards`).
//!
//! Counts hardly vary: time, load, the heap's and the stack's place and the environment have no part in them. They hang on:
//!
//! | on                       | held by                                                                      |
//! |--------------------------|------------------------------------------------------------------------------|
//! | the compiler             | `rust-toolchain.toml`, `Cargo.lock`                                          |
//! | how it optimizes         | `crates/guards/measured.toml`                                                |
//! | the architecture         | one baseline for each                                                        |
//! | the processor's features | valgrind, which shows every program the same processor on hosts with AVX2    |
//! | the C library            | counted apart, and judged only where it is the baseline's version            |

mod callgrind;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use callgrind::Counts;
use clap::Parser;

/// More instructions than the baseline by this share fail; fewer by this share ask for a new baseline.
const TOLERANCE: f64 = 0.05;

#[derive(Parser)]
#[command(after_help = "Examples:
  cargo xtask guards            compare every step with the baseline; fails at 5 % more instructions
  cargo xtask guards --bless    count, and make that the baseline: commit it with the reason")]
pub(crate) struct Args {
    /// Write the counts as the new baseline.
    #[arg(long)]
    bless: bool,
}

/// What was counted for one step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    step: String,
    units: u64,
    counts: Counts,
}

/// Counts, and the C library they were made with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Baseline {
    libc: String,
    lines: Vec<Line>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask stands in the workspace")?;
    let file = root.join(format!("crates/guards/baseline.{}.txt", std::env::consts::ARCH));
    let found = count(&build(root)?)?;
    if args.bless {
        std::fs::write(&file, found.to_text()).with_context(|| format!("cannot write {}", file.display()))?;
        print!("{}", found.to_text());
        println!("written to {}; commit it with the reason", file.display());
        return Ok(());
    }
    let text = std::fs::read_to_string(&file).with_context(|| {
        format!(
            "there is no baseline {} for this architecture; `cargo xtask guards --bless` makes it",
            file.display()
        )
    })?;
    let baseline = Baseline::from_text(&text)?;
    let (report, failed) = compare(&baseline, &found);
    print!("{report}");
    ensure!(
        failed.is_empty(),
        "more than {:.0} % off the baseline, or not in it: {}; find out why (`cargo xtask profile --help`), and if it is meant, \
         `cargo xtask guards --bless` and say so in the commit",
        TOLERANCE * 100.0,
        failed.join(", ")
    );
    Ok(())
}

/// Builds the program that does one step.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // The whole workspace chooses the features, so that nothing heavy is built a second time.
    cargo.current_dir(root).args(["build", "--quiet", "--workspace", "--example", "one-step"]);
    cargo.args(["--config", "crates/guards/measured.toml"]);
    // Whatever the environment says: compiled by parts, other functions are inlined, and steps that nobody has touched differ by up to a sixth.
    cargo.env("CARGO_INCREMENTAL", "0");
    if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        cargo.arg("--locked");
    }
    ensure!(cargo.status().context("cargo does not start")?.success(), "the steps do not build");
    Ok(root.join(target).join("debug/examples/one-step"))
}

fn count(program: &Path) -> anyhow::Result<Baseline> {
    let listed = output(Command::new(program))?;
    let mut lines = Vec::new();
    for line in listed.lines() {
        let mut words = line.split_whitespace();
        let (Some(step), Some(Ok(units))) = (words.next(), words.next().map(str::parse)) else {
            bail!("`{}` lists a step as `{line}`", program.display());
        };
        lines.push(Line { step: step.to_owned(), units, counts: callgrind::count(program, step)? });
    }
    let mut getconf = Command::new("getconf");
    getconf.arg("GNU_LIBC_VERSION");
    let libc = output(getconf).unwrap_or_else(|_| "unknown".into());
    Ok(Baseline { libc: libc.trim().to_owned(), lines })
}

fn output(mut command: Command) -> anyhow::Result<String> {
    let done = command.output().with_context(|| format!("{:?} does not start", command.get_program()))?;
    ensure!(
        done.status.success(),
        "{:?}: {}\n{}",
        command.get_program(),
        done.status,
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

impl Baseline {
    fn to_text(&self) -> String {
        let mut text = format!(
            "# Instructions of each step of `crates/guards`, written by `cargo xtask guards --bless`.\n\
             # own: in the program itself; libraries: in the C library, which allocates and copies.\n\
             libc {}\n{:<12} {:>8} {:>12} {:>12}\n",
            self.libc, "step", "units", "own", "libraries"
        );
        for Line { step, units, counts } in &self.lines {
            text += &format!("{step:<12} {units:>8} {:>12} {:>12}\n", counts.own, counts.libraries);
        }
        text
    }

    fn from_text(text: &str) -> anyhow::Result<Self> {
        let mut baseline = Self { libc: String::new(), lines: Vec::new() };
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.starts_with("step ")) {
            if let Some(libc) = line.strip_prefix("libc ") {
                baseline.libc = libc.to_owned();
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let [step, units, own, libraries] = words[..] else {
                bail!("the baseline has a line `{line}`; `cargo xtask guards --bless` makes it anew");
            };
            let number = |word: &str| word.parse::<u64>().with_context(|| format!("the baseline's `{line}`"));
            let counts = Counts { own: number(own)?, libraries: number(libraries)? };
            baseline.lines.push(Line { step: step.to_owned(), units: number(units)?, counts });
        }
        Ok(baseline)
    }
}

/// A table for people, and the steps that fail.
fn compare(baseline: &Baseline, found: &Baseline) -> (String, Vec<String>) {
    let mut report = format!(
        "{:<12} {:>14} {:>12} {:>9} {:>12} {:>9}  {}\n",
        "step", "instr. a unit", "own", "change", "libraries", "change", "verdict"
    );
    let mut failed = Vec::new();
    let same_libc = baseline.libc == found.libc;
    let mut is_better = false;
    for line in &found.lines {
        let a_unit = line.counts.own as f64 / line.units as f64;
        let Some(was) = baseline.lines.iter().find(|was| (&was.step, was.units) == (&line.step, line.units))
        else {
            failed.push(line.step.clone());
            report +=
                &format!("{:<12} {a_unit:>14.1} {:>12}  not in the baseline\n", line.step, line.counts.own);
            continue;
        };
        let own = change(was.counts.own, line.counts.own);
        let libraries = change(was.counts.libraries, line.counts.libraries);
        // A step that hardly calls the library may double that little.
        let weighty = (line.counts.libraries as f64) > TOLERANCE * line.counts.own as f64;
        let is_worse = own > TOLERANCE || same_libc && weighty && libraries > TOLERANCE;
        is_better |= own < -TOLERANCE;
        let verdict = match (is_worse, own < -TOLERANCE) {
            (true, _) => "MORE",
            (false, true) => "fewer",
            (false, false) => "same",
        };
        if is_worse {
            failed.push(line.step.clone());
        }
        report += &format!(
            "{:<12} {a_unit:>14.1} {:>12} {:>+8.2}% {:>12} {:>+8.2}%  {verdict}\n",
            line.step,
            line.counts.own,
            own * 100.0,
            line.counts.libraries,
            libraries * 100.0
        );
    }
    for was in &baseline.lines {
        if !found.lines.iter().any(|line| line.step == was.step) {
            failed.push(was.step.clone());
            report += &format!("{:<12} is in the baseline and no step any more\n", was.step);
        }
    }
    if !same_libc {
        report += &format!(
            "libraries are not judged: this is {}, the baseline was made with {}\n",
            found.libc, baseline.libc
        );
    }
    if is_better {
        report += "a step takes fewer instructions: `cargo xtask guards --bless` keeps what was won\n";
    }
    (report, failed)
}

fn change(was: u64, is: u64) -> f64 {
    (is as f64 - was as f64) / was.max(1) as f64
}

#[cfg(test)]
mod tests;
