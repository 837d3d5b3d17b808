//! Starts a broker, runs a command with its address in `FOREBAY_BROKERS`, and ends both.
//!
//! Owns the broker's life around one command. Does not own the broker (`testkit::Kafka`), nor what the command does.
//!
//! ```text
//! cargo run -p testkit --example with-kafka -- target/release/forebay bench glassflow
//! ```
//! Ends with the command's code. The broker's data are gone afterwards.

use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use testkit::{Kafka, KafkaOptions, Service, available};

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else { bail!("give a command to run beside the broker") };
    if !available(&[Service::Kafka]) {
        bail!("no broker can be started here; run `scripts/setup test`");
    }
    let broker = Kafka::start(KafkaOptions::default())?;
    let mut command = Command::new(&program);
    command.args(words).env("FOREBAY_BROKERS", broker.bootstrap());
    let status = command.status().with_context(|| format!("cannot run `{}`", program.to_string_lossy()))?;
    // A command that a signal ended has no code.
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
