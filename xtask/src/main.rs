//! What developers run beside cargo.
//!
//! Owns the tasks' command line, and the search of a range of seeds on several threads. Does not own the simulation (`sim`), nor the other
//! tasks, each a module here.
//!
//! | task                                                                 | what it does                                        |
//! |----------------------------------------------------------------------|-----------------------------------------------------|
//! | `cargo xtask sim --seeds N [--seed S] [--variant NAME] [--windowed] [--emitted] [--sessions] [--spilled] [--joined] [--temporal] [--moved] [--ended] [--rolled] [--chained] [--altered] [--untimed] [--replayed] [--released] [--pushed] [--unnested] [--upserted] [--resent] [--jobs J]` | runs the simulation over many seeds and prints the first that breaks a rule, with as few faults as can be found; one seed is printed with its trace |
//! | `cargo xtask guards [--bless]`                                       | counts the instructions of the hot path's steps     |
//! | `cargo xtask profile [--out FILE] [--pid PID] [-- COMMAND]`          | draws a flame graph of a run                        |
//! | `cargo xtask advisories`                                              | compares Cargo.lock with scripts/advisories.txt     |
#![allow(clippy::disallowed_methods, reason = "this tells people how long something took")]

mod advisories;
mod guards;
mod profile;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use sim::{Plan, Variant};

#[derive(Parser)]
#[command(about = "Tasks of development")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// The real engine in a seeded world with faults.
    Sim(Sim),
    /// Instruction counts of the hot path's steps against the committed baseline; needs valgrind.
    Guards(guards::Args),
    /// Cargo.lock against the committed list of advisories.
    Advisories,
    /// A flame graph of a run; needs perf.
    Profile(profile::Args),
}

#[derive(Parser)]
struct Sim {
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A broken engine; `list` says which there are.
    #[arg(long)]
    variant: Option<String>,
    /// With a window in place of dedup.
    #[arg(long)]
    windowed: bool,
    /// With a window that has results before it is closed.
    #[arg(long)]
    emitted: bool,
    /// With sessions.
    #[arg(long)]
    sessions: bool,
    /// With a window whose state is in files; with `--emitted` one of that kind.
    #[arg(long)]
    spilled: bool,
    /// With a join of two inputs in place of dedup.
    #[arg(long)]
    joined: bool,
    /// With a temporal join of two inputs in place of dedup.
    #[arg(long)]
    temporal: bool,
    /// With a person who moves the pipeline back.
    #[arg(long)]
    moved: bool,
    /// With inputs that end, and a window or a join that closes then.
    #[arg(long)]
    ended: bool,
    /// With a window over the results of a window.
    #[arg(long)]
    rolled: bool,
    /// With a window over the rows of a join of two inputs.
    #[arg(long)]
    chained: bool,
    /// With a person who drops a column and gives it back.
    #[arg(long)]
    altered: bool,
    /// With a partition that yields nothing with a time.
    #[arg(long)]
    untimed: bool,
    /// With persons who replay dead letters.
    #[arg(long)]
    replayed: bool,
    /// Without a step, from a source that lets go of what is settled.
    #[arg(long)]
    released: bool,
    /// The same from a source whose records are gone once they are sealed.
    #[arg(long)]
    pushed: bool,
    /// With records that hold several items, of which a step before dedup makes rows.
    #[arg(long)]
    unnested: bool,
    /// With rows that replace each other by key, in place of dedup.
    #[arg(long)]
    upserted: bool,
    /// With a proxy before object storage that sends some puts twice.
    #[arg(long)]
    resent: bool,
    /// Threads; as many as there are cores unless given.
    #[arg(long)]
    jobs: Option<usize>,
    /// How many of a trace's last lines are printed; a trace keeps 400.
    #[arg(long, default_value_t = 60)]
    lines: usize,
}

fn main() -> anyhow::Result<()> {
    match Args::parse().task {
        Task::Sim(args) => simulate(&args),
        Task::Advisories => advisories::run(),
        Task::Guards(args) => guards::run(&args),
        Task::Profile(args) => profile::run(&args),
    }
}

fn simulate(args: &Sim) -> anyhow::Result<()> {
    if args.variant.as_deref() == Some("list") {
        for variant in Variant::ALL {
            println!(
                "{:32} caught within {:4} seeds: {}",
                variant.name(),
                variant.seeds_max(),
                variant.what()
            );
        }
        return Ok(());
    }
    let named = |name: &String| {
        Variant::named(name).with_context(|| format!("there is no variant `{name}`; see `list`"))
    };
    let variant = args.variant.as_ref().map(named).transpose()?;
    let begun = Instant::now();
    let sums = run_all(args, variant)?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{} seeds from {}, {} polls, {:.0} simulated hours, {} journal records, {} process starts, {} closings at an end, in {seconds:.1} s",
        sums.seeds,
        args.seed,
        sums.polls,
        sums.time_us as f64 / 3.6e9,
        sums.records,
        sums.starts,
        sums.closings
    );
    let Some(seed) = sums.failed else {
        if args.seeds == 1 {
            print_lines(&sim::run(&plan(args, args.seed, variant), variant, true).trace, args.lines);
        }
        println!("no rule was broken");
        return Ok(());
    };
    let plan = plan(args, seed, variant);
    // Before the search for fewer faults, which runs the seed dozens of times.
    if let Some(violation) = sim::run(&plan, variant, false).violation {
        println!("seed {seed} breaks {violation}; looking for fewer faults that do");
    }
    let (faults, report) = sim::shrink(&plan, variant).context("a seed that fails once fails always")?;
    print_lines(&report.trace, args.lines);
    println!("{} of {} faults are left:", faults.len(), plan.faults.len());
    faults.iter().for_each(|fault| println!("  {fault}"));
    let violation = report.violation.context("a smaller plan that fails")?;
    bail!("seed {seed} breaks {violation}")
}

/// The plan of a seed: that in which a variant can show itself, unless it is said which.
fn plan(args: &Sim, seed: u64, variant: Option<Variant>) -> Plan {
    match variant {
        _ if args.windowed => Plan::windowed(seed),
        _ if args.emitted && args.spilled => Plan::emitted_in_files(seed),
        _ if args.emitted => Plan::emitted(seed),
        _ if args.sessions => Plan::of_sessions(seed),
        _ if args.spilled => Plan::spilled(seed),
        _ if args.joined => Plan::joined(seed),
        _ if args.temporal => Plan::temporal(seed),
        _ if args.moved => Plan::moved(seed),
        _ if args.ended => Plan::ended(seed),
        _ if args.rolled => Plan::rolled(seed),
        _ if args.chained => Plan::chained(seed),
        _ if args.altered => Plan::altered(seed),
        _ if args.untimed => Plan::untimed(seed),
        _ if args.replayed => Plan::replayed(seed),
        _ if args.released => Plan::released(seed),
        _ if args.pushed => Plan::pushed(seed),
        _ if args.unnested => Plan::unnested(seed),
        _ if args.upserted => Plan::upserted(seed),
        _ if args.resent => Plan::resent(seed),
        Some(variant) => variant.plan(seed),
        None => Plan::new(seed),
    }
}

fn print_lines(lines: &[String], last: usize) {
    lines[lines.len().saturating_sub(last)..].iter().for_each(|line| println!("{line}"));
}

#[derive(Default)]
struct Sums {
    seeds: u64,
    polls: u64,
    time_us: u64,
    records: u64,
    starts: u64,
    closings: u64,
    /// The lowest seed that failed.
    failed: Option<u64>,
}

/// Runs the seeds on several threads; ends early once one has failed.
fn run_all(args: &Sim, variant: Option<Variant>) -> anyhow::Result<Sums> {
    let jobs = match args.jobs {
        Some(jobs) => jobs.max(1),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let sums = Mutex::new(Sums::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= args.seeds {
                        return;
                    }
                    let seed = args.seed + n;
                    let report = sim::run(&plan(args, seed, variant), variant, false);
                    let mut sums = sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    sums.seeds += 1;
                    sums.polls += report.polls;
                    sums.time_us += report.time_us;
                    sums.records += report.records;
                    sums.starts += u64::from(report.starts);
                    sums.closings += report.closings;
                    if report.violation.is_some() {
                        sums.failed = Some(sums.failed.map_or(seed, |failed| failed.min(seed)));
                        is_over.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    Ok(sums.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}
