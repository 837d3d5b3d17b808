//! `cargo xtask profile`: a flame graph of a run.
//!
//! Owns the calls of `perf` and inferno's two programs, from samples to one SVG file. Does not own what is run, nor the tools:
//! inferno is installed beside the workspace, for as a library its choice of features would build Arrow anew for everybody.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use clap::Parser;

#[derive(Parser)]
#[command(after_help = "Examples:
  cargo build --release -p forebay
  cargo xtask profile -- target/release/forebay run pipeline.yaml --drain
  cargo xtask profile --pid 4711 --seconds 10                what runs already
  cargo xtask profile --out bench.svg -- scripts/bench       engine, broker and ClickHouse, side by side by thread

The program needs frames to be named by: a release build of this workspace has what it takes. Where samples are refused
(`perf_event_paranoid`), run it as root or: sysctl kernel.perf_event_paranoid=1")]
pub(crate) struct Args {
    /// Where the flame graph goes.
    #[arg(long, default_value = "flame.svg")]
    out: PathBuf,
    /// A process that runs already, with all its threads.
    #[arg(long, conflicts_with = "command", required_unless_present = "command")]
    pid: Option<u32>,
    /// How long a process that runs already is looked at.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Samples a second on each core. An odd number, so that they do not fall into step with a timer.
    #[arg(long, default_value_t = 499, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Bytes of the stack that a sample keeps; more show deeper calls, and take as much more disk.
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1_024..=65_528))]
    stack_bytes: u32,
    /// What to run, with its arguments.
    #[arg(last = true)]
    command: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let tools = Tools::find()?;
    let samples = args.out.with_extension("perf");
    record(args, &samples)?;
    draw(&tools, &samples, &args.out)?;
    std::fs::remove_file(&samples).with_context(|| format!("cannot remove {}", samples.display()))?;
    println!("{}: open it in a browser; a click on a frame enlarges it, Ctrl-F searches", args.out.display());
    Ok(())
}

/// The programs that draw.
struct Tools {
    fold: PathBuf,
    draw: PathBuf,
}

impl Tools {
    /// Finds everything that is needed before anything is run.
    fn find() -> anyhow::Result<Self> {
        if !answers(Path::new("perf")) {
            bail!(
                "`perf` is not on this machine or is not for its kernel; as root: apt-get install linux-perf (Debian), or \
                 apt-get install linux-tools-$(uname -r) (Ubuntu)"
            );
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask stands in the workspace")?;
        let tool = |name: &str| {
            let own = root.join(".cache/tools/bin").join(name);
            let found = [own, PathBuf::from(name)].into_iter().find(|path| answers(path));
            found.with_context(|| {
                format!("`{name}` is missing; `scripts/setup profile` installs it, in about a minute")
            })
        };
        Ok(Self { fold: tool("inferno-collapse-perf")?, draw: tool("inferno-flamegraph")? })
    }
}

fn answers(program: &Path) -> bool {
    let asked = Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

fn record(args: &Args, samples: &Path) -> anyhow::Result<()> {
    let mut perf = Command::new("perf");
    // By the processor's clock: virtual machines often have no counter of cycles.
    perf.args(["record", "--quiet", "--event", "cpu-clock", "--output"]).arg(samples);
    perf.args(["--freq", &args.rate.to_string(), "--call-graph", &format!("dwarf,{}", args.stack_bytes)]);
    match args.pid {
        Some(pid) => perf.args(["--pid", &pid.to_string(), "--", "sleep", &args.seconds.to_string()]),
        None => perf.arg("--").args(&args.command),
    };
    let status = perf.status().context("`perf record` does not start")?;
    // perf ends as the program does; a program that fails may be what one wants to look at.
    ensure!(
        samples.metadata().is_ok_and(|file| file.len() > 0),
        "`perf record` took no samples: {status}; see `cargo xtask profile --help` for what it needs"
    );
    if !status.success() {
        eprintln!("the run ended with {status}; what was sampled until then is drawn");
    }
    Ok(())
}

/// `perf script | inferno-collapse-perf | inferno-flamegraph > out`
fn draw(tools: &Tools, samples: &Path, out: &Path) -> anyhow::Result<()> {
    let mut script = Command::new("perf");
    // Inlined frames would be looked up one by one, which takes minutes.
    script.args(["script", "--no-inline", "--fields", "comm,pid,tid,time,event,ip,sym,dso", "--input"]);
    let mut script = piped(script.arg(samples))?;
    let mut fold = Command::new(&tools.fold);
    let mut fold = piped(fold.stdin(output(&mut script)?))?;
    let file = File::create(out).with_context(|| format!("cannot write {}", out.display()))?;
    let drawn = Command::new(&tools.draw)
        .args(["--title", "CPU time by call stack", "--countname", "samples"])
        .args(["--subtitle", "width: share of the samples; lowest: the thread's name"])
        .stdin(output(&mut fold)?)
        .stdout(file)
        .status()
        .context("inferno does not start")?;
    for (name, child) in [("perf script", &mut script), ("inferno-collapse-perf", &mut fold)] {
        let status = child.wait().with_context(|| format!("`{name}` is gone"))?;
        ensure!(status.success(), "`{name}` ended with {status}");
    }
    ensure!(drawn.success(), "nothing was drawn: the run was too short, or it only waited");
    Ok(())
}

fn piped(command: &mut Command) -> anyhow::Result<Child> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    child.with_context(|| format!("{:?} does not start", command.get_program()))
}

fn output(child: &mut Child) -> anyhow::Result<Stdio> {
    Ok(child.stdout.take().context("the pipe was asked for")?.into())
}
