//! The command line: commands, options, help, exit codes.
//!
//! Owns words and codes. Does not own what a command does (`commands`).
//!
//! | code | meaning                                                                                          |
//! |------|--------------------------------------------------------------------------------------------------|
//! | 0    | done                                                                                             |
//! | 1    | failed; the message says why, and starting again may help                                        |
//! | 2    | the command line or the pipeline file has a fault; nothing was started                           |
//! | 3    | another process has taken the pipeline over                                                      |
//! | 4    | a person must decide; starting again does not help                                               |
//! | 5    | all was done, but more records became dead letters than `dead_letters.fail_above` allows         |
//! | 130  | stopped at once by a second signal; nothing that was sealed is lost                              |

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use dataflow::printing;
use pipeline::config::model::{LogFormat, LogLevel};

use crate::commands;
use crate::logging;

/// How a command ended, when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed.
    Failed = 1,
    /// A fault of the command line or the pipeline file.
    Fault = 2,
    /// Another process has taken the pipeline over.
    Fenced = 3,
    /// A person must decide.
    Person = 4,
    /// More records became dead letters than the pipeline file allows.
    DeadLetters = 5,
    /// Stopped at once by a second signal.
    Stopped = 130,
}

const CODES: &str = "\
Exit codes:
  0    done
  1    failed; starting again may help
  2    the command line or the pipeline file has a fault; nothing was started
  3    another process has taken the pipeline over
  4    a person must decide; starting again does not help
  5    all was done, but more records became dead letters than `dead_letters.fail_above` allows
  130  stopped at once by a second signal; nothing that was sealed is lost";

/// Moves event streams into ClickHouse, every record exactly once.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = CODES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    /// The least important log lines that are shown, or a filter such as `info,engine=debug`.
    #[arg(long, global = true, env = "FOREBAY_LOG", value_name = "LEVEL")]
    log_level: Option<String>,

    /// The form of log lines, which go to stderr.
    #[arg(long, global = true, value_enum, value_name = "FORM")]
    log_format: Option<LogFormat>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(commands::run::Run),
    Check(commands::check::Check),
    Status(commands::status::Status),
    DeadLetters(commands::dead_letters::DeadLetters),
    Verify(commands::verify::Verify),
    Store(commands::store::Store),
    Answer(commands::answer::Answer),
    Forget(commands::forget::Forget),
    List(commands::pipelines::List),
    Reset(commands::pipelines::Reset),
    Rename(commands::rename::Rename),
    Delete(commands::pipelines::Delete),
    #[cfg(feature = "development")]
    Generate(commands::generate::Generate),
    #[cfg(feature = "development")]
    Clickhouse(commands::clickhouse::Clickhouse),
    #[cfg(feature = "development")]
    Demo(commands::demo::Demo),
    #[cfg(feature = "development")]
    Bench(bench::options::Bench),
    Completions(Completions),
    Schema(Schema),
    Reference(Reference),
}

/// Prints completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay completions bash > ~/.local/share/bash-completion/completions/forebay
  forebay completions zsh  > ~/.zfunc/_forebay
  forebay completions fish > ~/.config/fish/completions/forebay.fish")]
struct Completions {
    /// The shell.
    shell: clap_complete::Shell,
}

/// Prints the JSON Schema of pipeline files, for editors.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay schema > pipeline.schema.json
  # first line of a pipeline file, for editors that speak to yaml-language-server:
  # yaml-language-server: $schema=pipeline.schema.json")]
struct Schema {}

/// Prints the reference of pipeline files, in Markdown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay reference > docs/reference/pipeline-file.md")]
struct Reference {}

/// A pipeline file on the command line.
#[derive(Clone, Debug, Args)]
pub struct PipelineFile {
    /// The pipeline file; `-` for standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Options of logging, which the pipeline file may have too.
#[derive(Clone, Debug, Default)]
pub struct LogOptions {
    /// A level or filter.
    pub level: Option<String>,
    /// The form of lines.
    pub format: Option<LogFormat>,
}

/// Runs the program and says how it ended.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let log = LogOptions { level: cli.log_level, format: cli.log_format };
    let result = match cli.command {
        Command::Run(run) => run.execute(&log),
        Command::Check(check) => with_logs(&log, || check.execute()),
        Command::Status(status) => with_logs(&log, || status.execute()),
        Command::DeadLetters(letters) => with_logs(&log, || letters.execute()),
        Command::Verify(verify) => with_logs(&log, || verify.execute()),
        Command::Store(store) => with_logs(&log, || store.execute()),
        Command::Answer(answer) => with_logs(&log, || answer.execute()),
        Command::Forget(forget) => with_logs(&log, || forget.execute()),
        Command::List(list) => with_logs(&log, || list.execute()),
        Command::Rename(rename) => with_logs(&log, || rename.execute()),
        Command::Reset(reset) => with_logs(&log, || reset.execute()),
        Command::Delete(delete) => with_logs(&log, || delete.execute()),
        #[cfg(feature = "development")]
        Command::Generate(generate) => with_logs(&log, || generate.execute()),
        #[cfg(feature = "development")]
        Command::Clickhouse(clickhouse) => with_logs(&log, || clickhouse.execute()),
        #[cfg(feature = "development")]
        Command::Demo(demo) => with_logs(&log, || demo.execute()),
        #[cfg(feature = "development")]
        Command::Bench(bench) => with_logs(&log, || {
            let right = bench.execute(&|text| print(text).map(drop))?;
            Ok(if right { Exit::Done } else { Exit::Failed })
        }),
        Command::Completions(completions) => print(&completions.text()),
        Command::Schema(_) => print(&commands::schema_text()),
        Command::Reference(_) => print(&pipeline::config::reference_doc::page()),
    };
    let exit = result.unwrap_or_else(|error| {
        // The log may go elsewhere or nowhere; the reason of a failure always goes to stderr.
        let _ = writeln!(std::io::stderr(), "forebay: {}", printing::escaped_lines(&format!("{error:#}")));
        Exit::Failed
    });
    ExitCode::from(exit as u8)
}

fn with_logs(log: &LogOptions, command: impl FnOnce() -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    logging::start(log, LogLevel::Warn, LogFormat::Text)?;
    command()
}

/// Writes to standard output. A reader that has seen enough (`forebay schema | head`) is no failure.
///
/// # Errors
/// When standard output cannot be written for another reason.
pub fn print(text: &str) -> anyhow::Result<Exit> {
    let mut out = std::io::stdout().lock();
    // Texts of records and servers may be anywhere in it. A pipe gets them as they are.
    let text = if out.is_terminal() { printing::escaped_lines(text) } else { Cow::Borrowed(text) };
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => Ok(Exit::Done),
    }
}

impl Completions {
    fn text(&self) -> String {
        let mut out = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "forebay", &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}
