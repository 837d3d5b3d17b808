//! The command line: commands, options, help.
//!
//! Owns the words. Does not own what a command does ([`commands`]), nor what they print with and end with ([`crate::console`]).

use std::io::Write;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use dataflow::printing;
use pipeline::config::model::{LogFormat, LogLevel};

use crate::commands;
use crate::console::{Exit, Mistake, print};
use crate::logging::{self, LogOptions};

const CODES: &str = "\
Exit codes:
  0    success
  1    failure; starting again may help
  2    error in the command line or the pipeline file; nothing was started
  3    another process has taken over the pipeline
  4    you must decide something; starting again does not help
  5    all was done, but too many records became dead letters (`dead_letters.fail_above`)
  130  stopped at once by a second signal; nothing that was sealed is lost";

/// Writes Kafka and Pulsar topics and files into ClickHouse tables, every record exactly once.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = CODES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,

    /// The log level (`error`, `warn`, `info`, `debug` or `trace`), or a filter such as `info,engine=debug`. Takes precedence over
    /// `log.level` in the file of `run` or `gateway`; all other commands log at `warn` by default.
    #[arg(long, global = true, env = "FOREBAY_LOG", value_name = "LEVEL")]
    log_level: Option<String>,

    /// The format of the log, which is written to standard error.
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(commands::run::Run),
    Gateway(commands::gateway::Gateway),
    Check(commands::check::Check),
    Plan(commands::plan::Plan),
    Explain(commands::explain::Explain),
    Try(commands::try_out::Try),
    Status(commands::status::Status),
    DeadLetters(commands::dead_letters::DeadLetters),
    Verify(commands::verify::Verify),
    Store(commands::store::Store),
    Log(commands::log::Log),
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
    OtelTables(commands::otel_tables::OtelTables),
    Completions(Completions),
    Schema(Schema),
    Reference(Reference),
}

/// Prints the completion script for a shell.
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

/// Prints the JSON Schema of pipeline files or of gateway files, for editors.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay schema > pipeline.schema.json
  # to use it in editors with yaml-language-server, put this line at the top of a pipeline file:
  # yaml-language-server: $schema=pipeline.schema.json")]
struct Schema {
    /// Prints that of gateway files instead.
    #[arg(long)]
    gateway: bool,
}

/// Prints the reference of all keys of a pipeline file or of a gateway file, in Markdown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forebay reference > docs/reference/pipeline-file.md")]
struct Reference {
    /// Prints that of gateway files instead.
    #[arg(long)]
    gateway: bool,
}

/// Runs the program and says how it ended.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let log = LogOptions { level: cli.log_level, format: cli.log_format };
    let result = match cli.command {
        Command::Run(run) => run.execute(&log),
        Command::Gateway(gateway) => gateway.execute(&log),
        Command::Check(check) => with_logs(&log, || check.execute()),
        Command::Plan(plan) => with_logs(&log, || plan.execute()),
        Command::Explain(explain) => with_logs(&log, || explain.execute()),
        Command::Try(try_out) => with_logs(&log, || try_out.execute()),
        Command::Status(status) => with_logs(&log, || status.execute()),
        Command::DeadLetters(letters) => with_logs(&log, || letters.execute()),
        Command::Verify(verify) => with_logs(&log, || verify.execute()),
        Command::Store(store) => with_logs(&log, || store.execute()),
        Command::Log(logs) => with_logs(&log, || logs.execute()),
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
        Command::OtelTables(tables) => tables.execute(),
        Command::Completions(completions) => print(&completions.text()),
        Command::Schema(Schema { gateway: false }) => print(&commands::schema_text()),
        Command::Schema(Schema { gateway: true }) => print(&commands::gateway_schema_text()),
        Command::Reference(Reference { gateway: false }) => print(&pipeline::config::reference_doc::page()),
        Command::Reference(Reference { gateway: true }) => {
            print(&pipeline::config::reference_doc::gateway_page())
        }
    };
    let exit = result.unwrap_or_else(|error| {
        // The log may go elsewhere or nowhere; the reason of a failure always goes to stderr.
        let _ = writeln!(std::io::stderr(), "forebay: {}", printing::escaped_lines(&format!("{error:#}")));
        if error.is::<Mistake>() { Exit::Fault } else { Exit::Failed }
    });
    ExitCode::from(exit as u8)
}

fn with_logs(log: &LogOptions, command: impl FnOnce() -> anyhow::Result<Exit>) -> anyhow::Result<Exit> {
    logging::start(log, LogLevel::Warn, LogFormat::Text)?;
    command()
}

impl Completions {
    fn text(&self) -> String {
        let mut out = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "forebay", &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}
