//! Starts a Pulsar with an empty topic, runs a command with `FOREBAY_PULSAR` and `FOREBAY_PULSAR_TOPIC`, and ends both.
//!
//! Owns the life of a Pulsar around one command. Does not own the Pulsar (`testkit::Pulsar`), nor what the command does.
//!
//! ```text
//! cargo run -p testkit --example with-pulsar -- target/release/forebay bench flink
//! ```
//! The topic has 64 partitions, or as many as `PARTITIONS` says, and a subscription that nobody acknowledges, so that messages are kept.
//! Ends with the command's code. The data are gone afterwards.

use std::process::{Command, ExitCode};

use anyhow::{Context, bail, ensure};
use testkit::{Pulsar, PulsarOptions, Service, available};

const TOPIC: &str = "readings";

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let Some(program) = words.next() else { bail!("give a command to run beside Pulsar") };
    if !available(&[Service::Pulsar]) {
        bail!("no Pulsar can be started here; run `scripts/setup test`");
    }
    let partitions = match std::env::var("PARTITIONS") {
        Ok(text) => text.parse().with_context(|| format!("`PARTITIONS` is `{text}`"))?,
        Err(_) => 64,
    };
    let pulsar = Pulsar::start(PulsarOptions::default())?;
    pulsar.create_topic(TOPIC, partitions)?;
    let path = format!("/persistent/public/default/{TOPIC}/subscription/keeps-all");
    let answer = pulsar.admin("PUT", &path, r#"{"ledgerId":-1,"entryId":-1}"#)?;
    ensure!(answer.status < 300, "no subscription: {}", answer.text());
    let mut command = Command::new(&program);
    command.args(words).env("FOREBAY_PULSAR", pulsar.service()).env("FOREBAY_PULSAR_TOPIC", TOPIC);
    let status = command.status().with_context(|| format!("cannot run `{}`", program.to_string_lossy()))?;
    // A command that a signal ended has no code.
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
